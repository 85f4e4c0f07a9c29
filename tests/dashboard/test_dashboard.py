"""The dashboard's numbers against the optimizer's own, its report as a browser would take it apart, and its pages from
real processes. What a browser makes of them is tested elsewhere.

One study is made once and looked at from all sides: `story`, whose callbacks wrote down what happened as it happened.
"""

import asyncio
import base64
import gc
import gzip
import hashlib
import json
import re
import shutil
import signal
import sqlite3
import sys
import time
import weakref
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from helpers import serving
from helpers.serving import read_chunk, served
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.dashboard import assets
from ebbtide.dashboard import excerpt as excerpt_module
from ebbtide.dashboard import followed as followed_module
from ebbtide.dashboard import views as views_module
from ebbtide.dashboard.excerpt import Excerpt, thinned
from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.dashboard.views import Views, scale_of
from ebbtide.errors import BusyError, ConfigurationError, StorageError, UnknownStudyError
from ebbtide.service import routes_pages, viewer
from ebbtide.service.errors import answer_errors
from ebbtide.study.engine import Engine
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 6)}
MIXED = {
    "x": eb.Float(0.0, 1.0),
    "rate": eb.Float(1e-4, 1.0, log=True),
    "n": eb.Int(1, 32, log=True),
    "many": eb.Int(0, 2**40),
    "codec": eb.Categorical(["a", "b", None, True, 2.5]),
}
N_INITIAL = 30
TOKEN = "correct-horse-battery-staple"
NEWEST = 7  # observations in the page's table of what was told last
NASTY = "</script><script>alert(1)</script>"


def url(path):
    return f"sqlite:///{path}"


def drifting(params, t):
    return float(np.sin(3.0 * params["x"] + t / 7.0) + 0.1 * params.get("k", 0))


# --- a study with all that may happen to one --------------------------------------------------------------------------


