"""The parts of the criterion that do not depend on the present, carried along while rows come and go and time passes.

When P grows or shrinks by w wᵀ (incremental.py), for any symmetric M

    diag(P′MP′) = diag(PMP) ± 2 w∘(PMw) + (w∘w)(wᵀMw)        tr(P′M) = tr(PM) ± wᵀMw

and with the features of fading.py the C of Theorem 4.1 (criterion.py) is Σ_ab G_ab M_ab, M_ab = ψ_aψ_bᵀ ∘ C_S, where
only the few numbers G depend on the present. So

    q = Σ_ab G_ab Q_ab        αᵀCα + tr(PC) = Σ_ab G_ab (αᵀM_abα + T_ab)

cost O(n) at any time, and two products of a matrix with a vector when a row comes or goes.

| symbol | meaning                                              | shape        |
|--------|------------------------------------------------------|--------------|
| ψ      | features in time (fading.py), r of them              | (r, n)       |
| a ≤ b  | the pairs of features, r(r+1)/2 of them              |              |
| C_S    | overlaps in space (convolutions.py)                  | (n, n)       |
| Q_ab   | diag(P M_ab P)                                       | (pairs, n)   |
| T_ab   | tr(P M_ab)                                           | (pairs,)     |
| W      | the w of the rows that have left, one after the other | (gone, n)    |

Arrays have room for more rows than there are; the rest is zero. The true criterion has a form of its own
(carried_exact.py), and so have kernels with a context or with cycles (carried_space.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.convolutions import overlap
from ebbtide.gp.criterion import Criterion
from ebbtide.gp.fading import Fading
from ebbtide.gp.kernels import Matern, SquaredExponential
from ebbtide.gp.linalg import resized, symmetric, vacate

FAR = 1.0  # times 1/ω: how far a new row may be after the reference


class Removal:
    """Rows that leave one after the other: P − WᵀW, while P itself stays as it is."""

    def __init__(self, P: Array) -> None:
        self.P, self.rows = P, list[int]()
        self.diagonal = P.diagonal().copy()
        self.live = np.ones(len(P), dtype=bool)
        self._W = np.empty((0, len(P)))

    @classmethod
    def of(cls, P: Array, rows: Sequence[int]) -> "Removal":
        """The removal of these rows, in this order."""
        removal = cls(P)
        for row in rows:
            column = removal.column(row)
            removal.remove(row, column / np.sqrt(column[row]))
        return removal

    @property
    def W(self) -> Array:
        return self._W[: len(self.rows)]

    def column(self, row: int) -> Array:
        """A column of what P has become."""
        if not self.rows:
            return self.P[:, row].copy()
        column: Array = self.P[:, row] - self.W[:, row] @ self.W
        column[~self.live] = 0.0
        return column

    @property
    def left(self) -> Array:
        """What P has become."""
        return self.P - self.W.T @ self.W if self.rows else self.P

    def times(self, vectors: Array) -> Array:
        """The product of each of these rows with what P has become."""
        product = vectors @ self.P
        if self.rows:
            product -= (vectors @ self.W.T) @ self.W
        return product

    def remove(self, row: int, w: Array) -> None:
        if len(self.rows) == len(self._W):
            self._W = resized(self._W, (2 * len(self._W) + 8, len(w)))
        self._W[len(self.rows)] = w
        self.rows.append(row)
        self.diagonal -= w * w
        self.live[row] = False


class Leaving(Criterion):
    """A criterion whose parts are carried: time passes for it, and rows leave a copy of the parts."""

    def __init__(self, P: Array, alpha: Array) -> None:
        self.P, self.alpha, self.removal = P, alpha, Removal(P)
        self.live = self.removal.live

    @abstractmethod
    def at(self, now: float) -> None:
        """Let it be another time."""

    @property
    def precision(self) -> Array:
        diagonal = self.removal.diagonal
        return np.where(self.live, diagonal, 1.0) if self.removal.rows else diagonal

    def remove(self, row: int) -> None:
        column = self.removal.column(row)
        precision, residual = column[row], self.alpha[row] / column[row]
        self._forget(row, column, precision, residual)
        self.alpha = self.alpha - residual * column
        self.removal.remove(row, column / np.sqrt(precision))


L = TypeVar("L", bound=Leaving)


class Process(Protocol):
    """The model whose criterion is carried, as it is now."""

    @property
    def X(self) -> Array: ...
    @property
    def t(self) -> Array: ...
    @property
    def P(self) -> Array: ...


class Carried(ABC, Generic[L]):
    """The parts of the criterion for the rows of a model that gains and loses them."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How much memory the largest arrays take."""

    @abstractmethod
    def resize(self, capacity: int) -> None:
        """Make room for so many rows."""

    @abstractmethod
    def extend(self, X: Array, t: Array, w: Array, P: Array) -> None:
        """The last row of X and t is new: P, which still has zeros for it, gains w wᵀ."""

    @abstractmethod
    def leaving(self, model: Process, alpha: Array, now: float, contexts: Array | None) -> L:
        """The criterion at a time, whose rows can be removed; `contexts` are those that may come again, if any do."""

    def without(self, model: Process, rows: Sequence[int]) -> L | None:
        """What `adopt` needs when these rows go; None if nothing here depends on P."""
        left = self.leaving(model, np.zeros(len(model.t)), float(model.t.max()), None)
        for row in rows:
            left.remove(row)
        return left

    @abstractmethod
    def adopt(self, left: L) -> None:
        """Take over what a criterion has become; the rows that left it stay until they are vacated."""

    @abstractmethod
    def vacate(self, hole: int, last: int) -> None:
        """The last row moves into the hole."""


