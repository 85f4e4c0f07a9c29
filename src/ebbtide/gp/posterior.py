"""A Gaussian process conditioned on observations.

| symbol | meaning                                    | shape  |
|--------|--------------------------------------------|--------|
| P      | (K + σ²I)⁻¹                                | (n, n) |
| α      | P y                                        | (n,)   |
| k      | covariances of a query with the data       | (m, n) |
| μ      | k α                                (eq. 3) | (m,)   |
| σ²     | k(z, z) − diag(k P kᵀ)             (eq. 4) | (m,)   |

σ is the standard deviation of the function itself; it does not include the observation noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.kernels import SpaceTimeKernel
from ebbtide.gp.kernels.stationary import FAR
from ebbtide.gp.linalg import factorize, invert

# The gradient of whatever has these derivatives by mean and deviation (each (m,)): (m, d).
Gradient = Callable[[Array, Array], Array]

HEAVIEST = 128  # observations that outline a posterior


@dataclass(frozen=True)
class Posterior:
    """A Gaussian process with a space-time kernel, conditioned on observations (X, t)."""

    kernel: SpaceTimeKernel
    noise: float
    X: Array
    t: Array
    P: Array
    alpha: Array
    jitter_rungs: int = 0

    def __len__(self) -> int:
        return len(self.t)

    def predict(self, X: Array, t: Array) -> tuple[Array, Array]:
        """Mean and deviation at points in space and time."""
        k = self.kernel(X, t, self.X, self.t)
        return k @ self.alpha, _deviation(self.kernel.scale, k, k @ self.P)

    @cached_property
    def points(self) -> Array:
        """The coordinates of the observations in space: X without those of the context."""
        return self.kernel.split(self.X)[0]

    def at(self, time: float, context: Array | None = None) -> "Moment":
        """The posterior at one moment, in one context if the kernel has any, as a function of space."""
        return Moment(self, time, context)

    def during(self, earliest: float, latest: float, context: Array | None = None) -> "Interval":
        """The posterior over an interval of time, as a function of space and time."""
        return Interval(self, earliest, latest, context)

    def similarity(self, context: Array | None) -> Array | float:
        """k_C(c, cᵢ): how alike the contexts of the observations are to this one; 1 for a kernel without any."""
        kernel = self.kernel
        if kernel.context is None:
            return 1.0
        if context is None:
            raise NumericalError("the model has a context: say in which one to predict")
        alike: Array = kernel.context(context[None], kernel.split(self.X)[1])[0]
        return alike

    def believing(self, X: Array, t: Array) -> "Posterior":
        """The posterior as if its mean had been observed at (X, t): the mean stays, the deviation shrinks."""
        # With U = Pk and S = κ − kᵀU, the inverse of the bordered matrix is (P + US⁻¹Uᵀ, −US⁻¹; −S⁻¹Uᵀ, S⁻¹).
        n, k, own = len(self), self.kernel(self.X, self.t, X, t), self.kernel(X, t)
        U = self.P @ k
        own.flat[:: len(own) + 1] += self.noise
        factor = factorize(own - k.T @ U)
        P = np.empty((n + len(t), n + len(t)))
        P[n:, n:] = S = invert(factor)
        P[:n, n:] = -U @ S
        P[n:, :n] = P[:n, n:].T
        P[:n, :n] = self.P - P[:n, n:] @ U.T
        alpha = np.append(self.alpha, np.zeros(len(t)))
        rungs = max(self.jitter_rungs, factor.jitter_rungs)
        return Posterior(self.kernel, self.noise, np.vstack([self.X, X]), np.append(self.t, t), P, alpha, rungs)

    def taken(self, order: Rows) -> "Posterior":
        """The same with its rows in another order."""
        P = self.P[np.ix_(order, order)]
        return Posterior(self.kernel, self.noise, self.X[order], self.t[order], P, self.alpha[order], self.jitter_rungs)

    def without(self, rows: list[int]) -> "Posterior":
        """The posterior without some observations, by the block downdate P_kk − P_kr P_rr⁻¹ P_rk."""
        if not rows:
            return self
        keep = np.delete(np.arange(len(self)), rows)
        P_kr = self.P[keep][:, rows]
        lost = np.linalg.solve(self.P[rows][:, rows], np.column_stack([P_kr.T, self.alpha[rows]]))
        return Posterior(
            self.kernel,
            self.noise,
            self.X[keep],
            self.t[keep],
            self.P[np.ix_(keep, keep)] - P_kr @ lost[:, :-1],
            self.alpha[keep] - P_kr @ lost[:, -1],
            self.jitter_rungs,
        )


def condition(kernel: SpaceTimeKernel, noise: float, X: Array, t: Array, y: Array) -> Posterior:
    """The posterior given y = f(X, t) + N(0, noise)."""
    if len(t) == 0:
        return Posterior(kernel, noise, X, t, np.empty((0, 0)), np.empty(0))
    P, jitter_rungs = _inverse(kernel, noise, X, t)
    return Posterior(kernel, noise, X, t, P, P @ y, jitter_rungs)


def _inverse(kernel: SpaceTimeKernel, noise: float, X: Array, t: Array) -> tuple[Array, int]:
    """(K + σ²I)⁻¹, and how many steps of the jitter ladder it took."""
    covariance = kernel(X, t)
    np.fill_diagonal(covariance, kernel.scale + noise)
    factor = factorize(covariance)
    return invert(factor), factor.jitter_rungs


class Outline(NamedTuple):
    """Mean and deviation at some points, neither smaller than they really are, and the largest real mean of them."""

    mean: Array
    deviation: Array
    highest: float


@dataclass(frozen=True)
class Moment:
    """A posterior at a fixed time, and in a fixed context, for the acquisition to evaluate."""

    posterior: Posterior
    time: float
    context: Array | None = None

    @cached_property
    def _weights(self) -> Array:
        """λ k_T(time, tᵢ) k_C(c, cᵢ): the part of the covariances that is the same for every x."""
        kernel = self.posterior.kernel
        if kernel.temporal is None:
            return np.full(len(self.posterior), kernel.scale) * self.posterior.similarity(self.context)
        rho = np.minimum(np.abs(self.posterior.t - self.time) / kernel.temporal.shortest, FAR)
        return kernel.scale * kernel.temporal.correlation(rho) * self.posterior.similarity(self.context)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation at the rows of X."""
        return self._predicted(self.posterior.kernel.spatial(X, self.posterior.points) * self._weights)

    def scan(self, X: Array) -> tuple[Array, Array]:
        """The same, faster and with fewer digits: enough to choose among many points."""
        return self._predicted(self._roughly(X))

    def _predicted(self, k: Array) -> tuple[Array, Array]:
        return k @ self.posterior.alpha, _deviation(self.posterior.kernel.scale, k, k @ self.posterior.P)

    def _roughly(self, X: Array) -> Array:
        """The covariances of many points with the observations."""
        spatial = self.posterior.kernel.spatial
        k = spatial.correlation(spatial.roughly_scaled_distance(X, self.posterior.points))
        k *= self._weights
        return k

    def outline(self, X: Array) -> Outline | None:
        """The mean, and a deviation that is certainly not smaller, for O(n) per point: of the observations only those
        that matter most at this time are taken into account, and fewer observations leave more variance.

        None if there are so few observations that it would save nothing.
        """
        if len(self.posterior) <= 2 * HEAVIEST:
            return None
        heaviest, P = self._heaviest
        k = self._roughly(X)
        few, mean = k[:, heaviest], k @ self.posterior.alpha
        return Outline(mean, _deviation(self.posterior.kernel.scale, few, few @ P), float(mean.max()))

    @cached_property
    def _heaviest(self) -> tuple[Rows, Array]:
        """The observations with the largest weights, and the inverse of their covariance."""
        post, rows = self.posterior, np.sort(np.argpartition(-self._weights, HEAVIEST)[:HEAVIEST])
        return rows, _inverse(post.kernel, post.noise, post.X[rows], post.t[rows])[0]

    def deviation_of_difference(self, x: Array, other: Array) -> float:
        """The deviation of f(x) − f(other)."""
        post, X = self.posterior, np.array([x, other])
        k = post.kernel.spatial(X, post.points) * self._weights
        covariance = post.kernel.scale * post.kernel.spatial(X, X) - k @ post.P @ k.T
        return float(np.sqrt(max(0.0, covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])))

    def predict_with_gradient(self, X: Array) -> tuple[Array, Array, Gradient]:
        """Mean, deviation, and how to get a gradient with respect to x."""
        post, spatial, (spots, metric) = self.posterior, self.posterior.kernel.spatial, self._spots
        value, slope, exponent = spatial.parts(spatial.scaled_distance(X, post.points))
        decay = np.exp(exponent)
        decay *= self._weights
        k, h = value * decay, slope * decay  # the slope has the same weights as k
        kP = k @ post.P
        std = _deviation(post.kernel.scale, k, kP)

        def gradient(by_mean: Array, by_std: Array) -> Array:
            return _towards(h * _by_k(post.alpha, kP, std, by_mean, by_std), X, spots) * metric

        return k @ post.alpha, std, gradient

    @cached_property
    def _spots(self) -> tuple[Array, Array]:
        """What `_towards` needs of the observations, and 1/l²."""
        return _spots(self.posterior.points), 1.0 / np.square(self.posterior.kernel.spatial.lengthscale)


