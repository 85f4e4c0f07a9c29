import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import ebbtide as eb
from ebbtide.parts.acquisition import Context, log_improvement

ACQUISITIONS = [eb.UCB(), eb.UCB(beta=4.0), eb.TrackingUCB(), eb.EI(), eb.PI(), eb.PI(margin=0.3)]
CONTEXT = Context(n=20, dim=3, incumbent=0.7)


@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=repr)
@given(mean=st.floats(-5, 5), std=st.floats(0.01, 3.0))
def test_derivatives_against_finite_differences(acquisition, mean, std):
    def value(m, s):
        return acquisition(np.array([m]), np.array([s]), CONTEXT)[0][0]

    _, by_mean, by_std = acquisition(np.array([mean]), np.array([std]), CONTEXT)
    h = 1e-6 * std
    assert by_mean[0] == pytest.approx((value(mean + h, std) - value(mean - h, std)) / (2 * h), rel=1e-3, abs=1e-4)
    assert by_std[0] == pytest.approx((value(mean, std + h) - value(mean, std - h)) / (2 * h), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=repr)
@given(mean=st.floats(-1e6, 1e6), std=st.floats(1e-6, 1e6))
def test_values_are_finite_anywhere(acquisition, mean, std):
    value, *_ = acquisition(np.array([mean]), np.array([std]), CONTEXT)
    assert np.isfinite(value).all()


def test_ucb_schedule():
    value, _, by_std = eb.UCB()(np.array([1.0]), np.array([2.0]), CONTEXT)
    assert by_std[0] ** 2 == pytest.approx(0.2 * 3 * np.log(40))
    assert value[0] == pytest.approx(1.0 + 2.0 * by_std[0])


@pytest.mark.parametrize(
    ("pace", "queries"),
    [(12.0, 12.0), (300.0, 40.0), (None, 40.0), (0.3, 1.0)],
    ids=["queries per l_T", "at most twice those made", "no l_T", "at least one"],
)
def test_tracking_ucb_explores_as_long_as_it_pays(pace, queries):
    context = Context(n=20, dim=3, incumbent=0.7, pace=pace)
    value, _, by_std = eb.TrackingUCB(weight=0.5)(np.array([1.0]), np.array([2.0]), context)
    assert by_std[0] ** 2 == pytest.approx(0.5 * np.sqrt(3) * np.log(queries))
    assert value[0] == pytest.approx(1.0 + 2.0 * by_std[0])


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (1.5, 0.3), (-2.0, 0.8)])
def test_ei_is_the_expected_improvement(mean, std):
    expected = quad(lambda f: (f - 0.7) * norm.pdf(f, mean, std), 0.7, mean + 12 * std, epsabs=1e-16)[0]
    value = eb.EI()(np.array([mean]), np.array([std]), CONTEXT)[0][0]
    assert value == pytest.approx(np.log(expected), rel=1e-5)


def test_pi_is_the_probability_to_improve():
    value = eb.PI(margin=0.1)(np.array([0.5]), np.array([0.4]), CONTEXT)[0][0]
    assert np.exp(value) == pytest.approx(norm.sf(0.8, 0.5, 0.4))


def test_log_improvement_is_monotone_and_smooth_across_its_branches():
    z = np.linspace(-2000.0, 10.0, 400_001)
    steps = np.diff(log_improvement(z))
    assert (steps > 0).all()
    assert np.abs(np.diff(steps)).max() < 0.01


@pytest.mark.parametrize("beta", [-1.0, np.nan])
def test_wrong_beta(beta):
    with pytest.raises(eb.ConfigurationError):
        eb.UCB(beta=beta)
