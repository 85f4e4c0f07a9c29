"""What to expect at a point: against finite differences, and by what follows from the definition."""

import numpy as np
import pytest
from helpers.drifting import observations, product_kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.gp.posterior import condition
from ebbtide.parts.outlook import DOUBT, RATE, Moving, Outlook, Risk

pytestmark = pytest.mark.usefixtures("one_thread")


def outlook(seed: int, *, interval: bool = False) -> Outlook:
    rng = np.random.default_rng(seed)
    X, t, y = observations(rng, 20)
    posterior = condition(product_kernel(), 0.05, X, t, y)
    risk = Risk((rng.random((4, X.shape[1])), rng.random(4)), (X, 1.0 - t), fading=0.5)
    moving = Moving(rng.random((1, X.shape[1]))[0], 0.3)
    return Outlook(posterior.during(1.0, 1.3) if interval else posterior.at(1.1), risk, -2.0, moving)


@pytest.mark.parametrize("interval", [False, True])
@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_gradients_are_those_of_the_values(interval, seed):
    seen = outlook(seed, interval=interval)
    Z = np.random.default_rng(seed + 1).uniform(0.05, 0.95, (3, seen.posterior.X.shape[1] + interval))
    mean, std, gradient = seen.predict_with_gradient(Z)
    mean_slope, std_slope = gradient(np.ones(3), np.zeros(3)), gradient(np.zeros(3), np.ones(3))
    np.testing.assert_allclose(seen.predict(Z), (mean, std))
    for column in range(Z.shape[1]):
        step = np.zeros_like(Z)
        step[:, column] = 1e-6
        above, below = seen.predict(Z + step), seen.predict(Z - step)
        np.testing.assert_allclose(mean_slope[:, column], (above[0] - below[0]) / 2e-6, atol=1e-4)
        np.testing.assert_allclose(std_slope[:, column], (above[1] - below[1]) / 2e-6, atol=1e-4)


def test_without_failures_and_costs_it_is_the_posterior():
    plain = outlook(0).predictor
    X = np.random.default_rng(0).random((5, plain.posterior.X.shape[1]))
    np.testing.assert_array_equal(Outlook(plain, None, 0.0, None).predict(X), plain.predict(X))


def test_the_risk_is_a_rate_that_fades():
    nothing = (np.empty((0, 2)), np.empty(0))
    place = np.array([[0.3, 0.3]])
    for age in (0.0, 1.0, 3.0):
        weight = np.exp(-age / 2.0)
        risk = Risk((place, np.array([age])), nothing, fading=2.0)
        assert risk(place)[0] == pytest.approx((weight + DOUBT * RATE) / (weight + DOUBT))
    assert Risk(nothing, nothing, fading=1.0)(place)[0] == pytest.approx(RATE)
    confirmed = Risk((place, np.zeros(1)), (np.repeat(place, 9, axis=0), np.zeros(9)), fading=1.0)
    assert confirmed(place)[0] < 0.15


def test_many_successes_do_not_excuse_the_neighbourhood_of_a_failure():
    """An edge at 0.9: nine successes just below it, one failure just above."""
    below, above = np.full((9, 1), 0.86), np.array([[0.94]])
    risk = Risk((above, np.zeros(1)), (below, np.zeros(9)), fading=1.0)
    assert risk(np.array([[0.93]]))[0] < 0.2
    assert risk.likely(np.array([[0.5], [0.86], [0.93], [1.0]])).tolist() == [False, False, True, True]