@dataclass
class Story:
    """What the optimizer said while the study was made."""

    path: Path
    asked: list[eb.Asked] = field(default_factory=list)
    told_before: list[int] = field(default_factory=list)  # lines, by ask
    asked_before: list[int] = field(default_factory=list)  # asks, by line
    recommended: dict[int, eb.Recommendation] = field(default_factory=dict)  # right after an ask
    history: list[eb.Observation] = field(default_factory=list)

    @property
    def active(self):
        return [line for line, told in enumerate(self.history) if told.active]

    @property
    def removals(self):
        """(ask, line), from the file itself."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute("SELECT ask, line FROM removals ORDER BY ask, line").fetchall()

    def copy(self, folder):
        """The study in a file of its own."""
        return Path(shutil.copy(self.path, folder / "s.db"))


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """168 asks, some three at a time; tells in any order, one in ten that it failed, and some measured elsewhere."""
    story = Story(tmp_path_factory.mktemp("story") / "s.db")

    def write_down(event):
        if isinstance(event, eb.Told):
            story.asked_before.append(opt.asked)
            return
        story.asked.append(event)
        story.told_before.append(opt.told)
        if opt.asked > N_INITIAL:
            story.recommended[int(event.trial.id)] = opt.recommend()

    rng, clock, pending = np.random.default_rng(0), eb.ManualClock(), []
    opt = eb.Optimizer(
        SPACE, clock=clock, seed=1, n_initial=N_INITIAL, storage=url(story.path), name="edge", callbacks=[write_down]
    )
    with closing(opt):
        for number in range(120):
            pending += opt.ask(3 if number % 5 == 0 else 1)
            while len(pending) > 2:
                trial = pending.pop(int(rng.integers(len(pending))))
                if rng.random() < 0.1:
                    opt.tell(trial, failed=True)
                else:
                    opt.tell(trial, drifting(trial.params, trial.time))
            if rng.random() < 0.1:
                opt.tell({"x": float(rng.random()), "k": 2}, 0.3, time=clock.now() * float(rng.random()))
            clock.advance(float(rng.random()))
        story.history = opt.history
    assert sum(told.failed for told in story.history) > 5
    assert sum(told.trial_id is None for told in story.history) > 5
    assert len(story.removals) > 50
    return story


@pytest.fixture(scope="module")
def stored(story):
    with closing(Storage.of(url(story.path), read_only=True)) as storage:
        yield storage


@pytest.fixture
def views(stored):
    return Views(stored)


@contextmanager
def looking_at(path):
    with closing(Storage.of(url(path), read_only=True)) as storage:
        yield Views(storage)


def made(path, steps=8, algorithm="w-dbo", space=None, name="edge", close=True, **changes):
    """A small study: a few asks and tells, or more than were asked for."""
    options = {"clock": eb.ManualClock(), "seed": 3, "n_initial": 3} | changes
    opt = eb.Optimizer(space or {"x": eb.Float(0.0, 1.0)}, algorithm=algorithm, storage=url(path), name=name, **options)
    go_on(opt, steps)
    if close:
        opt.close()
    return opt


def go_on(opt, steps):
    trials = []
    for _ in range(steps):
        trial = opt.ask()
        if isinstance(opt.clock, eb.ManualClock):
            opt.clock.advance(max(0.0, trial.time - opt.clock.now()))
        opt.tell(trial, drifting(trial.params, trial.time % 1000.0))
        if isinstance(opt.clock, eb.ManualClock):
            opt.clock.advance(0.7)
        trials.append(trial)
    return trials


# --- window: thinning -------------------------------------------------------------------------------------------------


@given(first=st.integers(0, 5000), length=st.integers(0, 5000), most=st.integers(1, 900))
def test_at_most_so_many_multiples_of_one_power_of_two(first, length, most):
    lines = thinned(first, first + length, most)
    assert len(lines) <= most
    assert lines.step.bit_count() == 1
    assert list(lines) == [line for line in range(first, first + length) if line % lines.step == 0]
    if lines.step > 1:  # no finer stride would do, wherever the window begins
        assert length > most * (lines.step // 2)


@given(first=st.integers(0, 5000), length=st.integers(1, 5000), most=st.integers(1, 900))
def test_what_is_left_out_is_left_out_evenly(first, length, most):
    lines = thinned(first, first + length, most)
    shown = [first - 1, *lines, first + length]
    assert max(np.diff(shown)) <= lines.step
    assert lines.step == 1 or len(lines) >= most // 2


@given(length=st.integers(1, 1000), told=st.integers(0, 3000), more=st.integers(0, 500), most=st.integers(1, 300))
def test_a_point_once_shown_stays_while_the_study_grows(length, told, more, most):
    for last in (length, None):  # a window that moves, and all of it

        def seen(told, last=last):
            return thinned(0 if last is None else max(0, told - last), told, most)

        before, after = seen(told), seen(told + more)
        assert after.step >= before.step
        still = [line for line in before if line >= after.start]
        if after.step == before.step:
            assert set(still) <= set(after)
        assert {line for line in after if line < told} <= set(before)  # coarser is a part of finer


@given(first=st.integers(0, 3000), length=st.integers(0, 3000), most=st.integers(1, 300), fewer=st.integers(1, 300))
def test_a_coarser_picture_is_a_part_of_a_finer_one(first, length, most, fewer):
    fine, coarse = (thinned(first, first + length, each) for each in (max(most, fewer), min(most, fewer)))
    assert set(coarse) <= set(fine)


# --- window: the excerpt against the log, counted by hand -------------------------------------------------------------


def excerpt(story, storage, last):
    return Excerpt.of(storage.log("edge"), storage.summary("edge"), last, story.active)


def check_excerpt(story, storage, last):
    """All of an excerpt, from what the callbacks said."""
    seen = excerpt(story, storage, last)
    told = len(story.history)
    first = 0 if last is None else max(0, told - last)
    first_ask = story.asked_before[first] if first else 0
    numbers = [int(ask.trial.id) for ask in seen.asks]

    # which: every so-manieth line and ask of the window, and no more of them than a picture holds
    stride = seen.lines.step
    assert list(seen.lines) == [line for line in range(first, told) if line % stride == 0]
    assert len(seen.lines) <= excerpt_module.POINTS
    later = range(first_ask, len(story.asked))
    ask_stride = next(2**k for k in range(20) if len(later) <= 2**k * excerpt_module.STEPS)
    regular = [number for number in later if number % ask_stride == 0]
    assert set(regular) <= set(numbers) <= {*regular, len(story.asked) - 1}
    assert numbers == sorted(numbers)

    # what is active is there, all of it unless it is too much
    within = [line for line in story.active if line >= first]
    there = [line for line in within if line in seen.observations]
    if len(within) <= excerpt_module.POINTS:
        assert there == within
    assert set(seen.observations) >= set(seen.lines)
    assert len(seen.observations) <= 2 * excerpt_module.POINTS + NEWEST
    assert list(seen.observations) == sorted(seen.observations)
    assert min(seen.observations, default=first) >= first
    assert all(observation == story.history[line] for line, observation in seen.observations.items())

    # how many: after each ask that is shown, and since the one before
    assert seen.active == [story.asked[number].active for number in numbers]
    since = [first_ask, *(number + 1 for number in numbers)]
    gone = [sum(len(asked.removed) for asked in story.asked[a:b]) for a, b in pairwise(since)]
    assert seen.removed == gone
    return seen


@pytest.mark.parametrize("last", [None, 1, 2, 17, 100, 10**6, 2**63 - 1])
def test_an_excerpt_counts_what_was_active_and_removed(story, stored, last):
    check_excerpt(story, stored, last)


@settings(max_examples=25)
@given(last=st.none() | st.integers(1, 190), points=st.integers(1, 60), steps=st.integers(1, 60))
def test_a_thinned_excerpt_counts_the_same(story, stored, last, points, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpt_module, "POINTS", points)
        patch.setattr(excerpt_module, "STEPS", steps)
        check_excerpt(story, stored, last)


def test_what_is_active_is_thinned_evenly_if_there_is_too_much_of_it(story, stored, monkeypatch):
    most = len(story.active) // 3
    monkeypatch.setattr(excerpt_module, "POINTS", most)
    seen = excerpt(story, stored, None)
    only_active = [line for line in story.active if line in seen.observations and line not in seen.lines]
    kept = story.active[::4]  # room is for a third: one in two would be too many
    assert len(kept) <= most < len(story.active[::2])
    assert set(only_active) <= set(kept) | set(range(len(story.history) - NEWEST, len(story.history)))
    assert set(kept) <= set(seen.observations)


def test_what_is_active_at_the_edge_of_a_window_is_in_it(story, stored, monkeypatch):
    told = len(story.history)
    for at, line in enumerate(story.active):
        monkeypatch.setattr(excerpt_module, "POINTS", len(story.active) - at)  # room for all of it, and for few others
        assert line in excerpt(story, stored, told - line).observations
        if line + 1 < told:
            assert line not in excerpt(story, stored, told - line - 1).observations


@pytest.mark.parametrize("last", [0, -1, -(10**9)])
def test_a_window_of_nothing_is_refused(story, stored, views, last):
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        excerpt(story, stored, last)
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        views.study("edge", last, None)
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        views.trail("edge", last)


@pytest.mark.parametrize("last", [None, 1, 250])
def test_an_excerpt_of_nothing_is_empty(tmp_path, last):
    made(tmp_path / "s.db", steps=0)
    with closing(Storage.of(url(tmp_path / "s.db"), read_only=True)) as storage:
        seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), last, ())
    assert (list(seen.lines), seen.observations, seen.asks, seen.active, seen.removed) == ([], {}, [], [], [])


def test_an_excerpt_of_tells_alone_and_of_asks_alone(tmp_path):
    with closing(made(tmp_path / "s.db", steps=0, close=False, n_initial=100)) as opt:
        opt.ask(3)
        with closing(Storage.of(url(tmp_path / "s.db"), read_only=True)) as storage:
            seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), None, ())
            assert (seen.active, seen.removed, seen.observations) == ([0, 0, 0], [0, 0, 0], {})
            for value in range(5):
                opt.tell({"x": 0.5}, value)
            seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), 2, ())
            assert list(seen.observations) == [3, 4]
            assert [ask.trial.id for ask in seen.asks] in ([], ["2"])  # none came after the first of them


def test_the_observations_told_last_are_always_there(story, views, monkeypatch):
    """The page lists them as what was told last."""
    monkeypatch.setattr(excerpt_module, "POINTS", 60)
    shown = views.study("edge", None, None)
    assert shown["stride"] > 1
    told = len(story.history)
    assert shown["observations"]["line"][-NEWEST:] == list(range(told - NEWEST, told))


def test_the_last_ask_is_always_there(story, views, monkeypatch):
    """The page takes from it what the timescale and the response time are now."""
    monkeypatch.setattr(excerpt_module, "STEPS", 30)
    shown = views.study("edge", None, None)["asks"]
    assert len(shown["time"]) <= 31
    assert shown["time"][-1] == story.asked[-1].trial.time
    assert shown["active"][-1] == story.asked[-1].active


# --- watching: what was recommended then ------------------------------------------------------------------------------


def agree(worked_out, said):
    assert worked_out.params == pytest.approx(said.params, rel=0.0, abs=1e-9)
    assert worked_out.mean == pytest.approx(said.mean, rel=0.0, abs=1e-9)
    assert worked_out.std == pytest.approx(said.std, rel=0.0, abs=1e-9)
    assert worked_out.time == said.time


def active_after(story, ask):
    """Lines, by replaying the log."""
    gone = {line for number, line in story.removals if number <= ask}
    return {line for line in range(story.told_before[ask]) if not story.history[line].failed} - gone


def test_what_is_worked_out_of_the_past_is_what_was_recommended_then(story, stored):
    followed = FollowedStudy(stored.log("edge"))
    numbers = [N_INITIAL, N_INITIAL + 1, 57, 58, 59, 80, 100, 101, 140, 166, 167]
    assert all(len(active_after(story, number)) == story.asked[number].active for number in numbers)
    wholly_gone = [number for number in numbers if not active_after(story, number) & set(story.active)]
    assert wholly_gone  # nothing is left of what the model knew then
    followed.recommend_after(stored.log("edge").asks_numbered(numbers))
    for number in numbers:
        agree(followed.recommended(number), story.recommended[number])
    assert followed.recommended(N_INITIAL + 2) is None


def test_the_past_is_worked_out_without_touching_the_present(story, stored):
    followed, fresh = FollowedStudy(stored.log("edge")), FollowedStudy(stored.log("edge"))
    before = followed.engine.recommend(followed.moment)
    followed.recommend_after(stored.log("edge").asks_numbered([60, 100]))
    assert followed.engine.recommend(followed.moment) == before == fresh.engine.recommend(fresh.moment)
    assert followed.engine.state == fresh.engine.state
    assert followed.engine.active.lines.tolist() == fresh.engine.active.lines.tolist() == story.active


def test_only_so_much_of_the_past_is_remembered(stored, monkeypatch):
    monkeypatch.setattr(followed_module, "REMEMBERED", 2)
    followed = FollowedStudy(stored.log("edge"))
    for number in (50, 51, 52):
        log = stored.log("edge")
        followed.recommend_after(log.asks_numbered([number]))
    assert [followed.recommended(number) is None for number in (50, 51, 52)] == [True, False, False]


def trail_of(views, last=None, name="edge"):
    """All of it; how much was missing at each call."""
    trail, missing = views.trail(name, last), []
    while trail["missing"]:
        missing.append(trail["missing"])
        trail = views.trail(name, last)
    json.dumps(trail, allow_nan=False)
    return trail, [*missing, 0]


@pytest.mark.parametrize("last", [None, 100, 3])
def test_the_trail_is_what_was_recommended_in_the_course_of_time(story, views, last):
    trail, missing = trail_of(views, last)
    first = story.asked_before[len(story.history) - last] if last else 0
    modelled = [number for number in range(first, len(story.asked)) if number >= N_INITIAL]
    assert missing == sorted(missing, reverse=True)
    assert max(-np.diff(missing), default=0) <= views_module.TRAIL_AT_ONCE
    stride = next(2**k for k in range(20) if len(modelled) <= 2**k * views_module.TRAIL)
    said = [story.recommended[number] for number in modelled if number % stride == 0]
    assert trail["time"] == [best.time for best in said]
    assert trail["params"].keys() == SPACE.keys()
    for name in SPACE:
        assert trail["params"][name] == pytest.approx([best.params[name] for best in said], rel=0.0, abs=1e-9)
    assert len(said) <= views_module.TRAIL
    assert views.trail("edge", last) == trail


def test_the_trail_counts_down_to_nothing_missing_the_newest_first(story, views, monkeypatch):
    monkeypatch.setattr(views_module, "TRAIL", 12)
    monkeypatch.setattr(views_module, "TRAIL_AT_ONCE", 5)
    times, missing = [], None
    while missing != 0:
        trail = views.trail("edge", None)
        assert len(trail["time"]) + trail["missing"] == 9  # the multiples of 16 from 30 to 167
        assert trail["time"][len(trail["time"]) - len(times) :] == times  # older ones come before
        assert missing is None or trail["missing"] == max(0, missing - 5)
        times, missing = trail["time"], trail["missing"]
    assert times == [story.recommended[number].time for number in range(32, 168, 16)]


def test_a_thinned_window_still_has_a_trail(story, views, monkeypatch):
    """The asks that a picture shows are fewer than those that a trail may choose from."""
    monkeypatch.setattr(excerpt_module, "STEPS", 20)
    trail, _ = trail_of(views)
    assert trail["time"] == [story.recommended[number].time for number in range(32, 168, 16)]


def test_a_study_without_a_fitted_model_has_no_trail(tmp_path):
    made(tmp_path / "s.db", steps=5, n_initial=100)
    with looking_at(tmp_path / "s.db") as views:
        assert views.trail("edge", None) == {"missing": 0, "time": [], "params": {"x": []}}


# --- reasoning: a field is what is predicted, column by column --------------------------------------------------------


def by_hand(opt, points, moments, lines):
    """Mean and deviation (moments × points) by the textbook: eq. 3 and 4, solved densely."""
    model, data = opt.model, opt.dataset
    sign = 1.0 if opt.direction == "maximize" else -1.0
    t = lines if lines is not None else data.t
    X = np.array([opt.space.encode(point) for point in points])
    K = model.kernel(data.x, t, data.x, t) + model.noise * np.eye(len(data))
    z = sign * (data.y - model.mean) / model.scale
    k = np.array([model.kernel(X, np.full(len(X), moment), data.x, t) for moment in moments])
    mean = k @ np.linalg.solve(K, z)
    variance = model.kernel.scale - np.einsum("tmn,nk,tmk->tm", k, np.linalg.inv(K), k)
    return sign * mean * model.scale + model.mean, np.sqrt(variance) * model.scale


@pytest.fixture(params=["minimize", "maximize"])
def direction(request):
    return request.param


def optimizer_of(algorithm, direction):
    """12 observations, one more out of order unless steps are counted, and a clock that has gone on since."""
    opt = eb.Optimizer(SPACE, direction=direction, algorithm=algorithm, clock=eb.ManualClock(), seed=2, n_initial=3)
    go_on(opt, 12)
    if not opt.algorithm.temporal or not opt.algorithm.temporal.by_step:
        opt.tell({"x": 0.9, "k": 2}, -0.4, time=1.3)
    opt.ask()
    opt.clock.advance(2.0)
    return opt


PLACES = [{"x": x, "k": k} for x in (0.0, 0.31, 1.0) for k in (1, 4)]


@pytest.mark.parametrize("algorithm", ["w-dbo", "gp-ucb"])
def test_a_field_is_what_is_predicted_at_each_time(algorithm, direction):
    opt = optimizer_of(algorithm, direction)
    times = np.linspace(-3.0, opt.clock.now() + 5.0, 23)
    mean, std = opt._engine.field(PLACES, times, opt.clock.now())
    assert mean.shape == std.shape == (len(times), len(PLACES))
    for column, moment in enumerate(times):
        one_mean, one_std = opt.predict(PLACES, time=float(moment))
        np.testing.assert_allclose(mean[column], one_mean, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(std[column], one_std, rtol=0.0, atol=1e-9)
    their_mean, their_std = by_hand(opt, PLACES, times, None)
    np.testing.assert_allclose(mean, their_mean, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(std, their_std, rtol=0.0, atol=1e-6)
    if algorithm == "gp-ucb":
        assert np.ptp(mean, axis=0).max() < 1e-9  # to it all times are alike


def test_a_field_by_steps_is_what_is_predicted_from_the_newest_observation_on(direction):
    opt = optimizer_of("tv-gp-ucb", direction)
    newest = float(opt.dataset.t.max())
    times = newest + np.array([1e-9, 0.1, 1.0, 100.0])
    mean, std = opt._engine.field(PLACES, times, opt.clock.now())
    for column, moment in enumerate(times):
        one_mean, one_std = opt.predict(PLACES, time=float(moment))
        np.testing.assert_allclose(mean[column], one_mean, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(std[column], one_std, rtol=0.0, atol=1e-9)


def test_a_field_by_steps_goes_from_step_to_step_in_between(direction):
    """Observations were told in order: at the time of the i-th it is step i, half-way to the next i + ½."""
    opt = optimizer_of("tv-gp-ucb", direction)
    t, steps = opt.dataset.t, np.arange(12.0)
    assert (np.diff(t) > 0.0).all()
    times = np.concatenate([t, (t[1:] + t[:-1]) / 2.0, [t[0] - 5.0]])
    moments = np.concatenate([steps, steps[:-1] + 0.5, [0.0]])
    mean, std = opt._engine.field(PLACES, times, opt.clock.now())
    their_mean, their_std = by_hand(opt, PLACES, moments, steps)
    np.testing.assert_allclose(mean, their_mean, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(std, their_std, rtol=0.0, atol=1e-6)


@settings(max_examples=20)
@given(told=st.lists(st.floats(0.0, 30.0) | st.none(), min_size=1, max_size=12), data=st.data())
def test_steps_never_go_back_while_time_goes_on(told, data):
    """However the observations came: out of order, at the same time, with failures in between."""
    opt = eb.Optimizer(SPACE, algorithm="tv-gp-ucb", clock=eb.ManualClock(30.0), seed=0, n_initial=100)
    for moment in told:
        if moment is None:
            opt.tell(opt.ask(), failed=True)
        else:
            opt.tell({"x": 0.5, "k": 3}, 1.0, time=moment)
    times = np.sort(data.draw(st.lists(st.floats(-5.0, 40.0), min_size=2, max_size=12)) + [m for m in told if m])
    moments = opt._engine._moments_of(times)
    assert (np.diff(moments) >= 0.0).all()
    values = [line for line, moment in enumerate(told) if moment is not None]
    if values:
        assert moments.min() >= 0.0
        assert moments.max() <= len(told)
        after = times > opt.dataset.t.max()
        assert (moments[after] == len(told)).all()
        assert (moments[~after] <= values[-1]).all()


# --- views: a study, as the optimizer knows it ------------------------------------------------------------------------


def check_view(view):
    """JSON that every parser takes, with columns that fit each other."""
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    told, asks, names = view["observations"], view["asks"], list(view["study"]["space"])
    n = len(told["line"])
    assert list(told["params"]) == names
    columns = [told[key] for key in ("time", "value", "active", "removed_at", "relevance")]
    assert {len(column) for column in [*columns, *told["params"].values()]} <= {n}
    columns = [asks[key] for key in ("active", "removed", "response", "timescale", "noise")]
    assert {len(column) for column in [*columns, *asks["lengthscale"]]} <= {len(asks["time"])}
    if view["model"] is None:
        assert view["why"]
        return
    model = view["model"]
    assert {len(model["prediction"][key]) for key in ("mean", "std")} == {len(model["prediction"]["time"])}
    shown = model["map"]
    assert shown["parameter"] in names
    for key in ("mean", "std"):
        assert len(shown[key]) == len(shown["value"]) > 1
        assert {len(row) for row in shown[key]} == {len(shown["time"])}
    if model["relevance"] is not None:
        assert len({len(model["relevance"][key]) for key in ("line", "time", "score")}) == 1


@pytest.mark.parametrize("parameter", [None, "x", "k"])
def test_a_look_shows_what_the_optimizer_would_say(story, views, parameter, tmp_path):
    view = views.study("edge", None, parameter)
    check_view(view)
    with closing(eb.Optimizer.open(url(story.copy(tmp_path)), "edge")) as opt:
        best = opt.recommend()
        model = view["model"]
        assert (view["why"], view["model"]["recommendation"]["time"]) == (None, opt.clock.now())
        assert model["recommendation"] == {
            "params": best.params,
            "mean": best.mean,
            "std": best.std,
            "time": opt.clock.now(),
        }
        assert model["relevance"]["line"] == story.active
        assert model["relevance"]["time"] == opt.dataset.t.tolist()
        np.testing.assert_allclose(model["relevance"]["score"], opt.relevance(), rtol=1e-5)
        assert model["guards"] == opt.guards

        times = model["prediction"]["time"]
        assert model["map"]["time"] == times
        assert times[0] == min(told.time for told in story.history)
        assert times == sorted(times)
        assert times[-1] > opt.clock.now()
        name = parameter or "x"
        assert model["map"]["parameter"] == name
        assert model["map"]["value"] == scale_of(SPACE[name])
        for at in (0, 30, len(times) - 1):
            mean, std = opt.predict(best.params, time=times[at])
            assert model["prediction"]["mean"][at] == pytest.approx(mean, rel=1e-4, abs=1e-5)
            assert model["prediction"]["std"][at] == pytest.approx(std, rel=1e-4, abs=1e-5)
            points = [best.params | {name: value} for value in model["map"]["value"]]
            means, stds = opt.predict(points, time=times[at])
            np.testing.assert_allclose([row[at] for row in model["map"]["mean"]], means, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose([row[at] for row in model["map"]["std"]], stds, rtol=1e-4, atol=1e-5)


def test_a_look_shows_the_log(story, views, stored):
    view = views.study("edge", None, None)
    told, asks = view["observations"], view["asks"]
    assert told["line"] == list(range(len(story.history)))
    assert told["time"] == [o.time for o in story.history]
    assert told["active"] == [o.active for o in story.history]
    assert told["removed_at"] == [o.removed_at for o in story.history]
    assert told["params"] == {name: [o.params[name] for o in story.history] for name in SPACE}
    for key in ("value", "relevance"):
        for shown, observation in zip(told[key], story.history, strict=True):
            true = getattr(observation, key)
            assert shown == (None if true is None else pytest.approx(true, rel=1e-5)), key
    assert asks["active"] == [asked.active for asked in story.asked]
    assert asks["removed"] == [len(asked.removed) for asked in story.asked]
    assert asks["response"] == [asked.response for asked in story.asked]
    states = [ask.state for ask in stored.log("edge").asks_since(0)]
    assert [scale is None for scale in asks["timescale"]] == [state.hyper is None for state in states]
    assert asks["timescale"][-1] == pytest.approx(states[-1].hyper.timescale, rel=1e-5)
    assert asks["lengthscale"] == [[each and pytest.approx(each, rel=1e-5) for each in _lengthscales(states)]]
    noise = states[-1].hyper.noise ** 0.5 * states[-1].standardization.scale
    assert asks["noise"][-1] == pytest.approx(noise, rel=1e-5)
    known = {key: view["study"][key] for key in ("asked", "told", "failed", "active", "removed")}
    assert known == {
        "asked": len(story.asked),
        "told": len(story.history),
        "failed": sum(o.failed for o in story.history),
        "active": len(story.active),
        "removed": len(story.removals),
    }


def _lengthscales(states):
    return [None if state.hyper is None else state.hyper.lengthscale for state in states]


def test_a_look_changes_nothing(story, tmp_path):
    folders = [tmp_path / "looked at", tmp_path / "left alone"]
    for folder in folders:
        folder.mkdir()
    looked_at, left_alone = map(story.copy, folders)
    before = looked_at.read_bytes()
    with looking_at(looked_at) as views:
        for last in (None, 50):
            for parameter in SPACE:
                views.study("edge", last, parameter)
            views.trail("edge", last)
    assert looked_at.read_bytes() == before == left_alone.read_bytes()
    asked = []
    for path in (looked_at, left_alone):
        with closing(eb.Optimizer.open(url(path), "edge")) as opt:
            asked.append((opt.ask(2), opt.recommend(), opt.history))
    assert asked[0] == asked[1]


def test_a_study_that_is_watched_asks_what_it_would_ask_alone_and_the_watcher_keeps_up(tmp_path):
    """Another connection writes; after each few steps a look must be that of somebody who comes new."""
    alone = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=3, n_initial=3)
    followed = made(tmp_path / "s.db", steps=0, close=False)
    with closing(followed), looking_at(tmp_path / "s.db") as views:
        for number in range(4):
            assert go_on(followed, 6) == go_on(alone, 6)
            for opt in (followed, alone):
                opt.tell(opt.ask(), failed=True)
                opt.tell({"x": 0.25}, 0.5, time=0.5 * opt.clock.now(), key=str(number))
                opt.ask()  # and never told
            last = (None, 20)[number % 2]
            seen, (trail, _) = views.study("edge", last, None), trail_of(views, last)
            with looking_at(tmp_path / "s.db") as new:
                assert seen == new.study("edge", last, None)
                assert trail == trail_of(new, last)[0]
        assert seen["study"]["removed"] > 0
        assert followed.recommend() == alone.recommend()


SCENES = {
    "no tells": {"steps": 0},
    "one tell": {"steps": 1},
    "no model yet": {"steps": 4, "n_initial": 100},
    "all kinds of parameters": {"steps": 12, "space": MIXED},
    "a lengthscale a coordinate": {
        "steps": 12,
        "space": SPACE,
        "algorithm": eb.Algorithm(spatial=eb.Matern(2.5, (0.5, 0.5))),
    },
    "a clock that starts before zero": {"steps": 8, "clock": eb.ManualClock(-1e4)},
    "a clock of the system": {"steps": 8, "clock": None},
    "to be maximized": {"steps": 8, "direction": "maximize"},
}


@pytest.mark.parametrize("scene", SCENES)
def test_every_study_can_be_shown(tmp_path, scene):
    made(tmp_path / "s.db", **SCENES[scene])
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
        for parameter in view["study"]["space"]:
            check_view(views.study("edge", 250, parameter))
        trail_of(views)
    check_view(view)
    assert view["model"] is not None
    assert (view["why"] is None) == (SCENES[scene]["steps"] > 0)


@pytest.mark.parametrize("name", eb.algorithms.names())
def test_every_algorithm_can_be_shown(tmp_path, name):
    made(tmp_path / "s.db", algorithm=name)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
        check_view(view)
        trail, _ = trail_of(views)
    assert view["study"]["algorithm"] == name
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as opt:
        best = opt.recommend()
        assert view["model"]["recommendation"]["params"] == best.params
        if opt.algorithm.temporal is None:
            assert view["model"]["relevance"] is None
        else:
            np.testing.assert_allclose(view["model"]["relevance"]["score"], opt.relevance(), rtol=1e-5)
    assert trail["time"] == view["asks"]["time"][-len(trail["time"]) :]
    assert len(trail["time"]) == sum(scale is not None for scale in view["asks"]["noise"]) > 0


def test_a_study_of_failures_only_can_be_shown(tmp_path):
    with closing(made(tmp_path / "s.db", steps=0, close=False)) as opt:
        for _ in range(5):
            opt.tell(opt.ask(), failed=True)
            opt.clock.advance(1.0)
        with looking_at(tmp_path / "s.db") as views:
            view = views.study("edge", None, None)
            check_view(view)
            assert view["observations"]["value"] == [None] * 5
            assert view["asks"]["active"] == [0] * 5
            assert view["model"]["recommendation"]["params"] == opt.recommend().params
            assert trail_of(views) == ({"missing": 0, "time": [], "params": {"x": []}}, [0])
    assert "nothing to go by" in view["why"]


@pytest.mark.parametrize("size", [1e300, 1e-300, 0.0])
def test_values_of_any_size_can_be_shown(tmp_path, size):
    with closing(made(tmp_path / "s.db", steps=0, close=False)) as opt:
        for k in range(10):
            opt.tell(opt.ask(), size * (-1) ** k)
            opt.clock.advance(1.0)
    with looking_at(tmp_path / "s.db") as views:
        check_view(views.study("edge", None, None))
        trail_of(views)


def test_values_that_are_nearly_alike_can_be_told_apart(tmp_path):
    """What can be seen of a pressure around 101325 is its change: a picture's axis begins at the lowest value."""
    with closing(made(tmp_path / "s.db", steps=0, close=False)) as opt:
        for _ in range(12):
            trial = opt.ask()
            opt.tell(trial, 101_325.0 + np.sin(9.0 * trial.params["x"]))
            opt.clock.advance(1.0)
        with looking_at(tmp_path / "s.db") as views:
            view = views.study("edge", None, None)
        values, shown = [o.value for o in opt.history], view["observations"]["value"]
        seen = 0.001 * np.ptp(values)
        np.testing.assert_allclose(shown, values, rtol=0.0, atol=seen)
        best, prediction = opt.recommend(), view["model"]["prediction"]
        means = [opt.predict(best.params, time=moment)[0] for moment in prediction["time"]]
        np.testing.assert_allclose(prediction["mean"], means, rtol=0.0, atol=seen)


