"""How the contenders of `perf/live.py` did: means over the day, and which static setting was the best.

A failed measurement counts as 0: the system did nothing useful meanwhile. Days are counted from 1. The static setting
is chosen on the odd days and judged on the even ones, so that luck in choosing it does not count. What was told that
the days are alike can use it from the second day on.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from live_run import Measurement
from systems import Settings

import ebbtide as eb

PARTS = 4  # of a day
STATIC = "best static"
VIOLATIONS = "violations"


def number_of_day(measured: Measurement, day: float) -> int:
    return int(measured.began // day) + 1


def on_days(measured: Iterable[Measurement], day: float, even: bool) -> list[Measurement]:
    return [one for one in measured if (number_of_day(one, day) % 2 == 0) is even]


def after_the_first_day(measured: Iterable[Measurement], day: float) -> list[Measurement]:
    return [one for one in measured if number_of_day(one, day) > 1]


def by_part(measured: Iterable[Measurement], day: float) -> dict[int, list[float]]:
    parts = defaultdict(list)
    for one in measured:
        parts[int(PARTS * (one.began % day) / day)].append(one.value or 0.0)
    return parts


def mean_of_day(measured: Iterable[Measurement], day: float) -> float:
    """The mean of the means of each part of the day: a setting measured more often at noon gains nothing by it."""
    parts = by_part(measured, day)
    return fmean(fmean(values) for values in parts.values()) if parts else math.nan


def best_static(grid: Iterable[Measurement], day: float) -> Settings:
    """The best setting of the odd days, among those that were measured in every part of the day, if there are any."""
    settings: dict[str, list[Measurement]] = defaultdict(list)
    for one in on_days(grid, day, even=False):
        settings[json.dumps(one.settings, sort_keys=True)].append(one)
    whole = {key: found for key, found in settings.items() if len(by_part(found, day)) == PARTS}
    candidates = whole or settings
    best: Settings = json.loads(max(candidates, key=lambda key: mean_of_day(candidates[key], day)))
    return best


def violation_rate(measured: Iterable[Measurement], limits: Mapping[str, eb.AtMost | eb.AtLeast]) -> float:
    """The share that broke a limit, of the measurements that have such a value."""
    counted = [one.constraints for one in measured if one.constraints]
    broken = [any(limits[name].is_broken(value) for name, value in values.items()) for values in counted]
    return fmean(broken) if broken else math.nan


def judged(
    measured: Sequence[Measurement],
    day: float,
    grid: str,
    limits: Mapping[str, eb.AtMost | eb.AtLeast],
) -> list[dict[str, object]]:
    """A row for each contender: its mean over all days, from the second on and over the even ones; how often it failed.

    Of the contender named `grid` only the best static setting is judged, on the even days. If there are limits: how
    often each contender broke one, whether it was told of them or not.
    """
    rows = []
    for name in dict.fromkeys(one.contender for one in measured):
        mine = [one for one in measured if one.contender == name]
        if name == grid:
            chosen = best_static(mine, day)
            mine = [one for one in on_days(mine, day, even=True) if one.settings == chosen]
        rows.append(
            {
                "contender": STATIC if name == grid else name,
                "all_days": math.nan if name == grid else mean_of_day(mine, day),
                "later_days": mean_of_day(after_the_first_day(mine, day), day),
                "even_days": mean_of_day(on_days(mine, day, even=True), day),
                "measured": len(mine),
                "failed": sum(one.value is None for one in mine),
                "settings": json.dumps(chosen) if name == grid else "",
                **({VIOLATIONS: violation_rate(mine, limits)} if limits else {}),
            }
        )
    return rows
