"""Values in an order ⇄ one coordinate in [0, 1]."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ebbtide.gp.arrays import Array


class Scale(ABC):
    discrete = True

    @abstractmethod
    def encode(self, value: Any) -> float: ...

    @abstractmethod
    def decode(self, position: float) -> Any: ...

    @abstractmethod
    def snap(self, positions: Array) -> Array:
        """Any shape, to the positions of values."""

    @abstractmethod
    def near(self, position: float) -> list[float]:
        """The positions on either side of a discrete value's."""


@dataclass(frozen=True)
class Continuous(Scale):
    """All real numbers from `low` to `high`."""

    low: float
    high: float
    log: bool

    discrete = False

    def encode(self, value: Any) -> float:
        if self.log:
            low = math.log(self.low)
            position = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            position = (value - self.low) / (self.high - self.low)
        return min(max(position, 0.0), 1.0)

    def decode(self, position: float) -> float:
        value = self._place(position)
        # Encoding and decoding are monotone, so repeated round trips drift to one side until they reach a fixed point,
        # nearly always at once. There, decode(encode(v)) == v exactly.
        for _ in range(1000):
            again = self._place(self.encode(value))
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

    def snap(self, positions: Array) -> Array:
        return np.clip(positions, 0.0, 1.0)

    def near(self, position: float) -> list[float]:
        return []


@dataclass(frozen=True)
class Whole(Scale):
    """All whole numbers from `low` to `high`, each in the middle of its cell."""

    low: int
    high: int
    log: bool

    @property
    def _edges(self) -> tuple[float, float]:
        low, high = self.low - 0.5, self.high + 0.5
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def encode(self, value: Any) -> float:
        return float(self._positions(np.array(value)))

    def decode(self, position: float) -> int:
        return int(self._nearest(np.array(position)))

    def _nearest(self, positions: Array) -> Array:
        low, high = self._edges
        inside = low + np.clip(positions, 0.0, 1.0) * (high - low)
        return np.clip(np.rint(np.exp(inside) if self.log else inside), self.low, self.high)

    def _positions(self, values: Array) -> Array:
        low, high = self._edges
        return ((np.log(values) if self.log else values) - low) / (high - low)

    def snap(self, positions: Array) -> Array:
        return self._positions(self._nearest(positions))

    def near(self, position: float) -> list[float]:
        value = self.decode(position)
        return [self.encode(v) for v in (value - 1, value + 1) if self.low <= v <= self.high]


class Evenly(Scale):
    """A list of values, the k-th of n at (k + ½)/n."""

    def __init__(self, count: int) -> None:
        self.count = count

    @abstractmethod
    def index(self, value: Any) -> int:
        """Which value of the list this is, or is nearest to."""

    @abstractmethod
    def value(self, index: int) -> Any: ...

    def encode(self, value: Any) -> float:
        return (self.index(value) + 0.5) / self.count

    def decode(self, position: float) -> Any:
        return self.value(int(self._indices(np.array(position))))

    def _indices(self, positions: Array) -> Array:
        return np.clip(np.floor(positions * self.count), 0, self.count - 1)

    def snap(self, positions: Array) -> Array:
        return (self._indices(positions) + 0.5) / self.count

    def near(self, position: float) -> list[float]:
        here = int(self._indices(np.array(position)))
        return [(k + 0.5) / self.count for k in (here - 1, here + 1) if 0 <= k < self.count]


class Steps(Evenly):
    """The numbers low, low + step, low + 2 step … that are not above `high`; whole if low and step are.

    The sums are those of the decimal numbers that were written: 0.0 and three steps of 0.1 are 0.3.
    """

    def __init__(self, low: float, high: float, step: float) -> None:
        self.low, self.high, self.step = low, high, step
        self._start, self._stride = Fraction(repr(low)), Fraction(repr(step))
        # A hair more, so that a rounded step (1/23) still arrives at the upper bound.
        super().__init__(int((Fraction(repr(high)) - self._start) / self._stride + Fraction(1, 10**9)) + 1)

    def index(self, value: Any) -> int:
        return int(min(max(round((value - self.low) / self.step), 0), self.count - 1))

    def value(self, index: int) -> float:
        exact = self._start + index * self._stride
        return int(exact) if isinstance(self.low, int) else min(float(exact), self.high)


class Ranks(Evenly):
    """Choices in the order given."""

    def __init__(self, choices: tuple[Any, ...]) -> None:
        super().__init__(len(choices))
        self.choices = choices

    def index(self, value: Any) -> int:
        return self.choices.index(value)

    def value(self, index: int) -> Any:
        return self.choices[index]
