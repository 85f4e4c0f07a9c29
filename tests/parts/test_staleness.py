import math

import numpy as np
import pytest
from helpers.drifting import future_products, observations, product_kernel, view_of

import ebbtide as eb
from ebbtide.parts.staleness import KeepAll, WassersteinBudget

pytestmark = pytest.mark.usefixtures("one_thread")

NOISE = 0.05


def literal_score(kernel, X, t, y, i, now):
    """R̂ᵢ by conditioning twice, without the rank-one identity: Δμ and Δσ² as kernel expansions, integrated with C."""
    n = len(t)
    C, _ = future_products(kernel, X, now - t)
    whole = np.linalg.inv(kernel(X, t) + NOISE * np.eye(n))
    rest = np.delete(np.arange(n), i)
    without = np.zeros((n, n))
    without[np.ix_(rest, rest)] = np.linalg.inv(kernel(X[rest], t[rest]) + NOISE * np.eye(n - 1))
    change = (whole - without) @ y
    lost = change @ C @ change + np.sum((whole - without) * C)
    return math.sqrt(lost / (whole @ y @ C @ whole @ y + np.sum(whole * C)))


def test_the_loop_is_algorithm_1(rng):
    """Lines 3-24 of the paper, transcribed with b itself, against the policy's log b and downdates."""
    alpha = 0.25
    X, t, y = observations(rng, 60, span=6.0)
    policy = WassersteinBudget(alpha=alpha, min_active=0)
    active = list(range(10))
    mine = list(active)
    state: dict[str, float] = {}
    b, previous = 1.0, None
    l_T: float | None = math.nan
    removed_in_all = 0
    for k in range(10, 60):
        now = float(t[k])
        kernel = product_kernel(0.4, 0.9 + 0.3 * math.sin(k))  # l_T is re-estimated at every step
        # The paper's loop
        active.append(k)
        if previous is not None:
            b = b * (1 + alpha) ** ((now - previous) / l_T)  # line 24, with the l_T known then
        while b > 1:
            D = np.array(active)
            R = [literal_score(kernel, X[D], t[D], y[D], i, now) for i in range(len(D))]
            least = int(np.argmin(R))
            if not b > 1 + R[least]:
                break
            active.remove(D[least])
            b = b / (1 + R[least])
            removed_in_all += 1
        previous, l_T = now, kernel.timescale
        # Ours
        mine.append(k)
        D = np.array(mine)
        verdict = policy.review(view_of(kernel, X[D], t[D], y[D], now, state, index=D))
        state = verdict.state
        mine = np.delete(D, verdict.rows).tolist()
        assert sorted(mine) == sorted(active)
        assert state["log_budget"] == pytest.approx(math.log(b), abs=1e-6)
    assert removed_in_all > 20


def review(policy, n, state, rng, now=1.0):
    X, t, y = observations(rng, n)
    return policy.review(view_of(product_kernel(), X, t, y, now, state))


RICH = {"log_budget": 1e6, "time": 1.0, "timescale": 1.0}


def test_at_least_min_active_stay(rng):
    verdict = review(WassersteinBudget(min_active=7), 30, RICH, rng)
    assert len(verdict.rows) == 23
    assert len(set(verdict.rows)) == 23
    assert "min_active" in verdict.guards


def test_at_most_max_active_stay_even_without_budget(rng):
    verdict = review(WassersteinBudget(max_active=12), 30, {}, rng)
    assert len(verdict.rows) == 18
    assert "max_active" in verdict.guards
    assert verdict.state["log_budget"] == 0.0


def test_the_lowest_scores_go_first(rng):
    X, t, y = observations(rng, 30)
    first = int(np.argmin(eb.relevance(X, t, y, kernel=product_kernel(), noise=NOISE, now=1.0)))
    verdict = WassersteinBudget(max_active=29).review(view_of(product_kernel(), X, t, y, 1.0, {}))
    assert verdict.rows == [first]


def test_a_year_of_silence_adds_one_timescale_of_budget(rng):
    state = {"log_budget": 0.0, "time": 0.0, "timescale": 0.5}
    verdict = review(WassersteinBudget(alpha=0.25, min_active=30), 30, state, rng, now=3.15e7)
    assert verdict.state["log_budget"] == pytest.approx(math.log(1.25))
    assert "budget_capped" in verdict.guards


def test_a_clock_that_went_back_adds_nothing(rng):
    state = {"log_budget": 0.1, "time": 100.0, "timescale": 0.5}
    verdict = review(WassersteinBudget(min_active=30), 30, state, rng, now=1.0)
    assert verdict.state["log_budget"] == 0.1


def test_without_alpha_nothing_goes(rng):
    state = {"log_budget": 0.0, "time": 0.0, "timescale": 0.5}
    assert review(WassersteinBudget(alpha=0.0), 30, state, rng).rows == []


def test_keep_all_keeps_all(rng):
    assert list(review(KeepAll(), 30, RICH, rng).rows) == []


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_scores_of_a_verdict_are_what_was_paid(method, rng):
    state = {"log_budget": 0.4, "time": 1.0, "timescale": 1.0}
    verdict = review(WassersteinBudget(method=method, min_active=0), 40, state, rng)
    assert len(verdict.rows) > 1
    assert verdict.state["log_budget"] == pytest.approx(0.4 - np.log1p(verdict.scores).sum())


@pytest.mark.parametrize(
    "make",
    [
        lambda: WassersteinBudget(alpha=-1.0),
        lambda: WassersteinBudget(alpha=math.nan),
        lambda: WassersteinBudget(method="guess"),  # type: ignore[arg-type]
        lambda: WassersteinBudget(min_active=5, max_active=4),
        lambda: eb.Algorithm(temporal=None),
    ],
)
def test_wrong_policies_are_refused(make):
    with pytest.raises(eb.ConfigurationError):
        make()
