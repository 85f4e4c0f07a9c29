"""Regret of this checkout relative to that of another one, run by run: for changes that must not change any.

    python perf/paired.py --before ../before/src --seeds 5

Ratios of average regrets are paired by benchmark and seed; geometric means with 95 % intervals. The response times are
modelled, so the machine's speed does not matter.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from record import add_option, record
from refits import BENCHMARKS
from values import interval

import ebbtide as eb

RUNS = """
import sys
import ebbtide as eb
from refits import PROTOCOL
for seed in range(int(sys.argv[3])):
    print(eb.experiments.run(sys.argv[1], sys.argv[2], seed, PROTOCOL).average_regret)
"""


def regrets(source: Path, benchmark: str, algorithm: str, seeds: int) -> list[float]:
    """By a process of its own, which imports ebbtide from there."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(Path(__file__).parent)])}
    command = [sys.executable, "-W", "ignore", "-c", RUNS, benchmark, algorithm, str(seeds)]
    found = subprocess.run(command, env=environment, capture_output=True, check=True)
    return [float(line) for line in found.stdout.split()]


def compared(algorithm: str, before: Path, seeds: int) -> dict[str, object]:
    here, logs = Path(eb.__file__).parents[1], []
    for benchmark in BENCHMARKS:
        now, then = (regrets(source, benchmark, algorithm, seeds) for source in (here, before))
        logs += np.log(np.divide(now, then)).tolist()
        sys.stderr.write(f"{algorithm} on {benchmark}: {np.exp(np.mean(logs[-seeds:])):.3f}\n")
    return {"algorithm": algorithm} | interval(np.array(logs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="src of another checkout")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--algorithms", nargs="+", default=["w-dbo", "tide"])
    add_option(parser)
    chosen = parser.parse_args()
    rows = [compared(algorithm, chosen.before.resolve(), chosen.seeds) for algorithm in chosen.algorithms]
    for row in rows:
        print(row)
    record("paired", rows, "python perf/paired.py")


if __name__ == "__main__":
    main()
