"""From runs to figures: means over seeds, their errors, and normalised averages.

A `summary` is a pandas frame with one row per run, as campaigns give it: problem, algorithm, seed, average_regret, ...
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from ebbtide.gp.arrays import Array

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """Problems down, algorithms across: the mean over the seeds, its standard error, and how many seeds."""

    means: pd.DataFrame
    errors: pd.DataFrame
    counts: pd.DataFrame

    @property
    def seeds(self) -> str:
        """The actual number of seeds, for captions."""
        low, high = int(self.counts.min(axis=None)), int(self.counts.max(axis=None))
        return f"{low} seeds" if low == high else f"{low} to {high} seeds (some runs failed)"

    def overlapping(self, among: Sequence[str]) -> pd.DataFrame:
        """Whether the 95 % confidence interval (Student's t) overlaps that of the best in its row."""
        half = self.errors * student.ppf(0.5 + 0.5 * CONFIDENCE, np.maximum(self.counts - 1, 1))
        best = self.means[list(among)].idxmin(axis=1)
        rows = np.arange(len(best))
        columns = self.means.columns.get_indexer(best)
        top = (self.means + half).to_numpy()[rows, columns]
        return (self.means - half).le(top, axis=0)


def compare(summary: pd.DataFrame, measure: str) -> Comparison:
    """One measure of every run, in the order in which problems and algorithms first appear."""
    problems, algorithms = list(dict.fromkeys(summary["problem"])), list(dict.fromkeys(summary["algorithm"]))
    groups = summary.groupby(["problem", "algorithm"])[measure]

    def spread(values: "pd.Series[float]") -> pd.DataFrame:
        return values.unstack("algorithm").reindex(index=problems, columns=algorithms)

    return Comparison(spread(groups.mean()), spread(groups.sem()), spread(groups.count()).fillna(0))


def normalised(means: pd.DataFrame, among: Sequence[str] | None = None) -> pd.DataFrame:
    """0 for the lowest regret of a problem `among` these algorithms, 1 for the highest; others may lie outside."""
    reference = means[list(means.columns if among is None else among)]
    low, high = reference.min(axis=1), reference.max(axis=1)
    return means.sub(low, axis=0).div((high - low).where(high > low, 1.0), axis=0)


def relative(summary: pd.DataFrame, to: str, measure: str = "average_regret") -> pd.DataFrame:
    """Logarithms of a measure relative to that of one algorithm, on the same problem and under the same seed."""
    wide = summary.pivot(index=["problem", "seed"], columns="algorithm", values=measure)
    logs: pd.DataFrame = np.log(wide.div(wide[to], axis=0))
    return logs


def geometric(logs: "pd.Series[float]") -> tuple[float, float, float]:
    """The geometric mean of ratios, from their logarithms, and the ends of its confidence interval (Student's t)."""
    half = float(logs.sem()) * student.ppf(0.5 + 0.5 * CONFIDENCE, max(len(logs) - 1, 1))
    mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half]).tolist()
    return mean, low, high


@dataclass(frozen=True)
class Curve:
    """A quantity over time: mean over the seeds and standard error, at the same moments."""

    moments: Array
    mean: Array
    error: Array


def running_regret(frame: pd.DataFrame, moments: Array) -> Array:
    """The mean regret of the queries so far, at each moment; NaN before the first."""
    so_far = frame["regret"].to_numpy().cumsum() / np.arange(1, len(frame) + 1)
    return _in_force(frame, so_far, moments)


def size(frame: pd.DataFrame, moments: Array) -> Array:
    """The active observations that the query in force was computed from."""
    return _in_force(frame, frame["n"].to_numpy(dtype=float), moments)


def _in_force(frame: pd.DataFrame, values: Array, moments: Array) -> Array:
    landed = np.searchsorted(frame["t"].to_numpy(), moments, side="right")
    return np.where(landed > 0, values[np.maximum(landed - 1, 0)], np.nan)


def curve(moments: Array, traces: Sequence[Array]) -> Curve:
    """NaN where a seed has no value."""
    stacked = np.array(traces)
    error = stacked.std(axis=0, ddof=1) / np.sqrt(len(stacked)) if len(stacked) > 1 else np.zeros(stacked.shape[1])
    return Curve(moments, stacked.mean(axis=0), error)
