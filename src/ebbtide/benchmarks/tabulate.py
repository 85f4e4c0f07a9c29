"""Trace the moving optima that have no closed form, and write them to data/optima.npz (a minute or two).

python -m ebbtide.benchmarks.tabulate
"""

import io
import sys
from pathlib import Path

import numpy as np

from ebbtide import benchmarks
from ebbtide.benchmarks.optima import to_be_shipped
from ebbtide.benchmarks.temperature import DAYS
from ebbtide.files import write_atomically
from ebbtide.gp.arrays import Array


def main() -> None:
    problems = [benchmarks.get(name) for name in benchmarks.names() if name != "temperature"]
    problems += [benchmarks.get("temperature", day=day) for day in DAYS]
    unknown = [problem for problem in problems if problem.best(np.zeros(1)) is None]
    tables: dict[str, Array] = {}
    for problem in unknown:
        sys.stdout.write(f"{problem.instance}\n")
        tables |= to_be_shipped(problem.instance, problem)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **tables)
    write_atomically(Path(__file__).parent / "data" / "optima.npz", packed.getvalue())


if __name__ == "__main__":
    main()
