"""Which inference tracks better? W-DBO with maximum likelihood and with maximum a posteriori.

make perf-inference        (or: python perf/inference.py --seeds 10)
"""

import argparse
import sys
from dataclasses import replace

from grids import Contender, grid, table

import ebbtide as eb

MOVING = [
    *("rosenbrock", "shekel", "hartmann3", "hartmann6", "powell", "ackley"),
    *("six-hump-camel", "eggholder", "temperature"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--benchmarks", nargs="*", default=MOVING)
    chosen = parser.parse_args()
    contenders = {}
    for name in ("w-dbo", "w-dbo-exact", "keep-all"):
        contenders[f"{name}, MAP"] = Contender(eb.algorithms.get(name))
        contenders[f"{name}, MLE"] = Contender(replace(eb.algorithms.get(name), inference="mle"))
    results = grid(chosen.benchmarks, contenders, chosen.seeds)
    sys.stdout.write(table(results, "regret") + "\n" + table(results, "size"))


if __name__ == "__main__":
    main()
