"""The frames of the published algorithms, as they were when `tests/experiments/data/golden.npz` was written.

`python tests/helpers/golden.py` writes it anew: only when frames are meant to change.
"""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_info

from ebbtide.experiments import Modelled, Protocol, run
from ebbtide.gp.arrays import Array

STORED = Path(__file__).parents[1] / "experiments" / "data" / "golden.npz"
BENCHMARKS = ("hartmann3", "shekel")
PUBLISHED = (
    *("w-dbo", "gp-ucb", "r-gp-ucb", "tv-gp-ucb", "et-gp-ucb", "abo"),
    *("w-dbo-exact", "keep-all", "sliding-window", "oldest-first", "random-removal"),
)
SEED = 3
# The coefficients of Δt stand here, so that a new calibration elsewhere leaves these frames as they are.
PROTOCOL = Protocol(duration=90.0, n_initial=15, noise=0.05, compute=Modelled((0.75, 0.002)))


def frame(benchmark: str, algorithm: str) -> Array:
    """When and where each query was made, and from how many active observations: (queries, 2 + d)."""
    columns = run(benchmark, algorithm, SEED, PROTOCOL).columns
    return np.column_stack([columns[name] for name in columns if name in ("t", "n") or name.startswith("x")])


def digits_depend_on() -> str:
    """What decides how sums are rounded: where all of it is the same, frames are the same to the last bit."""
    kernels = sorted({f"{library['version']} {library.get('architecture')}" for library in threadpool_info()})
    versions = (np.__version__, scipy.__version__, platform.machine(), platform.libc_ver()[1], _vector_units())
    return "; ".join([*map(str, versions), *kernels])


def _vector_units() -> str:
    """The instructions that NumPy's own loops use on this processor."""
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    simd = config.get("SIMD Extensions", {})
    return " ".join([*simd.get("baseline", []), *simd.get("found", [])])


def key(benchmark: str, algorithm: str) -> str:
    return f"{benchmark} {algorithm}"


def main() -> None:
    frames = {key(b, a): frame(b, a) for b in BENCHMARKS for a in PUBLISHED}
    stored: dict[str, Any] = {"digits_depend_on": np.array(digits_depend_on()), **frames}
    np.savez_compressed(STORED, **stored)


if __name__ == "__main__":
    main()
