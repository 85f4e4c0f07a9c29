"""How much of a study's log is shown: the newest observations, thinned to what a figure can hold.

They are thinned evenly, by a stride that is a power of two, so that a point stays while the study grows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ebbtide.errors import ConfigurationError
from ebbtide.records import Observation
from ebbtide.study.log import Ask
from ebbtide.study.storage import StoredLog, Summary

LENGTHS = (250, 1000, 5000)  # numbers of observations to choose from, besides all
POINTS = 500  # observations in a figure, and as many again that are active
STEPS = 400  # asks in a figure
NEWEST = 7  # observations that are always shown, as is the last ask


@dataclass(frozen=True)
class Excerpt:
    """The part of a log that is shown, as of one moment."""

    lines: range  # the regular ones: one in every `step`
    observations: dict[int, Observation]  # by line: the regular, the active and the newest ones
    asks: list[Ask]
    active: list[int]  # how many observations were active after each of the asks,
    removed: list[int]  # and how many were removed since the ask before it

    @classmethod
    def of(cls, log: StoredLog, summary: Summary, last: int | None, active: Iterable[int]) -> "Excerpt":
        """The `last` observations (None: all), with those of the lines `active` that are among them."""
        first, first_ask = _beginning(log, summary, last)
        lines = thinned(first, summary.told, POINTS)
        within = [line for line in active if line >= first]
        kept = within[:: thinned(0, len(within), POINTS).step]
        numbers = thinned(first_ask, summary.asked, STEPS)
        asks = log.asks_numbered([*numbers, summary.asked - 1])
        active_after, removed = _counts(log, asks, first_ask)
        newest = range(max(first, summary.told - NEWEST), summary.told)
        observations = log.numbered(sorted({*lines, *kept, *newest}))
        return cls(lines, observations, asks, active_after, removed)


def _counts(log: StoredLog, asks: Sequence[Ask], first: int) -> tuple[list[int], list[int]]:
    """How many were active after each ask, and how many were removed since the one before, or since ask `first`."""
    numbers = [int(ask.trial.id) for ask in asks]
    counts = log.counts_at([first, *numbers])
    valued, gone = (np.array([counts[number][part] for number in numbers], dtype=int) for part in (0, 1))
    removed = gone + [len(ask.removed) for ask in asks]
    # All observations shown may have been told since the last ask: then there is no ask `first` yet.
    before = counts[first][1] if first in counts else removed[-1:]
    return (valued - removed).tolist(), np.diff(removed, prepend=before).tolist()


def _beginning(log: StoredLog, summary: Summary, last: int | None) -> tuple[int, int]:
    """The first line and the first ask of the excerpt."""
    if last is not None and last < 1:
        raise ConfigurationError(f"last={last}: give a number of observations ≥ 1, or leave it out for all")
    first = 0 if last is None else max(0, summary.told - last)
    earliest = log.tells_since(first, 1) if first else ()
    return first, earliest[0][2] if earliest else 0


def thinned(first: int, end: int, most: int) -> range:
    """The multiples of a power of two from `first` to `end`; the smallest power that leaves no more than `most`."""
    stride = 1
    while (end - first) / stride > most:
        stride *= 2
    return range(-(-first // stride) * stride, end, stride)
