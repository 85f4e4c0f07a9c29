"""How relevant each observation still is: the Wasserstein criterion, for all observations at once.

Removing observation i changes the posterior by a rank-one term, v_i(z) = Σⱼ Pᵢⱼ k(z, zⱼ):

    μ_D − μ_D̃ = (αᵢ/Pᵢᵢ) vᵢ          σ²_D̃ − σ²_D = vᵢ²/Pᵢᵢ

so the blocks E … M of the paper's appendices are not needed. Theorem 4.1 becomes

    Ŵ²ᵢ = λ² (αᵢ²/Pᵢᵢ² + 1/Pᵢᵢ) qᵢ        q = diag(P C P)
    Ŵ²_∅ = λ² (αᵀ C α + Σ P∘C)            R̂ᵢ = Ŵᵢ/Ŵ_∅

| symbol | meaning                                                       | shape  |
|--------|---------------------------------------------------------------|--------|
| P, α   | Δ⁻¹ and Δ⁻¹y                                                  | (n, n), (n,) |
| C      | ∫∫ k k over the future, up to a constant (convolutions.py)    | (n, n) |
| q      | diag(P C P): what observation i contributes to the future     | (n,)   |
| Φ, V   | kernel at quadrature nodes × √weight; P Φ                     | (n, m) |

A pass costs one n×n product, and a removal one O(n²) downdate (O(nm) for the exact form).
"""

import math
from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.errors import ConfigurationError, ObservationError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.convolutions import (
    TimeNodes,
    box_nodes,
    decaying_future,
    finite_future,
    overlap_in_context,
    spatial_convolution,
    temporal_convolution,
)
from ebbtide.gp.kernels import Kernel, SpaceTimeKernel
from ebbtide.gp.linalg import downdate, factorize, invert, one_blas_thread
from ebbtide.gp.posterior import Posterior

CriterionMethod = Literal["bound", "exact"]
SPATIAL_NODES = 128


class Criterion(ABC):
    """Scores of the active observations while they are removed one by one."""

    def __init__(self, P: Array, alpha: Array) -> None:
        self.P, self.alpha = P, alpha  # shared with the caller until the first removal
        self.live = np.ones(len(alpha), dtype=bool)

    @abstractmethod
    def squared_distances(self) -> tuple[Array, float]:
        """W²ᵢ (infinite once removed) and W²_∅, up to the same constant."""

    @abstractmethod
    def least(self) -> tuple[int, float]:
        """The observation with the lowest score, and that score."""

    def scores(self) -> Array:
        """R of every observation; infinite once removed."""
        losses, total = self.squared_distances()
        return np.sqrt(losses / total) if total > 0.0 else np.where(self.live, 0.0, np.inf)

    def score(self, row: int) -> float:
        """R of one observation."""
        return float(self.scores()[row])

    def remove(self, row: int) -> None:
        """Remove an observation: P ← P − P₍:,j₎P₍:,j₎ᵀ/Pⱼⱼ and α here, the rest in `_forget`."""
        if self.live.all():
            self.P = self.P.copy()
        column = self.P[:, row].copy()
        precision, residual = column[row], self.alpha[row] / column[row]
        self._forget(row, column, precision, residual)
        self.alpha = self.alpha - residual * column
        downdate(self.P, row)
        self.live[row] = False

    @abstractmethod
    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        """Update what depends on P and α (q, the means, the variances) before they change."""

    @property
    def precision(self) -> Array:
        """Pᵢᵢ, and 1 once removed."""
        return np.where(self.live, np.diagonal(self.P), 1.0)


class Bounded(Criterion):
    """Theorem 4.1: the whole space instead of the box, and the difference of the variances instead of the squared
    difference of the deviations.
    """

    mean_part: float  # αᵀCα
    variance_part: float  # Σ P∘C

    @property
    @abstractmethod
    def q(self) -> Array:
        """diag(P C P)."""

    def squared_distances(self) -> tuple[Array, float]:
        precision = self.precision
        losses = ((self.alpha / precision) ** 2 + 1.0 / precision) * np.maximum(self.q, 0.0)
        return np.where(self.live, losses, np.inf), self.mean_part + self.variance_part

    def least(self) -> tuple[int, float]:
        scores = self.scores()
        row = int(np.argmin(scores))
        return row, float(scores[row])


