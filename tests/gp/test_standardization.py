import numpy as np
import pytest
from scipy import optimize, special, stats

from ebbtide.gp.kernels import Matern, SpaceTimeKernel
from ebbtide.gp.posterior import condition
from ebbtide.gp.standardization import BENT, FORMS, PLAIN, POWERS, Form, Standardization, chosen_form, evidence

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
    standardization = Standardization.of(y, Form(power))
    v = y if power == 1.0 else special.boxcox(y / stats.gmean(y), power)
    assert standardization.apply(y) == pytest.approx((v - v.mean()) / v.std(), rel=1e-9, abs=1e-9)


def bent(values, y, sign=1.0):
    """The worse side by SciPy's transform of Yeo and Johnson, which has the power p for u as 2 − p for −u."""
    knee, span = np.median(y), sign * stats.iqr(y)
    return np.where(
        sign * values < sign * knee,
        knee + span * stats.yeojohnson(np.minimum((values - knee) / span, 0.0), 1.5),
        values,
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_worse_side_is_bent_as_yeo_and_johnson_do(sign, rng):
    y = 100.0 - sign * rng.lognormal(3.0, 1.0, 40)
    standardization, v = Standardization.of(y, BENT, sign), bent(y, y, sign)
    assert standardization.form == BENT
    assert standardization.apply(y) == pytest.approx((v - v.mean()) / v.std(), rel=1e-9, abs=1e-9)
    better = sign * y > sign * np.median(y)
    line = standardization.apply(y[better]) * standardization.scale + standardization.mean
    assert line == pytest.approx(y[better])


@pytest.mark.parametrize("form", FORMS)
def test_a_transform_keeps_the_order_and_joins_without_a_kink(form, rng):
    y = np.sort(rng.lognormal(1.0, 1.0, 40))
    for sign in (1.0, -1.0):
        standardization = Standardization.of(y, form, sign)
        assert (np.diff(standardization.apply(y)) > 0.0).all()
        at = standardization.knee if form.bent else 3.0
        z = standardization.apply(at + np.array([-1e-4, 0.0, 1e-4]))
        assert z[2] - z[1] == pytest.approx(z[1] - z[0], rel=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_the_way_back_is_the_median_and_half_of_the_central_interval(form, rng):
    y = rng.lognormal(1.0, 0.4, 40)
    standardization = Standardization.of(y, form)
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

    def transformed(values, form):
        if form.bent:
            return bent(values, y)
        return values if form == PLAIN else special.boxcox(values / stats.gmean(y), form.power)

    def density(form):
        """log p(y) at the best variance, with the derivative of the transform by differences."""
        v = transformed(y, form)
        steps = [y * (1.0 + sign * 1e-6) for sign in (-1.0, 1.0)]
        ends = [transformed(step, form) for step in steps]
        jacobian = np.log((ends[1] - ends[0]) / (steps[1] - steps[0])).sum()
        u = v - v.mean()
        best = optimize.minimize_scalar(
            lambda log_variance: -stats.multivariate_normal(cov=np.exp(log_variance) * covariance).logpdf(u),
            bounds=(-20.0, 20.0),
            method="bounded",
            options={"xatol": 1e-8},
        )
        return -best.fun + jacobian

    for form in FORMS:
        gain = evidence(P, y, form) - evidence(P, y, PLAIN)
        assert gain == pytest.approx(density(form) - density(PLAIN), abs=1e-3)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (np.exp, Form(0.0)),
        (lambda f: (f + 9.0) ** 2, Form(0.5)),
        (lambda f: f + 9.0, PLAIN),
        (lambda f: np.where(f < 0.0, -np.expm1(-f), f), BENT),
    ],
)
def test_the_form_that_made_the_values_is_chosen(made, expected, rng):
    X, t = rows(rng, 120)
    f = 2.5 * drawn(rng, X, t)
    f -= np.median(f)
    P = condition(KERNEL, NOISE, X, t, f).P
    assert expected.bent or made(f).min() > 0.0
    for current in (PLAIN, Form(0.0)):
        assert chosen_form(P, made(f), current) == expected
        if expected.power == 1.0:  # the same upside down, where smaller values are better
            assert chosen_form(P, -made(f), current, sign=-1.0) == expected


def test_a_form_that_does_not_suit_the_values_is_given_up(rng):
    X, t = rows(rng)
    y = drawn(rng, X, t)
    P = condition(KERNEL, NOISE, X, t, y).P
    assert chosen_form(P, y, Form(0.0)) == PLAIN
    assert chosen_form(P, y, BENT, forms=(PLAIN,)) == PLAIN  # nor one that may not be chosen any more
    assert Standardization.of(y, Form(0.0)).form == PLAIN
    assert Standardization.of(np.append(np.zeros(30), 1.0), BENT).form == PLAIN  # its quartiles are equal


def test_a_small_gain_changes_nothing(rng):
    X, t = rows(rng, 6)
    y = 100.0 + rng.normal(size=6)  # nearly the same in every power
    P = condition(KERNEL, NOISE, X, t, y).P
    for form in FORMS:
        assert chosen_form(P, y, form) == form


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "y",
    [
        [],
        [3.0],
        [2.0] * 5,
        [-1e308, -5e307, 0.0, 5e307, 1e308],
        [1e300, 1e-300, 1.0],
        [1e-300, 2e-300],
        [1e300, 1.5e300],
        [0.0, 1.0],
    ],
)
def test_every_value_stays_finite(y, form, sign):
    y = np.array(y)
    standardization = Standardization.of(y, form, sign)
    z = standardization.apply(np.append(y, [0.0, -1.0, -1e308, 1e308]) if form.power == 1.0 else y)
    median, half = standardization.back(np.array([-1e3, 0.0, 1e3]), np.ones(3))
    assert np.isfinite(z).all()
    assert np.isfinite(list(vars(standardization).values())).all()
    if standardization.form != PLAIN:
        assert np.isfinite(median).all()
        assert np.isfinite(half).all()


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_a_level_does_not_depend_on_the_unit_of_a_study(power):
    """The same values, standardised with those of other studies: their level is the same number."""
    y = np.array([2.0, 3.0, 5.0, 9.0])
    own, other = Standardization.of(y, Form(power)), Standardization.of(7.0 * y, Form(power))
    assert other.of_level(own.level) == pytest.approx(other.apply(own.back(np.zeros(1), np.zeros(1))[0])[0], abs=1e-12)
    assert own.of_level(own.level) == pytest.approx(0.0, abs=1e-12)
    absolute = Standardization.at(own.level, own.scale * own.factor, power)
    assert absolute.apply(y) == pytest.approx(own.apply(y), rel=1e-12)
    assert absolute.level == pytest.approx(own.level)
    assert absolute.factor == 1.0
