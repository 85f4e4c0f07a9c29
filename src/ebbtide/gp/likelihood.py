"""The log marginal likelihood of a space-time kernel, its gradient, and its average information.

θ = (log λ, log l_S [one or d], log l_C [one per context coordinate], log l_T [if the kernel drifts], for each cycle
    (log aⱼ/(1 − Σa), log lⱼ, log rⱼ), log σ²/λ)

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
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Cyclic, SpaceTimeKernel, Stationary
from ebbtide.gp.linalg import blocks, factorize, invert, solve, symmetric
from ebbtide.gp.posterior import Posterior


class Families(NamedTuple):
    """The kernels whose hyperparameters are fitted; the lengthscales that they have do not matter."""

    spatial: Stationary
    temporal: Stationary | None
    context: Stationary | None = None

    @property
    def context_size(self) -> int:
        """How many coordinates the context has."""
        return 0 if self.context is None else len(np.atleast_1d(self.context.lengthscale))

    @property
    def cycles(self) -> int:
        """How many cycles there are."""
        return len(self.temporal.cycles) if isinstance(self.temporal, Cyclic) else 0

    def hyperparameters(self, theta: Array) -> "Hyperparameters":
        """The hyperparameters with this vector."""
        sizes = {"context": self.context_size, "cycles": self.cycles}
        return Hyperparameters.from_vector(theta, ard=self.spatial.ard, drifting=self.temporal is not None, **sizes)


@dataclass(frozen=True)
class Hyperparameters:
    """What a fit finds; `timescale` is None for a kernel without a temporal part.

    `context` has a lengthscale for each coordinate of the context; `cycles`, for each cycle, the share of the variance
    that comes back, for how long, and how smoothly (kernels/cyclic.py).
    """

    scale: float
    lengthscale: float | tuple[float, ...]
    timescale: float | None
    noise: float
    context: tuple[float, ...] = ()
    cycles: tuple[tuple[float, float, float], ...] = ()

    def to_vector(self) -> Array:
        timescale = [] if self.timescale is None else [self.timescale]
        rest = 1.0 - sum(share for share, _, _ in self.cycles)
        cycles = [value for share, length, smoothness in self.cycles for value in (share / rest, length, smoothness)]
        middle = [*np.atleast_1d(self.lengthscale), *self.context, *timescale, *cycles]
        return np.log([self.scale, *middle, self.noise / self.scale])

    @classmethod
    def from_vector(
        cls, theta: Array, *, ard: bool, drifting: bool, context: int = 0, cycles: int = 0
    ) -> "Hyperparameters":
        scale, *middle, ratio = map(float, np.exp(theta))
        middle, last = middle[: len(middle) - 3 * cycles], middle[len(middle) - 3 * cycles :]
        timescale = middle.pop() if drifting else None
        spatial, surroundings = middle[: len(middle) - context], middle[len(middle) - context :]
        total = 1.0 + sum(last[::3])
        courses = tuple((last[k] / total, last[k + 1], last[k + 2]) for k in range(0, 3 * cycles, 3))
        lengthscale = tuple(spatial) if ard else spatial[0]
        return cls(scale, lengthscale, timescale, ratio * scale, tuple(surroundings), courses)

    def kernel(
        self, spatial: Stationary, temporal: Stationary | None, context: Stationary | None = None
    ) -> SpaceTimeKernel:
        """The kernel of the given families with these hyperparameters."""
        if isinstance(temporal, Cyclic) and self.timescale is not None:
            temporal = temporal.fitted(self.timescale, self.cycles)
        elif temporal is not None and self.timescale is not None:
            temporal = temporal.with_lengthscale(self.timescale)
        context = None if context is None else context.with_lengthscale(self.context)
        return SpaceTimeKernel(self.scale, spatial.with_lengthscale(self.lengthscale), temporal, context)


class _Axis:
    """One part of the kernel: the pairwise squared differences, one row per lengthscale."""

    def __init__(self, family: Stationary, points: Array, ard: bool) -> None:
        self.family = family
        columns = points.T[:, :, None] if ard else points[None]
        self.squared = np.array([pdist(column, "sqeuclidean") for column in columns])
        self.distance = None if ard else np.sqrt(self.squared[0])

    @property
    def size(self) -> int:
        """How many parameters it has."""
        return len(self.squared)

    def at(self, scales: Array, block: slice) -> "_Factor":
        """The factor of these pairs for log lengthscales."""
        rho: Array
        if self.distance is not None:
            rho = self.distance[block] * math.exp(-scales[0])
        else:
            rho = np.sqrt(np.exp(-2.0 * scales) @ self.squared[:, block])
        return _Factor(self, scales, block, rho)


class _Factor:
    """What one axis contributes to some pairs: value · e^exponent, and its derivatives."""

    def __init__(self, axis: _Axis, scales: Array, block: slice, rho: Array) -> None:
        self.axis, self.scales, self.block, self.rho = axis, scales, block, rho

    def exponent(self) -> Array | float:
        return self.axis.family.exponent(self.rho)

    def value(self) -> Array | float:
        return self._value

    @cached_property
    def _value(self) -> Array | float:
        return self.axis.family.value(self.rho)

    def slope(self) -> Array | float:
        """What all derivatives have in common."""
        return self.axis.family.slope(self.rho)

    def derivatives(self) -> list[tuple[Array, float]]:
        """What distinguishes them, one per parameter: Δ² · 1/l²."""
        squares = (square[self.block] for square in self.axis.squared)
        return [(square, math.exp(-2.0 * scale)) for square, scale in zip(squares, self.scales, strict=True)]


class _CyclicAxis:
    """The temporal part of a kernel with cycles: the pairwise distances in time, and the harmonics of each cycle."""

    def __init__(self, family: Cyclic, t: Array) -> None:
        self.family = family
        self.distance = pdist(t[:, None])
        self.harmonics = [cycle.harmonics(self.distance) for cycle in family.cycles]

    @property
    def size(self) -> int:
        return 1 + 3 * len(self.family.cycles)

    def at(self, theta: Array, block: slice) -> "_CyclicFactor":
        # The shares do not depend on the other axes: any scale and noise make these hyperparameters complete.
        vector = np.array([0.0, 0.0, *theta, 0.0])
        cycles = len(self.family.cycles)
        hyper = Hyperparameters.from_vector(vector, ard=False, drifting=True, cycles=cycles)
        return _CyclicFactor(self, self.family.fitted(math.exp(theta[0]), hyper.cycles), block)


class _CyclicFactor:
    """What time contributes to some pairs; see kernels/cyclic.py for the parts."""

    def __init__(self, axis: _CyclicAxis, kernel: Cyclic, block: slice) -> None:
        self.axis, self.kernel, self.block = axis, kernel, block
        self.tau = axis.distance[block]
        # k_P and its derivative with respect to log r, for each cycle.
        self.courses = [
            np.array(cycle.weights) @ harmonics[:, block]
            for harmonics, cycle in zip(axis.harmonics, kernel.cycles, strict=True)
        ]

    @cached_property
    def _total(self) -> Array:
        family, kernel = self.kernel.family, self.kernel
        total: Array = kernel.rest * family.correlation(self.tau / kernel.scale)
        for cycle, (course, _) in zip(kernel.cycles, self.courses, strict=True):
            total += cycle.share * family.correlation(self.tau / cycle.lengthscale) * course
        return total

    def exponent(self) -> float:
        return 0.0

    def value(self) -> Array:
        return self._total

    def slope(self) -> float:
        return 1.0

    def derivatives(self) -> list[tuple[Array, float]]:
        """∂k/∂log l₁; for each cycle ∂k/∂log(a/rest) = a (its part − k), ∂k/∂log lⱼ and ∂k/∂log r."""
        family, kernel = self.kernel.family, self.kernel
        found = [(_by_scale(family, self.tau / kernel.scale), kernel.rest)]
        for cycle, (course, by_smoothness) in zip(kernel.cycles, self.courses, strict=True):
            s = self.tau / cycle.lengthscale
            fading = family.correlation(s)
            found.append((fading * course - self._total, cycle.share))
            found.append((_by_scale(family, s) * course, cycle.share))
            found.append((fading * by_smoothness, cycle.share))
        return found


def _by_scale(family: Stationary, rho: Array) -> Array:
    """∂k/∂log l = h ρ²."""
    return family.slope(rho) * np.exp(family.exponent(rho)) * rho * rho


class Likelihood:
    """L(θ) for fixed data; distances are computed once."""

    def __init__(self, families: Families, X: Array, t: Array, y: Array) -> None:
        self.families = families
        self.X, self.t, self.y = X, t, y
        width = X.shape[1] - families.context_size
        self.axes: list[_Axis | _CyclicAxis] = [_Axis(families.spatial, X[:, :width], families.spatial.ard)]
        if families.context is not None:
            self.axes.append(_Axis(families.context, X[:, width:], ard=True))
        if isinstance(families.temporal, Cyclic):
            self.axes.append(_CyclicAxis(families.temporal, t))
        elif families.temporal is not None:
            self.axes.append(_Axis(families.temporal, t[:, None], ard=False))

    def __call__(self, theta: Array) -> "Evaluation":
        return Evaluation(self, theta)


class Evaluation:
    """L at one θ. The value costs one Cholesky factor; the derivatives and the posterior share one inverse."""

    def __init__(self, likelihood: Likelihood, theta: Array) -> None:
        self.likelihood, self.theta = likelihood, theta
        self.scale, self.noise = math.exp(theta[0]), math.exp(theta[0] + theta[-1])
        bounds = np.cumsum([1] + [axis.size for axis in likelihood.axes])
        self._axes = [
            (axis, theta[low:high]) for axis, low, high in zip(likelihood.axes, bounds, bounds[1:], strict=False)
        ]
        y = likelihood.y
        n = len(y)
        pairs = np.empty(n * (n - 1) // 2)
        self._decay = np.empty_like(pairs)
        for block in blocks(len(pairs)):
            factors = [axis.at(scales, block) for axis, scales in self._axes]
            decay = self.scale * np.exp(sum(factor.exponent() for factor in factors))
            self._decay[block] = decay
            for factor in factors:
                decay *= factor.value()
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
        slopes = self._derivatives()
        P_pairs = squareform(P, checks=False)
        traces = [n, *(2.0 * slopes @ P_pairs), self.noise * float(np.trace(P))]
        # ∂Δ/∂log λ is Δ itself, and Δα = y.
        columns = [y, *(symmetric(pairs, 0.0, n) @ alpha for pairs in slopes), self.noise * alpha]
        K_alpha = np.column_stack(columns)
        gradient = 0.5 * (K_alpha.T @ alpha - traces)
        return gradient, 0.5 * K_alpha.T @ (P @ K_alpha)

    def _derivatives(self) -> Array:
        """∂K/∂θ on the pairs, one row per parameter of an axis; for a lengthscale
        λ e^exponent · h · Δ²/l² · the other parts' values.
        """
        rows = np.empty((len(self.theta) - 2, len(self._decay)))
        for block in blocks(len(self._decay)):
            factors = [axis.at(scales, block) for axis, scales in self._axes]
            row = 0
            for factor in factors:
                common = self._decay[block] * factor.slope()
                for other in factors:
                    if other is not factor:
                        common *= other.value()
                for derivative, weight in factor.derivatives():
                    rows[row, block] = common * derivative * weight
                    row += 1
        return rows

    @property
    def hyperparameters(self) -> Hyperparameters:
        return self.likelihood.families.hyperparameters(self.theta)

    def posterior(self) -> Posterior:
        """The process conditioned at this θ, without another factorization."""
        data = self.likelihood
        kernel = self.hyperparameters.kernel(*data.families)
        return Posterior(kernel, self.noise, data.X, data.t, self.P, self.alpha, self.factor.jitter_rungs)
