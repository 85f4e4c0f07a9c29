import numpy as np
import pytest
from helpers.drifting import observations, product_kernel

import ebbtide as eb
from ebbtide.gp.posterior import condition

pytestmark = pytest.mark.usefixtures("one_thread")

KERNELS = [
    product_kernel(),
    product_kernel(lengthscale=(0.2, 0.7), nu_space=1.5, nu_time=0.5),
    eb.SpaceTimeKernel(0.7, eb.SquaredExponential(0.3), eb.SquaredExponential(0.4)),
    eb.SpaceTimeKernel(2.0, eb.Matern(2.5, 0.3)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_posterior_is_the_textbooks(kernel, rng):
    """Equations (3) and (4), with a dense solver."""
    X, t, y = observations(rng)
    Z, s = rng.random((7, 2)), 1.0 + rng.random(7)
    delta = kernel(X, t, X, t) + 0.05 * np.eye(len(t))
    k = kernel(Z, s, X, t)
    mean = k @ np.linalg.solve(delta, y)
    variance = kernel.scale - np.diagonal(k @ np.linalg.solve(delta, k.T))
    posterior = condition(kernel, 0.05, X, t, y)
    assert np.allclose(posterior.predict(Z, s), (mean, np.sqrt(variance)))
    at = posterior.at(1.5)
    assert np.allclose(at.predict(Z), posterior.predict(Z, np.full(7, 1.5)))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_scan_is_a_prediction_with_fewer_digits(kernel, rng):
    X, t, y = observations(rng)
    at = condition(kernel, 0.05, X, t, y).at(1.1)
    Z = np.vstack([X, rng.random((40, 2))])
    assert np.allclose(at.scan(Z), at.predict(Z), rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradients_with_respect_to_the_input(kernel, rng):
    at = condition(kernel, 0.05, *observations(rng)).at(1.1)
    Z, step = rng.random((5, 2)), 1e-6
    mean, std, gradient = at.predict_with_gradient(Z)
    mean_x, std_x = gradient(np.ones(5), np.zeros(5)), gradient(np.zeros(5), np.ones(5))
    assert np.allclose((mean, std), at.predict(Z))
    for k in range(2):
        shift = step * np.eye(2)[k]
        (mean_up, std_up), (mean_down, std_down) = at.predict(Z + shift), at.predict(Z - shift)
        assert np.allclose(mean_x[:, k], (mean_up - mean_down) / (2 * step), atol=1e-6)
        assert np.allclose(std_x[:, k], (std_up - std_down) / (2 * step), atol=1e-6)


def test_losing_observations_is_conditioning_on_the_rest(rng):
    X, t, y = observations(rng, 30)
    kernel = product_kernel()
    lost = [3, 17, 4, 29]
    keep = np.delete(np.arange(30), lost)
    fresh = condition(kernel, 0.05, X[keep], t[keep], y[keep])
    downdated = condition(kernel, 0.05, X, t, y).without(lost)
    assert np.allclose(downdated.P, fresh.P)
    assert np.allclose(downdated.alpha, fresh.alpha)
    assert np.array_equal(downdated.X, fresh.X)


def test_believing_is_conditioning_on_the_mean(rng):
    X, t, y = observations(rng)
    kernel, x, s = product_kernel(), np.array([0.3, 0.8]), 1.2
    posterior = condition(kernel, 0.05, X, t, y)
    mean = posterior.predict(x[None], np.array([s]))[0]
    fresh = condition(kernel, 0.05, np.vstack([X, x]), np.append(t, s), np.append(y, mean))
    Z = rng.random((9, 2))
    assert np.allclose(posterior.believing(x[None], np.array([s])).at(1.3).predict(Z), fresh.at(1.3).predict(Z))
    assert np.allclose(
        posterior.believing(x[None], np.array([s])).at(1.3).predict(Z)[0], posterior.at(1.3).predict(Z)[0]
    )


def test_no_data_is_the_prior():
    posterior = condition(product_kernel(scale=4.0), 0.1, np.empty((0, 2)), np.empty(0), np.empty(0))
    mean, std = posterior.at(0.0).predict(np.array([[0.5, 0.5]]))
    assert (mean[0], std[0]) == (0.0, 2.0)


def test_seconds_since_1970_lose_no_digits(rng):
    """Against the same data rebased: with l_T = 10 ms the last digits of the epoch matter."""
    X, t, y = observations(rng, 30)
    t = np.round(t * 2**12) / 2**12  # exact in both
    kernel = product_kernel(timescale=0.01)
    epoch, rebased = condition(kernel, 1e-4, X, t + 2.0**31, y), condition(kernel, 1e-4, X, t, y)
    assert np.allclose(epoch.P, rebased.P, rtol=1e-9)
    assert np.allclose(epoch.at(2.0**31 + 1.0).predict(X), rebased.at(1.0).predict(X), rtol=1e-9)


def test_the_deviation_is_never_nan(rng):
    """Almost no noise, and predictions exactly where the data is."""
    X, t, y = observations(rng, 40)
    posterior = condition(product_kernel(lengthscale=3.0), 1e-9, X, t, y)
    _, std = posterior.predict(X, t)
    assert np.isfinite(posterior.at(1e200).predict(X)).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
