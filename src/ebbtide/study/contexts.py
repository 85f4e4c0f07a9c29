"""Contexts over time: what is missing is filled from the latest measurements, and a sample of all is kept.

Both depend only on what was measured and when, and not on the order in which it becomes known, or how often: an
optimizer that starts from a recorded state, and sees some tells again, knows what the uninterrupted one knows.
"""

import warnings
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from ebbtide.errors import ContextWarning, ObservationError
from ebbtide.gp.arrays import Array
from ebbtide.space import Params
from ebbtide.study.conditions import Conditions

SAMPLE = 64  # contexts over which the criterion integrates
DIGITS = 6  # of their coordinates: more would only make the log longer

# When a variable was measured last (time; 1 if told, 0 if asked with; number of the tell or ask), and its value
Latest = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Completed:
    """A complete context, and the ages of those of its variables that were not measured now."""

    context: Params | None = None
    ages: Mapping[str, float] = field(default_factory=dict)

    def warn(self, stacklevel: int) -> None:
        """Say which variables were filled; the caller of `stacklevel` functions further up reads it.

        Python remembers each text that it has shown: in weeks, there must not be too many.
        """
        for name, age in self.ages.items():
            warnings.warn(
                f"{name!r} of the context was not measured: its latest value is used, which is about {age:.1g} old; "
                "measure it each time",
                ContextWarning,
                stacklevel=stacklevel + 1,
            )


def complete(conditions: Conditions, latest: Latest, measured: Params, moment: float, span: float) -> Completed:
    """Fill what was not measured with its latest value, if that is at most `span` away from the moment."""
    context, ages = {}, {}
    for name in conditions.variables:
        if name in measured:
            context[name] = measured[name]
            continue
        if name not in latest:
            raise ObservationError(
                f"{name!r} of the context was not measured, and no earlier value is known: measure it, and give "
                f'context={{"{name}": ...}}'
            )
        time, *_, context[name] = latest[name]
        ages[name] = abs(moment - time)
        if ages[name] > span:
            raise ObservationError(
                f"{name!r} of the context was not measured, and its latest value is {ages[name]:.3g} old, more than "
                f'one l_T ({span:.3g}): measure it, and give context={{"{name}": ...}}'
            )
    return Completed(context, ages)


def updated(latest: Latest, context: Mapping[str, Any], filled: Sequence[str], when: Sequence[float]) -> dict[str, Any]:
    """The latest values after a measurement."""
    measured = {name: [*when, value] for name, value in context.items() if name not in filled}
    newer = {n: v for n, v in measured.items() if n not in latest or list(latest[n][:3]) <= v[:3]}
    return dict(sorted({**latest, **newer}.items()))


def sampled(
    lines: list[int], rows: list[list[float]], line: int, row: Array, seed: int
) -> tuple[list[int], list[list[float]]]:
    """A uniform sample of a history's lines with one more: the lines with the smallest random numbers."""
    number = _random(seed, line)
    if line in lines or (len(lines) >= SAMPLE and number > _random(seed, lines[-1])):
        return lines, rows
    at = bisect([_random(seed, known) for known in lines], number)
    rounded = [round(coordinate, DIGITS) for coordinate in row.tolist()]
    return [*lines[:at], line, *lines[at:]][:SAMPLE], [*rows[:at], rounded, *rows[at:]][:SAMPLE]


def _random(seed: int, line: int) -> int:
    """A random number that belongs to a line."""
    return int.from_bytes(blake2b(f"{seed} {line}".encode(), digest_size=8).digest())