@dataclass(frozen=True)
class Mine(eb.UCB):
    """An acquisition of somebody's own."""


def test_an_algorithm_of_ones_own_is_shown_without_a_model(tmp_path):
    made(tmp_path / "s.db", steps=12, algorithm=eb.Algorithm(acquisition=Mine()))
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
        check_view(view)
        assert view["model"] is None
        assert "Mine" in view["why"]
        assert view["observations"]["line"] == list(range(12))
        assert len(view["asks"]["timescale"]) == 12
        assert views.trail("edge", None) == {"missing": 0, "time": [], "params": {}}


def test_a_model_that_cannot_be_worked_out_does_not_hide_the_log(tmp_path, monkeypatch):
    """That is when one has to look at it."""
    made(tmp_path / "s.db", steps=6)

    def fail(*_):
        raise eb.NumericalError("a 6×6 covariance matrix is not positive definite")

    monkeypatch.setattr(Engine, "recommend", fail)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    check_view(view)
    assert view["model"] is None
    assert "not positive definite" in view["why"]
    assert len(view["observations"]["line"]) == 6


class MyClock(eb.ManualClock):
    """A clock of somebody's own."""


def test_a_study_by_a_clock_of_ones_own_is_shown_as_of_its_last_reading(tmp_path):
    with closing(made(tmp_path / "s.db", steps=8, clock=MyClock(5.0), close=False)) as opt:
        opt.clock.advance(1000.0)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    check_view(view)
    assert view["study"]["last_told"] == view["model"]["recommendation"]["time"]
    assert 5.0 < view["model"]["recommendation"]["time"] < 20.0


