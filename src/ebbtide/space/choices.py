"""Parameters that are one of a few choices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ebbtide.checks import as_finite, is_text
from ebbtide.errors import SpaceError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.space.parameter import OneColumn, Parameter, Value
from ebbtide.space.scales import Ranks


class _Chosen(Parameter):
    """What Categorical and Ordinal share: a list of choices."""

    choices: tuple[Value, ...]

    def complaint(self, value: Any) -> str | None:
        try:
            known = value in self.choices
        except Exception:  # something with an unusual __eq__, such as an array, is not one of the choices
            known = False
        return None if known else f"is {value!r}; choose one of {list(self.choices)!r}"

    def plain(self, value: Any) -> Value:
        return self.choices[self.choices.index(value)]


@dataclass(frozen=True)
class Categorical(_Chosen):
    """One of a few unordered choices: strings, numbers, booleans or None.

    >>> Categorical(["a", "b"]).encode("b")
    [0.0, 1.0]
    """

    choices: tuple[Value, ...]

    discrete = True

    def __init__(self, choices: Sequence[Value]) -> None:
        object.__setattr__(self, "choices", _checked("Categorical", choices))

    @property
    def width(self) -> int:  # type: ignore[override]
        """One column per choice."""
        return len(self.choices)

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


@dataclass(frozen=True)
class Ordinal(_Chosen, OneColumn):
    """One of a few choices in an order: neighbours behave alike, however far apart they are. Usually numbers.

    >>> Ordinal([64, 128, 256, 1024]).encode(128)
    [0.375]
    """

    choices: tuple[Value, ...]

    def __init__(self, choices: Sequence[Value]) -> None:
        kept = _checked("Ordinal", choices)
        numbers = [number for choice in kept if (number := as_finite(choice)) is not None]
        if len(numbers) == len(kept):
            rising = {a < b for a, b in pairwise(numbers)}
            if len(rising) > 1:
                raise SpaceError(
                    f"Ordinal({list(kept)!r}): the numbers go up and down; sort them, "
                    "or use eb.Categorical if their order means nothing"
                )
        object.__setattr__(self, "choices", kept)

    @cached_property
    def scale(self) -> Ranks:
        return Ranks(self.choices)

    def to_json(self) -> dict[str, Any]:
        return {"type": "ordinal", "choices": list(self.choices)}


def _checked(kind: str, choices: Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise SpaceError(f"{kind}({choices!r}): give a list of choices")
    kept = tuple(choices)
    if len(kept) < 2:
        raise SpaceError(f"{kind}({list(kept)!r}): give at least two choices, or leave the parameter out")
    for choice in kept:
        plain = not isinstance(choice, float) or math.isfinite(choice)
        plain &= not isinstance(choice, str) or is_text(choice)
        if not (choice is None or isinstance(choice, str | bool | int | float)) or not plain:
            raise SpaceError(f"{kind}: choice {choice!r} is not a string, a finite number, a boolean or None")
    seen = set()
    for choice in kept:
        if choice in seen:
            raise SpaceError(f"{kind}({list(kept)!r}): {choice!r} appears twice; remove one")
        seen.add(choice)
    return kept
