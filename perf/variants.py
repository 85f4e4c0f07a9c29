"""Why our figures differ from the paper's: one thing of W-DBO, or of the protocol, changed at a time.

    make perf-variants        (or: python perf/variants.py --seeds 10)

The paper does not say how long a step took, or what its noise of "5 % of the signal's variance" was a share of; and the
model has a mean and a prior of its own. Each column changes one of these; those of `ResponseBudget` with one more.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from campaigns import made, plain, record_regrets, regrets
from record import add_option

import ebbtide as eb
from ebbtide.experiments import Modelled, Protocol
from ebbtide.experiments.campaign import grid
from ebbtide.experiments.pace import CALIBRATIONS
from ebbtide.gp.arrays import Array
from ebbtide.parts.acquisition import Context

USUAL = Protocol(noise_of="deviation")
QUIET = replace(USUAL, noise=USUAL.noise / 5.0)
FAST = replace(USUAL, compute=Modelled(tuple(c / 2.0 for c in CALIBRATIONS["botorch"].coefficients)))


@dataclass(frozen=True)
class ScaledUCB:
    """UCB with β multiplied by `factor`."""

    factor: float

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        bonus, _, by_std = eb.UCB()(np.zeros_like(mean), std, context)
        return mean + self.factor**0.5 * bonus, np.ones_like(mean), self.factor**0.5 * by_std


def variants() -> dict[str, tuple[str | eb.Algorithm, Protocol]]:
    """A column of the table each: an algorithm and a protocol."""
    wdbo = eb.algorithms.get("w-dbo")
    counting, greedy = replace(wdbo, staleness=eb.ResponseBudget()), ScaledUCB(1.0 / 4.0)
    return {
        "w-dbo": ("w-dbo", USUAL),
        "noise of the variance": ("w-dbo", replace(USUAL, noise_of="variance")),
        "2 × as fast": ("w-dbo", FAST),
        "β / 4": (replace(wdbo, acquisition=greedy), USUAL),
        "β / 16": (replace(wdbo, acquisition=ScaledUCB(1.0 / 16.0)), USUAL),
        "weighted mean": (replace(wdbo, mean="weighted"), USUAL),
        "MLE": (replace(wdbo, inference="mle"), USUAL),
        "ResponseBudget": (counting, USUAL),
        "ResponseBudget, β / 4": (replace(counting, acquisition=greedy), USUAL),
        "ResponseBudget, weighted mean": (replace(counting, mean="weighted"), USUAL),
        "ResponseBudget, noise / 5": (counting, QUIET),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--benchmarks", nargs="*", default=[name for name in eb.benchmarks.PAPER if name != "wlan"])
    parser.add_argument("--columns", nargs="*", default=list(variants()))
    parser.add_argument("--runs", type=Path, help="keep the runs here; another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    jobs = [
        job
        for label, (algorithm, protocol) in variants().items()
        if label in chosen.columns
        for job in grid(chosen.benchmarks, {label: algorithm}, chosen.seeds, protocol)
    ]
    summary = made(jobs, chosen.runs)
    sys.stdout.write(regrets(summary) + "\n" + plain(summary, "queries"))
    record_regrets("variants", summary, "make perf-variants")


if __name__ == "__main__":
    main()
