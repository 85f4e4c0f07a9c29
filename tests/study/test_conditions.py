"""Context, cycles and constraints as they are defined and told: what is refused leaves no trace."""

import math

import numpy as np
import pytest
from helpers.studies import contents, tiny
from hypothesis import given
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.study.conditions import MAX_CONSTRAINTS, MAX_CYCLES, MAX_WIDTH, Conditions
from ebbtide.study.definition import Definition

CONTEXT = {"load": eb.Float(0.0, 2000.0), "backend": eb.Categorical(["a", "b"])}
CONSTRAINTS = {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)}
MEASURED = {"load": 312.0, "backend": "a"}


def conditioned(**changes):
    return tiny(None, **{"context": CONTEXT, "cycles": {"day": 24.0}, "constraints": CONSTRAINTS} | changes)


# --- the definition -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"context": 3}, r"context=3: give a dict such as"),
        ({"context": {"load": 3}}, r"'load' is 3; give an eb\.Float"),
        ({"context": {"x": eb.Float(0.0, 1.0)}}, "'x' is a parameter and in the context.*rename one"),
        ({"context": {f"c{k}": eb.Float(0, 1) for k in range(MAX_WIDTH + 1)}}, "17 coordinates.*at most 16"),
        ({"context": {"c": eb.Categorical(list(range(MAX_WIDTH + 1)))}}, "17 coordinates.*at most 16"),
        ({"cycles": {"day": 0.0}}, "period of 'day' is 0.0: give a time above 0"),
        ({"cycles": {"day": -1.0}}, "period of 'day' is -1.0"),
        ({"cycles": {"day": math.inf}}, "period of 'day' is inf"),
        ({"cycles": {"day": math.nan}}, "period of 'day' is nan"),
        ({"cycles": {"day": "24h"}}, "period of 'day' is '24h'"),
        ({"cycles": {"day": 24.0, "again": 24}}, "period of 'again' is 24, as that of another cycle"),
        ({"cycles": [24.0]}, "give names and periods"),
        ({"cycles": {"": 24.0}}, "give names and periods"),
        ({"cycles": {str(k): 1.0 + k for k in range(MAX_CYCLES + 1)}}, "5 cycles: give at most 4"),
        ({"constraints": {"p99": 50.0}}, r"constraint 'p99' is 50.0: give one limit, eb\.AtMost"),
        ({"constraints": {"p99": {"at_most": 50.0, "at_least": 60.0}}}, "give one limit.*for two limits, give two"),
        ({"constraints": {"p99": {"at_most": math.nan}}}, r"constraint 'p99': AtMost\(nan\)"),
        ({"constraints": {"p99": {"below": 50.0}}}, "give one limit"),
        ({"constraints": ["p99"]}, "give names and limits"),
        ({"constraints": {"value": eb.AtMost(1.0)}}, "named 'value', as the objective is"),
        ({"constraints": {"x": eb.AtMost(1.0)}}, "'x' is a parameter and has a constraint"),
        (
            {"context": CONTEXT, "constraints": {"load": eb.AtMost(1.0)}},
            "'load' is in the context and has a constraint",
        ),
        (
            {"constraints": {str(k): eb.AtMost(1.0) for k in range(MAX_CONSTRAINTS + 1)}},
            "9 constraints: give at most 8",
        ),
        ({"violation_rate": 0.1}, "violation_rate=0.1 needs constraints"),
        ({"failures_violate": True}, "failures_violate=True needs constraints"),
        *(
            ({"constraints": CONSTRAINTS, "violation_rate": rate}, "violation_rate=.*a share above 0 and below 1")
            for rate in (0.0, 1.0, -0.1, math.nan, "5%", True)
        ),
        ({"constraints": CONSTRAINTS, "failures_violate": "yes"}, "failures_violate='yes': give True or False"),
        ({"constraints": CONSTRAINTS, "start": {"x": 7.0}}, r"start=.*outside \[0.0, 1.0\]"),
    ],
)
def test_a_definition_that_cannot_be_meant_is_refused(options, says):
    with pytest.raises((eb.ConfigurationError, eb.SpaceError), match=says):
        tiny(**options)


