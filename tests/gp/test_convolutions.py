"""Every closed form against adaptive quadrature or an independent formula."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf, gamma, kve

import ebbtide as eb
from ebbtide.gp.convolutions import (
    Convolution,
    box_nodes,
    decaying_future,
    finite_future,
    matern_correlation,
    spatial_convolution,
    temporal_convolution,
)
from ebbtide.gp.kernels import Stationary

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = [eb.SquaredExponential(), eb.Matern(0.5), eb.Matern(1.5), eb.Matern(2.5), eb.Matern(3.5)]


def known(convolution: Convolution | None) -> Convolution:
    assert convolution is not None
    return convolution


def whole(convolution):
    return known(convolution).matrix * math.exp(known(convolution).log_constant)


def gauss(edges, count=40):
    """Nodes and weights of Gauss–Legendre between neighbouring edges."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    halves = np.diff(edges)[:, None] / 2
    return (np.array(edges[:-1])[:, None] + halves * (nodes + 1)).ravel(), (halves * weights).ravel()


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_space_one_dimension(family):
    X = np.array([[0.1], [0.35], [0.9]])
    kernel = family.with_lengthscale(0.3)
    C = whole(spatial_convolution(kernel, X))

    def k(x, a):
        return kernel([[x]], [[a]])[0, 0]

    for i in range(3):
        for j in range(3):
            a, b = X[i, 0], X[j, 0]
            cuts = sorted({a, b})
            edges = [-12.0, *cuts, 13.0]
            expected = sum(
                quad(lambda x, a=a, b=b: k(x, a) * k(x, b), low, high, epsabs=1e-13)[0] for low, high in pairwise(edges)
            )
            assert C[i, j] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("family", [eb.SquaredExponential(), eb.Matern(2.5)], ids=repr)
@pytest.mark.parametrize("lengthscale", [0.3, (0.2, 0.5)])
def test_space_two_dimensions(family, lengthscale):
    """Against a product rule, cut where an observation makes a kink."""
    X = np.array([[0.2, 0.3], [0.6, 0.4]])
    kernel = family.with_lengthscale(lengthscale)
    (x, x_weights), (y, y_weights) = gauss([-4.0, 0.2, 0.6, 5.0]), gauss([-4.0, 0.3, 0.4, 5.0])
    values = kernel(X, np.column_stack([np.repeat(x, len(y)), np.tile(y, len(x))]))
    expected = values * np.repeat(x_weights, len(y)) * np.tile(y_weights, len(x)) @ values.T
    assert np.allclose(whole(spatial_convolution(kernel, X)), expected, rtol=1e-6)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_space_matern_is_the_papers_table_in_any_dimension(nu, d, rng):
    """Table 3 as printed, with SciPy's Bessel function."""
    X, l = rng.random((6, d)), 0.4  # noqa: E741
    r = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(6, 1)]
    A, s = 2 * nu + d / 2, math.sqrt(2 * nu) / l
    constant = (
        2 ** (d / 2 - 2 * nu + 1) * math.pi ** (d / 2) * gamma(nu + d / 2) ** 2 / (gamma(nu) ** 2 * gamma(2 * nu + d))
    )
    expected = constant * s ** (2 * nu - d / 2) * r**A * kve(A, r * s) * np.exp(-r * s)
    C = whole(spatial_convolution(eb.Matern(nu, l), X))
    assert np.allclose(C[np.triu_indices(6, 1)], expected, rtol=1e-10)


