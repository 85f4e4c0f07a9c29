"""The gain over the baseline: what holding the recommended setting brings, compared with what one would use otherwise.

Each measurement of the baseline is compared with the holds just before and after it, so that what the system did at
the time (its load, say) enters both. The interval comes from a bootstrap of blocks of neighbouring comparisons, because
neighbours are alike.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.records import Observation
from ebbtide.study.definition import Direction

COMPARED = 200  # measurements of the baseline, the newest ones
AROUND = 2  # holds before a measurement of the baseline, and after it
LEAST = 3  # comparisons without which nothing is said
RESAMPLES = 1000


@dataclass(frozen=True)
class Gain:
    """How much better the holds are than the baseline, in the objective's unit; positive is better.

    `low` and `high` are the ends of a 95 % interval.
    """

    mean: float
    low: float
    high: float
    baseline: float  # its mean value, at the same times
    comparisons: int

    @property
    def relative(self) -> tuple[float, float, float] | None:
        """Mean, low and high as shares of the baseline's value; None if that is 0, or next to nothing."""
        size = abs(self.baseline)
        if size == 0.0:
            return None
        shares = self.mean / size, self.low / size, self.high / size
        return shares if all(map(isfinite, shares)) else None


def gain(history: Iterable[Observation], direction: Direction) -> Gain | None:
    """The gain over the baseline; None while there is too little to compare, or if the values are too large to."""
    measured = [(o.kind, o.time, o.value) for o in history if o.value is not None]
    holds = sorted((time, value) for kind, time, value in measured if kind == "hold")
    baselines = sorted((time, value) for kind, time, value in measured if kind == "baseline")
    pairs = [(held, value) for time, value in baselines if (held := _around(holds, time)) is not None]
    if len(pairs) < LEAST:
        return None
    held, base = np.array(pairs, dtype=float).T
    sign = 1.0 if direction == "maximize" else -1.0
    with np.errstate(over="ignore", invalid="ignore"):
        differences = sign * (held - base)
        found = Gain(float(differences.mean()), *_interval(differences), float(base.mean()), len(pairs))
    return found if all(map(isfinite, (found.mean, found.low, found.high, found.baseline))) else None


def _around(holds: Sequence[tuple[float, float]], time: float) -> float | None:
    """The mean of the holds just before and after a time, which count equally; None if either is missing."""
    at = bisect(holds, (time, np.inf))
    sides = holds[max(0, at - AROUND) : at], holds[at : at + AROUND]
    if not all(sides):
        return None
    before, after = (sum(value / len(side) for _, value in side) for side in sides)
    return before / 2.0 + after / 2.0


def _interval(differences: Array) -> tuple[float, float]:
    """The 95 % interval of the mean, by resampling blocks on a circle (Politis and Romano, 1992)."""
    n = len(differences)
    size = ceil(n ** (1.0 / 3.0))
    starts = np.random.default_rng(0).integers(n, size=(RESAMPLES, ceil(n / size)))
    rows = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :n] % n
    low, high = np.quantile(differences[rows].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
