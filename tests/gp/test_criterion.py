"""The criterion against its definition: delete an observation, condition again, integrate numerically."""

import itertools
import math

import numpy as np
import pytest
from helpers.drifting import future_products, observations, product_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import ebbtide as eb
from ebbtide.gp.convolutions import temporal_convolution
from ebbtide.gp.criterion import Bound, Exact, criterion, criterion_of
from ebbtide.gp.kernels import Stationary
from ebbtide.gp.posterior import condition

pytestmark = pytest.mark.usefixtures("one_thread")

NOISE = 0.05


def bound_of(kernel, X, t, y, now):
    """A Bound, and the constant that its squared distances leave out (with λ²)."""
    posterior = condition(kernel, NOISE, X, t, y)
    C, log_constant = future_products(kernel, X, now - t)
    return Bound(posterior.P, posterior.alpha, C), kernel.scale**2 * math.exp(log_constant)


def gauss(low, high, count):
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return low + 0.5 * (high - low) * (nodes + 1), 0.5 * (high - low) * weights


def grid(low, high, now, timescale, count=200):
    """Tensor Gauss–Legendre nodes of [low, high] × [now, now + 25 l_T], finer near now."""
    x, wx = gauss(low, high, count)
    pieces = [gauss(now + a * timescale, now + b * timescale, 24) for a, b in [(0, 1), (1, 3), (3, 8), (8, 25)]]
    s = np.concatenate([piece[0] for piece in pieces])
    ws = np.concatenate([piece[1] for piece in pieces])
    return np.repeat(x, len(s))[:, None], np.tile(s, count), np.repeat(wx, len(s)) * np.tile(ws, count)


@pytest.mark.parametrize(
    "kernel",
    [
        product_kernel(lengthscale=0.2, timescale=0.3),
        eb.SpaceTimeKernel(1.3, eb.SquaredExponential(0.2), eb.SquaredExponential(0.3)),
    ],
    ids=str,
)
def test_the_bound_is_the_integral_over_the_whole_space(kernel, rng):
    X, t, y = observations(rng, 8, d=1)
    now = 1.1
    Z, s, weights = grid(-3.0, 4.0, now, kernel.timescale)
    mean, std = condition(kernel, NOISE, X, t, y).predict(Z, s)
    bound, constant = bound_of(kernel, X, t, y, now)
    losses, total = bound.squared_distances()
    for i in range(8):
        keep = np.delete(np.arange(8), i)
        mean_without, std_without = condition(kernel, NOISE, X[keep], t[keep], y[keep]).predict(Z, s)
        expected = weights @ ((mean - mean_without) ** 2 + std_without**2 - std**2)
        assert constant * losses[i] == pytest.approx(expected, rel=1e-4)
    assert constant * total == pytest.approx(weights @ (mean**2 + kernel.scale - std**2), rel=1e-4)


@pytest.mark.parametrize(
    "kernel",
    [
        product_kernel(lengthscale=0.2, timescale=0.3),
        product_kernel(lengthscale=0.6, timescale=0.8, nu_time=0.5),
        eb.SpaceTimeKernel(1.3, eb.SquaredExponential(0.2), eb.SquaredExponential(0.3)),
    ],
    ids=str,
)
def test_the_exact_criterion_is_the_wasserstein_distance_on_the_box(kernel, rng):
    X, t, y = observations(rng, 8, d=1)
    now = 1.1
    Z, s, weights = grid(0.0, 1.0, now, kernel.timescale)
    mean, std = condition(kernel, NOISE, X, t, y).predict(Z, s)
    total = weights @ (mean**2 + (math.sqrt(kernel.scale) - std) ** 2)
    expected = []
    for i in range(8):
        keep = np.delete(np.arange(8), i)
        mean_without, std_without = condition(kernel, NOISE, X[keep], t[keep], y[keep]).predict(Z, s)
        expected.append(math.sqrt(weights @ ((mean - mean_without) ** 2 + (std_without - std) ** 2) / total))
    scores = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=now, method="exact", nodes=4096)
    assert np.allclose(scores, expected, rtol=5e-3)
    fewer = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=now, method="exact")
    assert np.allclose(fewer, expected, rtol=0.03)


