"""The active observations as columns, and the standardisation of their values."""

from dataclasses import dataclass

import numpy as np

from ebbtide.arrays import Array, Rows


@dataclass(frozen=True)
class Dataset:
    """Active observations, in the order told: x (unit cube), t (the clock's unit) and y (the objective's unit)."""

    x: Array
    t: Array
    y: Array

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: Rows) -> "Dataset":
        return Dataset(self.x[rows], self.t[rows], self.y[rows])


class Table:
    """The rows behind a dataset, which come and go; each knows its line in the history."""

    def __init__(self, width: int) -> None:
        self._n = 0
        self._columns = (np.empty((16, width)), np.empty(16), np.empty(16), np.empty(16, dtype=np.intp))

    def __len__(self) -> int:
        return self._n

    def append(self, x: Array, t: float, y: float, line: int) -> None:
        if self._n == len(self._columns[1]):  # double, so that n appends cost O(n)
            self._columns = tuple(np.concatenate([c, np.empty_like(c)]) for c in self._columns)  # type: ignore[assignment]
        xs, ts, ys, lines = self._columns
        xs[self._n], ts[self._n], ys[self._n], lines[self._n] = x, t, y, line
        self._n += 1

    def keep(self, rows: Rows) -> None:
        for column in self._columns:
            column[: len(rows)] = column[rows]
        self._n = len(rows)

    @property
    def lines(self) -> Rows:
        return self._columns[3][: self._n].copy()

    def dataset(self) -> Dataset:
        """A copy that cannot be written to: what is handed out does not change, nor change the optimizer."""
        copies = [column[: self._n].copy() for column in self._columns[:3]]
        for copy in copies:
            copy.flags.writeable = False
        return Dataset(*copies)


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
        if deviation <= 1e-14 or scale == 0.0:  # all equal, up to rounding, which must not be blown up
            return cls(mean * largest, max(1.0, 1e-8 * largest))
        return cls(mean * largest, scale)

    def apply(self, y: Array) -> Array:
        # Halves cannot overflow where y − mean might; and an outlier of more than 1e100 deviations, told since the
        # scale was fixed, must not overflow the model's squares.
        with np.errstate(over="ignore"):
            z = 2.0 * ((0.5 * y - 0.5 * self.mean) / self.scale)
        return np.clip(z, -1e100, 1e100)
