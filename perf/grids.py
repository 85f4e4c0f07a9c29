"""Grids of runs on both cores, and Markdown tables of them."""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

import ebbtide as eb
from ebbtide.arrays import Array
from ebbtide.experiments import Protocol

MEASURES = ("regret", "over time", "size", "queries", "seconds")


@dataclass(frozen=True)
class Contender:
    """A column of a table."""

    algorithm: str | eb.Algorithm
    protocol: Protocol = field(default_factory=Protocol)


@dataclass(frozen=True)
class Results:
    """values[benchmark, column, measure, seed]."""

    benchmarks: list[str]
    columns: list[str]
    values: Array

    def of(self, measure: str) -> Array:
        values: Array = self.values[:, :, MEASURES.index(measure)]
        return values


def one(benchmark: str, contender: Contender, seed: int) -> tuple[float, ...]:
    outcome = eb.experiments.run(benchmark, contender.algorithm, seed, contender.protocol)
    n = outcome.columns["n"]
    return outcome.average_regret, outcome.time_weighted_regret, float(n.mean()), float(len(n)), outcome.wall_s


def grid(benchmarks: list[str], contenders: dict[str, Contender], seeds: int) -> Results:
    shape = (len(benchmarks), len(contenders), seeds)
    with ProcessPoolExecutor(2) as pool:
        jobs = [
            pool.submit(one, benchmark, contender, seed)
            for benchmark in benchmarks
            for contender in contenders.values()
            for seed in range(seeds)
        ]
        rows = []
        for k, job in enumerate(jobs):
            rows.append(job.result())
            sys.stderr.write(f"\r{k + 1}/{len(jobs)} runs")
    sys.stderr.write("\n")
    values = np.array(rows).reshape(*shape, len(MEASURES))
    return Results(benchmarks, list(contenders), values.transpose(0, 1, 3, 2))


def short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Results, measure: str) -> str:
    """Benchmarks down, columns across. A regret has its standard error, and the lowest of a line is in bold."""
    regret = measure in ("regret", "over time")
    lines = ["| benchmark | " + " | ".join(results.columns) + " |", "|---" * (len(results.columns) + 1) + "|"]
    for benchmark, cells in zip(results.benchmarks, results.of(measure), strict=True):
        means = cells.mean(axis=1)
        errors = cells.std(axis=1, ddof=1) / np.sqrt(cells.shape[1]) if cells.shape[1] > 1 else np.zeros(len(cells))
        texts = [f"{short(m)} ± {short(e)}" if regret else short(m) for m, e in zip(means, errors, strict=True)]
        if regret:
            best = int(means.argmin())
            texts[best] = f"**{texts[best]}**"
        lines.append(f"| {benchmark} | " + " | ".join(texts) + " |")
    if regret:
        lines.append("| *normalised average* | " + " | ".join(f"{v:.2f}" for v in normalised(results, measure)) + " |")
    return "\n".join(lines) + "\n"


def normalised(results: Results, measure: str) -> Array:
    """0 for the lowest regret on a benchmark, 1 for the highest; averaged over the benchmarks, one a column."""
    means = results.of(measure).mean(axis=2)
    low, high = means.min(axis=1, keepdims=True), means.max(axis=1, keepdims=True)
    averages: Array = ((means - low) / np.maximum(high - low, 1e-300)).mean(axis=0)
    return averages
