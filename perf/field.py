"""Every algorithm on every benchmark of the paper, regret and speed, all from one campaign.

    make perf-field            (or: python perf/field.py --seeds 10 --benchmarks ackley shekel)

Prints Markdown. A run of 600 s under `modelled:botorch` should take 12 s at most on one core, and two runs at once no
more than 1.3 times as long each as one alone.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
from campaigns import made, plain, record_regrets, regrets
from record import add_option

import ebbtide as eb
from ebbtide.experiments import Protocol
from ebbtide.experiments.campaign import grid
from ebbtide.experiments.protocol import NoiseOf


def speed(summary: pd.DataFrame) -> str:
    slowest = summary.loc[summary["wall_s"].idxmax()]
    where = f"{slowest['algorithm']} on {slowest['problem']}"
    return f"The slowest run took {slowest['wall_s']:.1f} s ({where}; ≤ 12 wanted).\n"


def seconds() -> float:
    return eb.experiments.run("hartmann3", "keep-all", 0).wall_s


def alone_and_together() -> str:
    """Do two runs at once cost more each than one alone?"""
    with ProcessPoolExecutor(2) as pool:
        pool.submit(seconds).result()
        alone = [pool.submit(seconds).result() for _ in range(3)]
        together = [[job.result() for job in [pool.submit(seconds) for _ in range(2)]] for _ in range(3)]
    ratio = float(np.median(together) / np.median(alone))
    return f"Two runs at once take {ratio:.2f} times as long each as one alone (≤ 1.3 wanted).\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--benchmarks", nargs="*", default=list(eb.benchmarks.PAPER))
    parser.add_argument("--algorithms", nargs="*", default=eb.algorithms.names())
    parser.add_argument("--compute", default="modelled:botorch")
    parser.add_argument("--noise-of", choices=get_args(NoiseOf), default="deviation")
    parser.add_argument("--runs", type=Path, help="keep the runs here; another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    protocol = Protocol(compute=chosen.compute, noise_of=chosen.noise_of)
    summary = made(grid(chosen.benchmarks, chosen.algorithms, chosen.seeds, protocol), chosen.runs)
    parts = [
        f"{chosen.seeds} seeds, {protocol.terms}\n",
        "### Average regret ± standard error\n\n" + regrets(summary),
        "### Time-weighted regret ± standard error\n\n" + regrets(summary, "time_weighted_regret"),
        "### Active observations (mean over the queries)\n\n" + plain(summary, "size"),
        "### Queries\n\n" + plain(summary, "queries"),
        speed(summary),
        alone_and_together(),
    ]
    sys.stdout.write("\n".join(parts))
    record_regrets("field", summary, "make perf-field")


if __name__ == "__main__":
    main()
