"""A few of the histories of `make hostile`, which lives through ten thousand."""

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.hostile import live_through
from helpers.studies import MEMORY

import ebbtide as eb


@pytest.mark.parametrize("seed", range(13))
def test_every_ask_is_finite_feasible_and_the_same_after_a_restart(seed):
    seen = live_through(seed, MEMORY)
    assert seen.algorithm == eb.algorithms.names()[seed]
    assert seen.asks >= 3
    assert seen.restarts >= 2


@pytest.mark.parametrize("algorithm", ["w-dbo", "tide", "abo", "random"])
@pytest.mark.parametrize("dt", [5e-324, 1e-311, 1e-200, 1e-160, 1e-90])
def test_times_that_can_hardly_be_told_apart(algorithm, dt):
    opt = eb.Optimizer(UNIT_SQUARE, algorithm=algorithm, clock=eb.ManualClock(), seed=0, n_initial=3)
    assert np.isfinite(drive(opt, moving_bump, 8, dt)).all()
    assert np.isfinite(opt.recommend().mean)
