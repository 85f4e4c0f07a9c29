"""The numbers of the figures against the optimizer's own."""

import gc
import json
import re
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.stories import NEWEST, SPACE, go_on, looking_at, made, trail_of, url

import ebbtide as eb
from ebbtide.dashboard import assets
from ebbtide.dashboard import excerpt as excerpt_module
from ebbtide.dashboard import followed as followed_module
from ebbtide.dashboard import maps as maps_module
from ebbtide.dashboard import views as views_module
from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.dashboard.maps import scale_of
from ebbtide.errors import ConfigurationError, UnknownStudyError
from ebbtide.study.engine import Engine
from ebbtide.study.storage import Storage

MIXED = {
    "x": eb.Float(0.0, 1.0),
    "rate": eb.Float(1e-4, 1.0, log=True),
    "n": eb.Int(1, 32, log=True),
    "many": eb.Int(0, 2**40),
    "eighths": eb.Int(0, 64, step=8),
    "fine": eb.Float(0.0, 100.0, step=0.1),
    "batch": eb.Ordinal([64, 128, 512]),
    "codec": eb.Categorical(["a", "b", None, True, 2.5]),
}


def check_view(view):
    """JSON that every parser takes, with columns that fit each other."""
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    told, asks, names = view["observations"], view["asks"], list(view["study"]["space"])
    n = len(told["line"])
    assert list(told["params"]) == names
    columns = [told[key] for key in ("time", "value", "kind", "abandoned", "active", "removed_at", "relevance")]
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
        assert {len(row) for row in shown[key]} == {len(shown["column"])}
    if model["relevance"] is not None:
        assert len({len(model["relevance"][key]) for key in ("line", "time", "score", "leaves")}) == 1


@pytest.mark.parametrize("parameter", [None, "x", "k"])
def test_a_view_shows_what_the_optimizer_would_answer(story, views, parameter, tmp_path):
    view = views.study("edge", None, parameter)
    check_view(view)
    with closing(eb.Optimizer.open(url(story.copy(tmp_path)), "edge")) as opt:
        best = opt.recommend()
        model = view["model"]
        assert (view["why"], view["model"]["recommendation"]["time"]) == (None, opt.clock.now())
        assert model["recommendation"] == asdict(best)
        assert model["relevance"]["line"] == story.active
        assert model["relevance"]["time"] == opt.dataset.t.tolist()
        np.testing.assert_allclose(model["relevance"]["score"], opt.relevance(), rtol=1e-5)
        expected = opt.departures()
        if expected is not None:
            leaves = [np.inf if time is None else time for time in model["relevance"]["leaves"]]
            np.testing.assert_allclose(leaves, expected)
        assert model["guards"] == opt.guards

        times = model["prediction"]["time"]
        assert model["map"]["column"] == times
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


def test_a_view_shows_the_log(story, views, stored):
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


def test_a_view_changes_nothing(story, tmp_path):
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


def test_a_followed_study_asks_what_it_would_ask_alone_and_its_views_keep_up(tmp_path):
    """Another connection writes; after every few steps the views must be those of a viewer that starts anew."""
    alone = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, algorithm="w-dbo", clock=eb.ManualClock(), seed=3, n_initial=3)
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


