"""The gain over the baseline: what holding the recommended setting brings, compared with what one would use otherwise.

Each measurement of the baseline is compared with the holds just before and after it, so that what the system did at
the time (its load, say) enters both. The interval comes from a bootstrap of blocks of neighbouring comparisons, because
neighbours are alike.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.records import Observation
from ebbtide.study.definition import Direction

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
        """Mean, low and high as shares of the baseline's value; None if that is 0."""
        size = abs(self.baseline)
        return None if size == 0.0 else (self.mean / size, self.low / size, self.high / size)


def gain(history: Iterable[Observation], direction: Direction) -> Gain | None:
    """The gain over the baseline; None while there is too little to compare."""
    measured = [(o.kind, o.time, o.value) for o in history if o.value is not None]
    holds = sorted((time, value) for kind, time, value in measured if kind == "hold")
    baselines = sorted((time, value) for kind, time, value in measured if kind == "baseline")
    pairs = [(held, value) for time, value in baselines if (held := _around(holds, time)) is not None]
    if len(pairs) < LEAST:
        return None
    held, base = np.array(pairs, dtype=float).T
    differences = held - base if direction == "maximize" else base - held
    low, high = _interval(differences)
    return Gain(float(differences.mean()), low, high, float(base.mean()), len(pairs))


def _around(holds: Sequence[tuple[float, float]], time: float) -> float | None:
    """The mean of the holds just before and after a time, which count equally; None if either is missing."""
    at = bisect(holds, (time, np.inf))
    sides = holds[max(0, at - AROUND) : at], holds[at : at + AROUND]
    return float(np.mean([np.mean([value for _, value in side]) for side in sides])) if all(sides) else None


def _interval(differences: Array) -> tuple[float, float]:
    """The 95 % interval of the mean, by resampling blocks on a circle (Politis and Romano, 1992)."""
    n = len(differences)
    size = ceil(n ** (1.0 / 3.0))
    starts = np.random.default_rng(0).integers(n, size=(RESAMPLES, ceil(n / size)))
    rows = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :n] % n
    low, high = np.quantile(differences[rows].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)