class Bound(Bounded):
    """Theorem 4.1 for any C."""

    def __init__(self, P: Array, alpha: Array, C: Array) -> None:
        super().__init__(P, alpha)
        self.C = C
        PC = P @ C
        self._q: Array = np.einsum("ij,ij->i", PC, P)
        self.variance_part = float(np.trace(PC))
        self.mean_part = float(alpha @ (C @ alpha))

    @property
    def q(self) -> Array:
        return self._q

    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        C_column = self.C @ column
        r, p, q_row = column / precision, self.P @ C_column, self._q[row]
        self.mean_part += residual * (residual * q_row - 2.0 * float(self.alpha @ C_column))
        self.variance_part -= q_row / precision
        self._q = self._q - 2.0 * r * p + r * r * q_row


class Integrated(Criterion):
    """The criterion itself, by quadrature on the box: neither of the paper's two bounds, any kernel.

    W²ᵢ = Σ_m ω_m [(αᵢ vᵢ/Pᵢᵢ)² + (√(σ² + vᵢ²/Pᵢᵢ) − σ)²]        W²_∅ = Σ_m ω_m [μ² + (√k − σ)²]

    Differences of roots are written as δ/(√a + √b), which avoids cancellation when the observations are stale.
    v and μ include √ω_m, and k(z_m, z_m) and σ² include ω_m. All that comes from the kernel may be divided by `fade`,
    the decay of the newest observation, so that squares of v do not underflow; the ratio is the same.
    """

    prior: Array  # k(z_m, z_m)
    fade: float
    q: Array  # Σ_m vᵢ²
    mean: Array  # μ
    explained: Array  # k(z_m, z_m) − σ²

    @abstractmethod
    def _effects(self, rows: Rows) -> Array:
        """v of the given observations, at all nodes."""

    def squared_distances(self) -> tuple[Array, float]:
        losses = np.full(len(self.alpha), np.inf)
        rows = np.flatnonzero(self.live)
        losses[rows] = self._mean_losses()[rows] + self._deviation_losses(rows)
        return losses, self._to_prior()

    def least(self) -> tuple[int, float]:
        """Branch and bound: the part of the mean is a lower bound, so most rows are never integrated."""
        mean_losses = self._mean_losses()
        order = np.argsort(mean_losses)[: np.count_nonzero(self.live)]
        best, row = np.inf, int(order[0])
        for start in range(0, len(order), 16):
            rows = order[start : start + 16]
            if mean_losses[rows[0]] >= best:
                break
            losses = mean_losses[rows] + self._deviation_losses(rows)
            if losses.min() < best:
                best, row = float(losses.min()), int(rows[np.argmin(losses)])
        total = self._to_prior()
        return row, math.sqrt(best / total) if total > 0.0 else 0.0

    def _mean_losses(self) -> Array:
        losses = (self.alpha / self.precision) ** 2 * np.maximum(self.q, 0.0)
        return np.where(self.live, losses, np.inf)

    def _variance(self) -> Array:
        variance: Array = np.maximum(self.prior - self.fade**2 * self.explained, 0.0)
        return variance

    def _deviation_losses(self, rows: Rows) -> Array:
        """Σ (δ/(√(σ²+δ) + σ))² with δ = vᵢ²/Pᵢᵢ, for the given observations."""
        variance = self._variance()
        delta = self._effects(rows)
        delta *= delta
        delta /= self.precision[rows, None]
        roots = self.fade**2 * delta
        roots += variance
        np.sqrt(roots, out=roots)
        roots += np.sqrt(variance)
        np.divide(delta, roots, out=delta, where=roots > 0)
        losses: Array = self.fade**2 * np.einsum("im,im->i", delta, delta)
        return losses

    def _to_prior(self) -> float:
        explained = np.maximum(self.explained, 0.0)
        to_prior = self.fade * explained / (np.sqrt(self.prior) + np.sqrt(self._variance()))
        return float(self.mean @ self.mean + to_prior @ to_prior)


