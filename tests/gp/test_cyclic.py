"""Cycles in time, and a context: the kernels, their likelihood, the posterior, and the criterion."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import ebbtide as eb
from ebbtide.gp.convolutions import temporal_convolution
from ebbtide.gp.criterion import relevance
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.inference import fit
from ebbtide.gp.kernels import Cycle, Cyclic, Matern, SpaceTimeKernel
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.posterior import condition
from ebbtide.gp.priors import TimeLimits, weak_prior

pytestmark = pytest.mark.usefixtures("one_thread")

DAY, WEEK = Cycle(1.0, 0.5, 7.0, 0.6), Cycle(7.0, 0.2, 40.0, 1.0)
FAMILIES = Families(Matern(2.5), Cyclic(1.0, Matern(1.5), (DAY, WEEK)), Matern(2.5, (1.0, 1.0)))
HYPER = Hyperparameters(1.4, 0.3, 0.5, 0.1, context=(0.7, 2.0), cycles=((0.5, 7.0, 0.6), (0.2, 40.0, 1.0)))


def cyclic(nu=1.5, timescale=0.4):
    return Cyclic(timescale, Matern(nu), (DAY, WEEK))


def data(rng, n=40):
    """Two coordinates in space, two of the context."""
    return rng.random((n, 4)), np.sort(rng.uniform(0.0, 20.0, n)), rng.normal(size=n)


def test_the_series_is_the_periodic_kernel():
    tau = np.linspace(0.0, 3.0, 200)
    expected = np.exp(-2.0 * np.sin(np.pi * tau) ** 2 / 0.8**2)
    assert np.allclose(Cycle(1.0, smoothness=0.8).course(tau), expected, atol=1e-4)  # without the ninth harmonic
    assert np.allclose(DAY.weights[0] @ DAY.harmonics(tau), DAY.course(tau))


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_slope_is_minus_the_derivative_over_rho(nu):
    kernel, rho, step = cyclic(nu), np.linspace(0.1, 30.0, 50), 1e-6
    numeric = -(kernel.value(rho + step) - kernel.value(rho - step)) / (2.0 * step * rho)
    assert np.allclose(kernel.slope(rho), numeric, atol=1e-7)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_integral_over_the_future(nu, rng):
    kernel, ages = cyclic(nu), rng.uniform(1.0, 12.0, 6)
    found = temporal_convolution(kernel, ages)
    assert found is not None
    assert np.linalg.eigvalsh(found.matrix).min() > 0.0

    nodes, weights = np.polynomial.legendre.leggauss(8)  # on each sixteenth of a day
    s = (np.arange(0.0, 300.0, 1.0 / 16)[:, None] + (nodes + 1.0) / 32).ravel()
    correlation = kernel(ages[:, None], -s[:, None])
    expected = (correlation * np.tile(weights / 32, 16 * 300)) @ correlation.T
    assert found.matrix * math.exp(found.log_constant) == pytest.approx(expected, rel=1e-6)


def test_the_integral_after_a_very_long_pause():
    found = temporal_convolution(cyclic(), np.array([1e6, 1e6 + 0.25, 1e6 + 1.0]))
    assert found is not None
    assert np.isfinite(found.matrix).all()
    assert np.linalg.eigvalsh(found.matrix).min() > -1e-12


def test_a_family_without_a_closed_form_has_none():
    assert temporal_convolution(Cyclic(0.4, eb.SquaredExponential(), (DAY,)), np.array([0.0, 1.0])) is None


def test_the_likelihood_is_the_log_density_of_the_data(rng):
    X, t, y = data(rng)
    kernel = FAMILIES.kernel(HYPER)
    covariance = kernel(X, t, X, t) + HYPER.noise * np.eye(40)
    assert np.allclose(kernel(X, t), kernel(X, t, X, t))
    value = Likelihood(FAMILIES, X, t, y)(HYPER.to_vector()).value
    assert value == pytest.approx(multivariate_normal(cov=covariance).logpdf(y))


def test_its_gradient_against_finite_differences(rng):
    likelihood, theta, step = Likelihood(FAMILIES, *data(rng)), HYPER.to_vector(), 1e-6
    gradient, _ = likelihood(theta).derivatives()
    for a, direction in enumerate(np.eye(len(theta))):
        numeric = (likelihood(theta + step * direction).value - likelihood(theta - step * direction).value) / (2 * step)
        assert gradient[a] == pytest.approx(numeric, rel=1e-5, abs=1e-5)


def test_vectors_and_back():
    again = FAMILIES.hyperparameters(HYPER.to_vector())
    assert np.allclose(again.to_vector(), HYPER.to_vector())
    assert again.cycles[1] == pytest.approx(HYPER.cycles[1])
    assert again.context == pytest.approx(HYPER.context)


def test_a_context_multiplies_the_covariance(rng):
    X, t, _ = data(rng, 7)
    kernel = FAMILIES.kernel(HYPER)
    without = SpaceTimeKernel(kernel.scale, kernel.spatial, kernel.temporal)
    assert kernel.context is not None
    assert np.allclose(kernel(X, t), without(X[:, :2], t) * kernel.context(X[:, 2:]))


def test_a_moment_in_a_context(rng):
    X, t, y = data(rng)
    posterior = condition(FAMILIES.kernel(HYPER), 0.1, X, t, y)
    context, points = np.array([0.3, 0.4]), rng.random((5, 2))
    moment, interval = posterior.at(21.0, context), posterior.during(21.0, 22.0, context)
    rows = np.column_stack([points, np.tile(context, (5, 1))])
    assert np.allclose(moment.predict(points), posterior.predict(rows, np.full(5, 21.0)))
    timed = np.column_stack([points, np.full(5, 0.5)])
    assert np.allclose(interval.predict(timed), posterior.at(21.5, context).predict(points))
    for predictor, Z in ((moment, points), (interval, timed)):
        _, _, gradient = predictor.predict_with_gradient(Z)
        slopes = gradient(np.ones(5), np.zeros(5)), gradient(np.zeros(5), np.ones(5))
        for g, step in enumerate(1e-6 * np.eye(Z.shape[1])):
            numeric = (np.array(predictor.predict(Z + step)) - np.array(predictor.predict(Z - step))) / 2e-6
            assert np.allclose([slope[:, g] for slope in slopes], numeric, atol=1e-7)


def test_the_deviation_of_a_difference(rng):
    X, t, y = data(rng)
    posterior = condition(FAMILIES.kernel(HYPER), 0.1, X, t, y)
    context, (one, other) = np.array([0.3, 0.4]), rng.random((2, 2))
    rows = np.column_stack([[one, other], np.tile(context, (2, 1))])
    kernel, moments = posterior.kernel, np.full(2, 21.0)
    k = kernel(rows, moments, X, t)
    covariance = kernel(rows, moments) - k @ posterior.P @ k.T
    expected = math.sqrt(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
    assert posterior.at(21.0, context).deviation_of_difference(one, other) == pytest.approx(expected)


def error_of_tomorrow(temporal, course, rng):
    """Root mean square error half a day ahead, after six days of 20 observations each."""
    families, periods = Families(Matern(2.5), temporal), (1.0,) if isinstance(temporal, Cyclic) else ()
    prior = weak_prior(ard=False, dim=1, limits=TimeLimits(0.5, 60.0, 2.5), method="map", periods=periods)
    X, t = rng.random((120, 1)), np.sort(rng.uniform(0.0, 6.0, 120))
    y = course(X[:, 0], t) + 0.1 * rng.normal(size=120)
    start = families.hyperparameters(prior.clip(prior.center))
    found = fit(families, start, (X, t, y), prior, search=True, rng=rng)
    Z, s = rng.random((200, 1)), rng.uniform(6.3, 6.7, 200)
    return np.sqrt(np.mean((found.posterior.predict(Z, s)[0] - course(Z[:, 0], s)) ** 2))


def test_a_cycle_foretells_what_comes_back_and_does_no_harm_otherwise():
    def daily(x, t):
        return np.sin(2.0 * np.pi * t + 3.0 * x)

    def wandering(x, t):
        return np.sin(0.7 * t**1.5 + 3.0 * x)

    with_cycle, without = Cyclic(1.0, Matern(1.5), (Cycle(1.0),)), Matern(1.5)
    errors = {
        course: [error_of_tomorrow(kernel, course, np.random.default_rng(5)) for kernel in (with_cycle, without)]
        for course in (daily, wandering)
    }
    assert errors[daily][0] < 0.2 * errors[daily][1]
    assert errors[wandering][0] < 1.1 * errors[wandering][1]


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_the_same_hour_of_yesterday_is_relevant(method):
    """Of two observations of the same age on average, the one made at this hour matters, the other does not."""
    kernel = SpaceTimeKernel(1.0, Matern(2.5, 0.3), Cyclic(0.1, Matern(1.5), (Cycle(1.0, 0.9, 20.0, 0.4),)))
    plain = SpaceTimeKernel(1.0, Matern(2.5, 0.3), Matern(1.5, 0.1))
    X, t, y = np.full((3, 1), 0.5), np.array([0.0, 0.5, 0.9]), np.array([1.0, 1.0, 1.0])
    given = {"noise": 0.05, "now": 1.0, "method": method}
    old, _, new = relevance(X, t, y, kernel=kernel, **given)
    assert old > 0.3 * new
    old, _, new = relevance(X, t, y, kernel=plain, **given)
    assert old < 1e-3 * new


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_what_was_learned_under_high_load_is_kept_while_load_is_low(method, rng):
    """The criterion integrates over the contexts that were seen: rare ones count, others do not."""
    kernel = SpaceTimeKernel(1.0, Matern(2.5, 0.3), Matern(1.5, 50.0), Matern(2.5, (0.2,)))
    load = np.array([0.9, *np.full(29, 0.1)])
    X = np.column_stack([np.full(30, 0.5), load])
    t, y = np.arange(30.0), np.ones(30)
    given = {"kernel": kernel, "noise": 0.05, "now": 30.0, "method": method}
    seen = relevance(X, t, y, contexts=[[0.1], [0.9]], **given)
    assert seen.argmax() == 0
    never_again = relevance(X, t, y, contexts=[[0.1], [0.15]], **given)
    assert never_again[0] < 0.1 * seen[0]


def test_clear_errors():
    with pytest.raises(eb.ConfigurationError, match="share below 1"):
        Cycle(1.0, share=1.0)
    with pytest.raises(eb.ConfigurationError, match="sum to less than 1"):
        Cyclic(1.0, Matern(1.5), (Cycle(1.0, 0.6), Cycle(7.0, 0.6)))
    with pytest.raises(eb.ConfigurationError, match="reads the clock"):
        Cyclic(1.0, eb.StepDecay(), (Cycle(1.0),))
    with pytest.raises(eb.ConfigurationError, match="each coordinate"):
        SpaceTimeKernel(1.0, Matern(2.5), Matern(1.5), Matern(2.5, 0.3))
