import numpy as np
import pytest
from helpers.drifting import observations
from scipy.stats import multivariate_normal

import ebbtide as eb
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.likelihood import Evaluation, Likelihood

pytestmark = pytest.mark.usefixtures("one_thread")

CASES = [
    (eb.Matern(2.5), eb.Matern(1.5), Hyperparameters(1.4, 0.3, 0.5, 0.1)),
    (eb.Matern(0.5), eb.SquaredExponential(), Hyperparameters(0.8, 0.6, 0.2, 0.02)),
    (eb.SquaredExponential((1.0, 1.0)), eb.Matern(0.5), Hyperparameters(1.1, (0.3, 0.7), 0.4, 0.3)),
    (eb.Matern(1.5, (1.0, 1.0)), eb.Matern(2.5), Hyperparameters(1.1, (0.2, 0.9), 0.4, 0.3)),
    (eb.Matern(2.5), None, Hyperparameters(1.4, 0.3, None, 0.1)),
]


@pytest.mark.parametrize(("space", "time", "hyper"), CASES, ids=str)
def test_value_is_the_log_density_of_the_data(space, time, hyper, rng):
    X, t, y = observations(rng)
    covariance = Families(space, time).kernel(hyper)(X, t, X, t) + hyper.noise * np.eye(len(t))
    evaluation = Likelihood(Families(space, time), X, t, y)(hyper.to_vector())
    assert evaluation.value == pytest.approx(multivariate_normal(cov=covariance).logpdf(y))


@pytest.mark.parametrize(("space", "time", "hyper"), CASES, ids=str)
def test_gradient_against_finite_differences(space, time, hyper, rng):
    likelihood = Likelihood(Families(space, time), *observations(rng))
    theta, step = hyper.to_vector(), 1e-6
    gradient, _ = likelihood(theta).derivatives()
    for a, direction in enumerate(np.eye(len(theta))):
        numeric = (likelihood(theta + step * direction).value - likelihood(theta - step * direction).value) / (2 * step)
        assert gradient[a] == pytest.approx(numeric, rel=1e-5, abs=1e-5)


def test_average_information_is_the_fisher_information_on_average(rng):
    """Over data drawn from the model, H has the expectation ½ tr(P Kₐ P Kᵦ).

    H is quadratic in y, so its expectation is the sum of its values at the columns of a root of E[y yᵀ] = Δ.
    """
    X, t, _ = observations(rng, 25)
    hyper = Hyperparameters(1.4, 0.3, 0.5, 0.1)
    theta = hyper.to_vector()
    families = Families(eb.Matern(2.5), eb.Matern(1.5))

    def delta(theta):
        h = Hyperparameters.from_vector(theta, ard=False, drifting=True)
        return families.kernel(h)(X, t) + h.noise * np.eye(25)

    P = np.linalg.inv(delta(theta))
    K = [(delta(theta + 1e-5 * e) - delta(theta - 1e-5 * e)) / 2e-5 for e in np.eye(4)]
    fisher = np.array([[0.5 * np.trace(P @ a @ P @ b) for b in K] for a in K])
    root = np.linalg.cholesky(delta(theta))
    average = np.sum([Likelihood(families, X, t, y)(theta).derivatives()[1] for y in root.T], axis=0)
    assert np.allclose(average, fisher, rtol=1e-6)


def test_more_rows_than_one_block(rng):
    """Elementwise work is done in blocks, which must not change the result."""
    X, t, y = observations(rng, 220)
    hyper = CASES[0][2]
    evaluation = Likelihood(Families(eb.Matern(2.5), eb.Matern(1.5)), X, t, y)(hyper.to_vector())
    covariance = Families(eb.Matern(2.5), eb.Matern(1.5)).kernel(hyper)(X, t, X, t) + hyper.noise * np.eye(220)
    assert evaluation.value == pytest.approx(multivariate_normal(cov=covariance).logpdf(y))
    assert np.allclose(evaluation.P, np.linalg.inv(covariance))


def test_stored_hyperparameters_give_the_same_matrices_to_the_last_bit(rng):
    likelihood = Likelihood(Families(eb.Matern(2.5), eb.Matern(1.5)), *observations(rng, n=8))
    for theta in rng.normal([0.0, -1.0, 1.0, -3.0], 1.0, size=(400, 4)):
        fitted = likelihood(theta)
        again = Evaluation(likelihood, fitted.hyperparameters)
        assert np.array_equal(again.P, fitted.P)
        assert np.array_equal(again.theta, fitted.theta)


def test_vectors_and_back():
    for _, time, hyper in CASES:
        ard = isinstance(hyper.lengthscale, tuple)
        again = Hyperparameters.from_vector(hyper.to_vector(), ard=ard, drifting=time is not None)
        assert np.allclose(again.to_vector(), hyper.to_vector())
        assert (again.timescale is None) == (time is None)