def test_the_papers_printed_blocks(rng):
    """Theorem 4.1 letter by letter: E, F, G, H, a, b, c, M of Appendix A."""
    kernel, (X, t, y), now = product_kernel(), observations(rng, 15), 1.05
    C, _ = future_products(kernel, X, now - t)
    losses, total = criterion_of(condition(kernel, NOISE, X, t, y), now).squared_distances()
    for first in range(15):
        order = np.r_[first, np.delete(np.arange(15), first)]
        Xo, to, yo, Co = X[order], t[order], y[order], C[np.ix_(order, order)]
        K = kernel(Xo, to)
        k1, delta_rest = K[1:, 0], K[1:, 1:] + NOISE * np.eye(14)
        inverse_rest = np.linalg.inv(delta_rest)
        lam = kernel.scale
        E = 1.0 / (lam + NOISE - k1 @ inverse_rest @ k1)
        F = np.linalg.inv(delta_rest - np.outer(k1, k1) / (lam + NOISE))
        G = -E * k1 @ inverse_rest
        H = -F @ k1 / (lam + NOISE)
        a = E * yo[0] + G @ yo[1:]
        b = H * yo[0] + yo[1:] @ (F - inverse_rest)
        c, M = G + H, F - inverse_rest
        printed = (a**2 + E) * Co[0, 0] + (2 * a * b + c) @ Co[0, 1:] + np.trace((np.outer(b, b) + M) @ Co[1:, 1:])
        assert losses[first] == pytest.approx(printed, rel=1e-8)
    delta_inverse = np.linalg.inv(kernel(X, t) + NOISE * np.eye(15))
    printed = y @ delta_inverse.T @ C @ delta_inverse @ y + np.trace(delta_inverse @ C)
    assert total == pytest.approx(printed, rel=1e-10)


@given(
    n=st.integers(2, 12),
    lengthscale=st.floats(0.1, 2.0),
    timescale=st.floats(0.1, 3.0),
    delay=st.floats(0.0, 1.0),
    seed=st.integers(0, 10**6),
)
def test_the_bound_bounds_numerator_and_denominator(n, lengthscale, timescale, delay, seed):
    """It bounds each of them, but not their ratio."""
    X, t, y = observations(np.random.default_rng(seed), n)
    kernel, now = product_kernel(lengthscale, timescale), 1.0 + delay
    bound, constant = bound_of(kernel, X, t, y, now)
    posterior = condition(kernel, NOISE, X, t, y)
    exact = criterion(kernel, posterior.P, posterior.alpha, X, t, now, "exact", nodes=1024)
    assert isinstance(exact, Exact)
    upper, upper_total = bound.squared_distances()
    truth, truth_total = exact.squared_distances()
    assert (constant * upper >= 0.98 * exact.fade**2 * truth).all()  # 2 %: the quadrature's own error
    assert constant * upper_total >= 0.98 * exact.fade**2 * truth_total


def test_a_ratio_of_bounds_is_not_a_bound(rng):
    X, t, y = observations(rng, 30, d=1)
    kernel = product_kernel(0.2, 0.3)
    bound = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=1.0)
    truth = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=1.0, method="exact", nodes=1024)
    assert (bound < truth).any()
    assert (bound > truth).any()


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_hundreds_of_removals_drift_nowhere(method, rng):
    """Downdated scores against a fresh inverse, after every fifty of 200 removals."""
    X, t, y = observations(rng, 220)
    kernel, now = product_kernel(), 1.0
    live = criterion_of(condition(kernel, NOISE, X, t, y), now, method)
    gone: list[int] = []
    for k in range(200):
        row, score = live.least()
        if k % 50 == 49:
            keep = np.delete(np.arange(220), gone)
            fresh = criterion_of(condition(kernel, NOISE, X[keep], t[keep], y[keep]), now, method)
            assert np.allclose(live.P[np.ix_(keep, keep)], fresh.P, rtol=1e-6, atol=1e-8)
            assert np.allclose(live.alpha[keep], fresh.alpha, rtol=1e-6, atol=1e-8)
            assert np.allclose(live.scores()[keep], fresh.scores(), rtol=1e-5, atol=1e-9)
            assert np.isinf(live.scores()[gone]).all()
            assert score == pytest.approx(fresh.scores().min(), rel=1e-5)
        live.remove(row)
        gone.append(row)
    assert len(set(gone)) == 200


