import numpy as np
import pytest
from scipy import optimize, special, stats

from ebbtide.gp.kernels import Matern, SpaceTimeKernel
from ebbtide.gp.posterior import condition
from ebbtide.gp.standardization import POWERS, Standardization, chosen_power, evidence

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = SpaceTimeKernel(1.3, Matern(2.5, 0.3), Matern(1.5, 20.0))
NOISE = 0.07


def rows(rng, n=25):
    return rng.random((n, 2)), np.sort(rng.uniform(0.0, 40.0, n))


def drawn(rng, X, t):
    covariance = KERNEL(X, t) + NOISE * np.eye(len(t))
    return rng.multivariate_normal(np.zeros(len(t)), covariance)


@pytest.mark.parametrize("power", POWERS)
def test_values_are_transformed_as_box_and_cox_do(power, rng):
    y = rng.lognormal(3.0, 1.0, 40)
    standardization = Standardization.of(y, power)
    v = y if power == 1.0 else special.boxcox(y / stats.gmean(y), power)
    assert standardization.apply(y) == pytest.approx((v - v.mean()) / v.std(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("power", POWERS)
def test_the_way_back_is_the_median_and_half_of_the_central_interval(power, rng):
    y = rng.lognormal(1.0, 0.4, 40)
    standardization = Standardization.of(y, power)
    z = standardization.apply(y)
    again, _ = standardization.back(z, np.zeros_like(z))
    assert again == pytest.approx(y)
    sample = rng.normal(0.3, 0.2, 400_000)
    values, _ = standardization.back(sample, np.zeros_like(sample))
    low, middle, high = np.quantile(values, stats.norm.cdf([-1.0, 0.0, 1.0]))
    median, half = standardization.back(np.array([0.3]), np.array([0.2]))
    assert median[0] == pytest.approx(middle, rel=0.01)
    assert half[0] == pytest.approx((high - low) / 2, rel=0.01)


def test_the_evidence_is_that_of_the_full_density_with_its_jacobian(rng):
    X, t = rows(rng)
    y = np.exp(drawn(rng, X, t)) * 40.0
    P = condition(KERNEL, NOISE, X, t, y).P
    covariance = KERNEL(X, t) + NOISE * np.eye(len(t))

    def density(power):
        """log p(y) at the best variance, with the derivative of the transform by differences."""
        unit = stats.gmean(y)
        v = y if power == 1.0 else special.boxcox(y / unit, power)
        steps = [y * (1.0 + sign * 1e-6) for sign in (-1.0, 1.0)]
        ends = steps if power == 1.0 else [special.boxcox(step / unit, power) for step in steps]
        jacobian = np.log((ends[1] - ends[0]) / (steps[1] - steps[0])).sum()
        u = v - v.mean()
        best = optimize.minimize_scalar(
            lambda log_variance: -stats.multivariate_normal(cov=np.exp(log_variance) * covariance).logpdf(u),
            bounds=(-20.0, 20.0),
            method="bounded",
            options={"xatol": 1e-8},
        )
        return -best.fun + jacobian

    for power in POWERS:
        gain = evidence(P, y, power) - evidence(P, y, 1.0)
        assert gain == pytest.approx(density(power) - density(1.0), abs=1e-3)


@pytest.mark.parametrize(
    ("made", "expected"), [(np.exp, 0.0), (lambda f: (f + 9.0) ** 2, 0.5), (lambda f: f + 9.0, 1.0)]
)
def test_the_power_that_made_the_values_is_chosen(made, expected, rng):
    X, t = rows(rng, 120)
    f = 2.5 * drawn(rng, X, t)
    P = condition(KERNEL, NOISE, X, t, f).P
    assert made(f).min() > 0.0
    assert chosen_power(P, made(f), 1.0) == expected
    assert chosen_power(P, made(f), 0.0) == expected


def test_a_small_gain_changes_nothing(rng):
    X, t = rows(rng, 6)
    y = 100.0 + rng.normal(size=6)  # nearly the same in every power
    P = condition(KERNEL, NOISE, X, t, y).P
    for power in POWERS:
        assert chosen_power(P, y, power) == power


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("y", [[3.0], [2.0] * 5, [1e300, 1e-300, 1.0], [1e-300, 2e-300], [1e300, 1.5e300], [0.0, 1.0]])
def test_every_value_stays_finite(y, power):
    y = np.array(y)
    standardization = Standardization.of(y, power)
    z = standardization.apply(np.append(y, [0.0, -1.0, 1e308]) if power == 1.0 else y)
    median, half = standardization.back(np.array([-1e3, 0.0, 1e3]), np.ones(3))
    assert np.isfinite(z).all()
    assert np.isfinite([standardization.mean, standardization.scale, standardization.unit]).all()
    if power != 1.0:
        assert np.isfinite(median).all()
        assert np.isfinite(half).all()


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_a_level_does_not_depend_on_the_unit_of_a_study(power):
    """The same values, standardised with those of other studies: their level is the same number."""
    y = np.array([2.0, 3.0, 5.0, 9.0])
    own, other = Standardization.of(y, power), Standardization.of(7.0 * y, power)
    assert other.of_level(own.level) == pytest.approx(other.apply(own.back(np.zeros(1), np.zeros(1))[0])[0], abs=1e-12)
    assert own.of_level(own.level) == pytest.approx(0.0, abs=1e-12)
    absolute = Standardization.at(own.level, own.scale * own.factor, power)
    assert absolute.apply(y) == pytest.approx(own.apply(y), rel=1e-12)
    assert absolute.level == pytest.approx(own.level)
    assert absolute.factor == 1.0
