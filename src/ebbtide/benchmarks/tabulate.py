"""Trace the moving optima that have no closed form, and write them to data/optima.npz (a minute or two).

python -m ebbtide.benchmarks.tabulate
"""

import sys
from pathlib import Path

import numpy as np

from ebbtide import benchmarks
from ebbtide.benchmarks.optima import trace
from ebbtide.benchmarks.temperature import DAYS


def main() -> None:
    problems = [benchmarks.get(name) for name in benchmarks.names() if name != "temperature"]
    problems += [benchmarks.get("temperature", day=day) for day in DAYS]
    unknown = [problem for problem in problems if problem.best(np.zeros(1)) is None]
    tables = {}
    for problem in unknown:
        sys.stdout.write(f"{problem.instance}\n")
        tables[problem.instance] = trace(problem).U.astype(np.float32)  # within 1e-7 of the maximizer: f is flat there
    np.savez_compressed(Path(__file__).parent / "data" / "optima.npz", allow_pickle=False, **tables)


if __name__ == "__main__":
    main()
