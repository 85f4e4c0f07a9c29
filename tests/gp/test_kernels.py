import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gamma, kv

import ebbtide as eb
from ebbtide.gp.kernels import Kernel

pytestmark = pytest.mark.usefixtures("one_thread")

NUS = [0.5, 1.5, 2.5, 3.5, 4.5]
FAMILIES = [eb.SquaredExponential(), *(eb.Matern(nu) for nu in NUS)]


@pytest.mark.parametrize("nu", NUS)
def test_matern_is_the_bessel_formula(nu):
    r = np.linspace(0.01, 5.0, 200)
    z = np.sqrt(2 * nu) * r / 0.7
    expected = 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z)
    assert np.allclose(eb.Matern(nu, 0.7)(np.zeros((1, 1)), r[:, None])[0], expected, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_one_at_zero_and_isotropic_equals_equal_ard(family, rng):
    X = rng.random((12, 3))
    iso = family.with_lengthscale(0.3)(X)
    assert np.allclose(np.diagonal(iso), 1.0)
    assert np.allclose(iso, family.with_lengthscale((0.3, 0.3, 0.3))(X))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_slope_is_minus_the_derivative_over_rho(family):
    rho, step = np.linspace(0.05, 4.0, 50), 1e-6
    numeric = -(family.correlation(rho + step) - family.correlation(rho - step)) / (2 * step * rho)
    assert np.allclose(family.slope(rho) * np.exp(family.exponent(rho)), numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_parts_are_those_of_the_correlation(family):
    rho = np.linspace(0.0, 4.0, 50)
    value, slope, exponent = family.parts(rho)
    assert np.allclose(value * np.exp(exponent), family.correlation(rho), rtol=1e-14)
    assert np.allclose(slope, family.slope(rho), rtol=1e-14)
    assert np.array_equal(rho, np.linspace(0.0, 4.0, 50))  # nobody has worked in its place


@pytest.mark.parametrize("lengthscale", [0.02, (0.02, 0.3, 5.0)])
def test_rough_distances_are_right_in_half_of_their_digits(lengthscale, rng):
    kernel, X = eb.Matern(2.5, lengthscale), rng.random((40, 3))
    Z = np.vstack([X[:5], X[5:10] + 1e-9, rng.random((30, 3))])
    assert np.allclose(kernel.roughly_scaled_distance(X, Z), kernel.scaled_distance(X, Z), rtol=1e-10, atol=1e-6)


@given(
    family=st.sampled_from(FAMILIES),
    time_family=st.sampled_from(FAMILIES),
    n=st.integers(1, 25),
    d=st.integers(1, 4),
    lengthscale=st.floats(0.01, 10.0),
    timescale=st.floats(0.01, 100.0),
    ard=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_covariances_are_positive_semidefinite(family, time_family, n, d, lengthscale, timescale, ard, seed):
    rng = np.random.default_rng(seed)
    X, t = rng.random((n, d)), 10.0 * rng.random(n)
    scales = tuple(lengthscale * rng.uniform(0.5, 2.0, d)) if ard else lengthscale
    kernel = eb.SpaceTimeKernel(2.0, family.with_lengthscale(scales), time_family.with_lengthscale(timescale))
    K = kernel(X, t)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    assert np.allclose(K, kernel(X, t, X, t))


def test_the_product_is_the_product(rng):
    X, t = rng.random((5, 2)), rng.random(5)
    Z, s = rng.random((3, 2)), rng.random(3)
    space, time = eb.Matern(2.5, (0.2, 0.5)), eb.SquaredExponential(0.3)
    kernel = eb.SpaceTimeKernel(1.7, space, time)
    assert np.allclose(kernel(X, t, Z, s), 1.7 * space(X, Z) * time(t[:, None], s[:, None]))
    assert np.allclose(eb.SpaceTimeKernel(1.7, space)(X, t, Z, s), 1.7 * space(X, Z))
    assert isinstance(kernel, Kernel)
    assert kernel.timescale == 0.3
    assert eb.SpaceTimeKernel(1.7, space).timescale is None


@pytest.mark.parametrize("nu", [0.0, 1.0, -0.5, 2.7])
def test_only_half_integers(nu):
    with pytest.raises(eb.ConfigurationError, match="half-integers"):
        eb.Matern(nu)


@pytest.mark.parametrize("lengthscale", [0.0, -1.0, np.nan, (), (1.0, 0.0)])
def test_lengthscales_are_positive(lengthscale):
    with pytest.raises(eb.ConfigurationError, match="positive"):
        eb.SquaredExponential(lengthscale)


def test_wrong_number_of_lengthscales(rng):
    with pytest.raises(eb.ConfigurationError, match="2 lengthscales but the points have 3"):
        eb.Matern(2.5, (0.1, 0.2))(rng.random((4, 3)))


def test_wrong_products():
    with pytest.raises(eb.ConfigurationError, match="positive"):
        eb.SpaceTimeKernel(0.0, eb.Matern())
    with pytest.raises(eb.ConfigurationError, match="one lengthscale"):
        eb.SpaceTimeKernel(1.0, eb.Matern(), eb.Matern(1.5, (1.0, 2.0)))