class Exact(Integrated):
    """The criterion itself for any kernel: Φ has the kernel at the nodes, times √ω_m, divided by `fade`."""

    def __init__(self, P: Array, alpha: Array, phi: Array, prior: Array, fade: float) -> None:
        super().__init__(P, alpha)
        self.phi, self.prior, self.fade = phi, prior, fade
        V = P @ phi
        self.q = np.einsum("im,im->i", V, V)
        self.mean = alpha @ phi
        self.explained = np.einsum("im,im->m", phi, V)

    def _effects(self, rows: Rows) -> Array:
        return self.P[rows] @ self.phi

    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        v = column @ self.phi
        r, p, q_row = column / precision, self.P @ (self.phi @ v), self.q[row]
        self.q = self.q - 2.0 * r * p + r * r * q_row
        self.mean = self.mean - residual * v
        self.explained = self.explained - v * v / precision


def criterion(
    kernel: Kernel,
    P: Array,
    alpha: Array,
    X: Array,
    t: Array,
    now: float,
    method: CriterionMethod = "bound",
    horizon: float | None = None,
    nodes: int = SPATIAL_NODES,
    contexts: Array | None = None,
) -> Criterion:
    """The criterion of observations (X, t) under a conditioned process; the present is t₀ = max(now, newest t).

    `contexts` are those that may come again, by default those of the observations.
    """
    ages = max(now, float(t.max())) - t
    if isinstance(kernel, SpaceTimeKernel) and kernel.context is not None and contexts is None:
        contexts = kernel.split(X)[1]
    if method == "exact":
        return Exact(P, alpha, *_nodes(kernel, X, t, ages, horizon, nodes, contexts))
    if method != "bound":
        raise ConfigurationError(f'method={method!r}: choose "bound" (Theorem 4.1) or "exact" (quadrature)')
    closed = None if horizon is not None else _closed_form(kernel, X, ages, contexts)
    if closed is None:
        phi, _, _ = _nodes(kernel, X, t, ages, horizon, nodes, contexts)
        closed = phi @ phi.T
    return Bound(P, alpha, closed)


def criterion_of(
    posterior: Posterior, now: float, method: CriterionMethod = "bound", contexts: Array | None = None
) -> Criterion:
    """The criterion of the observations behind a posterior."""
    p = posterior
    return criterion(p.kernel, p.P, p.alpha, p.X, p.t, now, method, contexts=contexts)


def _closed_form(kernel: Kernel, X: Array, ages: Array, contexts: Array | None) -> Array | None:
    """C up to a constant, if both convolutions have a closed form."""
    if not isinstance(kernel, SpaceTimeKernel) or kernel.temporal is None:
        return None
    points, surroundings = kernel.split(X)
    space = spatial_convolution(kernel.spatial, points)
    time = temporal_convolution(kernel.temporal, ages)
    if space is None or time is None:
        return None
    product = np.multiply(space.matrix, time.matrix, out=space.matrix)
    if kernel.context is not None and contexts is not None:
        product *= overlap_in_context(kernel.context, surroundings, contexts)
    return product


def _nodes(
    kernel: Kernel,
    X: Array,
    t: Array,
    ages: Array,
    horizon: float | None,
    nodes: int,
    contexts: Array | None = None,
) -> tuple[Array, Array, float]:
    """Φ/fade (n, m) over Sobol points of the box × delays, ω_m k(z_m, z_m), and fade.

    Every point comes with one of the contexts, in turn.
    """
    coordinates, surroundings = kernel.split(X) if isinstance(kernel, SpaceTimeKernel) else (X, X[:, :0])
    points = box_nodes(coordinates.shape[1], nodes)
    now = float(t[0]) + float(ages[0])
    delays = _future(kernel, horizon)
    roots = np.sqrt(delays.weights / nodes)
    if isinstance(kernel, SpaceTimeKernel) and kernel.temporal is not None:
        # A product kernel on a product grid: n·(128 + 8) kernel values instead of n·128·8.
        space = kernel.scale * kernel.spatial(coordinates, points)
        if kernel.context is not None and contexts is not None:
            space *= kernel.context(surroundings, contexts[np.arange(nodes) % len(contexts)])
        rho = kernel.temporal.scaled_distance(-ages[:, None], delays.delays[:, None])
        exponent = kernel.temporal.exponent(rho)
        newest = exponent.max()
        time = kernel.temporal.value(rho) * np.exp(exponent - newest) * roots
        phi = (space[:, None, :] * time[:, :, None]).reshape(len(X), -1)
        return phi, np.repeat(kernel.scale * roots**2, nodes), float(np.exp(newest))
    if contexts is not None and surroundings.shape[1]:
        points = np.column_stack([points, contexts[np.arange(nodes) % len(contexts)]])
    every_point = np.tile(points, (len(roots), 1))
    every_time = np.repeat(now + delays.delays, nodes)
    weights = np.repeat(roots, nodes)
    phi = kernel(X, t, every_point, every_time) * weights
    # A kernel returns matrices, so k(z, z) for many z comes from the diagonals of small ones.
    blocks = [slice(start, start + 64) for start in range(0, len(every_time), 64)]
    variances = [np.diagonal(kernel(every_point[b], every_time[b], every_point[b], every_time[b])) for b in blocks]
    return phi, np.concatenate(variances) * weights**2, 1.0


