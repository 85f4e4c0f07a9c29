"""The active observations as columns, and the standardisation of their values."""

from dataclasses import dataclass

import numpy as np

from ebbtide.arrays import Array, Rows


class Dataset:
    """Rows x (unit cube), t, y (the user's unit) and the index of each in the history, in the order told."""

    def __init__(self, width: int) -> None:
        self._n = 0
        self._x = np.empty((16, width))
        self._t, self._y = np.empty(16), np.empty(16)
        self._index = np.empty(16, dtype=np.intp)

    def __len__(self) -> int:
        return self._n

    @property
    def x(self) -> Array:
        return _frozen(self._x[: self._n])

    @property
    def t(self) -> Array:
        return _frozen(self._t[: self._n])

    @property
    def y(self) -> Array:
        return _frozen(self._y[: self._n])

    @property
    def index(self) -> Rows:
        return self._index[: self._n].copy()

    def append(self, x: Array, t: float, y: float, index: int) -> None:
        if self._n == len(self._t):  # double, so that n appends cost O(n)
            self._x, self._t, self._y, self._index = (
                np.concatenate([column, np.empty_like(column)]) for column in (self._x, self._t, self._y, self._index)
            )
        self._x[self._n], self._t[self._n], self._y[self._n] = x, t, y
        self._index[self._n] = index
        self._n += 1

    def keep(self, rows: Rows) -> None:
        for column in (self._x, self._t, self._y, self._index):
            column[: len(rows)] = column[rows]
        self._n = len(rows)


def _frozen(view: Array) -> Array:
    """A copy that cannot be written to: what was handed out does not change, nor change the optimizer."""
    copy = view.copy()
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True)
class Standardization:
    """z = (y − mean)/scale, computed so that |y| of 1e300 and differences of 1e-300 are both fine."""

    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: Array) -> "Standardization":
        largest = float(np.abs(y).max(initial=0.0))
        if largest == 0.0:
            return cls()
        unit = y / largest
        mean, deviation = float(unit.mean()), float(unit.std())
        scale = deviation * largest
        if deviation <= 1e-14 or scale == 0.0:  # all equal, up to rounding
            return cls(mean * largest, 1.0)
        return cls(mean * largest, scale)

    def apply(self, y: Array) -> Array:
        # Halves cannot overflow where y − mean might; and an outlier of more than 1e100 deviations, told since the
        # scale was fixed, must not overflow the model's squares.
        with np.errstate(over="ignore"):
            z = 2.0 * ((0.5 * y - 0.5 * self.mean) / self.scale)
        return np.clip(z, -1e100, 1e100)
