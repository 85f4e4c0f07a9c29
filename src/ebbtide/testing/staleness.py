"""What a staleness policy must do."""

import copy
from collections.abc import Iterator

import numpy as np

from ebbtide.gp.kernels import Matern, SpaceTimeKernel
from ebbtide.gp.posterior import condition
from ebbtide.parts.staleness import Staleness, Verdict, View
from ebbtide.testing.expectations import Unchanged, expect, expect_plain

KERNEL, NOISE = SpaceTimeKernel(1.0, Matern(2.5, 0.4), Matern(1.5, 20.0)), 0.05


def _view(n: int, policy_state: dict[str, float], told: int | None = None) -> View:
    """The newest n of `told` observations of a drifting function, one per second."""
    told = n if told is None else told
    rng = np.random.default_rng(5)
    X, z = rng.random((told, 2)), np.sin(np.arange(told) / 9.0) + 0.2 * rng.normal(size=told)
    rows = np.arange(told)[told - n :]
    t = rows.astype(float)
    posterior = condition(KERNEL, NOISE, X[rows], t, z[rows])
    return View(posterior, z[rows], t, rows, told, float(told), dict(policy_state), np.random.default_rng(1))


def _life(policy: Staleness) -> Iterator[tuple[View, Verdict]]:
    """Reviews while observations come in; each gets the state that the last one returned."""
    n, state = 4, dict[str, float]()
    for told in range(4, 60):
        view = _view(n, state, told)
        verdict = policy.review(copy.deepcopy(view))
        yield view, verdict
        n, state = n - len(verdict.rows) + 1, verdict.state


def names_rows_that_exist_once(policy: Staleness) -> None:
    for view, verdict in _life(policy):
        rows = list(verdict.rows)
        expect(len(set(rows)) == len(rows), f"a row is removed twice: {rows}")
        inside = all(0 <= row < len(view) and float(row).is_integer() for row in rows)
        expect(inside, f"rows must be whole numbers from 0 to {len(view) - 1}, got {rows}")


def scores_all_removals_or_none(policy: Staleness) -> None:
    for _, verdict in _life(policy):
        scores = list(verdict.scores)
        expect(len(scores) in (0, len(verdict.rows)), f"{len(verdict.rows)} removals have {len(scores)} scores")
        expect(bool(np.isfinite(scores).all()), f"scores must be finite numbers, got {scores}")


def keeps_a_plain_state(policy: Staleness) -> None:
    for _, verdict in _life(policy):
        expect_plain(verdict.state, "the state of a policy")


def repeats_itself(policy: Staleness) -> None:
    """The same view and random numbers give the same verdict: a policy has no memory except its state."""
    for view, verdict in _life(policy):
        again = policy.review(copy.deepcopy(view))
        expect(list(again.rows) == list(verdict.rows), f"a view, judged twice, gave {verdict.rows} and {again.rows}")
        expect(again.state == verdict.state, "a view, judged twice, gave two different states")


def writes_to_nothing(policy: Staleness) -> None:
    view = _view(40, {})
    p = view.posterior
    inputs = Unchanged(X=p.X, P=p.P, alpha=p.alpha, t=view.t, z=view.z, index=view.index)
    policy.review(view)
    inputs.verify()


def stays_within_its_capacity(policy: Staleness) -> None:
    expect(hasattr(policy, "capacity"), "a policy needs a `capacity`: the most observations that may stay, or None")
    if policy.capacity is None:
        return
    n = min(policy.capacity + 30, 400)
    left = n - len(policy.review(_view(n, {})).rows)
    expect(left <= policy.capacity, f"{left} observations stay, but the capacity is {policy.capacity}")


def copes_with_a_single_observation(policy: Staleness) -> None:
    verdict = policy.review(_view(1, {}))
    expect(len(list(verdict.rows)) <= 1, "more than one row was removed from a single observation")


STALENESS_CHECKS = (
    names_rows_that_exist_once,
    scores_all_removals_or_none,
    keeps_a_plain_state,
    repeats_itself,
    writes_to_nothing,
    stays_within_its_capacity,
    copes_with_a_single_observation,
)
