"""Regret of this checkout relative to that of another one, run by run: for changes that must not change any.

    python perf/paired.py --before ../before/src --seeds 5          (six benchmarks)
    python perf/paired.py --before ../before/src --benchmarks rosenbrock ackley --algorithms w-dbo --jobs 2

Ratios of average regrets are paired by benchmark and seed; geometric means with 95 % intervals. The response times are
modelled, so the machine's speed does not matter.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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


def compared(algorithm: str, before: Path, seeds: int, benchmarks: Sequence[str], jobs: int) -> list[dict[str, object]]:
    """A line for each benchmark, and one for all of them."""
    here = Path(eb.__file__).parents[1]

    def logs(benchmark: str) -> list[float]:
        now, then = (regrets(source, benchmark, algorithm, seeds) for source in (here, before))
        found: list[float] = np.log(np.divide(now, then)).tolist()
        sys.stderr.write(f"{algorithm} on {benchmark}: {np.exp(np.mean(found)):.3f}\n")
        return found

    with ThreadPoolExecutor(jobs) as threads:  # each only waits for its process
        found = dict(zip(benchmarks, threads.map(logs, benchmarks), strict=True))
    found["all"] = [log for each in found.values() for log in each]
    versus = subprocess.run(["git", "describe", "--always"], cwd=before, capture_output=True, text=True).stdout.strip()
    key = {"before": versus, "algorithm": algorithm}
    return [key | {"benchmark": name} | interval(np.array(each)) for name, each in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="src of another checkout")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--algorithms", nargs="+", default=["w-dbo", "tide"])
    parser.add_argument("--benchmarks", nargs="+", default=BENCHMARKS)
    parser.add_argument("--jobs", type=int, default=1)
    add_option(parser)
    chosen = parser.parse_args()
    terms = chosen.before.resolve(), chosen.seeds, chosen.benchmarks, chosen.jobs
    rows = [row for algorithm in chosen.algorithms for row in compared(algorithm, *terms)]
    for row in rows:
        print(row)
    record("paired", rows, "python perf/paired.py")


if __name__ == "__main__":
    main()
