"""Trace the moving optima that have no closed form, and write them to data/optima.npz (a minute or two).

python -m ebbtide.benchmarks.tabulate           all of them
python -m ebbtide.benchmarks.tabulate wlan      only these benchmarks; the others stay as they are
python -m ebbtide.benchmarks.tabulate simbench  a week of the grid (with the extra `arenas`; a minute or two)

Without names, arenas stay as they are.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ebbtide import benchmarks
from ebbtide.benchmarks.optima import to_be_shipped
from ebbtide.benchmarks.temperature import DAYS
from ebbtide.files import write_atomically
from ebbtide.gp.arrays import Array

GRIDS = "simbench"  # how the instances begin whose packages may be missing
FILE = Path(__file__).parent / "data" / "optima.npz"


def main(chosen: Sequence[str]) -> None:
    problems = [benchmarks.get(name) for name in benchmarks.names() if name != "temperature"]
    problems += [benchmarks.get("temperature", day=day) for day in DAYS]
    unknown = [problem for problem in problems if problem.best(np.zeros(1)) is None]
    unknown += [benchmarks.get(name) for name in chosen if name in benchmarks.ARENAS]
    tables = _stored() if chosen else {key: table for key, table in _stored().items() if key.startswith(GRIDS)}
    for problem in unknown:
        if not chosen or problem.name in chosen:
            sys.stdout.write(f"{problem.instance}\n")
            tables |= to_be_shipped(problem.instance, problem.searched)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **tables)
    write_atomically(FILE, packed.getvalue())


def _stored() -> dict[str, Array]:
    with np.load(FILE) as archive:
        return dict(archive)


if __name__ == "__main__":
    main(sys.argv[1:])
