"""What the model believes, as a map: up a parameter; across time, or a variable of the context."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.dashboard.numbers import short_rows
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.records import Observation, Recommendation
from ebbtide.space import Categorical, Float, Int, Parameter, Params
from ebbtide.space.parameter import OneColumn
from ebbtide.space.scales import Evenly
from ebbtide.study.conditions import Conditions
from ebbtide.study.variables import coordinates

COLUMNS, ROWS = 72, 40  # of a map
NEAR = 2.0  # ranges: what was measured further away from the range's middle does not widen a map


@dataclass(frozen=True)
class Choice:
    """Which map is drawn: by default, of the first parameter over time, in the latest context."""

    parameter: str | None = None
    across: str | None = None  # a variable of the context; None: time
    context: Params = field(default_factory=dict)  # variables that are not as measured last

    @classmethod
    def of(
        cls,
        definition: Mapping[str, Any],
        parameter: str | None,
        across: str | None,
        context: Mapping[str, Any] | None,
    ) -> "Choice":
        """What a viewer chose; an error if the study has no such thing."""
        conditions = Conditions.from_json(definition)
        if parameter is not None and parameter not in definition["space"]:
            raise ConfigurationError(f"parameter={parameter!r}: choose one of {', '.join(definition['space'])}")
        if across is not None and across not in conditions.variables:
            known = ", ".join(conditions.variables) or "none: this study has no context"
            raise ConfigurationError(f"across={across!r}: leave it out for time, or choose one of {known}")
        return cls(parameter, across, conditions.measured(context))


def map_of(
    followed: FollowedStudy,
    best: Recommendation,
    choice: Choice,
    times: Array,
    now: float,
    seen: Iterable[Observation],
) -> dict[str, Any]:
    """Mean and deviation, with the other parameters at the current recommendation."""
    engine, across = followed.engine, choice.across
    name = choice.parameter or next(iter(engine.space.parameters))
    values = scale_of(engine.space.parameters[name])
    points = [best.params | {name: value} for value in values]
    context = followed.context | choice.context
    if across is None:
        columns = times.tolist()
        mean, std = engine.field(points, times, now, followed.coordinates(context))
    else:
        variable = engine.definition.conditions.variables[across]
        columns = _scale_across(variable, [told.context[across] for told in seen if told.context])
        contexts = [followed.coordinates(context | {across: value}) for value in columns]
        fields = [engine.field(points, np.array([now]), now, each) for each in contexts]
        mean, std = (np.concatenate(part) for part in zip(*fields, strict=True))
    return {
        "parameter": name,
        "across": across,
        "context": context,
        "column": columns,
        "value": values,
        "mean": short_rows(mean.T),
        "std": short_rows(std.T),
    }


def scale_of(parameter: Parameter) -> list[Any]:
    """Values of a parameter from one end of its range to the other."""
    match parameter:
        case Categorical():
            return list(parameter.choices)
        case OneColumn(scale=Evenly() as scale) if scale.count <= ROWS:
            return [scale.value(index) for index in range(scale.count)]
        case Int() if parameter.high - parameter.low < ROWS:
            return list(range(parameter.low, parameter.high + 1))
        case OneColumn():
            return list(dict.fromkeys(parameter.decode(np.array([u])) for u in np.linspace(0.0, 1.0, ROWS)))
    raise ConfigurationError(f"{parameter!r} cannot be drawn")


def _scale_across(variable: Parameter, seen: Sequence[Any]) -> list[Any]:
    """Values of a variable of the context: over its range, and what was measured around it."""
    if not isinstance(variable, Float | Int):
        return scale_of(variable)
    near = [value for value in seen if abs(coordinates(variable, value)[0] - 0.5) <= NEAR]
    low, high = min([variable.low, *near]), max([variable.high, *near])
    spaced = np.geomspace if variable.log else np.linspace
    return list(map(float, spaced(low, high, COLUMNS)))