class CarriedFading(Carried[L]):
    """Those of a Matérn kernel in time, by its features."""

    def __init__(self, temporal: Matern, t: Array, capacity: int) -> None:
        self.temporal = temporal
        self.fading = fading = Fading.of(temporal, float(t.max()))
        self.psi = resized(fading.features(t), (fading.rank, capacity))
        self.a, self.b = np.triu_indices(fading.rank)
        self.pairs = fading.rank * self.a + self.b  # where they are in a matrix that is read row by row
        self.times = np.where(self.a == self.b, 1.0, 2.0)  # how often each pair is in a sum over a and b

    def both(self, matrix: Array) -> Array:
        """The sum over a and b of a symmetric matrix, as a sum over pairs."""
        pairs: Array = self.times * matrix.take(self.pairs)
        return pairs

    def extend(self, X: Array, t: Array, w: Array, P: Array) -> None:
        time = float(t[-1])
        if self.fading.rate * (time - self.fading.reference) > FAR:  # the features of the new row would be large
            self.fading, change = self.fading.moved(time)
            self._turn(change)
        self.psi[:, len(t) - 1] = self.fading.features_of(time)
        self._extend(X, w, P)

    def _turn(self, change: Array) -> None:
        """The reference has moved: ψ becomes `change` times ψ."""
        self.psi = change @ self.psi

    def turned(self, change: Array) -> Array:
        """The same for whatever has one entry for each pair."""
        a, b = self.a, self.b
        crossed = np.where(a == b, 0.0, change[np.ix_(a, b)] * change[np.ix_(b, a)])
        turned: Array = change[np.ix_(a, a)] * change[np.ix_(b, b)] + crossed
        return turned

    @abstractmethod
    def _extend(self, X: Array, w: Array, P: Array) -> None:
        """Update what depends on P."""

    def vacate(self, hole: int, last: int) -> None:
        self.psi[:, hole], self.psi[:, last] = self.psi[:, last], 0.0


