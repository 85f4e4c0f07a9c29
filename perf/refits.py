"""When is a refit worth it? Regret with the threshold that asks use, relative to following every small change.

    python perf/refits.py --seeds 10

A model is fitted and made afresh when Newton's next step promises WORTH nats for each hyperparameter, and changes one
of them by NOTABLE (`ebbtide.gp.inference`). Ratios of average regrets are paired by benchmark and seed; geometric means
with 95 % intervals.
"""

import argparse
import sys
import time

import numpy as np
from record import add_option, record
from values import interval

import ebbtide as eb
from ebbtide.experiments import Modelled, Protocol
from ebbtide.gp import inference

BENCHMARKS = ["hartmann3", "shekel", "eggholder", "rosenbrock", "temperature", "hartmann6"]
EAGER = (0.0125, 0.0)  # nats: 0.05 for the four hyperparameters of a plain model
PROTOCOL = Protocol(compute=Modelled((0.9, 0.004)))


def regret(thresholds: tuple[float, float], benchmark: str, algorithm: str, seed: int) -> tuple[float, float]:
    """The average regret of a run, and the processor time that it took."""
    kept = inference.WORTH, inference.NOTABLE
    inference.WORTH, inference.NOTABLE = thresholds
    began = time.process_time()
    try:
        found = eb.experiments.run(benchmark, algorithm, seed, PROTOCOL).average_regret
    finally:
        inference.WORTH, inference.NOTABLE = kept
    return found, time.process_time() - began


def compared(algorithm: str, seeds: int) -> dict[str, object]:
    pairs = []
    for benchmark in BENCHMARKS:
        for seed in range(seeds):
            both = ((inference.WORTH, inference.NOTABLE), EAGER)
            pairs.append([regret(thresholds, benchmark, algorithm, seed) for thresholds in both])
        sys.stderr.write(f"{algorithm} on {benchmark}\n")
    values = np.array(pairs)
    logs = np.log(values[:, 0, 0] / values[:, 1, 0])
    return (
        {"algorithm": algorithm}
        | interval(logs)
        | {"time": round(float(np.median(values[:, 0, 1] / values[:, 1, 1])), 2)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    add_option(parser)
    chosen = parser.parse_args()
    rows = [compared(algorithm, chosen.seeds) for algorithm in ("w-dbo", "tide")]
    for row in rows:
        print(row)
    record("refits", rows, "python perf/refits.py")


if __name__ == "__main__":
    main()