@settings(max_examples=25)
@given(n=st.integers(3, 40), seed=st.integers(0, 10**6), timescale=st.floats(0.05, 5.0))
def test_branch_and_bound_finds_the_least_exact_score(n, seed, timescale):
    X, t, y = observations(np.random.default_rng(seed), n)
    live = criterion_of(condition(product_kernel(0.3, timescale), NOISE, X, t, y), 1.2, "exact")
    for _ in range(n - 1):
        row, score = live.least()
        scores = live.scores()
        assert score == pytest.approx(scores.min(), rel=1e-9)
        assert scores[row] == pytest.approx(scores.min(), rel=1e-9)
        live.remove(row)


def set_loss(live, rows):
    """Ŵ² of losing a whole set at once: α_Sᵀ P_SS⁻¹ Q_SS P_SS⁻¹ α_S + tr(P_SS⁻¹ Q_SS), Q = P C P."""
    S = list(rows)
    Q = (live.P @ live.C @ live.P)[np.ix_(S, S)]
    inverse = np.linalg.inv(live.P[np.ix_(S, S)])
    effect = inverse @ live.alpha[S]
    return effect @ Q @ effect + np.trace(inverse @ Q)


def test_greedy_removal_is_close_to_the_best_subset():
    """Brute force over all subsets of 4 of 9: the greedy one loses at most 1.6 times the best's distance, and
    in the median the same.
    """
    excess = []
    for seed in range(40):
        X, t, y = observations(np.random.default_rng(seed), 9, d=1)
        kernel = product_kernel(0.3, 0.4)
        whole, live = (criterion_of(condition(kernel, NOISE, X, t, y), 1.0) for _ in range(2))
        chosen = []
        for _ in range(4):
            row, _ = live.least()
            live.remove(row)
            chosen.append(row)
        best = min(set_loss(whole, subset) for subset in itertools.combinations(range(9), 4))
        excess.append(math.sqrt(set_loss(whole, chosen) / best))
    assert min(excess) >= 1.0 - 1e-9
    assert np.median(excess) < 1.05
    assert max(excess) < 1.6


def test_one_observation_removed_is_the_set_formula(rng):
    X, t, y = observations(rng, 9)
    live = criterion_of(condition(product_kernel(), NOISE, X, t, y), 1.0)
    losses, _ = live.squared_distances()
    assert np.allclose(losses, [set_loss(live, [i]) for i in range(9)])


class Rational(Stationary):
    """A user's decaying kernel, e^{−ρ²/2}/(1 + ρ²), for which no closed form is registered."""

    def value(self, rho):
        return 1.0 / (1.0 + rho * rho)

    def slope(self, rho):
        return np.full_like(rho, np.nan)  # not needed by the criterion

    def exponent(self, rho):
        return -0.5 * rho * rho


def test_a_kernel_with_no_closed_form_has_its_bound_by_quadrature(rng):
    """On the box, against one-dimensional quadrature."""
    X, t, y = observations(rng, 5, d=1)
    temporal = eb.Matern(1.5, 0.5)
    kernel = eb.SpaceTimeKernel(1.2, Rational(0.4), temporal)
    scores = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=1.0, nodes=2048)

    def product(x, i, j):
        values = kernel.spatial([[x]], X)[0]
        return values[i] * values[j]

    C_S = np.array([[quad(product, 0, 1, args=(i, j))[0] for j in range(5)] for i in range(5)])
    C_T = temporal_convolution(temporal, 1.0 - t)
    assert C_T is not None
    posterior = condition(kernel, NOISE, X, t, y)
    assert np.allclose(scores, Bound(posterior.P, posterior.alpha, C_S * C_T.matrix).scores(), rtol=1e-3)


