"""What a view says about a live system: kinds, evaluations that were called off, the gain, warnings, safeguards."""

from contextlib import closing
from dataclasses import asdict
from typing import Any, get_args

import numpy as np
import pytest
from helpers.stories import looking_at, made, url

import ebbtide as eb
from ebbtide.dashboard import views as views_module
from ebbtide.guards import MEANING, Guard
from ebbtide.study.gain import AROUND, gain
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0)}
LIVE: dict[str, Any] = {
    "explore": 0.4,
    "start": {"x": 0.9},
    "baseline": {"x": 0.1},
    "baseline_every": 4,
    "direction": "maximize",
}


def live(opt, steps, rng):
    """One evaluation in nine is called off, one in eleven fails."""
    for number in range(steps):
        trial = opt.ask()
        if number % 9 == 5:
            opt.tell(trial, abandoned=True)
        elif number % 11 == 7:
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, 3.0 - abs(trial.params["x"] - 0.6) + 0.1 * rng.normal())
        opt.clock.advance(1.0)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """The file of a study with everything that a live system brings, and its history."""
    path = tmp_path_factory.mktemp("lived") / "s.db"
    with closing(made(path, steps=0, close=False, **LIVE)) as opt:
        live(opt, 90, np.random.default_rng(0))
        return path, opt.history, opt.gain


def test_a_view_tells_what_each_observation_was_for(lived):
    path, history, _ = lived
    with looking_at(path) as views:
        view = views.study("edge", None, None)
    told = view["observations"]
    assert told["kind"] == [o.kind for o in history]
    assert set(told["kind"]) == {"explore", "hold", "start", "baseline"}
    assert told["abandoned"] == [o.abandoned for o in history]
    counts = {key: view["study"][key] for key in ("active", "removed", "failed", "abandoned")}
    assert counts["abandoned"] == sum(o.abandoned for o in history) > 5
    assert counts["failed"] == sum(o.failed for o in history) > 5
    assert sum(counts.values()) == view["study"]["told"] == len(history)
    assert {key: view["study"][key] for key in ("explore", "baseline_every")} == {"explore": 0.4, "baseline_every": 4}
    best = view["model"]["recommendation"]
    assert best["support"] > 0.0
    assert 0.0 < best["failure"] < 1.0


def test_what_was_measured_elsewhere_has_no_kind(tmp_path):
    with closing(made(tmp_path / "s.db", close=False)) as opt:
        opt.tell({"x": 0.5}, 1.0)
    with looking_at(tmp_path / "s.db") as views:
        assert views.study("edge", None, None)["observations"]["kind"] == ["explore"] * 8 + [None]


def test_the_gain_is_that_of_the_whole_history_as_long_as_all_of_it_is_compared(lived):
    path, _, whole = lived
    with looking_at(path) as views:
        shown = views.study("edge", 10, None)["gain"]  # however little of the log is drawn
    assert whole is not None
    assert shown == asdict(whole) | {"relative": whole.relative}


def test_of_many_measurements_of_the_baseline_the_newest_are_compared(lived, monkeypatch):
    path, history, _ = lived
    values = [line for line, o in enumerate(history) if o.kind == "baseline" and o.value is not None]
    holds = [line for line, o in enumerate(history) if o.kind == "hold" and o.value is not None]
    first = values[-5]
    before = [line for line in holds if line < first][-AROUND:]  # the first of them needs two holds before it
    expected = [o for line, o in enumerate(history) if line >= first or line in before]
    monkeypatch.setattr(views_module, "COMPARED", 5)
    with looking_at(path) as views:
        shown = views.study("edge", None, None)["gain"]
    assert shown["comparisons"] == 5
    assert shown["mean"] == pytest.approx(gain(expected, "maximize").mean)


def test_only_the_holds_around_the_baseline_are_read(lived):
    path, history, _ = lived
    with closing(Storage.of(url(path), read_only=True)) as storage:
        found = storage.log("edge").baseline_and_holds(2, 1)
    lines = [history.index(o) for o in found]
    baseline = [line for line, o in enumerate(history) if o.kind == "baseline" and o.value is not None][-2:]
    holds = [line for line, o in enumerate(history) if o.kind == "hold" and o.value is not None]
    around = {[h for h in holds if h < line][-1] for line in baseline}
    around |= {next(h for h in holds if h > line) for line in baseline if holds[-1] > line}
    assert lines == sorted({*baseline, *around})


def test_without_enough_to_compare_there_is_no_gain(tmp_path):
    made(tmp_path / "s.db", steps=6, name="none")
    made(tmp_path / "s.db", steps=6, name="young", explore=0.2, baseline={"x": 0.1})
    with looking_at(tmp_path / "s.db") as views:
        for name in ("none", "young"):
            assert views.study(name, None, None)["gain"] is None


def test_values_too_large_to_compare_do_not_hide_the_page(tmp_path):
    with closing(made(tmp_path / "s.db", steps=0, close=False, **LIVE)) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for number in range(40):
            opt.tell(opt.ask(), 1.7e308 * (-1) ** number)
            opt.clock.advance(1.0)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    assert view["gain"] is None
    assert len(view["observations"]["line"]) == 40


def test_warnings_are_the_optimizers_own(tmp_path):
    with closing(made(tmp_path / "s.db", steps=0, close=False, baseline={"x": 0.1})) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for _ in range(24):
            opt.tell(opt.ask(), failed=True)
            opt.clock.advance(1.0)
        warned = opt.warnings
    assert len(warned) == 2
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    assert view["advice"] == warned
    assert view["model"] is None  # nothing is known; the warnings are shown all the same


def test_every_safeguard_is_explained(lived):
    assert set(MEANING) == set(get_args(Guard))
    path, *_ = lived
    with looking_at(path) as views:
        model = views.study("edge", None, None)["model"]
    assert model["guards"]
    assert model["meanings"].keys() == model["guards"].keys()


def test_a_view_says_from_how_many_siblings_the_prior_was_learned(tmp_path):
    for name in ("first", "second", "third"):
        opt = made(tmp_path / "s.db", name=name, family="edge")
    assert opt.siblings == 2
    made(tmp_path / "s.db", name="alone")
    with looking_at(tmp_path / "s.db") as views:
        shown = {name: views.study(name, None, None) for name in ("first", "third", "alone")}
    families = {name: (view["study"]["family"], view["siblings"]) for name, view in shown.items()}
    assert families == {"first": ("edge", 0), "third": ("edge", 2), "alone": (None, 0)}