def test_a_model_of_too_many_observations_is_not_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(views_module, "MOST_MODELLED", 8)
    opt = made(tmp_path / "s.db", steps=8, algorithm="keep-all", close=False)
    with closing(opt), looking_at(tmp_path / "s.db") as views:
        assert views.study("edge", None, None)["model"] is not None
        go_on(opt, 1)
        view = views.study("edge", None, None)
        check_view(view)
        assert view["model"] is None
        assert "9 observations" in view["why"]
        assert view["observations"]["active"] == [True] * 9
        assert view["asks"]["active"] == list(range(9))
        assert views.trail("edge", None) == {"missing": 0, "time": [], "params": {}}
        monkeypatch.setattr(views_module, "MOST_MODELLED", 9)
        with looking_at(tmp_path / "s.db") as new:
            assert views.study("edge", None, None) == new.study("edge", None, None)


def test_a_study_made_anew_under_the_same_name_is_not_taken_for_the_old_one(tmp_path):
    made(tmp_path / "s.db", steps=9)
    with looking_at(tmp_path / "s.db") as views:
        assert views.study("edge", None, None)["study"]["told"] == 9
        trail_of(views)
        with closing(Storage.of(url(tmp_path / "s.db"))) as storage:
            storage.delete("edge")
        with pytest.raises(UnknownStudyError):
            views.study("edge", None, None)
        with pytest.raises(UnknownStudyError):
            views.trail("edge", None)
        made(tmp_path / "s.db", steps=12, space=SPACE, seed=8, algorithm="abo")
        seen, trail = views.study("edge", None, "k"), trail_of(views)
        with looking_at(tmp_path / "s.db") as new:
            assert (seen, trail) == (new.study("edge", None, "k"), trail_of(new))
    assert seen["study"]["told"] == 12


