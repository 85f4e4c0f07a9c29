"""Small checks of user input."""

import math
import numbers
from typing import Any, TypeGuard

import numpy as np


def as_finite(value: Any) -> float | None:
    """The value as a float; None if it is not a number, is not finite, or is too large for a float."""
    if type(value) is float:  # as nearly always, and much faster
        return value if math.isfinite(value) else None
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def is_text(value: str) -> bool:
    """Whether a string can be encoded: half of a surrogate pair, which JSON lets through, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def is_plain_name(value: Any) -> TypeGuard[str]:
    """Whether it is a printable text without a slash, so that a path or a URL can hold it."""
    return isinstance(value, str) and value.isprintable() and is_text(value) and "/" not in value


def is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
