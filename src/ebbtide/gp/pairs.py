"""Covariances of pairs of observations, and their derivatives with respect to θ (hyperparameters.py).

A product of kernels needs one exponential for each pair, whatever its parts (see kernels/stationary.py). The pairs are
those above the diagonal of Δ, in SciPy's condensed order, or those of one observation with all others.
"""

import math
from collections.abc import Callable
from functools import cached_property, reduce
from operator import add

import numpy as np
from scipy.spatial.distance import pdist

from ebbtide.gp.arrays import Array
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.kernels import Cyclic, Stationary
from ebbtide.gp.linalg import blocks

# Squared distances of the pairs, from the coordinates of all points: one row for all coordinates, or (ARD) for each.
Squares = Callable[[Array, bool], Array]


class _Axis:
    """One part of the kernel: the squared differences of the pairs, one row per lengthscale."""

    def __init__(self, family: Stationary, squared: Array, ard: bool) -> None:
        self.family, self.squared = family, squared
        self.distance = None if ard else np.sqrt(squared[0])

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
        self.value = axis.family.value(rho)

    def exponent(self) -> Array | float:
        return self.axis.family.exponent(self.rho)

    def slope(self) -> Array | float:
        """What all derivatives have in common."""
        return self.axis.family.slope(self.rho)

    def derivatives(self) -> Array:
        """What distinguishes them, one row per parameter: Δ²/l²."""
        derivatives: Array = self.axis.squared[:, self.block] * np.exp(-2.0 * self.scales)[:, None]
        return derivatives


class _CyclicAxis:
    """The temporal part of a kernel with cycles: the distances in time, and the harmonics of each cycle."""

    def __init__(self, family: Cyclic, distance: Array) -> None:
        self.family, self.distance = family, distance
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
    def value(self) -> Array:
        """k itself: it has no exponential in common with the other axes."""
        family, kernel = self.kernel.family, self.kernel
        total: Array = kernel.rest * family.correlation(self.tau / kernel.scale)
        for cycle, (course, _) in zip(kernel.cycles, self.courses, strict=True):
            total += cycle.share * family.correlation(self.tau / cycle.lengthscale) * course
        return total

    def exponent(self) -> float:
        return 0.0

    def slope(self) -> float:
        return 1.0

    def derivatives(self) -> Array:
        """∂k/∂log l₁; for each cycle ∂k/∂log(a/rest) = a (its part − k), ∂k/∂log lⱼ and ∂k/∂log r."""
        family, kernel = self.kernel.family, self.kernel
        found = [kernel.rest * _by_scale(family, self.tau / kernel.scale)]
        for cycle, (course, by_smoothness) in zip(kernel.cycles, self.courses, strict=True):
            s = self.tau / cycle.lengthscale
            fading = family.correlation(s)
            found.append(cycle.share * (fading * course - self.value))
            found.append(cycle.share * _by_scale(family, s) * course)
            found.append(cycle.share * fading * by_smoothness)
        return np.array(found)


def _by_scale(family: Stationary, rho: Array) -> Array:
    """∂k/∂log l = h ρ²."""
    return family.slope(rho) * np.exp(family.exponent(rho)) * rho * rho


class Pairs:
    """Some pairs of observations; their distances are computed once."""

    def __init__(self, families: Families, X: Array, t: Array, squares: Squares) -> None:
        width = X.shape[1] - families.context_size
        spatial = _Axis(families.spatial, squares(X[:, :width], families.spatial.ard), families.spatial.ard)
        self.count = spatial.squared.shape[1]
        self.axes: list[_Axis | _CyclicAxis] = [spatial]
        if families.context is not None:
            self.axes.append(_Axis(families.context, squares(X[:, width:], True), True))
        if isinstance(families.temporal, Cyclic):
            self.axes.append(_CyclicAxis(families.temporal, np.sqrt(squares(t[:, None], False)[0])))
        elif families.temporal is not None:
            self.axes.append(_Axis(families.temporal, squares(t[:, None], False), False))

    @classmethod
    def among(cls, families: Families, X: Array, t: Array) -> "Pairs":
        """All pairs of observations."""
        return cls(families, X, t, _among)

    @classmethod
    def with_last(cls, families: Families, X: Array, t: Array) -> "Pairs":
        """The last observation, paired with each of the others."""
        return cls(families, X, t, _with_last)

    def at(self, theta: Array) -> "Covariances":
        return Covariances(self, theta)


def _among(points: Array, ard: bool) -> Array:
    columns = points.T[:, :, None] if ard else points[None]
    return np.array([pdist(column, "sqeuclidean") for column in columns])


def _with_last(points: Array, ard: bool) -> Array:
    apart = points[:-1] - points[-1]
    squares: Array = np.square(apart.T) if ard else np.vecdot(apart, apart)[None]
    return squares


class Covariances:
    """The covariances of some pairs at one θ."""

    def __init__(self, pairs: Pairs, theta: Array) -> None:
        self.theta, self.scale = theta, math.exp(theta[0])
        self._axes, first = [], 1
        for axis in pairs.axes:
            self._axes.append((axis, theta[first : first + axis.size]))
            first += axis.size
        self._blocks = blocks(pairs.count)
        self._last: list[_Factor | _CyclicFactor] = []  # the factors of the last block, which is often the only one
        self.values, self._decay = np.empty(pairs.count), np.empty(pairs.count)
        for block in self._blocks:
            factors = self._last = [axis.at(scales, block) for axis, scales in self._axes]
            decay = self.scale * np.exp(reduce(add, (factor.exponent() for factor in factors)))
            self._decay[block] = decay
            for factor in factors:
                decay *= factor.value
            self.values[block] = decay

    def derivatives(self) -> Array:
        """∂K/∂θ of the pairs, one row per parameter of an axis; for a lengthscale
        λ e^exponent · h · Δ²/l² · the other parts' values.
        """
        rows = np.empty((len(self.theta) - 2, len(self._decay)))
        for block in self._blocks:
            factors = [axis.at(scales, block) for axis, scales in self._axes] if len(self._blocks) > 1 else self._last
            row = 0
            for factor in factors:
                common = self._decay[block] * factor.slope()
                for other in factors:
                    if other is not factor:
                        common *= other.value
                each = factor.derivatives()
                rows[row : row + len(each), block] = common * each
                row += len(each)
        return rows
