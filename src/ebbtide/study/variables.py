"""One variable of a context: a value that is measured, and may lie outside its range, ⇄ coordinates.

Inside its range, a value has the coordinates of a parameter's (see ebbtide.space.parameter).
"""

import math
from typing import Any

from ebbtide.checks import as_finite
from ebbtide.space import Float, Int, Parameter
from ebbtide.space.scales import Steps

WHOLE = 2.0**53  # whole numbers up to here are floats, too
FARTHEST = 1e9  # ranges: however large a measured value is, its coordinate can be computed with


def complaint(variable: Parameter, value: Any) -> str | None:
    """What is wrong with a measured value; not that it is out of range."""
    if not isinstance(variable, Float | Int):
        return variable.complaint(value)
    number = as_finite(value)
    if number is None:
        return f"is {value!r}; give a finite number"
    if variable.log and number <= 0.0:
        return f"is {value!r}, but its range is logarithmic; give a number above 0, or define it without log"
    return None


def plain(variable: Parameter, value: Any) -> Any:
    """A value as Python's own number or choice; a measured value may be between whole numbers or steps."""
    if not isinstance(variable, Float | Int):
        return variable.plain(value)
    number = float(value)
    return int(number) if isinstance(variable, Int) and number.is_integer() and abs(number) < WHOLE else number


def coordinates(variable: Parameter, value: Any) -> list[float]:
    if not isinstance(variable, Float | Int):
        return variable.encode(value)
    low, high = _edges(variable)
    if variable.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    position = (value - low) / (high - low)
    return [min(max(position, -FARTHEST), FARTHEST)]


def _edges(variable: Float | Int) -> tuple[float, float]:
    """Where the coordinates are 0 and 1: half a step beyond the first and the last value, if there are steps."""
    if variable.step is None:
        return variable.low, variable.high
    scale = variable.scale
    last = scale.value(scale.count - 1) if isinstance(scale, Steps) else variable.high
    return variable.low - 0.5 * variable.step, last + 0.5 * variable.step
