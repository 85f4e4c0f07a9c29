"""Does forgetting pay? W-DBO beside an optimizer that never forgets, and beside random search."""

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, jumping_valley, moving_bump

import ebbtide as eb


def random_regret(f, best, space, steps, seeds):
    rng = np.random.default_rng(99)
    return np.mean(
        [best(t) - f({k: rng.random() for k in space}, t) for _ in range(seeds) for t in map(float, range(steps))]
    )


def regret(f, best, space, staleness, direction, steps, seeds, dt=1.0):
    """Mean regret of the queries, with compute time that grows with the dataset as in the paper's protocol."""
    sign = 1.0 if direction == "maximize" else -1.0
    means = []
    for seed in range(seeds):
        clock = eb.ManualClock()
        algorithm = eb.Algorithm(staleness=staleness)
        opt = eb.Optimizer(space, direction=direction, clock=clock, seed=seed, algorithm=algorithm)
        losses = []
        while clock.now() < steps:
            trial = opt.ask()
            value = f(trial.params, trial.time)
            opt.tell(trial, value)
            losses.append(sign * (best(trial.time) - value))
            clock.advance(dt * (0.5 + 0.02 * len(opt.dataset)))
        means.append(np.mean(losses))
    return float(np.mean(means))


@pytest.mark.slow
def test_w_dbo_beats_never_forgetting_and_random_search_on_a_moving_hill():
    options = {"direction": "maximize", "steps": 240, "seeds": 2}
    w_dbo = regret(moving_bump, lambda t: 1.0, UNIT_SQUARE, eb.WassersteinBudget(), **options)
    keep_all = regret(moving_bump, lambda t: 1.0, UNIT_SQUARE, eb.KeepAll(), **options)
    at_random = random_regret(moving_bump, lambda t: 1.0, UNIT_SQUARE, 240, 2)
    assert w_dbo < 0.8 * keep_all
    assert w_dbo < 0.4 * at_random


@pytest.mark.slow
def test_w_dbo_beats_never_forgetting_and_random_search_where_the_best_place_jumps():
    grid = np.linspace(0, 1, 2001)

    def best(t):
        return min(jumping_valley({"x": x}, t) for x in grid[::10])

    space = {"x": eb.Float(0.0, 1.0)}
    options = {"direction": "minimize", "steps": 300, "seeds": 2}
    w_dbo = regret(jumping_valley, best, space, eb.WassersteinBudget(), **options)
    keep_all = regret(jumping_valley, best, space, eb.KeepAll(), **options)
    at_random = -random_regret(jumping_valley, best, space, 300, 1)
    assert w_dbo < 0.8 * keep_all
    assert w_dbo < 0.5 * at_random
