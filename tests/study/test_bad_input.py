"""Every refusal says what was wrong and what to do, and leaves the state exactly as it was."""

# Wrong arguments on purpose:
# mypy: disable-error-code="arg-type"
import math
import time

import numpy as np
import pytest
from helpers.drifting import drive
from helpers.studies import contents

import ebbtide as eb

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 5), "c": eb.Categorical(["a", "b"])}
GOOD = {"x": 0.5, "k": 2, "c": "a"}


@pytest.fixture
def opt():
    opt = eb.Optimizer(SPACE, clock=eb.ManualClock(100.0), seed=0)
    drive(opt, lambda params, t: params["x"], 12)
    return opt


def photograph(opt):
    return repr(contents(opt))


def refused(opt, error, says, call):
    before = photograph(opt)
    with pytest.raises(error, match=says):
        call()
    assert photograph(opt) == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "3", True, [1.0], np.array([1.0]), 10**400])
def test_values(opt, value):
    trial = opt.ask()
    refused(opt, eb.ObservationError, "value=", lambda: opt.tell(trial, value))
    refused(opt, eb.ObservationError, "value=", lambda: opt.tell(GOOD, value))


def test_a_value_and_a_failure(opt):
    refused(opt, eb.ObservationError, "has no value", lambda: opt.tell(GOOD, 1.0, failed=True))


@pytest.mark.parametrize("moment", [math.nan, math.inf, "noon", 10**400])
def test_times(opt, moment):
    refused(opt, eb.ObservationError, "time=", lambda: opt.tell(GOOD, 1.0, time=moment))
    refused(opt, eb.ObservationError, "time=", lambda: opt.predict(GOOD, time=moment))


def test_a_time_whose_distance_from_now_no_float_could_square(opt):
    refused(opt, eb.ObservationError, r"between -1e\+100 and 1e\+100", lambda: opt.tell(GOOD, 1.0, time=-1e200))


def test_a_time_in_the_future(opt):
    refused(opt, eb.ObservationError, "no value can come from the future", lambda: opt.tell(GOOD, 1.0, time=1e6))


def test_times_by_the_system_clock_may_be_five_seconds_ahead_and_not_before_the_year_2000():
    opt = eb.Optimizer(SPACE, seed=0)
    opt.tell(GOOD, 1.0, time=time.time() + 2.0)
    assert opt.history[0].time <= opt.clock.now()
    for far in (time.time() + 60.0, time.time() + 3.15e7):
        with pytest.raises(eb.ObservationError, match="future"):
            opt.tell(GOOD, 1.0, time=far)
    with pytest.raises(eb.ObservationError, match="ManualClock"):
        opt.tell(GOOD, 1.0, time=12.0)
    assert len(opt.history) == 1


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({**GOOD, "x": 1.5}, "outside"),
        ({**GOOD, "x": math.nan}, "finite"),
        ({**GOOD, "k": 2.0}, "whole number"),
        ({**GOOD, "c": "z"}, "choose one of"),
        ({"x": 0.5}, "'k' is missing; 'c' is missing"),
        ({**GOOD, "q": 1}, "'q' is unknown"),
        ([0.5, 2, "a"], "not a dict"),
        (None, "not a dict"),
    ],
)
def test_parameters(opt, params, says):
    refused(opt, eb.ParameterError, says, lambda: opt.tell(params, 1.0))
    if isinstance(params, dict):
        refused(opt, eb.ParameterError, says, lambda: opt.predict(params))


def test_another_value_for_a_trial_already_told(opt):
    trial = opt.ask()
    opt.tell(trial, 1.0)
    refused(opt, eb.TrialError, "for another measurement", lambda: opt.tell(trial, 2.0))


def test_an_unknown_trial(opt):
    stranger = eb.Trial("12345", GOOD, 100.0)
    refused(opt, eb.TrialError, "tell the parameters: tell", lambda: opt.tell(stranger, 1.0))
    forged = eb.Trial(opt.ask().id, GOOD, 100.0)
    refused(opt, eb.TrialError, "not one that this optimizer asked for", lambda: opt.tell(forged, 1.0))


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True])
def test_the_number_of_asks(opt, n):
    refused(opt, eb.ConfigurationError, "n=", lambda: opt.ask(n))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"direction": "up"}, "direction="),
        ({"algorithm": "w-bdo"}, "choose one of"),
        ({"algorithm": 3}, "eb.Algorithm"),
        ({"clock": time.time}, "now"),
        ({"callbacks": print}, "list of functions"),
        ({"seed": -1}, "seed="),
        ({"seed": 1.5}, "seed="),
        ({"n_initial": -2}, "n_initial="),
        ({"algorithm": eb.Algorithm(spatial=eb.Matern(2.5, (1.0, 1.0)))}, "2 lengthscales but the points have 4"),
    ],
)
def test_construction(options, says):
    with pytest.raises(eb.ConfigurationError, match=says):
        eb.Optimizer(SPACE, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: eb.Algorithm(spatial="matern"),
        lambda: eb.Algorithm(temporal=3),
        lambda: eb.Algorithm(acquisition="ucb"),
        lambda: eb.Algorithm(acquisition=eb.UCB),
        lambda: eb.Algorithm(staleness="keep"),
        lambda: eb.Algorithm(timing=3),
        lambda: eb.UCB(beta="x"),
        lambda: eb.PI(margin=math.nan),
        lambda: eb.WassersteinBudget(alpha="x"),
        lambda: eb.WassersteinBudget(min_active=2.5),
        lambda: eb.Algorithm(inference="guess"),
        lambda: eb.Algorithm(mean="median"),
        lambda: eb.Immediate(aim="never"),
    ],
)
def test_parts(make):
    with pytest.raises(eb.ConfigurationError):
        make()


@pytest.mark.parametrize("space", [{}, None, {"x": (0.0, 1.0)}])
def test_spaces(space):
    with pytest.raises(eb.SpaceError):
        eb.Optimizer(space)


def test_errors_are_also_value_errors(opt):
    with pytest.raises(ValueError, match="outside"):
        opt.tell({**GOOD, "x": 2.0}, 1.0)
