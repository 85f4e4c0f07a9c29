"""The tables of `perf/live.py`: a row for each contender, with means over the runs.

The best static setting was judged on even days only. A file without one of the columns makes a table without it.
"""

import pandas as pd

VIOLATIONS = "violations"
MEANS = {"all_days": "all days", "later_days": "from the second day on", "even_days": "even days"}


def header(found: pd.DataFrame) -> list[str]:
    means = [title for column, title in MEANS.items() if column in found]
    return ["", *means, "above the default", "failed", *(["broke the limit"] if VIOLATIONS in found else [])]


def rows(found: pd.DataFrame) -> list[list[str]]:
    runs = found.pivot(index="repeat", columns="contender")
    return [_cells(runs, contender) for contender in found["contender"].unique()]


def _cells(runs: pd.DataFrame, contender: str) -> list[str]:
    period = "even_days" if runs["all_days"][contender].isna().all() else "all_days"
    gain = runs[period][contender] / runs[period]["default"] - 1.0
    failed = runs["failed"][contender].sum() / runs["measured"][contender].sum()
    above = "–" if contender == "default" else _over_runs(100.0 * gain, " %")
    means = [_over_runs(runs[column][contender]) for column in MEANS if column in runs]
    broken = [_over_runs(100.0 * runs[VIOLATIONS][contender], " %")] if VIOLATIONS in runs else []
    return [contender, *means, above, f"{100.0 * failed:.0f} %", *broken]


def _over_runs(values: pd.Series, unit: str = "") -> str:
    """Mean and standard error over the runs."""
    if values.isna().all():
        return "–"
    error = "" if len(values) < 2 else f" ± {values.sem():,.1f}"
    return f"{values.mean():,.1f}{error}{unit}"
