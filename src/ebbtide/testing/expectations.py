"""How a check reports what it expected."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ebbtide.errors import EbbtideError


class ConformanceError(EbbtideError, AssertionError):
    """A part violates its interface."""


def expect(holds: bool, message: str) -> None:
    if not holds:
        raise ConformanceError(message)


def expect_equal(expected: Any, found: Any, what: str) -> None:
    expect(expected == found, f"{what}: expected {expected!r}, found {found!r}")


def expect_error(kind: type[Exception], act: Callable[[], object]) -> None:
    try:
        act()
    except kind:
        return
    expect(False, f"expected {kind.__name__}")


def expect_plain(memory: Any, owner: str) -> None:
    """A dict of numbers that survives JSON exactly, so that an optimizer can store it."""
    pairs = memory.items() if isinstance(memory, dict) else [(None, None)]
    plain = all(isinstance(key, str) and isinstance(value, float | int) for key, value in pairs)
    expect(plain, f"{owner} must be a dict of numbers by name, not {memory!r}")
    try:
        stored = json.loads(json.dumps(memory, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"{owner} cannot be stored as JSON ({error}): {memory!r}") from error
    expect(stored == memory, f"{owner} does not survive JSON: {memory!r}")


class Unchanged:
    """Copies of arrays, to check later that nothing was written to them."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays = arrays
        self.copies = {name: np.array(array, copy=True) for name, array in arrays.items()}

    def verify(self) -> None:
        for name, array in self.arrays.items():
            same = bool(np.array_equal(array, self.copies[name]))
            expect(same, f"{name} was changed: a part must not write to its inputs")
