"""Limits of values that are measured with the objective."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.checks import as_finite, is_text
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array

MAX_NAME = 100


@dataclass(frozen=True)
class _Limit:
    limit: float

    def __post_init__(self) -> None:
        limit = as_finite(self.limit)
        if limit is None:
            raise ConfigurationError(
                f"{type(self).__name__}({self.limit!r}): give a finite number, in the value's unit"
            )
        object.__setattr__(self, "limit", limit)


@dataclass(frozen=True)
class AtMost(_Limit):
    """A measured value that should not be above a limit.

    >>> AtMost(50.0).is_broken(50.0), AtMost(50.0).is_broken(50.1)
    (False, True)
    """

    def is_broken(self, value: float) -> bool:
        """Whether a measured value breaks the limit."""
        return value > self.limit

    def excess(self, values: Array) -> Array:
        """By how much values break the limit; negative if they do not."""
        return values - self.limit

    def to_json(self) -> dict[str, float]:
        """As JSON, in the form that the HTTP service uses."""
        return {"at_most": self.limit}


@dataclass(frozen=True)
class AtLeast(_Limit):
    """A measured value that should not be below a limit.

    >>> AtLeast(0.9).is_broken(0.9), AtLeast(0.9).is_broken(0.8)
    (False, True)
    """

    def is_broken(self, value: float) -> bool:
        """Whether a measured value breaks the limit."""
        return value < self.limit

    def excess(self, values: Array) -> Array:
        """By how much values break the limit; negative if they do not."""
        return self.limit - values

    def to_json(self) -> dict[str, float]:
        """As JSON, in the form that the HTTP service uses."""
        return {"at_least": self.limit}


LIMITS: dict[str, type[AtMost] | type[AtLeast]] = {"at_most": AtMost, "at_least": AtLeast}


def constraints_of(given: Any) -> dict[str, AtMost | AtLeast]:
    if not isinstance(given, Mapping) or not all(map(is_name, given)):
        raise ConfigurationError(f'constraints={given!r}: give names and limits, such as {{"p99_ms": eb.AtMost(50.0)}}')
    return {name: _limit(name, limit) for name, limit in given.items()}


def _limit(name: str, given: Any) -> AtMost | AtLeast:
    if isinstance(given, AtMost | AtLeast):
        return given
    if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in LIMITS:
        raise ConfigurationError(
            f"the constraint {name!r} is {given!r}: give one limit, eb.AtMost(50.0) or eb.AtLeast(0.9), in JSON "
            '{"at_most": 50.0} or {"at_least": 0.9}; for two limits, give two constraints'
        )
    ((word, limit),) = given.items()
    try:
        return LIMITS[word](limit)
    except ConfigurationError as error:
        raise ConfigurationError(f"the constraint {name!r}: {error}") from None


def is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and is_text(name)
