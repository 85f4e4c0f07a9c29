"""Does the model use what it is told about the world: a context, a cycle, constraints?"""

import math
from typing import Any

import numpy as np
import pytest

import ebbtide as eb

SQUARE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
START = {"x": 0.2, "y": 0.2}


def hill(params, x, y):
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08)


def studied(steps, value, *, dt=1.0, seed=0, measured=None, outcome=None, **conditions):
    """A study after some steps, and the true values of its queries. `measured` and `outcome` are functions of time."""
    clock, noise = eb.ManualClock(), np.random.default_rng([seed, 5])
    opt = eb.Optimizer(SQUARE, direction="maximize", clock=clock, seed=seed, **conditions)
    values = []
    for _ in range(steps):
        given = {} if measured is None else {"context": measured(clock.now())}
        trial = opt.ask(**given)
        clock.advance(trial.time - clock.now())  # ABO may wait
        values.append(value(trial.params, trial.time))
        told = {} if outcome is None else {"constraints": outcome(trial.params, trial.time)}
        opt.tell(trial, values[-1] + 0.05 * noise.normal(), **told)
        clock.advance(dt)
    return opt, np.array(values)


def daily(params, t):
    return hill(params, 0.5 + 0.3 * math.sin(2 * math.pi * t), 0.5 + 0.3 * math.cos(2 * math.pi * t))


@pytest.mark.slow
def test_what_comes_back_every_day_is_known_from_the_third_day_on():
    _, with_cycle = studied(80, daily, dt=0.1, cycles={"day": 1.0})
    _, without = studied(80, daily, dt=0.1)
    later = slice(20, None)
    assert np.mean(1.0 - with_cycle[later]) < 0.4 * np.mean(1.0 - without[later])


def load(t):
    """Restless, and measured."""
    return 0.5 + 0.25 * math.sin(1.7 * t) + 0.25 * math.sin(0.73 * t + 1.0)


def under_load(params, t):
    return hill(params, 0.15 + 0.7 * load(t), 0.5)


@pytest.mark.slow
def test_a_context_that_drives_the_optimum_is_used():
    context = {"load": eb.Float(0.0, 1.0)}
    opt, with_context = studied(100, under_load, context=context, measured=lambda t: {"load": load(t)})
    _, without = studied(100, under_load)
    later = slice(40, None)
    assert np.mean(1.0 - with_context[later]) < 0.5 * np.mean(1.0 - without[later])
    low, high = (opt.recommend(context={"load": value}).params["x"] for value in (0.1, 0.9))
    assert low < high - 0.3
    at_low, at_high = (opt.predict({"x": 0.22, "y": 0.5}, context={"load": value})[0] for value in (0.1, 0.9))
    assert at_low > at_high + 0.3


def moving_hill(params, t):
    return hill(params, 0.5 + 0.3 * math.sin(t / 40), 0.5 + 0.3 * math.cos(t / 40))


def latency(noise, seed=0):
    rng = np.random.default_rng([seed, 9])
    return lambda params, t: {"p99": 50.0 * (params["x"] + params["y"]) + noise * rng.normal()}


@pytest.mark.slow
def test_limits_are_broken_as_rarely_as_promised():
    limits = {"constraints": {"p99": eb.AtMost(50.0)}, "violation_rate": 0.1, "start": START}
    runs = [studied(100, moving_hill, seed=seed, outcome=latency(2.0, seed), **limits) for seed in (0, 1)]
    rates = [opt.violations.rate for opt, _ in runs]
    assert np.mean(rates) < 0.15
    free = [opt for opt, _ in (studied(100, moving_hill, seed=seed, start=START) for seed in (0, 1))]
    broken = [np.mean([latency(0.0)(o.params, o.time)["p99"] > 50.0 for o in opt.history]) for opt in free]
    assert np.mean(broken) > 0.3  # without limits
    for opt, _ in runs:
        best = opt.recommend()
        assert best.feasible > 0.5
        assert best.params["x"] + best.params["y"] < 1.1


@pytest.mark.slow
def test_limits_that_never_matter_cost_little():
    limits = {"constraints": {"p99": eb.AtMost(500.0)}, "start": START}
    limited = [studied(60, moving_hill, seed=seed, outcome=latency(2.0, seed), **limits) for seed in range(3)]
    free = [studied(60, moving_hill, seed=seed, start=START)[1] for seed in range(3)]
    assert all(opt.violations.rate == 0.0 for opt, _ in limited)
    # The median, because one run in a hundred takes the hill for noise, with or without limits.
    with_limits, without = (
        np.median([values[20:].mean() for values in runs]) for runs in ([v for _, v in limited], free)
    )
    assert with_limits > without - 0.15


