"""Why our figures differ from the paper's: one thing changed at a time.

    make perf-variants        (or: python perf/variants.py --seeds 10)

The paper does not say how long a step took, how large β was for the baselines, or what the signal of its "5 % of the
signal's variance" was taken over. Each column changes one of these.
"""

import argparse
import sys
from dataclasses import replace

from grids import Contender, grid, table

import ebbtide as eb
from ebbtide.experiments import Modelled, Protocol

QUIET = Protocol(noise=0.001)
FAST = Protocol(compute=Modelled((0.9 / 4.0, 0.004 / 4.0)))


class WideUCB(eb.UCB):
    """β four times as large."""

    def __call__(self, mean, std, context):  # type: ignore[no-untyped-def]
        value, by_mean, by_std = super().__call__(mean, std, context)
        return value + (value - mean), by_mean, 2.0 * by_std


def contenders() -> dict[str, Contender]:
    wdbo = eb.algorithms.get("w-dbo")
    return {
        "w-dbo": Contender("w-dbo"),
        "noise 0.1 %": Contender("w-dbo", QUIET),
        "4 × as fast": Contender("w-dbo", FAST),
        "both": Contender("w-dbo", replace(FAST, noise=QUIET.noise)),
        "4 β": Contender(replace(wdbo, acquisition=WideUCB())),
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
    chosen = parser.parse_args()
    results = grid(chosen.benchmarks, contenders(), chosen.seeds)
    sys.stdout.write(table(results, "regret") + "\n" + table(results, "queries"))


if __name__ == "__main__":
    main()