class CarriedBound(CarriedFading["LeavingBound"]):
    """Theorem 4.1: see the top of this file."""

    def __init__(
        self, spatial: SquaredExponential | Matern, temporal: Matern, X: Array, t: Array, P: Array, capacity: int
    ) -> None:
        super().__init__(temporal, t, capacity)
        self.spatial = spatial
        n = len(t)
        overlaps = overlap(spatial, spatial.scaled_distance(X), X.shape[1])
        self.C = resized(symmetric(overlaps, 1.0, n), (capacity, capacity))
        self.Q, self.T = np.zeros((len(self.a), capacity)), np.zeros(len(self.a))
        psi = self.psi[:, :n]
        for b in range(self.fading.rank):
            CP = self.C[:n, :n] @ (psi[b, :, None] * P)  # C_S (ψ_b ∘ P)
            pairs = np.flatnonzero(self.b == b)
            self.T[pairs] = psi[self.a[pairs]] @ np.diagonal(CP)
            CP *= P
            self.Q[pairs, :n] = psi[self.a[pairs]] @ CP  # Σⱼ Pᵢⱼ ψ_a(j) (C_S (ψ_b ∘ P))ⱼᵢ

    @property
    def nbytes(self) -> int:
        return self.C.nbytes

    def products(self, v: Array) -> Array:
        """M_ab v, made symmetric in a and b (pairs, n)."""
        psi = self.psi[:, : len(v)]
        Cv = (psi * v) @ self.C[: len(v), : len(v)]
        products = psi[:, None] * (0.5 * Cv)
        both: Array = products + products.swapaxes(0, 1)
        return both.reshape(-1, len(v)).take(self.pairs, axis=0)

    def resize(self, capacity: int) -> None:
        self.C = resized(self.C, (capacity, capacity))
        self.psi, self.Q = (resized(array, (len(array), capacity)) for array in (self.psi, self.Q))

    def _turn(self, change: Array) -> None:
        super()._turn(change)
        turned = self.turned(change)
        self.Q, self.T = turned @ self.Q, turned @ self.T

    def _extend(self, X: Array, w: Array, P: Array) -> None:
        n = len(w)
        rho = self.spatial.scaled_distance(X[-1:], X)[0]
        self.C[n - 1, :n] = self.C[:n, n - 1] = overlap(self.spatial, rho, X.shape[1])
        Mw = self.products(w)
        wMw = Mw @ w
        self.Q[:, :n] += 2.0 * w * (Mw @ P) + w * w * wMw[:, None]
        self.T += wMw

    def leaving(self, model: Process, alpha: Array, now: float, contexts: Array | None) -> "LeavingBound":
        return LeavingBound(self, model.P, alpha, now)

    def adopt(self, left: "LeavingBound") -> None:
        self.Q[:, : len(left.alpha)], self.T = left.Q, left.T

    def vacate(self, hole: int, last: int) -> None:
        super().vacate(hole, last)
        vacate(self.C, hole, last)
        self.Q[:, hole], self.Q[:, last] = self.Q[:, last], 0.0


class LeavingBound(Leaving):
    """Theorem 4.1 at one time, from carried parts."""

    def __init__(self, parts: CarriedBound, P: Array, alpha: Array, now: float) -> None:
        super().__init__(P, alpha)
        self.parts = parts
        self.Q, self.T = parts.Q[:, : len(alpha)].copy(), parts.T.copy()
        self.mean_parts = parts.products(alpha) @ alpha
        self.at(now)

    def at(self, now: float) -> None:
        self.weights = self.parts.both(self.parts.fading.gram(now))

    def least(self) -> tuple[int, float]:
        scores = self.scores()
        row = int(scores.argmin())
        return row, float(scores[row])

    def squared_distances(self) -> tuple[Array, float]:
        precision, q = self.precision, np.maximum(self.weights @ self.Q, 0.0)
        losses: Array = ((self.alpha / precision) ** 2 + 1.0 / precision) * q
        if self.removal.rows:
            losses[~self.live] = np.inf
        return losses, float(self.weights @ (self.mean_parts + self.T))

    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        w = column / np.sqrt(precision)
        Mw = self.parts.products(w)
        wMw = Mw @ w
        # α loses residual · column = residual √precision w.
        lost = residual * np.sqrt(precision)
        self.mean_parts = self.mean_parts + lost * (lost * wMw - 2.0 * Mw @ self.alpha)
        self.Q += w * w * wMw[:, None] - 2.0 * w * self.removal.times(Mw)
        self.T = self.T - wMw
