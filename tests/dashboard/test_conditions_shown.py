"""What a view shows of a study's context, cycles and constraints, against the optimizer's own answers."""

import gzip
import json
import math
import warnings
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.pages import Document
from helpers.stories import looking_at, made, trail_of, url

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.dashboard.maps import COLUMNS
from ebbtide.errors import ConfigurationError, ObservationError
from ebbtide.service.viewer import study_view

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 4)}
CONDITIONS: dict[str, Any] = {
    "context": {"load": eb.Float(1.0, 100.0, log=True), "users": eb.Int(0, 9), "zone": eb.Categorical(["a", None])},
    "cycles": {"day": 10.0},
    "constraints": {"p99": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)},
    "violation_rate": 0.1,
    "start": {"x": 0.2, "k": 1},
}


class World:
    """A study with everything, and what its optimizer said as it happened."""

    def __init__(self, path):
        self.path, self.recommended, self.trials = path, {}, []
        rng, clock = np.random.default_rng(0), eb.ManualClock()
        opt = made(path, steps=0, space=SPACE, clock=clock, n_initial=6, close=False, algorithm="tide", **CONDITIONS)
        with closing(opt), warnings.catch_warnings():
            warnings.simplefilter("ignore", eb.ContextWarning)
            for number in range(40):
                load = 150.0 if number == 20 else 30.0 + 20.0 * math.sin(number)  # once out of its range
                context = {"load": load, "users": int(rng.integers(10)), "zone": "a" if number % 3 else None}
                if number % 7 == 6:
                    del context["users"]
                trial = opt.ask(context=context)
                self.trials.append(trial)
                if number > 6:
                    self.recommended[number] = opt.recommend(context=trial.context)
                self.tell(opt, trial, number)
                clock.advance(0.5)
            self.history, self.violations = opt.history, opt.violations
            self.hyperparameters = opt.hyperparameters

    @staticmethod
    def tell(opt, trial, number):
        x, load = trial.params["x"], trial.context["load"]
        constraints = {"p99": 80.0 * x + 0.01 * number, "hits": 1.0 - 0.05 * trial.params["k"] * x}
        if number % 9 == 4:
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, -((x - load / 60.0) ** 2), constraints=constraints if number % 5 else {"p99": 49.0})


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world") / "s.db")


@pytest.fixture(scope="module")
def view(world):
    with looking_at(world.path) as views:
        return views.study("edge", None, None)


def test_what_was_measured_is_shown_over_time(world, view):
    told = view["observations"]
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    for name in CONDITIONS["context"]:
        assert told["context"][name]["value"] == [o.context[name] for o in world.history]
        assert told["context"][name]["filled"] == [name in o.filled for o in world.history]
    assert sum(told["context"]["users"]["filled"]) == 5
    for name, limit in CONDITIONS["constraints"].items():
        values = [(o.constraints or {}).get(name) for o in world.history]
        shown = told["constraints"][name]
        assert shown["value"] == [None if v is None else pytest.approx(v, rel=1e-5) for v in values]
        assert shown["broken"] == [v is not None and limit.is_broken(v) for v in values]
    assert any(told["constraints"]["p99"]["broken"])
    assert None in told["constraints"]["hits"]["value"]
    scored = view["model"]["relevance"]
    at = [told["line"].index(line) for line in scored["line"]]
    assert scored["context"]["load"]["value"] == [told["context"]["load"]["value"][i] for i in at]


def test_a_value_that_barely_breaks_its_limit_is_marked(tmp_path):
    """Although the number shown is rounded to the limit."""
    with closing(made(tmp_path / "s.db", steps=0, close=False, constraints={"p99": eb.AtMost(50.0)})) as opt:
        opt.tell({"x": 0.1}, 1.0, constraints={"p99": math.nextafter(50.0, 51.0)})
        opt.tell({"x": 0.2}, 1.0, constraints={"p99": 10.0})
    with looking_at(tmp_path / "s.db") as views:
        shown = views.study("edge", None, None)["observations"]["constraints"]["p99"]
    assert shown == {"value": [50.0, 10.0], "broken": [True, False]}


def test_the_violation_rate_stands_beside_its_target(world, view):
    assert view["study"]["violations"] == asdict(world.violations)
    assert view["study"]["violations"]["target"] == 0.1
    assert view["study"]["constraints"] == {"p99": {"at_most": 50.0}, "hits": {"at_least": 0.9}}


