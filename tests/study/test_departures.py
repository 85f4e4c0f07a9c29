"""What an observation will be worth later, and when it is expected to go."""

import math

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump

import ebbtide as eb
from ebbtide.errors import ObservationError
from ebbtide.gp.criterion import criterion
from ebbtide.gp.posterior import condition


@pytest.fixture
def clock():
    return eb.ManualClock()


def driven(clock, algorithm="w-dbo", steps=50):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=2, algorithm=algorithm)
    drive(opt, moving_bump, steps)
    return opt


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_relevance_at_a_later_time(method, clock):
    opt = driven(clock, eb.Algorithm(staleness=eb.WassersteinBudget(method=method)))
    model, data = opt.model, opt.dataset
    z = (data.y - model.mean) / model.scale
    later = clock.now() + 2.0 * opt.hyperparameters["timescale"]
    then = eb.relevance(data.x, data.t, z, kernel=model.kernel, noise=model.noise, now=later, method=method)
    assert np.allclose(opt.relevance(time=later), then, rtol=1e-12)
    assert not np.allclose(opt.relevance(), then, rtol=1e-3)
    assert opt.relevance(time=-1e9).tolist() == opt.relevance().tolist()  # the past cannot be predicted any more


def test_a_time_that_is_none_is_refused(clock):
    with pytest.raises(ObservationError, match="time"):
        driven(clock).relevance(time=math.nan)


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_departures_are_those_of_the_algorithm_when_nothing_is_measured(method, clock):
    policy = eb.WassersteinBudget(method=method)
    opt = driven(clock, eb.Algorithm(staleness=policy))
    model, data, state = opt.model, opt.dataset, opt._engine.state.policy
    z, now, timescale = (data.y - model.mean) / model.scale, clock.now(), opt.hyperparameters["timescale"]
    left = np.arange(len(data))
    log_budget = state["log_budget"] + (now - state["time"]) / state["timescale"] * math.log1p(policy.alpha)
    expected = np.full(len(data), np.inf)
    for moment in now + timescale * np.arange(32) / 32:
        while len(left) > policy.min_active:
            posterior = condition(model.kernel, model.noise, data.x[left], data.t[left], z[left])
            scored = criterion(model.kernel, posterior.P, posterior.alpha, posterior.X, posterior.t, moment, method)
            row, score = scored.least()
            if log_budget <= math.log1p(score):
                break
            log_budget -= math.log1p(score)
            expected[left[row]] = moment
            left = np.delete(left, row)
        log_budget += math.log1p(policy.alpha) / 32
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(opt.departures(), expected, rtol=1e-12)


def test_reading_departures_changes_nothing(clock):
    twin = driven(eb.ManualClock())
    opt = driven(clock)
    opt.departures()
    assert opt.ask() == twin.ask()


@pytest.mark.parametrize("algorithm", ["gp-ucb", "sliding-window", "tv-gp-ucb"])
def test_without_a_budget_there_are_none(algorithm, clock):
    assert driven(clock, algorithm, steps=20).departures() is None


def test_nor_for_a_kernel_without_a_form(clock):
    squared = eb.Algorithm(temporal=eb.SquaredExponential(), staleness=eb.WassersteinBudget(method="exact"))
    assert driven(clock, squared, steps=20).departures() is None


def test_nor_before_the_first_value(clock):
    assert eb.Optimizer(UNIT_SQUARE, clock=clock).departures() is None


def test_more_rows_than_may_stay_go_at_once(clock):
    small = eb.Algorithm(staleness=eb.WassersteinBudget(min_active=4, max_active=10))
    opt = driven(clock, small, steps=15)
    rng = np.random.default_rng(0)
    for _ in range(150):
        clock.advance(0.01)
        opt.tell({"x": rng.random(), "y": rng.random()}, rng.random())
    departures = opt.departures()
    assert np.count_nonzero(departures == clock.now()) >= len(departures) - 10