@pytest.mark.parametrize("limit", [math.inf, math.nan, "50", None, True])
@pytest.mark.parametrize("kind", [eb.AtMost, eb.AtLeast])
def test_a_limit_is_a_finite_number(kind, limit):
    with pytest.raises(eb.ConfigurationError, match=r"At(Most|Least)\(.*\): give a finite number"):
        kind(limit)


def test_the_definition_survives_json():
    defined = conditioned(violation_rate=0.1, failures_violate=True).definition
    again = Definition.from_json(defined.to_json())
    assert again.to_json() == defined.to_json()
    assert again.conditions.constraints == CONSTRAINTS
    assert (again.conditions.violation_rate, again.conditions.failures_violate) == (0.1, True)
    assert list(again.conditions.variables) == ["load", "backend"]


def test_what_is_empty_is_as_if_it_was_not_given():
    plain, empty = tiny(), tiny(context={}, cycles={}, constraints={})
    assert plain.definition.to_json() == empty.definition.to_json()
    assert "context" not in plain.definition.to_json()
    assert plain.violations is None


# --- coordinates ----------------------------------------------------------------------------------------------------

VARIABLES = [
    eb.Float(-3.0, 7.0),
    eb.Float(1e-3, 1e3, log=True),
    eb.Float(0.0, 1.0, step=0.1),
    eb.Float(0.0, 1.05, step=0.1),
    eb.Int(1, 32),
    eb.Int(1, 512, log=True),
    eb.Int(16, 70, step=16),
    eb.Ordinal([1, 2, 8]),
    eb.Categorical(["a", "b", None]),
]


@pytest.mark.parametrize("variable", VARIABLES)
@given(share=st.floats(0.0, 1.0))
def test_inside_its_range_a_context_has_the_coordinates_of_a_parameter(variable, share):
    conditions = Conditions(eb.Space({"c": variable}))
    value = variable.decode(np.full(variable.width, share))
    assert conditions.encode(conditions.measured({"c": value})) == pytest.approx(variable.encode(value), abs=1e-12)


@pytest.mark.parametrize("variable", VARIABLES[:7])
@given(values=st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=2, unique=True))
def test_outside_its_range_a_number_is_extrapolated(variable, values):
    conditions = Conditions(eb.Space({"c": variable}))
    low, high = (conditions.encode(conditions.measured({"c": value}))[0] for value in sorted(values))
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low <= high


def test_a_number_beyond_the_range_keeps_its_distance():
    conditions = Conditions(eb.Space({"load": eb.Float(0.0, 2000.0), "users": eb.Float(1.0, 100.0, log=True)}))
    encoded = conditions.encode(conditions.measured({"load": -500.0, "users": 1e4}))
    assert encoded.tolist() == pytest.approx([-0.25, 2.0])


# --- what is told ---------------------------------------------------------------------------------------------------

BAD_CONTEXTS = [
    ({"laod": 1.0}, r"'laod' is unknown \(the context has \['load', 'backend'\]\)"),
    ({"load": math.nan}, "'load' is nan; give a finite number"),
    ({"load": math.inf}, "'load' is inf"),
    ({"load": "312"}, "'load' is '312'"),
    ({"load": True}, "'load' is True"),
    ({"load": 1.0, "backend": "c"}, r"'backend' is 'c'; choose one of \['a', 'b'\]"),
    ([312.0], r"context=\[312.0\]: give a dict of what was measured"),
]


@pytest.mark.parametrize(("context", "says"), BAD_CONTEXTS)
def test_a_context_that_cannot_be_used_is_refused(context, says):
    opt = conditioned()
    opt.tell({"x": 0.5}, 1.0, context=MEASURED)
    trial = opt.ask(context=MEASURED)
    before = contents(opt)
    for attempt in (
        lambda: opt.ask(context=context),
        lambda: opt.tell(trial, 1.0, context=context),
        lambda: opt.tell({"x": 0.5}, 1.0, context=context),
        lambda: opt.recommend(context=context),
        lambda: opt.predict({"x": 0.5}, context=context),
    ):
        with pytest.raises(eb.ObservationError, match=says):
            attempt()
    assert contents(opt) == before


