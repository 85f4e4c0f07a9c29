"""Why our figures differ from the paper's: one thing changed at a time.

    make perf-variants        (or: python perf/variants.py --seeds 10)

The paper does not say how long a step took, how large β was for the baselines, or what the signal of its "5 % of the
signal's variance" was taken over. Each column changes one of these.
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

QUIET = Protocol(noise=0.001)
FAST = Protocol(compute=Modelled(tuple(c / 4.0 for c in CALIBRATIONS["botorch"].coefficients)))


@dataclass(frozen=True)
class ScaledUCB:
    """UCB with β multiplied by `factor`."""

    factor: float

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        bonus, _, by_std = eb.UCB()(np.zeros_like(mean), std, context)
        return mean + self.factor**0.5 * bonus, np.ones_like(mean), self.factor**0.5 * by_std


def variants() -> dict[str, tuple[str | eb.Algorithm, Protocol]]:
    """A column of the table each: an algorithm and a protocol."""
    wdbo, usual = eb.algorithms.get("w-dbo"), Protocol()
    return {
        "w-dbo": ("w-dbo", usual),
        "noise 0.1 %": ("w-dbo", QUIET),
        "4 × as fast": ("w-dbo", FAST),
        "both": ("w-dbo", replace(FAST, noise=QUIET.noise)),
        "4 β": (replace(wdbo, acquisition=ScaledUCB(4.0)), usual),
        "β / 4": (replace(wdbo, acquisition=ScaledUCB(0.25)), usual),
        "MLE": (replace(wdbo, inference="mle"), usual),
        "gp-ucb": ("gp-ucb", usual),
        "gp-ucb, noise 0.1 %": ("gp-ucb", QUIET),
        "r-gp-ucb": ("r-gp-ucb", usual),
        "r-gp-ucb, noise 0.1 %": ("r-gp-ucb", QUIET),
        "r-gp-ucb, multiplier 24": (eb.Algorithm(temporal=None, staleness=eb.PeriodicReset(24.0)), usual),
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
