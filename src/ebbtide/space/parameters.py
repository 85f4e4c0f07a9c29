"""Parameters as a user writes them ⇄ coordinates in the unit cube, which the model sees.

| parameter   | columns | coordinate                                                        |
|-------------|---------|-------------------------------------------------------------------|
| Float       | 1       | (v − low)/(high − low), of the logarithms if log                   |
| Int         | 1       | centre of v's cell: [low − ½, high + ½] divided into equal cells   |
| Categorical | c       | one-hot                                                           |

The dict of parameters is authoritative; coordinates are derived from it. A suggestion is first decoded to parameters,
and the model gets *their* coordinates, so what is modelled is exactly what was suggested.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbtide.checks import as_finite, is_text, is_whole
from ebbtide.errors import SpaceError
from ebbtide.gp.arrays import Array, Rows

Value = float | int | str | bool | None
Params = dict[str, Any]


class Parameter(ABC):
    """One dimension of the search."""

    width: int  # columns of the unit cube
    discrete: bool

    @abstractmethod
    def complaint(self, value: Any) -> str | None:
        """What is wrong with a user's value, and what would be right; None if the value is valid."""

    @abstractmethod
    def encode(self, value: Any) -> list[float]:
        """Coordinates of a valid value."""

    @abstractmethod
    def decode(self, coordinates: Array) -> Any:
        """The value nearest to some coordinates; decode(encode(v)) == v for every v that decode returns."""

    @abstractmethod
    def snap(self, coordinates: Array) -> Array:
        """Rows of coordinates (m, width), moved to the coordinates of valid values."""

    @abstractmethod
    def spread(self, uniform: Array) -> Array:
        """Coordinates (m, width) of a uniform sample (m,) of [0, 1]."""

    @abstractmethod
    def neighbours(self, coordinates: Array) -> Array:
        """The values next to a discrete one, as coordinates (k, width)."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As JSON, in the form that the HTTP service uses."""


class _Numeric(Parameter):
    """What Float and Int share: a range, which may be logarithmic."""

    width = 1
    low: float
    high: float
    log: bool

    def _check_range(self, kind: str) -> None:
        low, high = self.low, self.high
        shown = f"{kind}({low!r}, {high!r}, log={self.log!r})"
        if as_finite(low) is None or as_finite(high) is None:
            raise SpaceError(f"{shown}: the bounds must be finite numbers")
        if not isinstance(self.log, bool):
            raise SpaceError(f"{shown}: log must be True or False")
        if low > high:
            raise SpaceError(f"{shown}: the lower bound is above the upper one; swap them")
        if low == high:
            raise SpaceError(f"{shown}: nothing to search between equal bounds; leave the parameter out")
        if self.log and low <= 0:
            raise SpaceError(f"{shown}: a logarithmic range needs a lower bound above 0")
        if not math.isfinite(high - low):
            raise SpaceError(f"{shown}: the range is wider than a float can hold; narrow it")

    def _outside(self, value: float) -> str | None:
        if not self.low <= value <= self.high:
            return f"is {value!r}, outside [{self.low!r}, {self.high!r}]"
        return None


