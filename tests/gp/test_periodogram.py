"""A cycle that the model does not know of: found where there is one, and not where there is none."""

import numpy as np
import pytest
from scipy.signal import lombscargle

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Cycle, Cyclic, Matern, SpaceTimeKernel
from ebbtide.gp.periodogram import hidden_period, periodogram
from ebbtide.gp.posterior import Posterior, condition

pytestmark = pytest.mark.usefixtures("one_thread")

N, NOISE = 90, 0.1
DRIFT = SpaceTimeKernel(1.0, Matern(2.5, 0.5), Matern(1.5, 15.0))
DAILY = SpaceTimeKernel(1.0, Matern(2.5, 0.5), Cyclic(15.0, Matern(1.5), (Cycle(12.0, 0.7, 200.0),)))


def drawn(kernel: SpaceTimeKernel, seed: int, *, known: SpaceTimeKernel = DRIFT) -> tuple[Posterior, Array]:
    """Values drawn from one kernel, and the posterior that another gives for them."""
    rng = np.random.default_rng(seed)
    X, t = rng.random((N, 2)), np.sort(rng.uniform(0.0, N, N))
    covariance = kernel(X, t) + NOISE * np.eye(N)
    y = np.linalg.cholesky(covariance) @ rng.normal(size=N)
    return condition(known, NOISE, X, t, y), y


def found(kernel: SpaceTimeKernel, seeds: range, known: SpaceTimeKernel = DRIFT) -> list[float | None]:
    draws = (drawn(kernel, seed, known=known) for seed in seeds)
    return [hidden_period(posterior, y, 1.0) for posterior, y in draws]


@pytest.mark.slow
def test_a_drift_is_no_cycle():
    """50 draws: at most 2 % of the studies may be told of a cycle that they do not have."""
    assert sum(period is not None for period in found(DRIFT, range(50))) <= 1


def test_a_cycle_is_found_with_its_period():
    periods = found(DAILY, range(10))
    right = [period for period in periods if period is not None]
    assert len(right) >= 7
    assert right == pytest.approx([12.0] * len(right), rel=0.05)


def test_a_cycle_that_the_model_knows_is_not_found_again():
    assert found(DAILY, range(5), known=DAILY) == [None] * 5


def test_without_a_cycle_the_power_is_chi_squared():
    frequencies = np.array([0.05, 0.11, 0.2])
    powers, freedoms = zip(*(periodogram(drawn(DRIFT, seed)[0], frequencies) for seed in range(40)), strict=True)
    assert set(freedoms) == {6}  # a level and two slopes, cosine and sine
    assert np.mean(powers) == pytest.approx(6.0, rel=0.1)
    assert np.var(powers) == pytest.approx(12.0, rel=0.4)


def test_of_white_noise_it_is_that_of_lomb_and_scargle():
    rng = np.random.default_rng(0)
    t, y = np.sort(rng.uniform(0.0, 50.0, 60)), rng.normal(size=60)
    white = Posterior(DRIFT, 1.0, np.full((60, 1), 0.5), t, np.eye(60), y)  # one place only: ψ = 1
    frequencies = np.array([0.1, 0.23, 0.4])
    power, freedom = periodogram(white, frequencies)
    assert freedom == 2
    assert power == pytest.approx(2.0 * lombscargle(t, y, 2.0 * np.pi * frequencies), rel=1e-6)


def test_times_in_which_no_cycle_can_be_seen():
    rng = np.random.default_rng(0)
    X, y = rng.random((8, 1)), rng.normal(size=8)
    for t in (np.zeros(8), np.arange(8.0), np.array([*np.zeros(7), 1e90])):
        posterior = condition(DRIFT, NOISE, X, t, y)
        assert hidden_period(posterior, y, 1.0) is None
    assert hidden_period(condition(DRIFT, NOISE, X, np.arange(8.0), y), y, 0.0) is None