def _future(kernel: Kernel, horizon: float | None) -> TimeNodes:
    if horizon is not None:
        return finite_future(horizon)
    if isinstance(kernel, SpaceTimeKernel) and kernel.temporal is not None:
        return decaying_future(kernel.temporal)
    raise ConfigurationError(
        f"kernel={kernel!r}: how it decays in time is not known, so the integral over the future may not converge; "
        "pass horizon=, how far ahead predictions matter, in the clock's unit"
    )


def relevance(
    X: ArrayLike,
    t: ArrayLike,
    y: ArrayLike,
    *,
    kernel: Kernel,
    noise: float,
    now: float,
    method: CriterionMethod = "bound",
    horizon: float | None = None,
    nodes: int = SPATIAL_NODES,
    contexts: ArrayLike | None = None,
) -> Array:
    """How much the predictions from `now` on would change without each observation, relative to losing all of them.

    `X` is in the unit cube, `y` is centred, `noise` is a variance. `method="bound"` is Theorem 4.1, which drives W-DBO;
    `"exact"` is the criterion itself, by quadrature on the box. If a kernel has no closed form, its bound is computed
    by quadrature too; a kernel that does not decay in time needs a `horizon`. `nodes` is the number of points in space
    that the quadrature uses (a power of two). For a kernel with a context, its coordinates are the last columns of `X`,
    and `contexts` are those that may come again, by default those of the observations.

    >>> from ebbtide.gp.kernels import Matern
    >>> kernel = SpaceTimeKernel(1.0, Matern(2.5, 0.3), Matern(1.5, 0.2))
    >>> scores = relevance([[0.2], [0.2], [0.8]], [0.0, 0.9, 0.9], [1.0, 1.1, -0.5], kernel=kernel, noise=0.05, now=1.0)
    >>> int(scores.argmin())    # the old observation, since measured again, matters least
    0
    """
    X, t, y = _checked(X, t, y)
    if not (np.isfinite(noise) and noise > 0):
        raise ConfigurationError(f"noise={noise!r}: give the variance of the noise, a positive number")
    if not np.isfinite(now):
        raise ObservationError(f"now={now!r}: give the present as a finite time")
    if len(t) == 0:
        return np.zeros(0)
    with one_blas_thread():
        covariance = kernel(X, t) if isinstance(kernel, SpaceTimeKernel) else kernel(X, t, X, t)
        covariance.flat[:: len(t) + 1] += noise
        P = invert(factorize(covariance))
        seen = None if contexts is None else np.atleast_2d(np.asarray(contexts, dtype=float))
        return criterion(kernel, P, P @ y, X, t, now, method, horizon, nodes, seen).scores()


def _checked(X: ArrayLike, t: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array]:
    t, y = np.atleast_1d(np.asarray(t, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
    X = np.asarray(X, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    if not (X.ndim == 2 and t.ndim == y.ndim == 1 and len(X) == len(t) == len(y)):
        raise ObservationError(
            f"X has shape {X.shape}, t {t.shape}, y {y.shape}: give (n, d), (n,) and (n,), one row per observation"
        )
    for name, column in (("X", X), ("t", t), ("y", y)):
        if not np.isfinite(column).all():
            raise ObservationError(f"{name} contains NaN or infinity: leave such observations out")
    return X, t, y
