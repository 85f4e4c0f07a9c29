"""A Gaussian process whose observations come and go in O(n²) each, while its hyperparameters are held.

| symbol | meaning                                                      | shape     |
|--------|--------------------------------------------------------------|-----------|
| Δ, P   | covariance of the observations with noise, and its inverse   | (n, n)    |
| k, κ   | covariances of a new row with the others, and its own        | (n,)      |
| w      | what a change of one row comes down to                       | (n,)      |
| K_a    | ∂Δ/∂θ_a for the parameters between the scale and the noise   | (a, n, n) |

A row comes:   u = Pk,   s = κ − kᵀu,   w = (u, −1)/√s,   P′ = (P ⊕ 0) + w wᵀ,             log|Δ′| = log|Δ| + log s
A row j goes:  w = P₍:,j₎/√Pⱼⱼ,                             P′ = P − w wᵀ, without row j,   log|Δ′| = log|Δ| + log Pⱼⱼ

α = Pz is not carried: it is one product, for values that may be standardised anew at any time. Neither are the traces
of the likelihood's gradient, tr(PK_a) = Σ P∘K_a.

Rows are in no particular order, so that a row that goes leaves no gap: the last one takes its place. Arrays have room
for more rows than there are; the rest is zero.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import blas

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.carried import Carried, CarriedBound, Leaving, Removal
from ebbtide.gp.carried_exact import CarriedExact
from ebbtide.gp.carried_space import CarriedSpace
from ebbtide.gp.convolutions import temporal_convolution
from ebbtide.gp.criterion import CriterionMethod
from ebbtide.gp.kernels import Matern, SquaredExponential
from ebbtide.gp.likelihood import Evaluation
from ebbtide.gp.linalg import resized, symmetric, vacate
from ebbtide.gp.pairs import Pairs
from ebbtide.gp.posterior import Posterior

SMOOTHEST = 2.5  # Matérn in time whose criterion is carried: the pairs of features grow as the square of the order
ROOM = 32  # rows that may come before the arrays must grow
ENOUGH_NOISE = 1e-3  # times the scale: with less, the variance of a new row has few digits, unless it is refined


class Incremental:
    """A process that gains and loses observations. Each has a label, by which its row can be found."""

    def __init__(self, evaluation: Evaluation, labels: Rows) -> None:
        data = evaluation.likelihood
        self.families, self.theta = data.families, evaluation.theta
        self.kernel = data.families.kernel(evaluation.hyperparameters)
        self.noise = evaluation.noise
        self.log_determinant = evaluation.factor.log_determinant
        self.n = n = len(data.t)
        room = (n + ROOM,)
        self._X, self._t = resized(data.X, (*room, data.X.shape[1])), resized(data.t, room)
        self._labels = np.zeros(room, dtype=np.intp)
        self._labels[:n] = labels
        self._squares = np.zeros((2 + len(evaluation.slopes), *room, *room))  # P, Δ and K_a: rows move in all of them
        self._P[:n, :n] = evaluation.P
        self._delta[:n, :n] = symmetric(evaluation.covariances.values, evaluation.scale + evaluation.noise, n)
        for K, pairs in zip(self._K, evaluation.slopes, strict=True):
            K[:n, :n] = symmetric(pairs, 0.0, n)
        self.carried: Carried[Any] | None = None
        self._left: Leaving | None = None  # the criterion from which rows were removed last

    def __len__(self) -> int:
        return self.n

    @property
    def _P(self) -> Array:
        P: Array = self._squares[0]
        return P

    @property
    def _delta(self) -> Array:
        delta: Array = self._squares[1]
        return delta

    @property
    def _K(self) -> Array:
        return self._squares[2:]

    @property
    def X(self) -> Array:
        return self._X[: self.n]

    @property
    def t(self) -> Array:
        return self._t[: self.n]

    @property
    def labels(self) -> Rows:
        return self._labels[: self.n]

    @property
    def P(self) -> Array:
        return self._squares[0, : self.n, : self.n]

    @property
    def delta(self) -> Array:
        return self._squares[1, : self.n, : self.n]

    @property
    def nbytes(self) -> int:
        """How much memory the matrices take."""
        return self._squares.nbytes + (0 if self.carried is None else self.carried.nbytes)

    def posterior(self, z: Array) -> Posterior:
        """The process given values of its observations. It shares their arrays: use it before they change."""
        P = self.P
        return Posterior(self.kernel, self.noise, self.X, self.t, P, P @ z)

    def log_likelihood(self, z: Array, alpha: Array) -> float:
        """Of values (see likelihood.py); α = Pz."""
        return -0.5 * (float(z @ alpha) + self.log_determinant + self.n * math.log(2.0 * math.pi))

    def derivatives(self, z: Array, alpha: Array) -> tuple[Array, Array]:
        """The gradient of the log likelihood of values, and its average information (see likelihood.py); α = Pz."""
        n, P, K = self.n, self._P, self._K
        # ∂Δ/∂log λ is Δ itself, and Δα = z.
        K_alpha, traces = np.empty((len(K) + 2, n)), np.empty(len(K) + 2)
        K_alpha[0], K_alpha[1:-1], K_alpha[-1] = z, K[:, :n, :n] @ alpha, self.noise * alpha
        traces[0], traces[1:-1], traces[-1] = n, K.reshape(len(K), -1) @ P.ravel(), self.noise * P.trace()
        return 0.5 * (K_alpha @ alpha - traces), 0.5 * K_alpha @ (K_alpha @ self.P).T

    def carry(self, method: CriterionMethod) -> None:
        """Carry along this form of the criterion from now on, if the kernel allows it."""
        if self.carried is None:
            self.carried = _carried(self, method, len(self._t))

    def criterion(self, alpha: Array, now: float, contexts: Array | None = None) -> Leaving | None:
        """The criterion at a time, if it is carried; rows that are removed from it stay here until `remove`.

        `contexts` are those that may come again, by default those of the observations.
        """
        if self.carried is not None:
            self._left = self.carried.leaving(self, alpha, max(now, float(self.t.max())), contexts)
        return self._left

    # --- rows come and go -----------------------------------------------------------------------------------------

    def add(self, x: Array, t: float, label: int) -> None:
        """Add an observation."""
        if self.n == len(self._t):
            self._resize(self.n + ROOM)
        n, self._left = self.n, None
        self._X[n], self._t[n], self._labels[n] = x, t, label
        X, times = self._X[: n + 1], self._t[: n + 1]
        covariances = Pairs.with_last(self.families, X, times).at(self.theta)
        k, P = covariances.values, self.P
        u = P @ k
        if self.noise < ENOUGH_NOISE * covariances.scale:
            u += P @ (k - self.delta @ u)
        kappa = covariances.scale + self.noise
        s = kappa - float(k @ u)
        if not s > 0.5 * self.noise:  # it is the variance of a new value, noise included
            raise NumericalError("an observation has a negative variance: P is no longer an inverse")
        W = np.zeros((1, len(self._t)))
        w = W[0, : n + 1]
        w[:n], w[n] = u, -1.0
        w /= math.sqrt(s)
        if self.carried is not None:
            self.carried.extend(X, times, w, self._P[: n + 1, : n + 1])
        self._change(1.0, W)
        self.log_determinant += math.log(s)
        delta, K = self._delta, self._K
        delta[n, :n] = delta[:n, n] = k
        delta[n, n] = kappa
        K[:, n, :n] = K[:, :n, n] = covariances.derivatives()
        self.n += 1

    def remove(self, rows: Sequence[int]) -> None:
        """Remove observations, one after the other."""
        left, self._left = self._left, None
        if left is None or left.removal.rows != list(rows):  # otherwise the work was done to choose these rows
            left = None if self.carried is None else self.carried.without(self, rows)
        if self.carried is not None and left is not None:
            self.carried.adopt(left)
        removal = Removal.of(self.P, rows) if left is None else left.removal
        self._change(-1.0, resized(removal.W, (len(rows), len(self._t))))
        self.log_determinant += sum(2.0 * math.log(w[row]) for row, w in zip(rows, removal.W, strict=True))  # log Pⱼⱼ
        for hole in sorted(rows, reverse=True):
            self._vacate(hole)

    def _vacate(self, hole: int) -> None:
        """The last row takes the place of one that has gone."""
        self.n -= 1
        vacate(self._squares, hole, self.n)
        for column in (self._X, self._t, self._labels):
            column[hole] = column[self.n]
        if self.carried is not None:
            self.carried.vacate(hole, self.n)

    def _change(self, sign: float, W: Array) -> None:
        """P ← P ± WᵀW, in place: P is symmetric, so its transpose is itself in Fortran's order. W has all columns."""
        blas.dgemm(sign, W.T, W.T, beta=1.0, c=self._P.T, trans_b=1, overwrite_c=1)

    def _resize(self, capacity: int) -> None:
        self._X, self._t = resized(self._X, (capacity, self._X.shape[1])), resized(self._t, (capacity,))
        self._labels = np.append(self._labels, np.zeros(capacity - len(self._labels), dtype=np.intp))
        self._squares = resized(self._squares, (len(self._squares), capacity, capacity))
        if self.carried is not None:
            self.carried.resize(capacity)

    # --- honesty --------------------------------------------------------------------------------------------------

    def drift(self, row: int = -1) -> float:
        """How far P is from an inverse, by one row: the largest entry of PΔ₍:,row₎ − e."""
        product = self.P @ self.delta[row]
        product[row] -= 1.0
        return float(np.abs(product).max())


def _carried(model: Incremental, method: CriterionMethod, capacity: int) -> Carried[Any] | None:
    """The parts of the criterion, if its kernels have the form that can be carried."""
    kernel, spatial, temporal = model.kernel, model.kernel.spatial, model.kernel.temporal
    fading = temporal if isinstance(temporal, Matern) and temporal.nu <= SMOOTHEST else None
    fading = fading if kernel.context is None else None
    if method == "exact":
        return None if fading is None else CarriedExact(kernel, fading, model.X, model.t, model.P, capacity)
    if not isinstance(spatial, SquaredExponential | Matern) or temporal is None:
        return None
    if fading is not None:
        return CarriedBound(spatial, fading, model.X, model.t, model.P, capacity)
    known = temporal_convolution(temporal, np.zeros(1)) is not None
    return CarriedSpace(kernel, spatial, model.X, capacity) if known else None
