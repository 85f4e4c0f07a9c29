"""How much to remember where memory costs time: what slows the asks down by more than it is worth goes.

| symbol | meaning                                                                                     |
|--------|---------------------------------------------------------------------------------------------|
| n      | active observations                                                                         |
| Δt(n)  | from one ask to the next, a + b n²: an ask takes O(n²), and measuring takes its time, too   |
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import sqrt

from ebbtide.parts.staleness.interface import PolicyState, Verdict, View
from ebbtide.parts.staleness.wasserstein import WassersteinBudget

KEPT = 0.99  # of the weight of earlier intervals, with each new one: about a hundred count
ENOUGH = 10.0  # intervals, from which one can tell a slope
LONGEST = 3.0  # times the mean: a longer interval is a pause, which says nothing about the size
VARIED = 1e-6  # times the square of the mean n²: unless n² has varied so much, a slope would be mere rounding
WORTH = 2.0  # how much relevance a share of the time is worth; chosen on the problems of perf/tracker_problems.py
SURE = 2.0  # standard errors that are taken off the slope: nothing is forgotten for a gain that may be chance


@dataclass(frozen=True)
class ResponseBudget(WassersteinBudget):
    """W-DBO's budget, with a discount: what an observation costs in time pays for its removal.

    With one observation less, the next query comes sooner by the share

        g(n) = d ln Δt / dn = 2 b n / Δt(n),        Δt(n) = a + b n²,

    where a and b follow from the clock's readings of the last hundred asks. A removal costs log(1+R) − 2 g(n): what is
    worth less than the time that it takes goes at once, and the rest as in W-DBO. As long as asks take no time worth
    mentioning, or the clock stands still meanwhile, g is 0, and this is a `WassersteinBudget`.
    """

    def review(self, view: View) -> Verdict:
        learned = asdict(Intervals())
        if view.state:
            known = int((view.index < view.state["told"]).sum())  # what the ask before had kept
            learned = asdict(Intervals.of(view.state).after(known, view.present - view.state["time"]))
            view = replace(view, state=view.state | learned)
        verdict = super().review(view)
        return replace(verdict, state=verdict.state | learned | {"told": float(view.told)})

    def saving(self, state: PolicyState) -> Callable[[int], float]:
        intervals = Intervals.of(state)
        return lambda n: WORTH * intervals.share(n)


@dataclass(frozen=True)
class Intervals:
    """The intervals between asks over the squares of their sizes: weighted means, and sums of products around them."""

    weight: float = 0.0
    mean_square: float = 0.0  # of n²
    mean_interval: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    intervals: float = 0.0

    @classmethod
    def of(cls, state: PolicyState) -> "Intervals":
        return cls(**{field.name: state[field.name] for field in fields(cls) if field.name in state})

    def after(self, n: int, interval: float) -> "Intervals":
        """With one more, by Welford's recurrence."""
        if self.weight >= ENOUGH:
            interval = min(interval, LONGEST * self.mean_interval)
        interval, weight = max(0.0, interval), KEPT * self.weight + 1.0
        by_square, by_interval = n * n - self.mean_square, interval - self.mean_interval
        rest = 1.0 - 1.0 / weight
        return Intervals(
            weight,
            self.mean_square + by_square / weight,
            self.mean_interval + by_interval / weight,
            KEPT * self.squares + rest * by_square * by_square,
            KEPT * self.products + rest * by_square * by_interval,
            KEPT * self.intervals + rest * by_interval * by_interval,
        )

    @cached_property
    def slope(self) -> float:
        """b, as far as it is sure."""
        if self.weight < ENOUGH or self.squares <= VARIED * self.mean_square**2:
            return 0.0
        slope = self.products / self.squares
        unexplained = max(0.0, self.intervals - slope * self.products)
        error = sqrt(unexplained / (self.weight - 2.0) / self.squares)
        return max(0.0, slope - SURE * error)

    def share(self, n: int) -> float:
        """g(n)."""
        slope = self.slope
        if slope == 0.0:
            return 0.0
        interval = self.mean_interval + slope * (n * n - self.mean_square)
        return 2.0 * slope * n / max(interval, slope * n * n)
