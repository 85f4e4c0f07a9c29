"""Several models of the same observations: one goes when the objective and all others that need it can pay for it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from math import log1p

from ebbtide.gp.arrays import Rows
from ebbtide.gp.criterion import Criterion
from ebbtide.parts.staleness.interface import PolicyState, Verdict, View
from ebbtide.parts.staleness.wasserstein import WassersteinBudget


class Account:
    """What a value under a constraint can pay for the observations that the objective can do without.

    `rows` are the rows of its view, as everybody numbers them. Its budget grows with its own l_T, and does not pile up:
    at most one l_T's worth is kept. `saving` is what the policy saves by one observation less.
    """

    def __init__(self, policy: WassersteinBudget, view: View, rows: Rows, saving: Callable[[int], float]) -> None:
        self.policy, self.view, self.saving = policy, view, saving
        self.place = {row: place for place, row in enumerate(rows.tolist())}  # of the observations that it still has
        self.log_budget, _ = policy.grown(view.state, view.present)

    @cached_property
    def criterion(self) -> Criterion:
        return self.view.criterion(self.policy.method)

    def can_pay(self, row: int) -> bool:
        """Whether it can do without an observation; of those that it does not have, it can."""
        if row not in self.place:
            return True
        return len(self.place) > self.policy.min_active and self.log_budget > self._cost(row)

    def pay(self, row: int) -> None:
        """Let an observation go."""
        if row in self.place:
            self.log_budget = self.policy.paid(self.log_budget, self._cost(row))
            self.criterion.remove(self.place.pop(row))

    def _cost(self, row: int) -> float:
        return log1p(self.criterion.score(self.place[row])) - self.saving(len(self.place))

    @property
    def state(self) -> PolicyState:
        """What to remember until the next ask."""
        kept = min(self.log_budget, log1p(self.policy.alpha))
        return {"log_budget": kept, "time": self.view.present, "timescale": self.view.timescale or 1.0}


def agreed(policy: WassersteinBudget, verdict: Verdict, rows: Rows, accounts: Sequence[Account]) -> Verdict:
    """The objective's verdict on these rows, without those for which an account cannot pay.

    Beyond the policy's capacity, observations go all the same.
    """
    spared, left = [], len(rows)
    for number in verdict.rows:
        row = int(rows[number])
        if left <= policy.capacity and not all(account.can_pay(row) for account in accounts):
            spared.append(number)
            continue
        left -= 1
        for account in accounts:
            account.pay(row)
    return policy.sparing(verdict, spared, len(rows))