def test_a_logarithmic_context_is_positive():
    opt = tiny(context={"users": eb.Float(1.0, 100.0, log=True)})
    for users in (0.0, -3.0):
        with pytest.raises(eb.ObservationError, match=f"'users' is {users}, but its range is logarithmic"):
            opt.ask(context={"users": users})


@pytest.mark.parametrize(
    ("constraints", "says"),
    [
        ({"p99": 41.0}, r"'p99' is unknown \(the study has \['p99_ms', 'hits'\]\)"),
        ({"p99_ms": math.nan}, "'p99_ms' is nan; tell a finite number, or leave it out"),
        ({"p99_ms": 41.0, "hits": None}, "'hits' is None"),
        ({"p99_ms": "41"}, "'p99_ms' is '41'"),
        ([41.0], "give a dict of what was measured"),
    ],
)
def test_constraints_that_cannot_be_recorded_are_refused(constraints, says):
    opt = conditioned()
    trial = opt.ask(context=MEASURED)
    before = contents(opt)
    for subject in (trial, {"x": 0.5}):
        for outcome in ({"value": 1.0}, {"failed": True}):
            with pytest.raises(eb.ObservationError, match=says):
                opt.tell(subject, **outcome, constraints=constraints)
    assert contents(opt) == before


def test_a_study_without_them_takes_neither_context_nor_constraints():
    opt = tiny()
    opt.tell({"x": 0.5}, 1.0)
    before = contents(opt)
    with pytest.raises(eb.ObservationError, match="this study has no context; define it when the study is created"):
        opt.ask(context=MEASURED)
    with pytest.raises(eb.ObservationError, match="this study has no context"):
        opt.recommend(context={})
    with pytest.raises(eb.ObservationError, match="this study has no constraints; define them when"):
        opt.tell(opt.trial(opt.ask().id), 1.0, constraints={"p99_ms": 1.0})
    opt.tell(opt.trial("0"), 1.0, constraints={})
    assert contents(opt)["history"][:1] == before["history"]


def test_a_current_setting_is_checked():
    opt = tiny()
    opt.tell({"x": 0.5}, 1.0)
    with pytest.raises(eb.ParameterError, match="outside"):
        opt.recommend(current={"x": 7.0})
    assert opt.recommend(current={"x": 0.5}).feasible == 1.0


# --- violations -----------------------------------------------------------------------------------------------------


def test_violations_are_counted_over_the_asks_that_were_measured():
    opt = tiny(constraints=CONSTRAINTS, violation_rate=0.1, explore=0.5)
    assert opt.violations == eb.Violations(None, 0, 0.1, {})
    both, one, good, lost, outside, missing, called_off = (
        {"p99_ms": 60.0, "hits": 0.5},
        {"p99_ms": 60.0},
        {"p99_ms": 50.0, "hits": 0.9},
        {"p99_ms": 99.0},
        {"p99_ms": 70.0},
        None,
        {"hits": 0.1},
    )
    opt.tell(opt.ask(), 1.0, constraints=both)
    opt.tell(opt.ask(), 1.0, constraints=one)
    opt.tell(opt.ask(), 1.0, constraints=good)
    opt.tell(opt.ask(), failed=True, constraints=lost)
    opt.tell({"x": 0.5}, 1.0, constraints=outside)  # not an ask
    opt.tell(opt.ask(), 1.0, constraints=missing)
    opt.tell(opt.ask(), failed=True)
    opt.tell(opt.ask(), abandoned=True, constraints=called_off)
    assert opt.violations == eb.Violations(4 / 5, 5, 0.1, {"p99_ms": 3 / 5, "hits": 2 / 5})
    assert {trial.kind for trial in opt.history if trial.constraints == good} == {"explore"}
    assert np.array_equal(
        opt.dataset.outcomes,
        [[60.0, 0.5], [60.0, math.nan], [50.0, 0.9], [70.0, math.nan], [math.nan] * 2],
        equal_nan=True,
    )


