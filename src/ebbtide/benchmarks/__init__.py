"""Problems whose optimum moves, each with `max_x f(x, t)` known at every t.

>>> problem = get("rosenbrock")
>>> problem.dim, problem.bounds.tolist()
(2, [[-1.0, 1.5], [-1.0, 1.5]])
>>> problem([0.5, 0.2], t=0.3) <= problem.optimum(0.3)
True
"""

from functools import cache
from typing import Any

from ebbtide.benchmarks.moving_peaks import MovingPeaks
from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.synthetic import PROBLEMS, Synthetic
from ebbtide.benchmarks.temperature import Temperature
from ebbtide.benchmarks.wlan import Wlan
from ebbtide.errors import ConfigurationError

__all__ = ["PAPER", "MovingPeaks", "Problem", "Synthetic", "Temperature", "Wlan", "get", "names"]

_SEEDED: dict[str, type[Problem]] = {cls.name: cls for cls in (Temperature, Wlan, MovingPeaks)}

# The twelve of the paper's table, in its order.
PAPER = (
    *("rastrigin", "schwefel", "styblinski-tang", "eggholder", "ackley", "rosenbrock"),
    *("shekel", "hartmann3", "hartmann6", "powell", "temperature", "wlan"),
)


def names() -> list[str]:
    """The names that `get` knows."""
    return [*PROBLEMS, *_SEEDED]


@cache
def get(name: str, **options: Any) -> Problem:
    """A problem by name; `temperature` takes a `day`, `wlan` and `moving-peaks` a `seed`."""
    if name in _SEEDED:
        try:
            return _SEEDED[name](**options)
        except TypeError as error:
            raise ConfigurationError(f"{name} does not take these options: {error}") from error
    if name not in PROBLEMS:
        raise ConfigurationError(f"benchmark {name!r} is unknown; choose one of {names()}")
    if options:
        raise ConfigurationError(f"{name} takes no options, but was given {', '.join(options)}")
    return PROBLEMS[name]
