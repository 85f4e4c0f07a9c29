"""The log marginal likelihood of a space-time kernel, its gradient, and its average information.

θ = (log λ, log l_S [one or d], log l_T [if the kernel drifts], log σ²/λ)

    L        = −½ yᵀα − ½ log|Δ| − (n/2) log 2π
    ∂L/∂θₐ   = ½ (αᵀ Kₐ α − tr(P Kₐ))                      Kₐ = ∂Δ/∂θₐ
    Hₐᵦ      = ½ (Kₐα)ᵀ P (Kᵦα)

The noise enters as the ratio σ²/λ, whose lower bound limits the condition number of Δ.

H is the *average information* (Gilmour, Thompson and Cullis, 1995): its expectation is the Fisher information
½ tr(P Kₐ P Kᵦ), but it costs O(n²) instead of O(n³), and it is positive semi-definite everywhere. With Newton
steps based on it, a refit costs a few factorizations.

All elementwise work is done on the n(n−1)/2 pairs above the diagonal, with one exponential for the whole product
of kernels (see kernels/stationary.py).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import pdist, squareform

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import SpaceTimeKernel, Stationary
from ebbtide.gp.linalg import blocks, factorize, invert, solve, symmetric
from ebbtide.gp.posterior import Posterior


@dataclass(frozen=True)
class Hyperparameters:
    """What a fit finds; `timescale` is None for a kernel without a temporal part."""

    scale: float
    lengthscale: float | tuple[float, ...]
    timescale: float | None
    noise: float

    def to_vector(self) -> Array:
        timescale = [] if self.timescale is None else [self.timescale]
        return np.log([self.scale, *np.atleast_1d(self.lengthscale), *timescale, self.noise / self.scale])

    @classmethod
    def from_vector(cls, theta: Array, *, ard: bool, drifting: bool) -> "Hyperparameters":
        scale, *middle, ratio = map(float, np.exp(theta))
        timescale = middle.pop() if drifting else None
        return cls(scale, tuple(middle) if ard else middle[0], timescale, ratio * scale)

    def kernel(self, spatial: Stationary, temporal: Stationary | None) -> SpaceTimeKernel:
        """The kernel of the given families with these hyperparameters."""
        if temporal is not None and self.timescale is not None:
            temporal = temporal.with_lengthscale(self.timescale)
        return SpaceTimeKernel(self.scale, spatial.with_lengthscale(self.lengthscale), temporal)


class _Axis:
    """One part of the kernel: the pairwise squared differences, one row per lengthscale."""

    def __init__(self, family: Stationary, points: Array, ard: bool) -> None:
        self.family = family
        columns = points.T[:, :, None] if ard else points[None]
        self.squared = np.array([pdist(column, "sqeuclidean") for column in columns])
        self.distance = None if ard else np.sqrt(self.squared[0])

    def scaled_distance(self, log_scales: Array, block: slice) -> Array:
        rho: Array
        if self.distance is not None:
            rho = self.distance[block] * math.exp(-log_scales[0])
        else:
            rho = np.sqrt(np.exp(-2.0 * log_scales) @ self.squared[:, block])
        return rho


class Likelihood:
    """L(θ) for fixed data; distances are computed once."""

    def __init__(
        self,
        spatial: Stationary,
        temporal: Stationary | None,
        X: Array,
        t: Array,
        y: Array,
    ) -> None:
        self.families = spatial, temporal
        self.X, self.t, self.y = X, t, y
        self.axes = [_Axis(spatial, X, spatial.ard)]
        if temporal is not None:
            self.axes.append(_Axis(temporal, t[:, None], ard=False))

    def __call__(self, theta: Array) -> "Evaluation":
        return Evaluation(self, theta)


class Evaluation:
    """L at one θ. The value costs one Cholesky factor; the derivatives and the posterior share one inverse."""

    def __init__(self, likelihood: Likelihood, theta: Array) -> None:
        self.likelihood, self.theta = likelihood, theta
        self.scale, self.noise = math.exp(theta[0]), math.exp(theta[0] + theta[-1])
        bounds = np.cumsum([1] + [len(axis.squared) for axis in likelihood.axes])
        self._axes = [
            (axis, theta[low:high]) for axis, low, high in zip(likelihood.axes, bounds, bounds[1:], strict=False)
        ]
        y = likelihood.y
        n = len(y)
        pairs = np.empty(n * (n - 1) // 2)
        self._decay = np.empty_like(pairs)
        for block in blocks(len(pairs)):
            rhos = [axis.scaled_distance(scales, block) for axis, scales in self._axes]
            decay = self.scale * np.exp(
                sum(axis.family.exponent(rho) for (axis, _), rho in zip(self._axes, rhos, strict=True))
            )
            self._decay[block] = decay
            for (axis, _), rho in zip(self._axes, rhos, strict=True):
                decay *= axis.family.value(rho)
            pairs[block] = decay
        self.factor = factorize(symmetric(pairs, self.scale + self.noise, n))
        self.alpha = solve(self.factor, y)
        self.value = -0.5 * (float(y @ self.alpha) + self.factor.log_determinant + n * math.log(2.0 * math.pi))

    @cached_property
    def P(self) -> Array:
        return invert(self.factor)

    def derivatives(self) -> tuple[Array, Array]:
        """The gradient of L and its average information."""
        y, alpha, P = self.likelihood.y, self.alpha, self.P
        n = len(y)
        slopes = self._lengthscale_derivatives()
        P_pairs = squareform(P, checks=False)
        traces = [n, *(2.0 * slopes @ P_pairs), self.noise * float(np.trace(P))]
        # ∂Δ/∂log λ is Δ itself, and Δα = y.
        columns = [y, *(symmetric(pairs, 0.0, n) @ alpha for pairs in slopes), self.noise * alpha]
        K_alpha = np.column_stack(columns)
        gradient = 0.5 * (K_alpha.T @ alpha - traces)
        return gradient, 0.5 * K_alpha.T @ (P @ K_alpha)

    def _lengthscale_derivatives(self) -> Array:
        """∂K/∂log l on the pairs, one row per lengthscale: λ e^exponent · h · Δ²/l² · the other part's value."""
        rows = np.empty((len(self.theta) - 2, len(self._decay)))
        for block in blocks(len(self._decay)):
            rhos = [axis.scaled_distance(scales, block) for axis, scales in self._axes]
            row = 0
            for (axis, scales), rho in zip(self._axes, rhos, strict=True):
                common = self._decay[block] * axis.family.slope(rho)
                for (other, _), other_rho in zip(self._axes, rhos, strict=True):
                    if other is not axis:
                        common *= other.family.value(other_rho)
                for square, scale in zip(axis.squared, scales, strict=True):
                    rows[row, block] = common * square[block] * math.exp(-2.0 * scale)
                    row += 1
        return rows

    @property
    def hyperparameters(self) -> Hyperparameters:
        spatial, temporal = self.likelihood.families
        return Hyperparameters.from_vector(self.theta, ard=spatial.ard, drifting=temporal is not None)

    def posterior(self) -> Posterior:
        """The process conditioned at this θ, without another factorization."""
        data = self.likelihood
        kernel = self.hyperparameters.kernel(*data.families)
        return Posterior(kernel, self.noise, data.X, data.t, self.P, self.alpha, self.factor.jitter_rungs)