def test_cycles_and_the_lengthscales_of_the_context_are_as_fitted(world, view):
    assert view["cycles"] == world.hyperparameters["cycles"]
    fitted = view["cycles"]["day"]
    assert 0.0 < fitted["share"] < 1.0 < fitted["length"]
    assert [column[-1] for column in view["asks"]["context"]] == pytest.approx(world.hyperparameters["context"])
    assert len(view["asks"]["context"]) == 4  # two choices
    assert all(len(column) == 40 and column[-1] > 0.0 for column in view["asks"]["context"])


@pytest.mark.parametrize("chosen", [{}, {"load": 5.0}, {"zone": None, "users": 2}])
def test_a_map_is_drawn_in_the_latest_context_or_the_one_chosen(world, chosen):
    last = world.history[-1].context
    with looking_at(world.path) as views:
        model = views.study("edge", None, "x", None, chosen or None)["model"]
    assert {name: each["value"] for name, each in model["context"].items()} == last
    assert model["context"]["load"]["time"] == world.history[-1].time
    assert model["map"]["context"] == last | chosen
    with closing(eb.Optimizer.open(url(world.path), "edge")) as opt:
        best = opt.recommend(context=last)
        assert model["recommendation"] == asdict(best)
        points = [best.params | {"x": value} for value in model["map"]["value"]]
        for at in (0, 50):
            when = model["map"]["column"][at]
            mean, std = opt.predict(points, time=when, context=last | chosen)
            np.testing.assert_allclose([row[at] for row in model["map"]["mean"]], mean, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose([row[at] for row in model["map"]["std"]], std, rtol=1e-4, atol=1e-5)
            line, _ = opt.predict(best.params, time=when, context=last)
            assert model["prediction"]["mean"][at] == pytest.approx(line, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("across", CONDITIONS["context"])
def test_a_variable_of_the_context_can_be_an_axis(world, across):
    with looking_at(world.path) as views:
        model = views.study("edge", 10, "k", across, {"load": 5.0})["model"]
    shown, last = model["map"], world.history[-1].context | {"load": 5.0}
    columns, size = shown["column"], 2 if across == "zone" else COLUMNS
    assert (shown["across"], shown["value"]) == (across, [1, 2, 3, 4])
    assert {len(row) for row in shown["mean"]} == {len(columns)} == {size}
    if across == "load":
        active = [o.context["load"] for o in world.history if o.active]
        assert (columns[0], columns[-1]) == pytest.approx((1.0, max(100.0, *active)))
        assert columns[1] / columns[0] == pytest.approx(columns[-1] / columns[-2])
    with closing(eb.Optimizer.open(url(world.path), "edge")) as opt:
        points = [model["recommendation"]["params"] | {"k": k} for k in (1, 2, 3, 4)]
        for at in (0, -1):
            mean, std = opt.predict(points, context=last | {across: columns[at]})
            np.testing.assert_allclose([row[at] for row in shown["mean"]], mean, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose([row[at] for row in shown["std"]], std, rtol=1e-4, atol=1e-5)


def test_an_absurd_measurement_does_not_flatten_the_map(tmp_path):
    context = {"load": eb.Float(0.0, 1.0)}
    with closing(made(tmp_path / "s.db", steps=0, close=False, context=context)) as opt:
        for load in (-1.7e308, 1.7e308, 1.5):
            opt.tell({"x": 0.1}, 1.0, context={"load": load})
    with looking_at(tmp_path / "s.db") as views:
        shown = views.study("edge", None, None, "load")["model"]["map"]
    assert (shown["column"][0], shown["column"][-1]) == (0.0, 1.5)


def test_the_view_of_a_followed_study_keeps_up_with_its_context(tmp_path):
    def go_on(opt, number):
        trial = opt.ask(context={"load": 0.1 * number})
        opt.tell(trial, trial.params["x"], constraints={"p99": 40.0 + 5.0 * number})
        opt.clock.advance(1.0)

    conditions: dict[str, Any] = {"context": {"load": eb.Float(0.0, 1.0)}, "constraints": {"p99": eb.AtMost(50.0)}}
    with (
        closing(made(tmp_path / "s.db", steps=0, close=False, **conditions)) as opt,
        looking_at(tmp_path / "s.db") as views,
    ):
        for number in range(8):
            go_on(opt, number)
            seen, trail = views.study("edge", None, None), trail_of(views)[0]
            with looking_at(tmp_path / "s.db") as new:
                assert (seen, trail) == (new.study("edge", None, None), trail_of(new)[0])
            assert seen["model"]["context"]["load"]["value"] == 0.1 * number
    assert seen["study"]["violations"]["rate"] == 5 / 8


def test_what_failed_elsewhere_may_have_no_context(tmp_path):
    """Which is not the choice None."""
    with closing(made(tmp_path / "s.db", steps=0, close=False, context={"zone": eb.Categorical(["a", None])})) as opt:
        opt.tell({"x": 0.1}, 1.0, context={"zone": None})
        opt.tell({"x": 0.1}, failed=True, context={"zone": "a"})
        opt.tell({"x": 0.2}, failed=True)
        history = opt.history
    with looking_at(tmp_path / "s.db") as views:
        shown = views.study("edge", None, None)["observations"]["context"]["zone"]
    assert shown["value"] == [None if o.context is None else o.context["zone"] for o in history]
    assert [each is None for each in shown["filled"]] == [o.context is None for o in history]


def test_past_recommendations_are_those_of_their_time_and_context(world):
    with looking_at(world.path) as views:
        trail, _ = trail_of(views)
    then = dict(zip(trail["time"], trail["params"]["x"], strict=True))
    expected = {best.time: best.params["x"] for best in world.recommended.values()}
    assert len(expected) == 33
    assert then.items() >= expected.items()


def test_the_latest_context_is_shown_however_old_it_is(tmp_path):
    """An optimizer would refuse to fill in what is older than one l_T; a page shows what is known."""
    with closing(made(tmp_path / "s.db", steps=0, close=False, context={"load": eb.Float(0.0, 1.0)})) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for _ in range(12):
            opt.tell(opt.ask(context={"load": 0.3}), 1.0)
            opt.clock.advance(0.1)
        opt.clock.advance(1e6)
        opt.tell({"x": 0.5}, 1.0, context={"load": 0.7}, time=0.0)
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
    assert view["model"]["context"] == {"load": {"value": 0.3, "time": pytest.approx(1.1)}}


@pytest.mark.parametrize(
    ("across", "context", "said"),
    [
        ("x", None, "choose one of load, users, zone"),
        (None, {"lod": 1.0}, "'lod' is unknown"),
        (None, {"load": -1.0}, "above 0"),
        (None, {"zone": "b"}, "zone"),
        (None, [1], "give a dict"),
    ],
)
def test_a_map_that_cannot_be_drawn_is_refused(world, across, context, said):
    with looking_at(world.path) as views, pytest.raises((ConfigurationError, ObservationError), match=said):
        views.study("edge", None, None, across, context)


def test_a_study_without_conditions_shows_none(tmp_path):
    made(tmp_path / "s.db")
    with looking_at(tmp_path / "s.db") as views:
        view = views.study("edge", None, None)
        assert (view["cycles"], view["asks"]["context"], view["study"]["violations"]) == ({}, [], None)
        assert (view["observations"]["context"], view["observations"]["constraints"]) == ({}, {})
        assert (view["model"]["context"], view["model"]["map"]["context"]) == ({}, {})
        for chosen in ({"across": "load"}, {"context": {"load": 1.0}}):
            with pytest.raises((ConfigurationError, ObservationError), match="no context"):
                views.study("edge", None, None, **chosen)


def test_the_context_of_a_view_comes_as_json(world):
    packed = study_view(url(world.path), "edge", None, None, "users", '{"load": 5}')
    assert json.loads(gzip.decompress(packed))["model"]["map"]["context"]["load"] == 5.0
    for text in ("{", "[" * 5000, "load=5"):
        with pytest.raises(ConfigurationError, match="give JSON"):
            study_view(url(world.path), "edge", None, None, None, text)
    with pytest.raises(ObservationError, match="finite"):
        study_view(url(world.path), "edge", None, None, None, '{"load": NaN}')


@pytest.mark.slow
def test_a_report_holds_the_map_over_each_variable(world, tmp_path):
    out = tmp_path / "report.html"
    done = CliRunner().invoke(ebbtide, ["report", str(world.path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    data = Document(out.read_text(encoding="utf-8")).data
    assert {across: set(maps) for across, maps in data["across"].items()} == {
        name: {"x", "k"} for name in CONDITIONS["context"]
    }
    with looking_at(world.path) as views:
        assert data["across"]["load"]["k"] == views.study("edge", None, "k", "load")["model"]["map"]
    assert data["lengths"]["all"]["view"]["study"]["violations"] == asdict(world.violations)
