"""The field: every algorithm on every benchmark of the paper, regret and speed, all from one run.

    make perf-field            (or: python perf/field.py --seeds 10 --benchmarks ackley shekel)

Prints Markdown. A run of 600 s under `modelled:botorch` should take 12 s at most on one core, and two runs at once no
more than 1.3 times as long each as one alone.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from grids import Contender, Results, grid, one, table

import ebbtide as eb
from ebbtide.experiments import Protocol

TITLES = {
    "regret": "Average regret ± standard error",
    "over time": "Time-weighted regret ± standard error",
    "size": "Active observations (mean over the queries)",
    "queries": "Queries",
    "seconds": "Seconds that a run takes on one core, two at a time",
}


def speed(results: Results) -> str:
    seconds = results.of("seconds").max(axis=2)
    row, column = np.unravel_index(seconds.argmax(), seconds.shape)
    where = f"{results.columns[column]} on {results.benchmarks[row]}"
    return f"The slowest run took {seconds.max():.1f} s ({where}; ≤ 12 wanted).\n"


def alone_and_together() -> str:
    """Do two runs at once cost more each than one alone?"""
    job = ("hartmann3", Contender("keep-all"), 0)
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
    contenders = {name: Contender(name, Protocol(compute=chosen.compute)) for name in chosen.algorithms}
    results = grid(chosen.benchmarks, contenders, chosen.seeds)
    parts = [f"{chosen.seeds} seeds, {chosen.compute}\n"]
    parts += [f"### {title}\n\n{table(results, measure)}" for measure, title in TITLES.items()]
    parts += [speed(results), alone_and_together()]
    text = "\n".join(parts)
    sys.stdout.write(text)
    if chosen.out:
        chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