class Additive:
    """Not a product, not decaying: k = k_S + k_T + a constant."""

    def __call__(self, X, t, X2, t2):
        return eb.Matern(2.5, 0.3)(X, X2) + eb.Matern(1.5, 0.4)(t[:, None], t2[:, None]) + 0.5


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_any_kernel_at_all_with_a_horizon(method, rng):
    X, t, y = observations(rng, 10)
    scores = eb.relevance(X, t, y, kernel=Additive(), noise=NOISE, now=1.0, method=method, horizon=2.0)
    assert np.isfinite(scores).all()
    assert (scores > 0).all()
    with pytest.raises(eb.ConfigurationError, match="horizon"):
        eb.relevance(X, t, y, kernel=Additive(), noise=NOISE, now=1.0, method=method)


def test_a_horizon_far_beyond_the_timescale_is_the_whole_future(rng):
    X, t, y = observations(rng, 10)
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, 0.05), eb.Matern(1.5, 0.2))
    whole = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=1.0, method="exact")
    part = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=1.0, method="exact", horizon=2.0)
    assert np.allclose(whole, part, rtol=0.05)


@pytest.mark.parametrize("method", ["bound", "exact"])
@pytest.mark.parametrize("temporal", [eb.Matern(0.5, 60.0), eb.Matern(1.5, 60.0), eb.SquaredExponential(60.0)], ids=str)
def test_scores_stay_meaningful_when_everything_is_stale(method, temporal, rng):
    """A year later the ratios are those of the least stale future: finite, ordered, not all zero."""
    X, t, y = observations(rng, 12, span=600.0)
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, 0.4), temporal)
    scores = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=3.15e7, method=method)
    assert np.isfinite(scores).all()
    assert scores.max() > 0


def test_relevance_does_not_change_with_a_shift_of_time(rng):
    X, t, y = observations(rng, 12, span=600.0)
    kernel = product_kernel(timescale=100.0)
    here = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=610.0)
    epoch = eb.relevance(X, t + 1.7e9, y, kernel=kernel, noise=NOISE, now=610.0 + 1.7e9)
    assert np.allclose(here, epoch, rtol=1e-6)


def test_the_present_is_never_before_the_newest_observation(rng):
    X, t, y = observations(rng, 12)
    kernel = product_kernel()
    early = eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=-5.0)
    assert np.allclose(early, eb.relevance(X, t, y, kernel=kernel, noise=NOISE, now=t.max()))


def test_relevance_leaves_its_inputs_alone(rng):
    data = observations(rng, 12)
    copies = [column.copy() for column in data]
    for method in ("bound", "exact"):
        eb.relevance(*data, kernel=product_kernel(), noise=NOISE, now=1.0, method=method)
    assert all(np.array_equal(a, b) for a, b in zip(data, copies, strict=True))


def test_no_observations_no_scores():
    assert eb.relevance(np.empty((0, 2)), [], [], kernel=product_kernel(), noise=NOISE, now=0.0).shape == (0,)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"X": [[np.nan]]}, "X contains NaN"),
        ({"t": [np.inf]}, "t contains NaN or infinity"),
        ({"y": [1.0, 2.0]}, "one row per observation"),
        ({"noise": 0.0}, "positive"),
        ({"now": np.nan}, "finite"),
        ({"method": "guess"}, "bound"),
    ],
)
def test_bad_arguments(change, says):
    arguments = {"X": [[0.5]], "t": [0.0], "y": [1.0], "noise": 0.1, "now": 1.0, "method": "bound"} | change
    X, t, y = (arguments.pop(name) for name in ("X", "t", "y"))
    with pytest.raises(eb.EbbtideError, match=says):
        eb.relevance(X, t, y, kernel=product_kernel(), **arguments)


def test_exact_is_a_criterion_of_its_own_class(rng):
    posterior = condition(product_kernel(), NOISE, *observations(rng, 6))
    assert isinstance(criterion_of(posterior, 1.0, "exact"), Exact)
    assert isinstance(criterion_of(posterior, 1.0), Bound)
