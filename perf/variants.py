"""Why our figures differ from the paper's: one thing changed at a time.

    make perf-variants        (or: python perf/variants.py --seeds 10)

The paper does not say how long a step took, how large β was for the baselines, or what the signal of its "5 % of the
signal's variance" was taken over. Each column changes one of these.
"""

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np
from grids import Contender, grid, table

import ebbtide as eb
from ebbtide.acquisition import Context
from ebbtide.arrays import Array
from ebbtide.experiments import Modelled, Protocol

QUIET = Protocol(noise=0.001)
FAST = Protocol(compute=Modelled((0.9 / 4.0, 0.004 / 4.0)))


@dataclass(frozen=True)
class ScaledUCB:
    """UCB with β multiplied by `factor`."""

    factor: float

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        bonus, _, by_std = eb.UCB()(np.zeros_like(mean), std, context)
        return mean + self.factor**0.5 * bonus, np.ones_like(mean), self.factor**0.5 * by_std


def contenders() -> dict[str, Contender]:
    wdbo = eb.algorithms.get("w-dbo")
    return {
        "w-dbo": Contender("w-dbo"),
        "noise 0.1 %": Contender("w-dbo", QUIET),
        "4 × as fast": Contender("w-dbo", FAST),
        "both": Contender("w-dbo", replace(FAST, noise=QUIET.noise)),
        "4 β": Contender(replace(wdbo, acquisition=ScaledUCB(4.0))),
        "β / 4": Contender(replace(wdbo, acquisition=ScaledUCB(0.25))),
        "MLE": Contender(replace(wdbo, inference="mle")),
        "gp-ucb": Contender("gp-ucb"),
        "gp-ucb, noise 0.1 %": Contender("gp-ucb", QUIET),
        "r-gp-ucb": Contender("r-gp-ucb"),
        "r-gp-ucb, noise 0.1 %": Contender("r-gp-ucb", QUIET),
        "r-gp-ucb, multiplier 24": Contender(eb.Algorithm(temporal=None, staleness=eb.PeriodicReset(24.0))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--benchmarks", nargs="*", default=[name for name in eb.benchmarks.PAPER if name != "wlan"])
    parser.add_argument("--columns", nargs="*", default=list(contenders()))
    chosen = parser.parse_args()
    picked = {name: contender for name, contender in contenders().items() if name in chosen.columns}
    results = grid(chosen.benchmarks, picked, chosen.seeds)
    sys.stdout.write(table(results, "regret") + "\n" + table(results, "queries"))


if __name__ == "__main__":
    main()
