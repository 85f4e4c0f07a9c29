"""W-DBO's policy, and two controls that forget as many observations, but others."""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from math import log1p

import numpy as np

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.carried import Leaving
from ebbtide.gp.criterion import Criterion, CriterionMethod
from ebbtide.guards import Guard
from ebbtide.parts.staleness.interface import PolicyState, Staleness, Verdict, View

MOMENTS = 32  # of one l_T, at which a forecast looks


@dataclass(frozen=True)
class WassersteinBudget(Staleness):
    """W-DBO: remove the least relevant observations while a budget that grows with time pays for them.

    Algorithm 1, lines 9-20 and 24. The budget b is stored as log b, which grows by (Δt/l_T)·log(1+α) and pays
    log(1+R) per removal. Guards: an ask adds at most one l_T's worth of budget (a clock that jumped must not empty
    the active set); `min_active` observations stay; beyond `max_active` the lowest scores go whatever the budget.
    """

    alpha: float = 0.25
    method: CriterionMethod = "bound"
    min_active: int = 10
    max_active: int = 1000

    def __post_init__(self) -> None:
        alpha = as_finite(self.alpha)
        if alpha is None or alpha < 0.0:
            raise ConfigurationError(f"alpha={self.alpha!r}: give the drift allowed per l_T, a finite number ≥ 0")
        object.__setattr__(self, "alpha", alpha)
        if self.method not in ("bound", "exact"):
            raise ConfigurationError(f'method={self.method!r}: choose "bound" or "exact"')
        if not (is_whole(self.min_active) and is_whole(self.max_active) and 0 <= self.min_active <= self.max_active):
            raise ConfigurationError(
                f"min_active={self.min_active!r}, max_active={self.max_active!r}: "
                "give whole numbers, 0 ≤ min_active ≤ max_active"
            )
        object.__setattr__(self, "min_active", int(self.min_active))
        object.__setattr__(self, "max_active", int(self.max_active))

    @property
    def capacity(self) -> int:
        """The most observations that may stay."""
        return self.max_active

    def review(self, view: View) -> Verdict:
        timescale, now = view.timescale, view.present
        if timescale is None:
            raise ConfigurationError(
                "WassersteinBudget needs a temporal kernel, because without one no observation becomes stale; "
                "give the algorithm one, such as eb.Matern(1.5), or another staleness policy"
            )
        return self.spend(len(view), partial(view.criterion, self.method), view.state, now, timescale)

    def spend(
        self, n: int, scored: Callable[[], Criterion], state: PolicyState, now: float, timescale: float
    ) -> Verdict:
        """The rows to remove from n observations, which are scored only if any may go."""
        (log_budget, capped), saving = self.grown(state, now), self.saving(state)
        left, rows, scores = n, [], []
        if left > self.min_active and (log_budget > 0.0 or left > self.max_active or saving(left) > 0.0):
            criterion = scored()
            while left > self.min_active:
                row, score = criterion.least()  # line 14
                cost = log1p(score) - saving(left)
                if log_budget <= cost and left <= self.max_active:  # lines 9 and 15
                    break
                criterion.remove(row)
                log_budget = self.paid(log_budget, cost)
                rows.append(row)
                scores.append(score)
                left -= 1
        met: list[tuple[bool, Guard]] = [
            (capped, "budget_capped"),
            (n > self.max_active, "max_active"),
            (left <= self.min_active and log_budget > 0.0, "min_active"),
        ]
        guards = tuple(guard for happened, guard in met if happened)
        return Verdict(rows, scores, {"log_budget": log_budget, "time": now, "timescale": timescale}, guards)

    def forecast(self, criterion: Leaving, state: PolicyState, now: float, timescale: float) -> dict[int, float]:
        """When each row is expected to go within one l_T, if nothing is measured meanwhile; the others are missing."""
        (log_budget, _), saving, left = self.grown(state, now), self.saving(state), len(criterion.alpha)
        when = {}
        for moment in now + timescale * np.arange(MOMENTS) / MOMENTS:
            criterion.at(moment)
            while left > self.min_active:
                row, score = criterion.least()
                cost = log1p(score) - saving(left)
                if log_budget <= cost and left <= self.max_active:
                    break
                criterion.remove(row)
                log_budget = self.paid(log_budget, cost)
                when[row] = float(moment)
                left -= 1
            log_budget += log1p(self.alpha) / MOMENTS
        return when

    def sparing(self, verdict: Verdict, spared: Container[int], n: int) -> Verdict:
        """The verdict on n rows without some of them, which others still need; what they would have cost is paid back.

        The budget does not pile up: whatever is paid back, it is at most one l_T's worth. Rows without scores (those of
        the controls below) are not paid for.
        """
        chosen, saving = list(zip_longest(verdict.rows, verdict.scores)), self.saving(verdict.state)
        back = sum(
            max(0.0, log1p(score) - saving(n - gone))
            for gone, (row, score) in enumerate(chosen)
            if row in spared and score is not None
        )
        left = verdict.state["log_budget"]
        budget = max(left, min(left + back, log1p(self.alpha)))
        others = [(row, score) for row, score in chosen if row not in spared]
        state = {**verdict.state, "log_budget": budget}
        scores = [score for _, score in others if score is not None]
        return replace(verdict, rows=[row for row, _ in others], scores=scores, state=state)

    def saving(self, state: PolicyState) -> Callable[[int], float]:
        """What it saves to have one observation less than n, in the unit of the budget. The paper counts nothing."""
        return lambda n: 0.0

    def paid(self, log_budget: float, cost: float) -> float:
        """The budget after a removal (line 17); what saves more than it costs earns nothing."""
        return max(0.0, log_budget - max(0.0, cost))

    def grown(self, state: PolicyState, now: float) -> tuple[float, bool]:
        """log b after line 24, with the l_T fitted in the previous ask; and whether its growth was capped."""
        if not state:
            return 0.0, False  # line 3: b = 1
        elapsed = max(0.0, now - state["time"]) / state["timescale"]
        return state["log_budget"] + min(elapsed, 1.0) * log1p(self.alpha), elapsed > 1.0


class OldestFirst(WassersteinBudget):
    """A control: remove as many observations as W-DBO would from the same data, but the oldest."""

    def review(self, view: View) -> Verdict:
        verdict = super().review(view)
        oldest = np.argsort(view.t, kind="stable")[: len(verdict.rows)]
        return replace(verdict, rows=oldest.tolist(), scores=())


class RandomRemoval(WassersteinBudget):
    """A control: remove as many observations as W-DBO would from the same data, but at random."""

    def review(self, view: View) -> Verdict:
        verdict = super().review(view)
        drawn = view.rng.choice(len(view), size=len(verdict.rows), replace=False)
        return replace(verdict, rows=drawn.tolist(), scores=())