@dataclass(frozen=True)
class Interval:
    """A posterior over an interval of time. Rows are (x, u): u runs from 0 at its start to 1 at its end."""

    posterior: Posterior
    earliest: float
    latest: float
    context: Array | None = None

    def time(self, u: Array) -> Array:
        return self.earliest + (self.latest - self.earliest) * u

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Mean and deviation at the rows of Z."""
        X = Z[:, :-1] if self.context is None else np.column_stack([Z[:, :-1], np.tile(self.context, (len(Z), 1))])
        return self.posterior.predict(X, self.time(Z[:, -1]))

    def scan(self, Z: Array) -> tuple[Array, Array]:
        return self.predict(Z)

    def outline(self, Z: Array) -> None:
        """There is none: over an interval, different observations matter most."""

    def predict_with_gradient(self, Z: Array) -> tuple[Array, Array, Gradient]:
        """Mean, deviation, and how to get a gradient with respect to (x, u)."""
        post, spatial, temporal = self.posterior, self.posterior.kernel.spatial, self.posterior.kernel.temporal
        if temporal is None:
            raise NumericalError(
                "the model has no temporal kernel, so all times are alike: there is no best one to find"
            )
        X, span = Z[:, :-1], self.latest - self.earliest
        # Times are counted from the start, so that differences of seconds since 1970 keep their digits.
        since, told = span * Z[:, -1:], post.t[:, None] - self.earliest
        in_space, slope, exponent = spatial.parts(spatial.scaled_distance(X, post.points))
        in_time, slope_t, exponent_t = temporal.parts(temporal.scaled_distance(since, told))
        decay = post.kernel.scale * np.exp(exponent + exponent_t) * post.similarity(self.context)
        k = decay * in_space * in_time
        kP = k @ post.P
        std = _deviation(post.kernel.scale, k, kP)
        h, h_t = decay * slope * in_time, decay * slope_t * in_space

        def gradient(by_mean: Array, by_std: Array) -> Array:
            by_k = _by_k(post.alpha, kP, std, by_mean, by_std)
            by_x = _towards(h * by_k, X, _spots(post.points)) / np.square(spatial.lengthscale)
            by_t = _towards(h_t * by_k, since, _spots(told)) / np.square(temporal.lengthscale)
            return np.hstack([by_x, span * by_t])

        return k @ post.alpha, std, gradient


def _by_k(alpha: Array, kP: Array, std: Array, by_mean: Array, by_std: Array) -> Array:
    """By the chain rule, from the derivatives by mean and deviation: ∂μ/∂k = α, ∂σ/∂k = −kP/σ."""
    by_k: Array = by_mean[:, None] * alpha
    by_k -= (by_std / std)[:, None] * kP
    return by_k


def _spots(points: Array) -> Array:
    """Where the observations are, with a column of ones that adds up weights."""
    spots = np.ones((len(points), points.shape[1] + 1))
    spots[:, :-1] = points
    return spots


def _towards(pull: Array, X: Array, spots: Array) -> Array:
    """Σᵢ pullᵢ (xᵢ − x) for every row x of X. Because ∂kᵢ/∂x = hᵢ (xᵢ − x)/l², gradients come down to this."""
    total = pull @ spots
    towards: Array = total[:, :-1] - total[:, -1:] * X
    return towards


def _deviation(prior: float, k: Array, kP: Array) -> Array:
    variance = prior - np.vecdot(kP, k)
    # Rounding must not make the deviation 0 or NaN.
    deviation: Array = np.sqrt(np.maximum(variance, 1e-12 * prior))
    return deviation