@pytest.mark.parametrize("order", [1, 1.5, 2, 3, 4, 5.5, 6, 7, 9, 12, 16.5, 20])
def test_normalised_bessel_functions(order):
    z = np.geomspace(1e-3, 300.0, 2000)
    expected = z**order * kve(order, z) / (2 ** (order - 1) * gamma(order))
    assert np.allclose(matern_correlation(float(order), z) * np.exp(z), expected, rtol=1e-11)
    assert matern_correlation(float(order), np.zeros(1))[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("order", [25.0, 30.5, 40.0, 41.0, 41.5, 90.0, 152.5])
def test_high_orders_meet_the_low_ones_and_tend_to_the_gaussian(order):
    """Dozens of one-hot columns: no overflow, no seam where the methods meet, e^{−z²/4A} in the limit."""
    z = np.linspace(0.0, 60.0, 300)
    here = matern_correlation(order, z)
    between = np.sqrt(matern_correlation(order - 1.0, z) * matern_correlation(order + 1.0, z))
    assert np.allclose(np.log(here), np.log(between), atol=0.02 * z.max() ** 2 / order**2)
    assert np.allclose(here, np.exp(-z * z / (4.0 * order)), atol=2.0 / order)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_time_on_the_half_line(family):
    ages = np.array([0.0, 0.2, 0.55, 1.3])
    kernel = family.with_lengthscale(0.4)
    C = whole(temporal_convolution(kernel, ages))

    def k(r):
        return kernel([[0.0]], [[r]])[0, 0]

    for i, u in enumerate(ages):
        for j, w in enumerate(ages):
            expected = quad(lambda v, u=u, w=w: k(u + v) * k(w + v), 0, np.inf, epsabs=1e-14, epsrel=1e-11)[0]
            assert C[i, j] == pytest.approx(expected, rel=1e-8)


def test_time_matern_closed_forms():
    ages = np.array([0.0, 0.3, 0.9])
    u, v = ages[:, None], ages[None, :]
    w = 1.0 / 0.4
    assert np.allclose(whole(temporal_convolution(eb.Matern(0.5, 0.4), ages)), np.exp(-w * (u + v)) / (2 * w))
    w = math.sqrt(3) / 0.4
    a, b = 1 + w * u, 1 + w * v
    expected = np.exp(-w * (u + v)) * (2 * a * b + a + b + 1) / (4 * w)
    assert np.allclose(whole(temporal_convolution(eb.Matern(1.5, 0.4), ages)), expected)


def test_the_papers_squared_exponential_in_time_is_an_error():
    """Table 4 prints 2l² where the integral has 4l²; the difference is more than rounding."""
    ages, l = np.array([0.1, 0.6]), 0.5  # noqa: E741
    C = whole(temporal_convolution(eb.SquaredExponential(l), ages))
    printed = 0.5 * math.sqrt(math.pi) * l * math.exp(-(0.5**2) / (2 * l * l)) * (1 - erf(0.7 / (2 * l)))
    assert printed / C[0, 1] < 0.8


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_nothing_underflows_when_all_is_old(family):
    """A year of age against a lengthscale of a minute: the ratios, which are what matters, stay finite."""
    ages = 3.15e7 + np.array([0.0, 30.0, 90.0])
    C = known(temporal_convolution(family.with_lengthscale(60.0), ages))
    assert np.isfinite(C.matrix).all()
    assert C.matrix[0, 0] > 0
    assert math.isfinite(C.log_constant)


def test_matern_one_half_relevance_ratios_do_not_depend_on_now():
    ages, kernel = np.array([0.0, 0.2, 0.5]), eb.Matern(0.5, 0.3)
    near, far = (known(temporal_convolution(kernel, ages + shift)).matrix for shift in (0.0, 7.0))
    assert np.allclose(near / near[0, 0], far / far[0, 0])


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_convolutions_are_positive_semidefinite(family, rng):
    for d in (1, 2, 3, 5):
        C = known(spatial_convolution(family.with_lengthscale(1.5), rng.random((25, d)))).matrix
        assert np.linalg.eigvalsh(C).min() > -1e-10
    T = known(temporal_convolution(family.with_lengthscale(0.5), rng.random(25))).matrix
    assert np.linalg.eigvalsh(T).min() > -1e-10


@pytest.mark.parametrize(
    ("family", "tolerance"), [(eb.Matern(1.5), 1e-10), (eb.Matern(2.5), 1e-9), (eb.SquaredExponential(), 1e-6)]
)
def test_nodes_of_the_future_integrate_products(family, tolerance):
    kernel, ages = family.with_lengthscale(0.4), np.array([0.0, 0.3, 0.8])
    nodes = decaying_future(kernel)
    phi = kernel(-ages[:, None], nodes.delays[:, None]) * np.sqrt(nodes.weights)
    assert np.allclose(phi @ phi.T, whole(temporal_convolution(kernel, ages)), rtol=tolerance, atol=tolerance)


def test_nodes_of_a_finite_future():
    nodes = finite_future(3.0)
    assert nodes.weights @ np.exp(-nodes.delays) == pytest.approx(1 - math.exp(-3.0))
    with pytest.raises(eb.ConfigurationError, match="horizon"):
        finite_future(0.0)


def test_nodes_of_the_box_agree_with_the_exact_integral_of_the_squared_exponential(rng):
    """On the box [0,1]^d the squared exponential has a closed form of its own."""
    X, l = rng.random((8, 2)), 0.3  # noqa: E741
    difference, middle = X[:, None] - X[None], 0.5 * (X[:, None] + X[None])
    exact = np.prod(
        np.exp(-(difference**2) / (4 * l * l))
        * (math.sqrt(math.pi) * l / 2)
        * (erf((1 - middle) / l) + erf(middle / l)),
        axis=2,
    )
    phi = eb.SquaredExponential(l)(X, box_nodes(2, 4096)) / 64.0
    assert np.allclose(phi @ phi.T, exact, rtol=2e-3)
    assert (exact < whole(spatial_convolution(eb.SquaredExponential(l), X))).all()


def test_a_kernel_without_closed_form_says_so():
    class Rational(Stationary):
        def value(self, rho):
            return 1.0 / (1.0 + rho * rho)

        def slope(self, rho):
            return 2.0 / (1.0 + rho * rho) ** 2

        def exponent(self, rho):
            return np.zeros_like(rho)

    assert spatial_convolution(Rational(0.3), np.zeros((2, 1))) is None
    assert temporal_convolution(Rational(0.3), np.zeros(2)) is None