@pytest.mark.parametrize("names", [["edge"] * 4, ["edge-0", "edge-1", "edge-2", "edge-3"]], ids=["one name", "others"])
def test_a_study_that_is_gone_is_not_kept_in_memory(tmp_path, names):
    """A service runs for weeks, and studies come and go."""
    made(tmp_path / "s.db", steps=0, name="another")
    with looking_at(tmp_path / "s.db") as views:
        seen = []
        for name in names[:-1]:
            made(tmp_path / "s.db", steps=2, name=name)
            views.study(name, None, None)
            seen += [weakref.ref(followed) for followed in views._followed.values()]
            with closing(Storage.of(url(tmp_path / "s.db"))) as storage:
                storage.delete(name)
        made(tmp_path / "s.db", steps=2, name=names[-1])
        views.study(names[-1], None, None)
        gc.collect()
        assert [followed() for followed in seen if followed() is not None] == []


def test_what_is_not_there_is_refused(views, tmp_path):
    for name in ("nobody", "", "Edge", "edge ", "\ud800"):
        with pytest.raises(UnknownStudyError, match="there is no study"):
            views.study(name, None, None)
        with pytest.raises(UnknownStudyError, match="there is no study"):
            views.trail(name, None)
    for parameter in ("y", "", "X"):
        with pytest.raises(ConfigurationError, match="there is x, k"):
            views.study("edge", None, parameter)
    assert views.study("edge", 1, "k")["model"]["map"]["parameter"] == "k"  # and it goes on


def wall(monkeypatch, moment):
    monkeypatch.setattr(followed_module, "time", SimpleNamespace(time=lambda: moment))


def test_a_silent_study_is_shown_as_of_its_last_reading(tmp_path, monkeypatch):
    """Not as of now: after a weekend a model has forgotten all that it knew on Friday."""
    made(tmp_path / "s.db", steps=8, clock=eb.SystemClock())
    with looking_at(tmp_path / "s.db") as views:
        latest = views.study("edge", None, None)["study"]["last_told"]
        for later, shown in ((1.0, 1.0), (59.0, 59.0), (61.0, 0.0), (3600.0, 0.0), (-30.0, 0.0)):
            wall(monkeypatch, latest + later)
            view = views.study("edge", None, None)
            assert view["model"]["recommendation"]["time"] == latest + shown
        with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as opt:
            best = opt._engine.recommend(latest)
        assert view["model"]["recommendation"]["params"] == best.params


def test_a_slow_study_is_not_silent_before_it_has_missed_many_turns(tmp_path, monkeypatch):
    """One observation an hour: after two hours it is still awake, after a day it is not."""
    now = time.time()
    with closing(made(tmp_path / "s.db", steps=0, clock=eb.SystemClock(), close=False)) as opt:
        for hours in range(9, 0, -1):
            opt.tell({"x": hours / 10.0}, 1.0, time=now - 3600.0 * hours)
    with looking_at(tmp_path / "s.db") as views:
        latest = views.study("edge", None, None)["study"]["last_told"]
        for later, shown in ((7200.0, 7200.0), (86400.0, 0.0)):
            wall(monkeypatch, latest + later)
            view = views.study("edge", None, None)
            assert view["model"]["recommendation"]["time"] == latest + shown


def test_a_look_is_of_one_moment(tmp_path, monkeypatch):
    """Time goes on while it is worked out; what is shown together belongs together."""
    made(tmp_path / "s.db", steps=8, clock=eb.SystemClock())
    with looking_at(tmp_path / "s.db") as views:
        latest = views.study("edge", None, None)["study"]["last_told"]
        clock = eb.ManualClock(latest + 59.8)

        def tick():
            clock.advance(0.1)
            return clock.now()

        monkeypatch.setattr(followed_module, "time", SimpleNamespace(time=tick))
        views.study("edge", None, None)
        assert clock.now() == pytest.approx(latest + 59.9)  # it was read once


@pytest.mark.parametrize("parameter", [*SPACE.values(), *MIXED.values(), eb.Int(5, 44), eb.Int(5, 45), eb.Int(1, 2)])
def test_a_scale_goes_from_end_to_end_by_values_that_may_be_asked_for(parameter):
    values = scale_of(parameter)
    assert len(set(map(str, values))) == len(values)
    assert all(parameter.complaint(value) is None for value in values)
    if isinstance(parameter, eb.Categorical):
        assert values == list(parameter.choices)
    else:
        assert (values[0], values[-1]) == (parameter.low, parameter.high)
        assert values == sorted(values)
        assert len(values) <= views_module.ROWS
        if isinstance(parameter, eb.Int) and parameter.high - parameter.low < views_module.ROWS:
            assert values == list(range(parameter.low, parameter.high + 1))


def test_the_page_offers_the_windows_that_a_report_holds():
    script = assets.assets()["study.js"].content.decode()
    assert json.loads(re.search(r"\bLENGTHS = (\[.*?\])", script)[1]) == [*excerpt_module.LENGTHS, None]
    assert int(re.search(r"\bNEWEST = (\d+)", script)[1]) == NEWEST


# --- the report -------------------------------------------------------------------------------------------------------