def test_a_failure_counts_as_a_violation_if_the_user_says_so():
    opt = tiny(constraints=CONSTRAINTS, failures_violate=True)
    opt.tell(opt.ask(), failed=True)
    opt.tell(opt.ask(), 1.0, constraints={"hits": 1.0})
    opt.tell(opt.ask(), abandoned=True)
    opt.tell({"x": 0.5}, failed=True)
    assert opt.violations == eb.Violations(1 / 2, 2, 0.05, {"p99_ms": 0.0, "hits": 0.0})


def test_a_trial_has_one_outcome():
    opt = conditioned()
    trial = opt.ask(context=MEASURED)
    told = {"context": {"load": 330.0}, "constraints": {"p99_ms": 41.0}}
    opt.tell(trial, 1.0, **told)
    opt.tell(trial, 1.0, **told)
    opt.tell(trial, 1.0, constraints={"p99_ms": 41.0})
    with pytest.raises(eb.TrialError, match=r"told 1.0, constraints {'p99_ms': 41.0}, .* and 1.0, .*{'p99_ms': 42.0}"):
        opt.tell(trial, 1.0, constraints={"p99_ms": 42.0})
    with pytest.raises(eb.TrialError, match=r"context {'load': 331.0}"):
        opt.tell(trial, 1.0, **told | {"context": {"load": 331.0}})
    for _ in range(2):
        opt.tell({"x": 0.5}, 1.0, key="k", context=MEASURED, constraints={"p99_ms": 41.0})
    with pytest.raises(eb.TrialError, match="under the key 'k'"):
        opt.tell({"x": 0.5}, 1.0, key="k")
    assert opt.told == 2


# --- the ready-made loop --------------------------------------------------------------------------------------------


def looping(**conditions):
    clock = eb.ManualClock()
    return clock, eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0, **conditions)


def test_optimize_measures_the_context_before_each_ask_and_tells_what_was_measured_beside_the_value():
    clock, opt = looping(context={"load": eb.Float(0.0, 100.0)}, constraints={"p99_ms": eb.AtMost(50.0)})

    def objective(params, t):
        clock.advance(1.0)
        return {"value": params["x"], "constraints": {"p99_ms": 49.0 + t}, "context": {"load": 10.0 * t + 5.0}}

    best = opt.optimize(objective, duration=4.0, context=lambda t: {"load": 10.0 * t})
    assert [opt.trial(str(k)).context for k in range(4)] == [{"load": 10.0 * k} for k in range(4)]
    assert [seen.context for seen in opt.history] == [{"load": 10.0 * k + 5.0} for k in range(4)]
    assert opt.violations.rate == 0.5
    assert best.params == opt.recommend(context={"load": 40.0}).params  # for the context of now


def test_optimize_needs_a_function_that_measures_the_context():
    _, opt = looping(context={"load": eb.Float(0.0, 100.0)})
    with pytest.raises(eb.ConfigurationError, match=r"context=\{'load': 3.0\}: give a function.*lambda t"):
        opt.optimize(lambda params, t: 1.0, duration=4.0, context={"load": 3.0})
    with pytest.raises(eb.ObservationError, match="load"):
        opt.optimize(lambda params, t: 1.0, duration=4.0)
    assert opt.asked == 0


def test_optimize_with_a_context_that_the_study_does_not_have_is_an_error():
    _, opt = looping()
    with pytest.raises(eb.ObservationError, match="this study has no context"):
        opt.optimize(lambda params, t: 1.0, duration=4.0, context=lambda t: {"load": t})
    assert opt.asked == 0


def test_what_an_objective_returns_beyond_the_known_words_is_recorded_as_a_failure():
    clock, opt = looping()

    def objective(params, t):
        clock.advance(1.0)
        return {"value": 1.0} if t else {"value": 1.0, "p99_ms": 3.0}

    with pytest.warns(eb.EbbtideWarning, match="returned 'p99_ms': it may return a number, or a dict with"):
        opt.optimize(objective, duration=2.0)
    assert [seen.failed for seen in opt.history] == [True, False]
