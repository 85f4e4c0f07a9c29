"""Parameters that are numbers in a range."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import SpaceError
from ebbtide.space.parameter import OneColumn
from ebbtide.space.scales import Continuous, Scale, Steps, Whole


class _Number(OneColumn):
    """What Float and Int share: a range, which may be logarithmic or in steps."""

    low: float
    high: float
    log: bool
    step: float | None

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

    def _check_step(self, kind: str, step: float) -> None:
        shown = f"{kind}({self.low!r}, {self.high!r}, step={step!r})"
        if self.log:
            raise SpaceError(
                f"{shown}: a logarithmic range has no steps of equal size; leave out log or step, "
                "or list the values in an eb.Ordinal"
            )
        if Steps(self.low, self.high, step).count < 2:
            raise SpaceError(f"{shown}: the first step leads beyond the upper bound; take a smaller one")

    def _off(self, value: float) -> str | None:
        """What is wrong with a number of the right type."""
        if not self.low <= value <= self.high:
            return f"is {value!r}, outside [{self.low!r}, {self.high!r}]"
        if not isinstance(self.scale, Steps):
            return None
        nearest = self.scale.value(self.scale.index(value))
        if abs(value - nearest) <= max(1e-6 * self.scale.step, 8.0 * math.ulp(float(value))):
            return None  # rounded, as 0.1 + 0.2 is
        return f"is {value!r}, between two steps of {self.step!r} from {self.low!r}; the nearest is {nearest!r}"


@dataclass(frozen=True)
class Float(_Number):
    """A real number in [low, high]; with a step, one of low, low + step, … up to high.

    >>> Float(1.0, 100.0, log=True).encode(10.0)
    [0.5]
    >>> Float(0.0, 1.0, step=0.25).encode(0.5)
    [0.5]
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        self._check_range("Float")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if self.step is not None:
            shown = f"Float({self.low!r}, {self.high!r}, step={self.step!r})"
            step = as_finite(self.step)
            if step is None or step <= 0.0:
                raise SpaceError(f"{shown}: the step must be a number above 0, or None")
            self._check_step("Float", step)
            if step < 1024.0 * math.ulp(max(abs(self.low), abs(self.high))):
                raise SpaceError(f"{shown}: floats of this size cannot tell such steps apart; leave the step out")
            object.__setattr__(self, "step", step)

    @cached_property
    def scale(self) -> Scale:
        if self.step is None:
            return Continuous(self.low, self.high, self.log)
        return Steps(self.low, self.high, self.step)

    def complaint(self, value: Any) -> str | None:
        number = as_finite(value)
        if number is None:
            return f"is {value!r}; give a finite number in [{self.low!r}, {self.high!r}]"
        return self._off(number)

    def plain(self, value: Any) -> float:
        return float(value if self.step is None else self.scale.decode(self.scale.encode(value)))

    def to_json(self) -> dict[str, Any]:
        described = {"type": "float", "low": self.low, "high": self.high, "log": self.log}
        return described if self.step is None else described | {"step": self.step}


@dataclass(frozen=True)
class Int(_Number):
    """A whole number in [low, high], both included; with a step, one of low, low + step, … up to high.

    >>> Int(1, 4).encode(1), Int(1, 4).decode([0.9])
    ([0.125], 4)
    >>> Int(16, 64, step=16).encode(32), Int(16, 64, step=16).decode([0.9])
    ([0.375], 64)
    """

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        self._check_range("Int")
        if not (is_whole(self.low) and is_whole(self.high)):
            raise SpaceError(f"Int({self.low!r}, {self.high!r}): the bounds must be whole numbers")
        if max(abs(self.low), abs(self.high)) > 2**40:
            raise SpaceError(f"Int({self.low!r}, {self.high!r}): integers beyond 2**40 lose digits; use Float")
        if not is_whole(self.step) or self.step < 1:
            raise SpaceError(
                f"Int({self.low!r}, {self.high!r}, step={self.step!r}): the step must be a whole number above 0"
            )
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.step > 1:
            self._check_step("Int", self.step)

    @cached_property
    def scale(self) -> Scale:
        return Whole(self.low, self.high, self.log) if self.step == 1 else Steps(self.low, self.high, self.step)

    def complaint(self, value: Any) -> str | None:
        if not is_whole(value):
            return f"is {value!r}; give a whole number in [{self.low!r}, {self.high!r}]"
        return self._off(value)

    def plain(self, value: Any) -> int:
        return int(value)

    def to_json(self) -> dict[str, Any]:
        # Definitions stored before there were steps have no such key, and still compare equal.
        described = {"type": "int", "low": self.low, "high": self.high, "log": self.log}
        return described if self.step == 1 else described | {"step": self.step}
