"""Which inference tracks better? W-DBO with maximum likelihood and with maximum a posteriori.

make perf-inference        (or: python perf/inference.py --seeds 10)
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from campaigns import made, plain, record_regrets, regrets
from record import add_option

import ebbtide as eb
from ebbtide.experiments.campaign import grid

MOVING = [
    *("rosenbrock", "shekel", "hartmann3", "hartmann6", "powell", "ackley"),
    *("six-hump-camel", "eggholder", "temperature"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--benchmarks", nargs="*", default=MOVING)
    parser.add_argument("--runs", type=Path, help="keep the runs here; another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    contenders: dict[str, str | eb.Algorithm] = {}
    for name in ("w-dbo", "w-dbo-exact", "keep-all"):
        contenders[f"{name}, MAP"] = name
        contenders[f"{name}, MLE"] = replace(eb.algorithms.get(name), inference="mle")
    summary = made(grid(chosen.benchmarks, contenders, chosen.seeds), chosen.runs)
    sys.stdout.write(regrets(summary) + "\n" + plain(summary, "size"))
    record_regrets("inference", summary, "make perf-inference")


if __name__ == "__main__":
    main()
