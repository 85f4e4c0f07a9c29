"""Benchmarks that others wrote, from packages of the extra `arenas`.

| name                             | package                                                                           |
|----------------------------------|-----------------------------------------------------------------------------------|
| `gmpb-2d`, `gmpb-3d`, `gmpb-5d`  | `gmpb`: the generalized moving peaks benchmark                                    |
| `deap-moving-peaks`              | `deap`: Branke's moving peaks                                                     |
| `simbench`, `simbench-limits`    | `simbench` and `pandapower`: a low-voltage grid with a year of real load and sun  |

A package is imported when its benchmark is made, and nothing is downloaded.
"""

from collections.abc import Callable
from typing import Any

from ebbtide.benchmarks.arenas.environments import DeapMovingPeaks, GeneralizedMovingPeaks
from ebbtide.benchmarks.arenas.grid import SimBench, SimBenchLimits
from ebbtide.benchmarks.problem import Problem
from ebbtide.errors import ConfigurationError, how_to_install

__all__ = ["ARENAS", "DeapMovingPeaks", "GeneralizedMovingPeaks", "SimBench", "SimBenchLimits", "make"]

_ARENAS: dict[str, Callable[..., Problem]] = {
    **{f"gmpb-{d}d": lambda d=d, **options: GeneralizedMovingPeaks(d, **options) for d in (2, 3, 5)},
    "deap-moving-peaks": DeapMovingPeaks,
    "simbench": SimBench,
    "simbench-limits": SimBenchLimits,
}

ARENAS = tuple(_ARENAS)


def make(name: str, **options: Any) -> Problem:
    """The arena of this name; its options are a `seed` or, of a grid, a `week`."""
    try:
        return _ARENAS[name](**options)
    except ImportError as error:
        raise ConfigurationError(f"{name} needs {error.name}: {how_to_install('arenas')}") from error
