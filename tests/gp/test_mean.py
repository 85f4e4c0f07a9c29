"""The mean of the process: neighbours share their weight."""

import numpy as np
import pytest

import ebbtide as eb
from ebbtide.gp.mean import mean_by, weighted_mean


def kernel(scale=1.0, lengthscale=0.1):
    return eb.SpaceTimeKernel(scale, eb.Matern(2.5, lengthscale=lengthscale), eb.Matern(1.5, lengthscale=10.0))


def test_a_crowd_counts_as_one():
    """Fifty observations at one place and one far away, almost without noise: two independent values of variance 1."""
    X, t = np.array([[0.0]] * 50 + [[1.0]]), np.zeros(51)
    z = np.array([1.0] * 50 + [-2.0])
    found = weighted_mean(kernel(lengthscale=0.02), 1e-6, X, t, z)
    assert found == pytest.approx((1.0 - 2.0) / (2.0 + 1.0), abs=1e-3)  # the prior counts as one more, of value 0


def test_mere_noise_gives_the_average():
    rng = np.random.default_rng(0)
    z = rng.normal(0.3, 1.0, 400)
    found = weighted_mean(kernel(scale=1e-8), 1.0, rng.random((400, 2)), np.arange(400.0), z)
    assert found == pytest.approx(z.sum() / 401.0, rel=1e-3)


def test_it_is_the_posterior_mean_of_a_constant():
    """A constant with a standard normal prior adds 1 to every covariance; its posterior mean is 1ᵀ(Δ + 11ᵀ)⁻¹z."""
    rng = np.random.default_rng(1)
    X, t, z = rng.random((30, 3)), rng.uniform(0.0, 40.0, 30), rng.normal(size=30)
    covariance = kernel()(X, t, X, t) + 0.05 * np.eye(30)
    expected = np.ones(30) @ np.linalg.inv(covariance + 1.0) @ z
    assert weighted_mean(kernel(), 0.05, X, t, z) == pytest.approx(expected, rel=1e-9)


def test_it_stays_within_the_values():
    """Two neighbours on a slope: plain least squares would give the nearer one a negative weight."""
    X, z = np.array([[0.0], [0.3], [0.32]]), np.array([0.0, 1.0, 1.2])
    for lengthscale in (0.05, 0.5, 5.0):
        assert 0.0 <= weighted_mean(kernel(lengthscale=lengthscale), 1e-6, X, np.zeros(3), z) <= 1.2


@pytest.mark.usefixtures("one_thread")
def test_the_unknown_is_expected_to_be_worse_than_the_places_measured_often():
    """Twenty good values at one place and four bad ones spread out: what does the model expect elsewhere?"""
    expected = {}
    for mean in ("average", "weighted"):
        clock = eb.ManualClock()
        algorithm = eb.Algorithm(mean=mean)
        opt = eb.Optimizer({"x": eb.Float(0, 100)}, algorithm=algorithm, clock=clock, seed=0, n_initial=0)
        rng = np.random.default_rng(2)
        for x in [30.0, 50.0, 70.0, 90.0, *[10.0] * 20]:
            opt.tell({"x": x}, (1.0 if x == 10.0 else 5.0) + 0.1 * rng.normal())
            clock.advance(1.0)
        opt.ask()
        expected[mean] = opt.model.mean
    assert expected["average"] == pytest.approx((20 * 1.0 + 4 * 5.0) / 24, abs=0.1)
    assert expected["weighted"] > expected["average"] + 0.5  # minimized: larger is worse


def test_what_is_expected_of_the_mean_counts_by_how_sure_it_is():
    """Values in between: a normal prior with the precision of the Student t at the plain estimate."""
    w, z = np.array([2.0, 1.0, 1.0]), np.array([1.0, 2.0, 0.5])
    for m, s in [(1.5, 0.1), (1.5, 10.0), (-3.0, 0.5)]:
        precision = 5.0 / (4.0 * s**2 + (w @ z / w.sum() - m) ** 2)
        assert mean_by(w, z, (m, s)) == pytest.approx((w @ z + precision * m) / (w.sum() + precision))
    assert mean_by(w, z, (1.5, 1e-9)) == pytest.approx(1.5, abs=0.1)
    assert mean_by(w, z, (1e6, 1.0)) == pytest.approx(w @ z / w.sum(), rel=1e-4)  # the values are clearly elsewhere