@dataclass(frozen=True)
class Float(_Numeric):
    """A real number in [low, high].

    >>> Float(1.0, 100.0, log=True).encode(10.0)
    [0.5]
    """

    low: float
    high: float
    log: bool = False

    discrete = False

    def __post_init__(self) -> None:
        self._check_range("Float")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    def complaint(self, value: Any) -> str | None:
        number = as_finite(value)
        if number is None:
            return f"is {value!r}; give a finite number in [{self.low!r}, {self.high!r}]"
        return self._outside(number)

    def encode(self, value: Any) -> list[float]:
        if self.log:
            low = math.log(self.low)
            position = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            position = (value - self.low) / (self.high - self.low)
        return [min(max(position, 0.0), 1.0)]

    def decode(self, coordinates: Array) -> float:
        value = self._place(float(coordinates[0]))
        # Encoding and decoding are monotone, so repeated round trips drift to one side until they reach a fixed point,
        # nearly always at once. There, decode(encode(v)) == v exactly.
        for _ in range(1000):
            again = self._place(self.encode(value)[0])
            if again == value:
                break
            value = again
        return value

    def _place(self, position: float) -> float:
        if position <= 0.0:
            return self.low
        if position >= 1.0:
            return self.high
        if self.log:
            low = math.log(self.low)
            value = math.exp(low + position * (math.log(self.high) - low))
        else:
            value = self.low + position * (self.high - self.low)
        return min(max(value, self.low), self.high)

    def snap(self, coordinates: Array) -> Array:
        return np.clip(coordinates, 0.0, 1.0)

    def spread(self, uniform: Array) -> Array:
        return uniform[:, None]

    def neighbours(self, coordinates: Array) -> Array:
        return np.empty((0, 1))

    def to_json(self) -> dict[str, Any]:
        return {"type": "float", "low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True)
class Int(_Numeric):
    """A whole number in [low, high], both included.

    >>> Int(1, 4).encode(1), Int(1, 4).decode(np.array([0.9]))
    ([0.125], 4)
    """

    low: int
    high: int
    log: bool = False

    discrete = True

    def __post_init__(self) -> None:
        self._check_range("Int")
        if not (is_whole(self.low) and is_whole(self.high)):
            raise SpaceError(f"Int({self.low!r}, {self.high!r}): the bounds must be whole numbers")
        if max(abs(self.low), abs(self.high)) > 2**40:
            raise SpaceError(f"Int({self.low!r}, {self.high!r}): integers beyond 2**40 lose digits; use Float")
        object.__setattr__(self, "low", int(self.low))
        object.__setattr__(self, "high", int(self.high))

    @property
    def _edges(self) -> tuple[float, float]:
        low, high = self.low - 0.5, self.high + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def complaint(self, value: Any) -> str | None:
        if not is_whole(value):
            return f"is {value!r}; give a whole number in [{self.low!r}, {self.high!r}]"
        return self._outside(value)

    def encode(self, value: Any) -> list[float]:
        return [float(self._positions(np.array(value)))]

    def decode(self, coordinates: Array) -> int:
        return int(self._nearest(coordinates[:1])[0])

    def _nearest(self, positions: Array) -> Array:
        low, high = self._edges
        inside = low + np.clip(positions, 0.0, 1.0) * (high - low)
        return np.clip(np.rint(np.exp(inside) if self.log else inside), self.low, self.high)

    def _positions(self, values: Array) -> Array:
        low, high = self._edges
        return ((np.log(values) if self.log else values) - low) / (high - low)

    def snap(self, coordinates: Array) -> Array:
        return self._positions(self._nearest(coordinates))

    def spread(self, uniform: Array) -> Array:
        return self.snap(uniform[:, None])

    def neighbours(self, coordinates: Array) -> Array:
        value = self.decode(coordinates)
        near = [v for v in (value - 1, value + 1) if self.low <= v <= self.high]
        return np.array([self.encode(v) for v in near])

    def to_json(self) -> dict[str, Any]:
        return {"type": "int", "low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True)
class Categorical(Parameter):
    """One of a few unordered choices: strings, numbers, booleans or None.

    >>> Categorical(["a", "b"]).encode("b")
    [0.0, 1.0]
    """

    choices: tuple[Value, ...]

    discrete = True

    def __init__(self, choices: Sequence[Value]) -> None:
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise SpaceError(f"Categorical({choices!r}): give a list of choices")
        kept = tuple(choices)
        if len(kept) < 2:
            raise SpaceError(f"Categorical({list(kept)!r}): give at least two choices, or leave the parameter out")
        for choice in kept:
            plain = not isinstance(choice, float) or math.isfinite(choice)
            plain &= not isinstance(choice, str) or is_text(choice)
            if not (choice is None or isinstance(choice, str | bool | int | float)) or not plain:
                raise SpaceError(f"Categorical: choice {choice!r} is not a string, a finite number, a boolean or None")
        for index, choice in enumerate(kept):
            if choice in kept[:index]:
                raise SpaceError(f"Categorical({list(kept)!r}): {choice!r} appears twice; remove one")
        object.__setattr__(self, "choices", kept)

    @property
    def width(self) -> int:  # type: ignore[override]
        """One column per choice."""
        return len(self.choices)

    def complaint(self, value: Any) -> str | None:
        try:
            known = value in self.choices
        except Exception:  # something with an unusual __eq__, such as an array, is not one of the choices
            known = False
        return None if known else f"is {value!r}; choose one of {list(self.choices)!r}"

    def encode(self, value: Any) -> list[float]:
        return [float(index == self.choices.index(value)) for index in range(len(self.choices))]

    def _one_hot(self, indices: Rows) -> Array:
        rows: Array = np.eye(self.width)[indices]
        return rows

    def decode(self, coordinates: Array) -> Value:
        return self.choices[int(np.argmax(coordinates))]

    def snap(self, coordinates: Array) -> Array:
        return self._one_hot(np.argmax(coordinates, axis=1))

    def spread(self, uniform: Array) -> Array:
        return self._one_hot(np.minimum((uniform * self.width).astype(int), self.width - 1))

    def neighbours(self, coordinates: Array) -> Array:
        return np.delete(np.eye(self.width), int(np.argmax(coordinates)), axis=0)

    def to_json(self) -> dict[str, Any]:
        return {"type": "categorical", "choices": list(self.choices)}


def parameter_from_json(name: str, description: Any) -> Parameter:
    kinds: dict[Any, type[Parameter]] = {"float": Float, "int": Int, "categorical": Categorical}
    if not isinstance(description, Mapping) or description.get("type") not in kinds:
        raise SpaceError(f'{name!r} is {description!r}; give {{"type": "float" | "int" | "categorical", ...}}')
    fields = {key: value for key, value in description.items() if key != "type"}
    try:
        return kinds[description["type"]](**fields)
    except TypeError as error:
        raise SpaceError(f"{name!r}: {error}") from None


def plain(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.choices[parameter.choices.index(value)]
    return int(value) if isinstance(parameter, Int) else float(value)
