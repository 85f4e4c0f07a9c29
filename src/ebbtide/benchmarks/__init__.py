"""Problems whose optimum moves, each with `max_x f(x, t)` known at every t.

>>> problem = get("rosenbrock")
>>> problem.dim, problem.bounds.tolist()
(2, [[-1.0, 1.5], [-1.0, 1.5]])
>>> problem([0.5, 0.2], t=0.3) <= problem.optimum(0.3)
True
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from ebbtide.benchmarks import arenas
from ebbtide.benchmarks.arenas import ARENAS
from ebbtide.benchmarks.daily import Daily
from ebbtide.benchmarks.driver import Driver
from ebbtide.benchmarks.latency import Latency, LooseLatency
from ebbtide.benchmarks.moving_peaks import MovingPeaks
from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.synthetic import PROBLEMS, Synthetic
from ebbtide.benchmarks.temperature import Temperature
from ebbtide.benchmarks.wlan import Wlan
from ebbtide.benchmarks.wlan_live import WlanUsers, WlanWorstUser
from ebbtide.errors import ConfigurationError

__all__ = [
    "ARENAS",
    "LIVE",
    "PAPER",
    "Daily",
    "Driver",
    "Latency",
    "LooseLatency",
    "MovingPeaks",
    "Problem",
    "Synthetic",
    "Temperature",
    "Wlan",
    "WlanUsers",
    "WlanWorstUser",
    "get",
    "names",
]

_LIVE = (Driver, Daily, Latency, LooseLatency, WlanUsers, WlanWorstUser)
_SEEDED: dict[str, type[Problem]] = {cls.name: cls for cls in (Temperature, Wlan, MovingPeaks, *_LIVE)}

# Those with a context, a cycle or constraints.
LIVE = tuple(cls.name for cls in _LIVE)

# The twelve of the paper's table, in its order.
PAPER = (
    *("rastrigin", "schwefel", "styblinski-tang", "eggholder", "ackley", "rosenbrock"),
    *("shekel", "hartmann3", "hartmann6", "powell", "temperature", "wlan"),
)


def names() -> list[str]:
    """The names that `get` knows, beside those of `ARENAS`, which need packages of others."""
    return [*PROBLEMS, *_SEEDED]


@cache
def get(name: str, **options: Any) -> Problem:
    """A problem by name.

    `temperature` takes a `day`; `wlan`, `moving-peaks` and those of `LIVE` take a `seed`; `driver` and `daily` also
    take `d`, their number of parameters (2 or 4). Of `ARENAS`, the grids take a `week` and the others a `seed`.
    """
    if name in ARENAS:
        return _made(arenas.make, name, options)
    if name in _SEEDED:
        return _made(lambda name, **options: _SEEDED[name](**options), name, options)
    if name not in PROBLEMS:
        raise ConfigurationError(f"benchmark {name!r} is unknown; choose one of {[*names(), *ARENAS]}")
    if options:
        raise ConfigurationError(f"{name} takes no options, but was given {', '.join(options)}")
    return PROBLEMS[name]


def _made(make: Callable[..., Problem], name: str, options: dict[str, Any]) -> Problem:
    try:
        return make(name, **options)
    except TypeError as error:
        raise ConfigurationError(f"{name} does not take these options: {error}") from error