def test_where_nothing_seems_allowed_the_start_is_asked():
    """Everything but a small neighbourhood of the start breaks the limit."""

    def outcome(params, t):
        return {"p99": 40.0 if abs(params["x"] - 0.2) + abs(params["y"] - 0.2) < 0.1 else 200.0}

    limits = {"constraints": {"p99": eb.AtMost(50.0)}, "start": START}
    opt, _ = studied(40, moving_hill, outcome=outcome, **limits)
    assert opt.violations.rate < 0.3
    assert opt.recommend().feasible > 0.5


def test_an_outcome_that_is_sometimes_missing():
    told = latency(1.0)

    def outcome(params, t):
        return told(params, t) if int(t) % 3 else None

    opt, _ = studied(30, moving_hill, outcome=outcome, constraints={"p99": eb.AtMost(50.0)}, start=START)
    assert np.isnan(opt.dataset.outcomes).any()
    assert 0.0 <= opt.recommend().feasible <= 1.0


def test_the_setting_in_use_is_kept_unless_another_is_better_beyond_doubt():
    opt, _ = studied(40, lambda params, t: hill(params, 0.7, 0.7))
    best = opt.recommend().params
    near = {name: value + 0.005 for name, value in best.items()}
    assert opt.recommend(current=near).params == pytest.approx(near)
    assert opt.recommend(current={"x": 0.1, "y": 0.1}).params == best


WORLD: dict[str, Any] = {
    "context": {"load": eb.Float(0.0, 1.0), "backend": eb.Categorical(["a", "b"])},
    "cycles": {"day": 24.0},
    "constraints": {"p99": eb.AtMost(60.0), "hits": eb.AtLeast(0.1)},
    "start": START,
}


def everything(opt, steps):
    """The settings asked for, with all of the world at once; what happens at a step depends on its number only."""
    params = []
    for number in range(len(opt.history), len(opt.history) + steps):
        rng = np.random.default_rng(number)
        context = {"load": float(rng.random()), "backend": "ab"[int(rng.integers(2))]}
        trial = opt.ask(context=context)
        params.append(trial.params)
        outcomes = {**latency(2.0, number)(trial.params, trial.time), "hits": 0.5 + 0.1 * float(rng.normal())}
        opt.tell(trial, moving_hill(trial.params, trial.time), constraints=outcomes)
        opt.clock.advance(1.0)
    return params


def test_a_saved_study_asks_the_same(tmp_path):
    opt = eb.Optimizer(SQUARE, direction="maximize", clock=eb.ManualClock(), seed=3, **WORLD)
    everything(opt, 14)
    opt.save(tmp_path / "study.json")
    again = eb.Optimizer.load(tmp_path / "study.json")
    context = {"load": 0.5, "backend": "a"}
    assert again.recommend(context=context) == opt.recommend(context=context)
    assert everything(again, 6) == everything(opt, 6)


def test_a_stored_study_asks_the_same(tmp_path):
    storage = f"sqlite:///{tmp_path / 'world.db'}"
    given: dict[str, Any] = {"direction": "maximize", "seed": 3, **WORLD}
    expected = everything(eb.Optimizer(SQUARE, clock=eb.ManualClock(), **given), 16)
    found = []
    for start in (0.0, 4.0, 8.0, 12.0):
        with eb.Optimizer(SQUARE, storage=storage, name="world", clock=eb.ManualClock(start), **given) as opt:
            found += everything(opt, 4)
    assert found == expected


@pytest.mark.parametrize("algorithm", ["gp-ucb", "tv-gp-ucb", "random", "sliding-window", "w-dbo-exact", "abo"])
def test_every_algorithm_takes_a_context_and_constraints(algorithm):
    given = {"context": {"load": eb.Float(0.0, 1.0)}, "constraints": {"p99": eb.AtMost(60.0)}, "start": START}
    opt, values = studied(
        12, moving_hill, outcome=latency(2.0), measured=lambda t: {"load": load(t)}, algorithm=algorithm, **given
    )
    assert np.isfinite(values).all()
    assert opt.violations.counted == 12


@pytest.mark.parametrize("algorithm", ["gp-ucb", "tv-gp-ucb"])
def test_a_cycle_needs_an_algorithm_that_reads_the_clock(algorithm):
    with pytest.raises(eb.ConfigurationError, match="does not read the clock"):
        eb.Optimizer(SQUARE, algorithm=algorithm, cycles={"day": 24.0})