class Document(HTMLParser):
    """A page, taken apart as a browser does."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.inline, self._open = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._open = []

    def handle_data(self, text):
        if self._open is not None:
            self._open.append(text)

    def handle_endtag(self, tag):
        if tag in ("script", "style") and self._open is not None:
            self.inline.append((*self.tags_of(tag)[-1], "".join(self._open)))
            self._open = None

    def tags_of(self, *names):
        return [(tag, attributes) for tag, attributes in self.tags if tag in names]

    @property
    def policy(self):
        """The Content-Security-Policy, by directive."""
        (content,) = [a["content"] for _, a in self.tags_of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
        return directives(content)

    @property
    def data(self):
        (text,) = [text for tag, attributes, text in self.inline if attributes.get("id") == "report"]
        return json.loads(text, parse_constant=pytest.fail)


def directives(policy):
    parts = [part.split() for part in policy.split(";")]
    assert len({name for name, *_ in parts}) == len(parts)
    return {name: sources for name, *sources in parts}


def report(*arguments, code=0):
    done = CliRunner().invoke(ebbtide, ["report", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    if code:
        assert isinstance(done.exception, SystemExit)
        assert done.output.startswith("Error: ")
    return done.output


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A study whose words would like to be code; its file."""
    path = tmp_path_factory.mktemp("nasty") / "s.db"
    space = {NASTY: eb.Float(0.0, 1.0), "<!--<script>": eb.Categorical([NASTY, "]]>", "\u2028'\"&amp;\\"])}
    name = "<img src=x onerror=alert(1)> & <script>alert(1)"
    with closing(made(path, steps=0, space=space, name=name, close=False)) as opt:
        for number in range(9):
            trial = opt.ask()
            opt.tell(trial, trial.params[NASTY], key=f"{NASTY}{number}")
            opt.clock.advance(1.0)
    return SimpleNamespace(path=path, name=name, space=space)


@pytest.fixture(scope="module")
def written(story, nasty, tmp_path_factory):
    """Two reports: of the story, and of the words that would like to be code; what was there before is as it was."""
    documents = {}
    for kind, path, name in (("story", story.path, "edge"), ("nasty", nasty.path, nasty.name)):
        folder = tmp_path_factory.mktemp(kind)
        copied, out = Path(shutil.copy(path, folder / "s.db")), folder / "page.html"
        before = copied.read_bytes()
        said = report(copied, *(("--name", name) if kind == "story" else ()), "--out", out)
        assert str(out) in said
        assert copied.read_bytes() == before
        left = {each.name for each in folder.iterdir()} - {"s.db", "s.db-shm", "s.db-wal"}
        assert left == {"page.html"}  # and nothing half-written
        documents[kind] = Document(out.read_text(encoding="utf-8"))
    return documents


@pytest.mark.parametrize("kind", ["story", "nasty"])
def test_a_report_fetches_nothing(written, kind):
    page = written[kind]
    links = [(tag, attributes[key]) for tag, attributes in page.tags for key in ("src", "href") if key in attributes]
    assert links
    for tag, address in links:
        assert address.startswith(("#", "data:", "/")), (tag, address)
        assert not address.startswith("//")
        assert tag == "a" or address.startswith("data:"), (tag, address)
    assert not page.tags_of("iframe", "object", "embed", "base", "img", "source", "video")
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]
    assert not [a for _, a in page.tags_of("meta") if a.get("http-equiv") == "refresh"]
    for tag, _, text in page.inline:
        if tag == "style":
            assert not re.search(r"url\(|@import", text)
    policy = page.policy
    assert policy["default-src"] == ["'none'"]
    assert "connect-src" not in policy
    assert policy["img-src"] == ["data:"]
    assert (policy["base-uri"], policy["form-action"]) == (["'none'"], ["'none'"])


@pytest.mark.parametrize("kind", ["story", "nasty"])
def test_a_report_lets_its_own_scripts_run_and_no_others(written, kind):
    page = written[kind]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        own = [text for each, attributes, text in page.inline if each == tag and "type" not in attributes]
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
        assert page.policy[directive] == [f"'sha256-{each}'" for each in hashes]
        assert not any("\r" in text or "\0" in text for text in own)  # which a browser would change before it hashes
    kinds = [attributes.get("type") for tag, attributes, _ in page.inline if tag == "script"]
    assert kinds == ["application/json"] + [None] * len((*assets.SCRIPTS, assets.PLOTLY))
    tags = [tag for tag, a in page.tags if tag in ("script", "style") or a.get("http-equiv")]
    assert tags[0] == "meta"  # a policy counts for what comes after it


def test_words_that_would_like_to_be_code_stay_words(written, nasty):
    data = written["nasty"].data
    assert data["name"] == nasty.name
    view = data["windows"]["all"]["view"]
    assert list(view["study"]["space"]) == list(nasty.space)
    assert view["study"]["space"]["<!--<script>"]["choices"] == list(nasty.space["<!--<script>"].choices)
    assert set(data["windows"]["all"]["maps"]) == set(nasty.space)
    alike = [len(page.tags) for page in written.values()]
    assert alike[0] == alike[1]  # no word has become an element


def test_a_report_holds_what_a_look_would_show(written, story, views):
    data = written["story"].data
    assert data["name"] == "edge"
    assert set(data["windows"]) == {*map(str, excerpt_module.LENGTHS), "all"}
    for last in (250, None):
        part = data["windows"]["all" if last is None else str(last)]
        for parameter in SPACE:
            model = part["view"]["model"] | {"map": part["maps"][parameter]}
            assert part["view"] | {"model": model} == views.study("edge", last, parameter)
        assert part["trail"] == trail_of(views, last)[0]


def test_a_study_without_a_model_has_a_report(tmp_path):
    made(tmp_path / "s.db", steps=5, algorithm=eb.Algorithm(acquisition=Mine()))
    report(tmp_path / "s.db", "--out", tmp_path / "page.html")
    part = Document((tmp_path / "page.html").read_text(encoding="utf-8")).data["windows"]["all"]
    assert (part["view"]["model"], part["maps"]) == (None, {})
    assert "Mine" in part["view"]["why"]


def test_of_several_studies_one_must_be_chosen(tmp_path):
    for name in ("edge-7", "edge-8", "edge-9"):
        made(tmp_path / "s.db", steps=0, name=name)
    said = report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert all(word in said for word in ("edge-7", "edge-8", "edge-9", "--name"))
    said = report(tmp_path / "s.db", "--name", "nobody", "--out", tmp_path / "page.html", code=1)
    assert all(word in said for word in ("nobody", "edge-7"))
    assert not (tmp_path / "page.html").exists()
    report(url(tmp_path / "s.db"), "--name", "edge-8", "--out", tmp_path / "page.html")
    assert Document((tmp_path / "page.html").read_text(encoding="utf-8")).data["name"] == "edge-8"


