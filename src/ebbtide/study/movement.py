"""How a setting may change from one trial to the next."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.space import Categorical, Float, Int, Ordinal, Parameter, Params, Space


@dataclass(frozen=True)
class Movement:
    """How a setting may change from one trial to the next.

    `limit` says how far a parameter may move in one step, in its own unit. `cost` is what it costs, in the objective's
    unit, to move one parameter across its whole range; shorter moves cost in proportion.
    """

    limit: Mapping[str, float] = field(default_factory=dict)
    cost: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.limit, Mapping) or not all(isinstance(name, str) for name in self.limit):
            raise ConfigurationError(f'limit={self.limit!r}: give a dict such as {{"power": 10.0}}')
        for name, limit in self.limit.items():
            if (as_finite(limit) or 0.0) <= 0.0:
                raise ConfigurationError(f"limit of {name!r} is {limit!r}: give a positive number, in its own unit")
        cost = as_finite(self.cost)
        if cost is None or cost < 0.0:
            raise ConfigurationError(f"cost={self.cost!r}: give a number ≥ 0, in the objective's unit")
        object.__setattr__(self, "limit", {name: float(limit) for name, limit in self.limit.items()})
        object.__setattr__(self, "cost", cost)

    def check(self, space: Space) -> None:
        """Raise an error if a limit does not fit the space."""
        for name, limit in self.limit.items():
            parameter = space.parameters.get(name)
            if parameter is None:
                raise ConfigurationError(f"a limit for {name!r}, which is not in the space {list(space.parameters)}")
            if isinstance(parameter, Categorical):
                raise ConfigurationError(f"a limit for {name!r}, whose choices have no order; leave it out")
            if limit < (least := _smallest_move(parameter)):
                raise ConfigurationError(
                    f"the limit of {name!r} is {limit!r}: it could never move; give {least} or more"
                )

    def bounds(self, space: Space, params: Params) -> tuple[Array, Array]:
        """The lowest and the highest coordinates that can be reached from a setting in one step."""
        low, high = np.zeros(space.width), np.ones(space.width)
        for name, parameter, columns in space.items():
            if name in self.limit:
                low[columns], high[columns] = reachable(parameter, params[name], self.limit[name])
        return low, high


def _smallest_move(parameter: Parameter) -> float:
    """The distance between neighbouring values; of an Ordinal, one rank."""
    if isinstance(parameter, Float):
        return parameter.step or 0.0
    return parameter.step if isinstance(parameter, Int) else 1


def reachable(parameter: Parameter, value: Any, limit: float) -> tuple[float, float]:
    """The coordinates of the lowest and the highest value within `limit` of a value."""
    if isinstance(parameter, Ordinal):
        rank, last = parameter.choices.index(value), len(parameter.choices) - 1
        ends = [parameter.choices[max(rank - int(limit), 0)], parameter.choices[min(rank + int(limit), last)]]
    elif isinstance(parameter, Float | Int):
        down, up = min(limit, value - parameter.low), min(limit, parameter.high - value)
        if parameter.step is not None:
            down, up = (math.floor(room / parameter.step + 1e-9) * parameter.step for room in (down, up))
        ends = [value - down, value + up]
    else:
        raise ConfigurationError(f"{parameter!r} has no order, so its movement has no limit")
    first, second = (parameter.encode(end)[0] for end in ends)
    return min(first, second), max(first, second)
