"""Numbers with as many digits as a figure can show."""

from collections.abc import Iterable
from math import ceil, inf, isfinite, log10

import numpy as np

from ebbtide.gp.arrays import Array

MAX_DIGITS = 15


def short(values: Iterable[float | None], kept: int | None = None) -> list[float | None]:
    """With as many digits as a figure can show; None for what is not finite."""
    given = [None if value is None or not isfinite(value) else value for value in values]
    kept = kept or digits(value for value in given if value is not None)
    return [None if value is None else _rounded(value, kept) for value in given]


def _rounded(value: float, kept: int) -> float:
    rounded = float(f"{value:.{kept}g}")
    return rounded if isfinite(rounded) else value  # the largest float cannot be rounded up


def short_rows(matrix: Array) -> list[list[float | None]]:
    """The same, with as many digits for all rows."""
    kept = digits(matrix[np.isfinite(matrix)].tolist())
    return [short(row, kept) for row in matrix.tolist()]


def digits(values: Iterable[float]) -> int:
    """How many digits it takes to tell the values apart, to six digits of their spread."""
    known = list(values)
    spread = max(known, default=0.0) - min(known, default=0.0)
    if not 0.0 < spread < inf:
        return MAX_DIGITS
    return min(MAX_DIGITS, 6 + max(0, ceil(log10(max(map(abs, known)) / spread))))