SCENES: dict[str, dict[str, Any]] = {
    "no tells": {"steps": 0},
    "one tell": {"steps": 1},
    "no model yet": {"steps": 4, "n_initial": 100},
    "all kinds of parameters": {"steps": 12, "space": MIXED},
    "a lengthscale per coordinate": {
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
    assert (view["model"] is not None) == (view["why"] is None) == (SCENES[scene]["steps"] > 0)


@pytest.mark.slow
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
        assert isinstance(opt.clock, eb.ManualClock)
        for _ in range(5):
            opt.tell(opt.ask(), failed=True)
            opt.clock.advance(1.0)
        with looking_at(tmp_path / "s.db") as views:
            view = views.study("edge", None, None)
            check_view(view)
            assert view["observations"]["value"] == [None] * 5
            assert view["asks"]["active"] == [0] * 5
            assert view["model"] is None
            assert trail_of(views) == ({"missing": 0, "time": [], "params": {}}, [0])
    assert view["why"].startswith("Nothing is known yet")


@pytest.mark.parametrize("size", [1e300, 1e-300, 0.0])
def test_values_of_any_size_can_be_shown(tmp_path, size):
    with closing(made(tmp_path / "s.db", steps=0, close=False)) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for k in range(10):
            opt.tell(opt.ask(), size * (-1) ** k)
            opt.clock.advance(1.0)
    with looking_at(tmp_path / "s.db") as views:
        check_view(views.study("edge", None, None))
        trail_of(views)


def test_values_that_are_nearly_alike_can_be_told_apart(tmp_path):
    """A figure of a pressure around 101325 shows its changes: the axis begins at the lowest value."""
    with closing(made(tmp_path / "s.db", steps=0, close=False)) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for _ in range(12):
            trial = opt.ask()
            opt.tell(trial, 101_325.0 + np.sin(9.0 * trial.params["x"]))
            opt.clock.advance(1.0)
        with looking_at(tmp_path / "s.db") as views:
            view = views.study("edge", None, None)
        values, shown = np.array([o.value for o in opt.history], dtype=float), view["observations"]["value"]
        seen = 0.001 * np.ptp(values)
        np.testing.assert_allclose(shown, values, rtol=0.0, atol=seen)
        best, prediction = opt.recommend(), view["model"]["prediction"]
        means = [opt.predict(best.params, time=moment)[0] for moment in prediction["time"]]
        np.testing.assert_allclose(prediction["mean"], means, rtol=0.0, atol=seen)


@dataclass(frozen=True)
class Mine(eb.UCB):
    """An acquisition of the user's own."""


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
    """That is when the user needs to see it."""
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
    """A clock of the user's own."""


def test_a_study_by_a_clock_of_ones_own_is_shown_as_of_its_last_reading(tmp_path):
    with closing(made(tmp_path / "s.db", steps=8, clock=MyClock(5.0), close=False)) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        opt.clock.advance(1000.0)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    check_view(view)
    assert view["study"]["last_told"] == view["model"]["recommendation"]["time"]
    assert 5.0 < view["model"]["recommendation"]["time"] < 20.0


def test_a_model_of_too_many_observations_is_not_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(views_module, "MAX_MODELLED", 8)
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
        monkeypatch.setattr(views_module, "MAX_MODELLED", 9)
        with looking_at(tmp_path / "s.db") as new:
            assert views.study("edge", None, None) == new.study("edge", None, None)


def test_a_new_study_of_the_same_name_is_not_taken_for_the_old_one(tmp_path):
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
def test_a_deleted_study_is_not_kept_in_memory(tmp_path, names):
    """A service runs for weeks, and studies come and go."""
    made(tmp_path / "s.db", steps=0, name="another")
    with looking_at(tmp_path / "s.db") as views:
        for name in names[:-1]:
            made(tmp_path / "s.db", steps=2, name=name)
            views.study(name, None, None)
            with closing(Storage.of(url(tmp_path / "s.db"))) as storage:
                storage.delete(name)
        made(tmp_path / "s.db", steps=2, name=names[-1])
        views.study(names[-1], None, None)
        gc.collect()
        followed = [each for each in gc.get_objects() if isinstance(each, FollowedStudy)]
        assert sum(each.log.database is views.storage.database for each in followed) == 1


def test_unknown_names_are_refused(views, tmp_path):
    for name in ("nobody", "", "Edge", "edge ", "\ud800"):
        with pytest.raises(UnknownStudyError, match="there is no study"):
            views.study(name, None, None)
        with pytest.raises(UnknownStudyError, match="there is no study"):
            views.trail(name, None)
    for parameter in ("y", "", "X"):
        with pytest.raises(ConfigurationError, match="choose one of x, k"):
            views.study("edge", None, parameter)
    assert views.study("edge", 1, "k")["model"]["map"]["parameter"] == "k"  # and it goes on


def wall(monkeypatch, moment):
    monkeypatch.setattr(followed_module, "time", SimpleNamespace(time=lambda: moment))


class Stopped(eb.SystemClock):
    """A clock that stands still."""

    def __init__(self, reading):
        super().__init__()
        self.reading = reading

    def now(self):
        return self.reading


def test_a_silent_study_is_shown_as_of_its_last_reading(tmp_path, monkeypatch):
    """Not as of now: after a weekend the model would have forgotten all that it knew on Friday."""
    made(tmp_path / "s.db", steps=8, clock=eb.SystemClock())
    with looking_at(tmp_path / "s.db") as views:
        latest = views.study("edge", None, None)["study"]["last_told"]
        for later, shown in ((1.0, 1.0), (59.0, 59.0), (61.0, 0.0), (3600.0, 0.0), (-30.0, 0.0)):
            wall(monkeypatch, latest + later)
            view = views.study("edge", None, None)
            assert view["model"]["recommendation"]["time"] == latest + shown
        with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as opt:
            opt.clock = Stopped(latest)
            best = opt.recommend()
        assert view["model"]["recommendation"]["params"] == best.params


def test_a_slow_study_counts_as_silent_after_many_of_its_intervals(tmp_path, monkeypatch):
    """One observation per hour: after two hours it is not silent, after a day it is."""
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


def test_a_view_is_of_one_moment(tmp_path, monkeypatch):
    """Time goes on while it is worked out, but all of it belongs to one moment."""
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
def test_a_scale_goes_from_end_to_end_through_valid_values(parameter):
    values = scale_of(parameter)
    assert len(set(map(str, values))) == len(values)
    assert all(parameter.complaint(value) is None for value in values)
    if isinstance(parameter, eb.Categorical | eb.Ordinal):
        assert values == list(parameter.choices)
    else:
        assert (values[0], values[-1]) == (parameter.low, parameter.high)
        assert values == sorted(values)
        assert len(values) <= maps_module.ROWS
        if isinstance(parameter, eb.Int) and parameter.high - parameter.low < maps_module.ROWS * parameter.step:
            assert values == list(range(parameter.low, parameter.high + 1, parameter.step))


def test_the_page_offers_the_lengths_that_a_report_holds():
    script = "".join(assets.assets()[name].content.decode() for name in ("study.js", "facts.js"))
    (lengths,) = re.findall(r"\bLENGTHS = (\[.*?\])", script)
    assert json.loads(lengths) == [*excerpt_module.LENGTHS, None]
    (newest,) = re.findall(r"\bNEWEST = (\d+)", script)
    assert int(newest) == NEWEST