@pytest.mark.parametrize("command", ["report", "dashboard"])
def test_a_file_that_is_not_there_is_said_to_be_missing_and_not_made(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for file in ("nothing.db", "sqlite:///nothing.db", "folder", str(tmp_path / "no" / "where.db"), ""):
        done = CliRunner().invoke(ebbtide, [command, file])
        assert (done.exit_code, type(done.exception)) == (1, SystemExit)
        assert "is no file" in done.output
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0 and then nothing"])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    (tmp_path / "s.db").write_bytes(content)
    report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert (tmp_path / "s.db").read_bytes() == content
    assert not (tmp_path / "page.html").exists()


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    made(tmp_path / "s.db", steps=2)
    (tmp_path / "page.html").write_text("old")
    report(tmp_path / "s.db", "--out", tmp_path / "no" / "where.html", code=1)

    def full(path, text, **options):
        path.write_bytes(text[:1000].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    said = report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert "No space left" in said
    assert (tmp_path / "page.html").read_text() == "old"
    left = {each.name for each in tmp_path.iterdir()} - {"s.db-shm", "s.db-wal"}
    assert left == {"s.db", "page.html"}


def test_a_report_is_not_written_over_the_studies(tmp_path):
    """`ebbtide report tuner.db --out tuner.db` is a slip of the hand; weeks of observations must outlive it."""
    path = Path(made(tmp_path / "s.db", steps=2)._log.database.path)
    before = path.read_bytes()
    report(path, "--out", path, code=1)
    assert path.read_bytes() == before


# --- the service ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(story, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    story.copy(folder)
    with served(folder, token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def dashboard(story, tmp_path_factory):
    """At last it is told to end, which it must, and to leave no process behind."""
    folder = tmp_path_factory.mktemp("dashboard")
    made(story.copy(folder), name="busy")
    with shown(folder) as running:
        yield running
        listed = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        children = listed.read_text().split() if listed.exists() else []
    assert running.process.returncode == -signal.SIGTERM
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@contextmanager
def shown(folder):
    """`ebbtide dashboard`, started and ended as a service is."""

    def command(folder, *options):
        return [sys.executable, "-m", "ebbtide", "dashboard", str(folder / "s.db"), "--port", "0"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "command", command)
        patch.setattr(serving, "STARTED", re.compile(r"^Look at http://127\.0\.0\.1:(\d+)\s"))
        with served(folder) as running:
            yield running


@pytest.fixture(params=["service", "dashboard"])
def server(request):
    return request.getfixturevalue(request.param)


PAGES = ["/", "/view/edge", "/view/nobody", "/view/%3Cscript%3E"]
WITHOUT_TOKEN = {"Authorization": None}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_the_same_for_all_and_may_run_only_what_comes_from_here(server, path):
    answer = server.call("GET", path, **WITHOUT_TOKEN)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    policy = directives(answer.headers["content-security-policy"])
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    loose = [name for name, sources in policy.items() if {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(sources)]
    assert loose == ["style-src-attr"]  # which Plotly sets, and which cannot run
    page = Document(answer.body.decode())
    assert page.inline == [("script", attributes, "") for _, attributes in page.tags_of("script")]
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]
    assert answer.body == server.call("GET", "/", **WITHOUT_TOKEN).body  # it holds nothing of a study


def test_what_a_page_needs_is_there_and_is_kept_by_a_browser(service):
    page = Document(service.call("GET", "/", **WITHOUT_TOKEN).body.decode())
    scripts = [attributes["src"] for _, attributes in page.tags_of("script")]
    styles = [attributes["href"] for _, attributes in page.tags_of("link") if attributes["rel"] == "stylesheet"]
    assert [re.sub(r"\?v=.*", "", each) for each in scripts] == [f"/static/{name}" for name in assets.SCRIPTS]
    for address in [*scripts, *styles]:
        answer = service.call("GET", address, **WITHOUT_TOKEN)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("name", [*assets.STYLES, *assets.SCRIPTS, assets.PLOTLY])
def test_a_file_is_the_same_packed_and_plain(service, name):
    plain, packed = (
        service.call("GET", f"/static/{name}", Accept_Encoding=encoding, **WITHOUT_TOKEN)
        for encoding in ("identity", "gzip, deflate, br")
    )
    for answer in (plain, packed):
        assert answer.status == 200
        assert answer.headers["content-type"] == assets.TYPES[Path(name).suffix]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["cache-control"] == "no-cache"
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body == assets.assets()[name].content


def direct(app, path, **headers):
    """The status and the body of an answer, without a server."""
    sent = []

    async def send(message):
        sent.append(message)

    head = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "query_string": b""}
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    run(app(head | {"path": path, "raw_path": path.encode(), "root_path": "", "headers": given}, None, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_no_large_file_is_packed_or_unpacked_by_the_thread_that_answers_everybody(monkeypatch, encoding):
    """It takes as long as hundreds of tells, and needs no token."""
    app, held_up = FastAPI(), []
    app.include_router(routes_pages.pages(None, "service"))

    def noted(work):
        def do(content, *options):
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                held_up.append((work.__name__, len(content)))
            return work(content, *options)

        return do

    assets.assets.cache_clear()
    for name in ("compress", "decompress"):
        monkeypatch.setattr(gzip, name, noted(getattr(gzip, name)))
    assert direct(app, f"/static/{assets.PLOTLY}", accept_encoding=encoding)[0] == 200
    assert [(work, length) for work, length in held_up if length > 1 << 20] == []


@pytest.mark.parametrize("content", [None, b"", b"not a database", b"of something else"])
def test_nobody_hears_where_the_file_is_if_it_cannot_be_looked_at(tmp_path, content):
    """It is opened at the first look, when it may be there no more, or be another."""
    path = tmp_path / "s.db"
    if content == b"of something else":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE other (x)")
    elif content is not None:
        path.write_bytes(content)
    app = FastAPI()
    answer_errors(app, str(path))

    @app.get("/view")
    async def view():
        return viewer.look(url(path), "study", "edge", None, None)

    status, body = direct(app, "/view")
    assert status == 503
    assert str(tmp_path) not in body.decode()


@pytest.mark.parametrize("path", ["/static/style.css", "/studies/edge/trail?last=1"])
def test_nothing_is_packed_for_those_who_cannot_unpack_it(service, path):
    encodings = [None, "", "identity", "br", "gzip;q=0", "identity, gzip;q=0.0"]
    answers = {encoding: service.call("GET", path, Accept_Encoding=encoding) for encoding in encodings}
    assert {answer.status for answer in answers.values()} == {200}
    assert [encoding for encoding, answer in answers.items() if "content-encoding" in answer.headers] == []


@pytest.mark.parametrize("last", [None, 50])
def test_a_view_is_what_the_library_sees(server, views, last):
    query = "" if last is None else f"&last={last}"
    answer = server.call("GET", f"/studies/edge/view?parameter=k{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json == json.loads(json.dumps(views.study("edge", last, "k")))
    packed = server.call("GET", f"/studies/edge/view?parameter=k{query}", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == answer.body


def test_a_trail_comes_a_few_at_a_time(server, views):
    path, missing = "/studies/edge/trail?last=100", []
    while not missing or missing[-1]:
        trail = server.call("GET", path).json
        missing.append(trail["missing"])
    assert len(missing) <= views_module.TRAIL // views_module.TRAIL_AT_ONCE
    assert trail == trail_of(views, 100)[0]


def test_pages_need_no_token_and_what_they_show_does(service):
    for path in (*PAGES, "/static/page.js"):
        for authorization in (None, "Bearer wrong"):
            assert service.call("GET", path, Authorization=authorization).status == 200
    for path in ("/studies", "/studies/edge", "/studies/edge/view", "/studies/edge/trail", "/studies/edge/events"):
        for authorization in (None, "Bearer wrong", f"Bearer {TOKEN}x"):
            answer = service.call("GET", path, Authorization=authorization)
            assert (answer.status, answer.error) == (401, "Unauthorized")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/", "/view/edge", "/static/page.js"):
            assert service.call(method, path, Authorization=None).status == 401


@pytest.mark.parametrize("path", ["/../studies", "/static/../studies", "/view/../studies", "/static/..%2fstudies"])
def test_no_way_round_leads_past_the_token(service, path):
    answer = service.call("GET", path, Authorization=None)
    assert (answer.status, answer.error) in ((401, "Unauthorized"), (404, "Not Found"))


@pytest.mark.parametrize("host", [None, "", "evil.com", "127.0.0.1.evil.com", "localhost:80@evil.com", "10.1.2.3"])
def test_a_page_of_another_name_is_refused(server, host):
    for path in (*PAGES, "/static/style.css", "/studies/edge/view", "/studies/edge/trail"):
        answer = server.call("GET", path, Host=host)
        assert (answer.status, answer.error) == (421, "Misdirected Request"), path


@pytest.mark.parametrize("path", [*PAGES, "/static/style.css", "/studies/edge/view", "/studies/edge/trail"])
def test_nothing_can_be_written_to_a_page(server, path):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = server.call(method, path, {})
        assert (answer.status, answer.error) == (405, "Method Not Allowed")
        foreign = server.call(method, path, {}, Origin="http://evil.com")
        assert (foreign.status, foreign.error) == (403, "Forbidden")


def test_a_page_says_how_it_may_be_called(server):
    paths = ["/", "/view/edge", "/static/style.css", "/studies/edge/view", "/studies/edge/trail"]
    allowed = {path: server.call("POST", path, {}).headers["allow"] for path in paths}
    assert allowed == dict.fromkeys(paths, "GET")


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/nothing.js",
        "/static/page.html",
        "/static/../page.html",
        "/static/%2e%2e/page.html",
        "/static/..%2fassets.py",
        "/static/..%5cassets.py",
        "/static/%2fetc%2fpasswd",
        "/static/style.css%00",
        "/static/style.css/",
        "/static",
        "/view",
        "/view/",
        "/view/a/b",
        "/view/a%2fb",
        "/favicon.ico",
    ],
)
def test_what_is_not_there_is_not_found(server, path):
    answer = server.call("GET", path)
    assert (answer.status, answer.error) == (404, "Not Found")


@pytest.mark.parametrize("view", ["view", "trail"])
def test_a_look_that_makes_no_sense_is_refused_in_the_one_shape(server, view):
    for query in ("last=0", "last=-1", "last=abc", "last=1.5", "last=", "last=99999999999999999999"):
        answer = server.call("GET", f"/studies/edge/{view}?{query}")
        assert (answer.status, answer.error) == (422, "ValidationError"), query
    for name in ("nobody", "%00", "%ff", "%F0%9F%8C%8A"):
        answer = server.call("GET", f"/studies/{name}/{view}")
        assert (answer.status, answer.error) == (404, "UnknownStudyError"), name
    for parameter in ("y", "", "%00", "%ff") if view == "view" else ():
        answer = server.call("GET", f"/studies/edge/view?parameter={parameter}")
        assert (answer.status, answer.error) == (422, "ConfigurationError"), parameter


def until(condition):
    """What another process has told is seen a moment later."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it was never seen")


def test_the_service_shows_what_it_is_told(service):
    space = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
    assert service.call("GET", "/studies/new/view").status == 404
    assert service.call("POST", "/studies", {"name": "new", "space": space, "seed": 0}).status == 201
    until(lambda: service.call("GET", "/studies/new/view").status == 200)
    assert service.call("GET", "/studies/new/view").json["study"]["told"] == 0
    assert service.call("POST", "/studies/new/tell", {"params": {"x": 0.5}, "value": 2.0}).status == 200
    until(lambda: service.call("GET", "/studies/new/view").json["observations"]["value"] == [2.0])
    assert service.call("DELETE", "/studies/new").status == 204
    until(lambda: service.call("GET", "/studies/new/view").status == 404)


def test_the_dashboard_lists_and_shows_and_changes_nothing(dashboard, story):
    path = dashboard.folder / "s.db"
    before = path.read_bytes()
    busy, study = dashboard.call("GET", "/studies").json["studies"]
    assert (busy["name"], study["name"], study["told"]) == ("busy", "edge", len(story.history))
    assert dashboard.call("GET", "/studies/edge").json == study
    assert len(dashboard.call("GET", "/studies/edge/observations?limit=3").json["observations"]) == 3
    assert dashboard.call("GET", "/healthz").json["status"] == "ok"
    assert dashboard.call("GET", "/studies/edge/view").json["study"] == study
    writes = [
        ("POST", "/studies", {"name": "new", "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}}}),
        ("POST", "/studies/edge/ask", {}),
        ("POST", "/studies/edge/tell", {"params": {"x": 0.5, "k": 1}, "value": 1.0}),
        ("DELETE", "/studies/edge", None),
    ]
    for method, target, body in writes:
        answer = dashboard.call(method, target, body)
        assert (answer.status, answer.error) in ((405, "Method Not Allowed"), (404, "Not Found")), target
    assert path.read_bytes() == before


def test_the_dashboard_sees_what_another_process_tells(dashboard):
    told = dashboard.call("GET", "/studies/busy/view").json["study"]["told"]
    with dashboard.connect() as talk:
        assert talk.say(dashboard.request("GET", "/studies/busy/events"), head_only=True).status == 200
        assert read_chunk(talk.stream) == b"retry: 1000\n\n"
        with closing(eb.Optimizer.open(url(dashboard.folder / "s.db"), "busy")) as opt:
            opt.tell({"x": 0.125}, 0.75)
        event = read_chunk(talk.stream)
    assert b"event: told\n" in event
    assert b'"x": 0.125' in event
    until(lambda: dashboard.call("GET", "/studies/busy/view").json["study"]["told"] == told + 1)
    view = dashboard.call("GET", "/studies/busy/view").json
    assert view["observations"]["line"][-1] == told
    assert view["model"]["relevance"]["line"][-1] == told


# --- the viewer, with work that takes as long as we like --------------------------------------------------------------


class Bench:
    """A workers that waits for a word before it works."""

    def __init__(self, *_):
        self.begun, self.go = [], asyncio.Event()
        self.fails = None

    async def do(self, work, address, *key):
        assert (work, address) == (viewer.look, "sqlite:///s.db")
        self.begun.append(key)
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        return repr(key).encode()


@pytest.fixture
def looks(monkeypatch):
    """A viewer, and a way to run what is done with it."""
    monkeypatch.setattr(viewer, "Workers", Bench)
    return viewer.Viewer("sqlite:///s.db")


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, serving.PATIENCE_S))


async def begin(*coroutines):
    """Tasks that have got as far as they get."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_many_looks_at_the_same_are_worked_out_once(looks):
    async def crowd():
        bench = looks._workers
        same = await begin(*(looks.look("study", "edge", 250, None) for _ in range(200)))
        other = await begin(looks.look("study", "edge", 250, "x"), looks.look("trail", "edge", 250))
        assert bench.begun == [("study", "edge", 250, None), ("study", "edge", 250, "x"), ("trail", "edge", 250)]
        bench.go.set()
        assert set(await asyncio.gather(*same)) == {b"('study', 'edge', 250, None)"}
        assert await asyncio.gather(*other) == [b"('study', 'edge', 250, 'x')", b"('trail', 'edge', 250)"]

    run(crowd())


def test_a_look_is_good_for_a_moment_and_no_longer(looks, monkeypatch):
    monkeypatch.setattr(viewer, "KEPT_S", {"study": 0.3, "trail": 0.0})

    async def again():
        bench = looks._workers
        bench.go.set()
        for _ in range(3):
            await looks.look("study", "edge", None, None)
        assert len(bench.begun) == 1
        while looks._looks:
            await asyncio.sleep(0.01)
        await looks.look("study", "edge", None, None)
        assert len(bench.begun) == 2

    run(again())


def test_only_so_many_looks_wait(looks):
    async def crowd():
        bench = looks._workers
        waiting = await begin(*(looks.look("study", f"edge-{i}", None, None) for i in range(viewer.MAX_WAITING)))
        for number in range(3):
            with pytest.raises(BusyError, match="try again"):
                await looks.look("study", f"more-{number}", None, None)
        joined = await begin(looks.look("study", "edge-0", None, None))  # which is being worked out anyway
        assert len(bench.begun) == viewer.MAX_WAITING
        bench.go.set()
        seen = await asyncio.gather(*waiting, *joined)
        assert len(set(seen)) == viewer.MAX_WAITING
        assert seen[0] == seen[-1]

    run(crowd())


def test_a_look_that_is_done_keeps_nobody_from_looking(looks):
    """It is kept for others who look at the same; nothing is being drawn any more."""

    async def one_after_the_other():
        looks._workers.go.set()
        for number in range(2 * viewer.MAX_WAITING):
            await looks.look("study", f"edge-{number}", None, None)

    run(one_after_the_other())


def test_a_look_that_is_called_off_is_not_called_off_for_others(looks):
    async def call_off():
        bench = looks._workers
        first, second, third = await begin(*(looks.look("study", "edge", None, None) for _ in range(3)))
        first.cancel()
        third.cancel()
        answers = await asyncio.gather(first, third, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
        (late,) = await begin(looks.look("study", "edge", None, None))
        bench.go.set()
        assert await asyncio.gather(second, late) == [b"('study', 'edge', None, None)"] * 2
        assert len(bench.begun) == 1

    run(call_off())


def test_what_goes_wrong_is_said_to_all_who_look_and_then_forgotten(looks, monkeypatch):
    monkeypatch.setattr(viewer, "KEPT_S", {"study": 0.0, "trail": 0.0})

    async def fail():
        bench = looks._workers
        bench.fails = UnknownStudyError("there is no study 'edge'")
        tasks = await begin(*(looks.look("study", "edge", None, None) for _ in range(3)))
        tasks[0].cancel()
        bench.go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError, UnknownStudyError, UnknownStudyError]
        while looks._looks:
            await asyncio.sleep(0.01)
        bench.fails = None
        assert await looks.look("study", "edge", None, None) == b"('study', 'edge', None, None)"

    run(fail())


def test_what_goes_wrong_when_nobody_looks_any_more_is_no_error_of_the_service(looks, monkeypatch):
    """Its log would hold a traceback of a study that was deleted while it was looked at."""
    monkeypatch.setattr(viewer, "KEPT_S", {"study": 0.0, "trail": 0.0})
    logged = []

    async def fail():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context["message"]))
        bench = looks._workers
        bench.fails = UnknownStudyError("there is no study 'edge'")
        (alone,) = await begin(looks.look("trail", "edge", None))
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)
        bench.go.set()
        while looks._looks:
            await asyncio.sleep(0.01)
        gc.collect()

    run(fail())
    assert logged == []


def test_a_file_that_could_not_be_read_is_opened_anew(tmp_path):
    """In the process of the viewer: the database may come back, or be another one."""
    address = url(tmp_path / "s.db")
    with pytest.raises(StorageError):
        viewer.look(address, "study", "edge", None, None)
    made(tmp_path / "s.db", steps=2)
    try:
        view = json.loads(gzip.decompress(viewer.look(address, "study", "edge", None, None)))
        assert view["study"]["told"] == 2
        viewer._views[address].storage.close()  # from now on it cannot be read
        with pytest.raises((StorageError, sqlite3.ProgrammingError)):
            viewer.look(address, "study", "edge", None, None)
        view = json.loads(gzip.decompress(viewer.look(address, "study", "edge", None, None)))
        assert view["study"]["told"] == 2
        with pytest.raises(UnknownStudyError):
            viewer.look(address, "study", "nobody", None, None)
        assert address in viewer._views
    finally:
        viewer._views.pop(address).storage.close()
