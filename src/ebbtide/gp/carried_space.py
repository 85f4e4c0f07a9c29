"""Theorem 4.1 for kernels with a context or with cycles: only what it needs of space is carried along.

A kernel with cycles has dozens of features in time, and the contexts that may come again change with every tell. So
C = C_S ∘ C_T ∘ C_C is put together when it is needed, from overlaps in space that are kept. All scores then take one
product of two n×n matrices; the score of a single observation takes O(n²).
"""

from collections.abc import Sequence

import numpy as np

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Array
from ebbtide.gp.carried import Carried, Leaving, Process
from ebbtide.gp.convolutions import overlap, overlap_in_context, temporal_convolution
from ebbtide.gp.criterion import Bounded
from ebbtide.gp.kernels import Matern, SpaceTimeKernel, SquaredExponential
from ebbtide.gp.linalg import resized, symmetric, vacate


class CarriedSpace(Carried["LeavingSpace"]):
    """The overlaps in space of the rows of a model."""

    def __init__(self, kernel: SpaceTimeKernel, spatial: SquaredExponential | Matern, X: Array, capacity: int) -> None:
        self.kernel, self.spatial = kernel, spatial
        points = kernel.split(X)[0]
        pairs = overlap(spatial, spatial.scaled_distance(points), points.shape[1])
        self.C = resized(symmetric(pairs, 1.0, len(X)), (capacity, capacity))

    @property
    def nbytes(self) -> int:
        return self.C.nbytes

    def resize(self, capacity: int) -> None:
        self.C = resized(self.C, (capacity, capacity))

    def extend(self, X: Array, t: Array, w: Array, P: Array) -> None:
        n, points = len(t), self.kernel.split(X)[0]
        rho = self.spatial.scaled_distance(points[-1:], points)[0]
        self.C[n - 1, :n] = self.C[:n, n - 1] = overlap(self.spatial, rho, points.shape[1])

    def leaving(self, model: Process, alpha: Array, now: float, contexts: Array | None) -> "LeavingSpace":
        return LeavingSpace(self, model, alpha, now, contexts)

    def without(self, model: Process, rows: Sequence[int]) -> None:
        return None

    def adopt(self, left: "LeavingSpace") -> None:
        pass

    def vacate(self, hole: int, last: int) -> None:
        vacate(self.C, hole, last)


class LeavingSpace(Leaving, Bounded):
    """Theorem 4.1 at one time."""

    def __init__(self, parts: CarriedSpace, model: Process, alpha: Array, now: float, contexts: Array | None) -> None:
        super().__init__(model.P, alpha)
        kernel, n = parts.kernel, len(alpha)
        self.t, self.temporal, self.still = model.t, kernel.temporal, parts.C[:n, :n]
        if kernel.context is not None:
            seen = kernel.split(model.X)[1]
            self.still = self.still * overlap_in_context(kernel.context, seen, seen if contexts is None else contexts)
        self.at(now)

    def at(self, now: float) -> None:
        fading = None if self.temporal is None else temporal_convolution(self.temporal, now - self.t)
        if fading is None:
            raise NumericalError(f"{self.temporal!r}: no closed form of the integral over the future is known")
        self.C = self.still * fading.matrix
        self.mean_part = float(self.alpha @ (self.C @ self.alpha))
        self.variance_part = float(np.einsum("ij,ij->", self.removal.left, self.C))
        self._q: Array | None = None

    @property
    def q(self) -> Array:
        if self._q is None:
            P = self.removal.left
            self._q = np.einsum("ij,ij->i", P @ self.C, P)
        return self._q

    def score(self, row: int) -> float:
        if self._q is not None:
            return super().score(row)
        column, total = self.removal.column(row), self.mean_part + self.variance_part
        precision, q = column[row], max(float(column @ (self.C @ column)), 0.0)
        loss = ((self.alpha[row] / precision) ** 2 + 1.0 / precision) * q
        return float(np.sqrt(loss / total)) if total > 0.0 else 0.0

    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        C_column = self.C @ column
        q = float(column @ C_column)
        self.mean_part += residual * (residual * q - 2.0 * float(self.alpha @ C_column))
        self.variance_part -= q / precision
        if self._q is not None:
            r, p = column / precision, self.removal.times(C_column)
            self._q = self._q - 2.0 * r * p + r * r * q
