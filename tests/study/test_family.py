"""What siblings are like: medians and spreads of their fits, and the prior that follows."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import ebbtide as eb
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.priors import TimeLimits, weak_prior
from ebbtide.gp.standardization import Form, Standardization
from ebbtide.study.family import ENOUGH, FREEDOM, HALF, LEAST_SPREAD, USUAL_SPREAD, VAGUE, Family, Relative

FAMILIES = Families(eb.Matern(2.5), eb.Matern(1.5))
WEAK = weak_prior(ard=False, dim=2, limits=TimeLimits.of(interval=1.0, span=100.0), method="map")
UNIT = Standardization(100.0, 10.0)
LONG = 10**9  # lines told, after which the fit is beyond doubt


def relative(scale=1.0, lengthscale=0.4, timescale=60.0, noise=0.05, unit=UNIT, likeness=1.0, told=LONG):
    return Relative(likeness, told, Hyperparameters(scale, lengthscale, timescale, noise * scale), unit, 2)


def many(n=19, spread=0.3, **fixed):
    rng = np.random.default_rng(0)
    return [relative(lengthscale=0.4 * math.exp(spread * rng.normal()), **fixed) for _ in range(n)]


def expected(relatives, unit=UNIT):
    family = Family.of(relatives)
    assert family is not None
    return family.prior(WEAK, FAMILIES, 2, unit)


def test_the_prior_is_what_to_expect_of_the_next_sibling():
    """By hand: the median, the median deviation, and the weak prior as one more vague sibling."""
    relatives = many()
    values = np.log([r.hyper.lengthscale for r in relatives])
    m = np.median(values)
    found = 1.4826 * np.median(np.abs(values - m))
    tau2 = (VAGUE * USUAL_SPREAD**2 + 18.0 * found**2) / (VAGUE + 18.0)
    weak = WEAK.precision_above[1] if m > WEAK.center[1] else WEAK.precision_below[1]
    total = 19.0 / tau2 + weak
    prior = expected(relatives)
    assert prior.center[1] == pytest.approx((19.0 / tau2 * m + weak * WEAK.center[1]) / total, rel=1e-6)
    assert 1.0 / prior.precision_above[1] == pytest.approx(tau2 + 1.0 / total, rel=1e-6)
    assert prior.freedom is not None
    assert (prior.freedom == FREEDOM).all()


def test_one_odd_sibling_hardly_matters():
    plain, odd = expected(many()), expected([*many(), relative(1e3, 19.0, 1e5, 50.0, Standardization(-1e6, 1e4))])
    assert odd.center == pytest.approx(plain.center, abs=0.15)
    assert odd.precision_above == pytest.approx(plain.precision_above, rel=0.5)


def test_one_sibling_says_little_and_none_says_nothing():
    assert Family.of([]) is None
    assert Family.of([relative(likeness=0.0), relative(told=0)]) is None
    one, twenty = expected([relative(lengthscale=1.0)]), expected([relative(lengthscale=1.0)] * 20)
    assert WEAK.center[1] < one.center[1] < twenty.center[1] == pytest.approx(0.0, abs=0.05)
    assert one.precision_above[1] < min(twenty.precision_above[1], 1.0 / USUAL_SPREAD**2)
    assert 1.0 / math.sqrt(expected([relative()] * 10_000).precision_above[1]) == pytest.approx(LEAST_SPREAD, rel=0.01)


def test_a_young_or_unlike_sibling_counts_less():
    assert relative(told=HALF).weight == pytest.approx(0.5)
    assert relative(told=HALF, likeness=0.5).weight == pytest.approx(0.25)
    many_young = [relative(lengthscale=2.0, told=1)] * 10
    assert expected([relative()] * 5 + many_young).center[1] == pytest.approx(
        expected([relative()] * 5).center[1], abs=0.1
    )
    family = Family.of([relative(likeness=0.5)] * 5)
    assert family is not None
    assert family.siblings == 5
    assert family.weight == pytest.approx(2.5)
    assert not family.is_enough
    assert family.weight < ENOUGH


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_scale_and_level_are_compared_in_the_users_unit(power):
    """Siblings that standardise differently, but whose process is the same, agree."""
    y = np.array([50.0, 80.0, 100.0, 130.0])
    unit = Standardization.of(y, Form(power))
    wider = replace(unit, scale=4.0 * unit.scale)
    family = Family.of([relative(1.0, unit=unit), relative(1.0 / 16.0, unit=wider)] * 8)
    assert family is not None
    assert family.center[0] == pytest.approx(math.log(unit.scale * unit.factor))
    assert family.level == pytest.approx(unit.level)
    for seen in (unit, wider, Standardization.of(3.0 * y, Form(power))):
        prior = family.prior(WEAK, FAMILIES, 2, seen)
        deviation = math.exp(0.5 * prior.center[0]) * seen.scale * seen.factor
        assert deviation == pytest.approx(unit.scale * unit.factor, rel=0.5)  # the weak prior says 1 in each unit
        mean = family.mean(seen)
        assert mean is not None
        m, s = mean
        assert seen.back(np.array([m]), np.zeros(1))[0] == pytest.approx(unit.back(np.zeros(1), np.zeros(1))[0])
        assert s * seen.scale * seen.factor == pytest.approx(family.level_spread)


def test_values_in_another_transform_say_nothing_about_scale_and_level():
    family = Family.of(many())
    assert family is not None
    logarithms = Standardization.of(np.array([1.0, 2.0, 3.0]), Form(0.0))
    assert family.mean(logarithms) is None
    prior = family.prior(WEAK, FAMILIES, 2, logarithms)
    assert prior.center[0] == WEAK.center[0]
    assert prior.center[1] == expected(many()).center[1]


def test_the_first_values_are_seen_as_those_of_the_siblings_unless_they_are_unlike_them():
    family = Family.of(many())
    assert family is not None
    unit = family.standardization(np.array([95.0]))
    assert unit is not None
    assert unit.mean == pytest.approx(100.0)
    assert unit.scale == pytest.approx(10.0)
    assert family.standardization(np.array([95.0, 1000.0])) is None
    assert family.standardization(np.empty(0)) == unit


def test_a_timescale_beyond_what_one_study_could_know_is_allowed():
    prior = expected([relative(timescale=1e5)] * 19)
    assert prior.center[2] > WEAK.upper[2] - 1.0
    assert prior.upper[2] > WEAK.upper[2]
    assert (prior.clip(prior.center) == prior.center).all()
    assert expected([relative(timescale=1e-3)] * 19).center[2] >= WEAK.lower[2]


def test_other_hyperparameters_keep_their_prior():
    """Those of contexts and cycles, between l_S and the noise."""
    limits = TimeLimits.of(1.0, 100.0)
    weak = weak_prior(False, 2, limits, "map", context=2, periods=(50.0,))
    families = Families(eb.Matern(2.5), _cyclic(), eb.Matern(2.5, (1.0, 1.0)))
    family = Family.of(many(timescale=33.0))
    assert family is not None
    prior = family.prior(weak, families, 2, UNIT)
    kept = [2, 3, 5, 6, 7]
    assert (prior.center[kept] == weak.center[kept]).all()
    assert (prior.precision_above[kept] == weak.precision_above[kept]).all()
    assert prior.center[4] == pytest.approx(math.log(33.0), abs=0.1)


def _cyclic():
    from ebbtide.gp.kernels import Cycle, Cyclic

    return Cyclic(1.0, eb.Matern(1.5), (Cycle(50.0, 0.5),))


def test_ard_has_a_lengthscale_for_each_coordinate():
    families = Families(eb.Matern(2.5, (1.0, 1.0)), None)
    weak = weak_prior(True, 2, None, "map")
    fits = [Relative(1.0, LONG, Hyperparameters(1.0, (0.1, 2.0), None, 0.1), UNIT, 2)] * 19
    family = Family.of(fits)
    assert family is not None
    prior = family.prior(weak, families, 2, UNIT)
    assert prior.center[1:3] == pytest.approx(np.log([0.1, 2.0]), abs=0.2)
    family.check(families, 2)
    with pytest.raises(ValueError, match="family is"):
        family.check(Families(eb.Matern(2.5), None), 2)


def test_a_family_survives_json():
    family = Family.of(many())
    assert family is not None
    assert Family.from_json(json.loads(json.dumps(family.to_json()))) == family
    assert Family.from_json({}) is None
    family.check(FAMILIES, 2)
    for damage in (
        {"weight": math.nan},
        {"power": 0.3},
        {"siblings": 0},
        {"level_spread": 0.0},
        {"center": (1e3,) * 4},
    ):
        with pytest.raises(ValueError, match="family is"):
            replace(family, **damage).check(FAMILIES, 2)


def test_absurd_fits_are_left_out():
    for absurd in (
        {"unit": Standardization(0.0, 1e308)},
        {"unit": Standardization(1e200, 1.0)},
        {"timescale": math.inf},
    ):
        assert Family.of([relative(**absurd)]) is None
