"""The field: every algorithm on every benchmark of the paper, regret and speed, all from one run.

    make perf-field            (or: python perf/field.py --seeds 10 --benchmarks ackley shekel)

Prints Markdown: average regret ± standard error, the same weighted by time, sizes of the dataset, numbers of queries,
and the seconds that a run took on one core. A run of 600 s under `modelled:botorch` should take 12 s at most.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

import ebbtide as eb
from ebbtide.arrays import Array
from ebbtide.experiments import Protocol, Run

Cell = tuple[str, str]  # benchmark, algorithm
MEASURES = ("regret", "time-weighted regret", "size", "queries", "seconds")


def measured(outcome: Run) -> tuple[float, ...]:
    n = outcome.columns["n"]
    return outcome.average_regret, outcome.time_weighted_regret, float(n.mean()), float(len(n)), outcome.wall_s


def one(benchmark: str, algorithm: str, seed: int, compute: str) -> tuple[float, ...]:
    return measured(eb.experiments.run(benchmark, algorithm, seed, Protocol(compute=compute)))


def grid(benchmarks: list[str], algorithms: list[str], seeds: int, compute: str) -> dict[Cell, Array]:
    """(measures, seeds) for each cell."""
    cells = list(product(benchmarks, algorithms))
    with ProcessPoolExecutor(2) as pool:
        jobs = {cell: [pool.submit(one, *cell, seed, compute) for seed in range(seeds)] for cell in cells}
        results = {}
        for k, (cell, runs) in enumerate(jobs.items()):
            results[cell] = np.array([job.result() for job in runs]).T
            sys.stderr.write(f"\r{k + 1}/{len(cells)} {' '.join(cell):<40}")
    sys.stderr.write("\n")
    return results


def short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(title: str, results: dict[Cell, Array], row: int, *, errors: bool, best: bool) -> str:
    """A Markdown table, benchmarks down, algorithms across; the lowest of each line in bold."""
    benchmarks, algorithms = list(dict.fromkeys(b for b, _ in results)), list(dict.fromkeys(a for _, a in results))
    lines = [f"### {title}", "", "| benchmark | " + " | ".join(algorithms) + " |", "|---" * (len(algorithms) + 1) + "|"]
    for benchmark in benchmarks:
        means = {a: results[benchmark, a][row].mean() for a in algorithms}
        cells = []
        for a in algorithms:
            text = short(means[a])
            if errors:
                values = results[benchmark, a][row]
                text += f" ± {short(values.std(ddof=1) / np.sqrt(len(values)))}" if len(values) > 1 else ""
            cells.append(f"**{text}**" if best and means[a] == min(means.values()) else text)
        lines.append(f"| {benchmark} | " + " | ".join(cells) + " |")
    if best:
        lines.append("| *normalised average* | " + " | ".join(f"{v:.2f}" for v in normalised(results, row)) + " |")
    return "\n".join(lines) + "\n"


def normalised(results: dict[Cell, Array], row: int) -> Array:
    """0 for the lowest regret on a benchmark, 1 for the highest; averaged over the benchmarks (one an algorithm)."""
    benchmarks, algorithms = list(dict.fromkeys(b for b, _ in results)), list(dict.fromkeys(a for _, a in results))
    means = np.array([[results[b, a][row].mean() for a in algorithms] for b in benchmarks])
    low, high = means.min(axis=1, keepdims=True), means.max(axis=1, keepdims=True)
    averages: Array = ((means - low) / np.maximum(high - low, 1e-300)).mean(axis=0)
    return averages


def alone_and_together(compute: str) -> str:
    """Do two runs at once cost more each than one alone?"""
    job = ("hartmann3", "keep-all", 0, compute)
    with ProcessPoolExecutor(2) as pool:
        pool.submit(one, *job).result()
        alone = [pool.submit(one, *job).result()[-1] for _ in range(3)]
        together = [[j.result()[-1] for j in [pool.submit(one, *job) for _ in range(2)]] for _ in range(3)]
    ratio = float(np.median(together) / np.median(alone))
    return f"Two runs at once take {ratio:.2f} times as long each as one alone (≤ 1.3 wanted).\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--benchmarks", nargs="*", default=list(eb.benchmarks.PAPER))
    parser.add_argument("--algorithms", nargs="*", default=eb.algorithms.names())
    parser.add_argument("--compute", default="modelled:botorch")
    parser.add_argument("--out", type=Path, help="also write the Markdown here")
    chosen = parser.parse_args()
    results = grid(chosen.benchmarks, chosen.algorithms, chosen.seeds, chosen.compute)
    parts = [
        table(title, results, row, errors=row < 2, best=row < 2)
        for row, title in enumerate(
            (
                f"Average regret ± standard error, {chosen.seeds} seeds, {chosen.compute}",
                "Time-weighted regret ± standard error",
                "Active observations, mean over the queries",
                "Queries",
                "Seconds that a run of 600 s takes on one core, two at a time",
            )
        )
    ]
    slowest = max(results, key=lambda cell: results[cell][-1].max())
    parts.append(f"The slowest run took {results[slowest][-1].max():.1f} s ({' '.join(slowest)}; ≤ 12 wanted).\n")
    parts.append(alone_and_together(chosen.compute))
    text = "\n".join(parts)
    sys.stdout.write(text)
    if chosen.out:
        chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
