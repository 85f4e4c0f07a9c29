"""The covariance of a drifting function: λ · k_S(x, x′) · k_T(t, t′) (Assumption 3.2 of the paper).

What was measured of the surroundings (the context c) multiplies it: λ · k_S · k_C(c, c′) · k_T. Its coordinates are the
last columns of X.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels.stationary import Stationary
from ebbtide.gp.linalg import blocks, symmetric


@runtime_checkable
class Kernel(Protocol):
    """The interface that the criterion needs; the kernel need not be a product, nor stationary."""

    def __call__(self, X: Array, t: Array, X2: Array, t2: Array) -> Array:
        """The (n, m) covariances between (X, t) and (X2, t2)."""
        ...


@dataclass(frozen=True)
class SpaceTimeKernel:
    """λ · k_S · k_T, and k_C if there is a context, with a lengthscale for each of its coordinates.

    Without a temporal part the function does not drift.

    >>> from ebbtide.gp.kernels import SquaredExponential
    >>> kernel = SpaceTimeKernel(2.0, SquaredExponential(0.3), SquaredExponential(5.0))
    >>> kernel([[0.1], [0.9]], [0.0, 1.0]).shape
    (2, 2)
    """

    scale: float
    spatial: Stationary
    temporal: Stationary | None = None
    context: Stationary | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ConfigurationError(f"scale={self.scale!r}: the variance of a kernel must be a positive number")
        if self.temporal is not None and self.temporal.ard:
            raise ConfigurationError(
                f"temporal={self.temporal!r}: time has one coordinate, so the temporal kernel takes one lengthscale"
            )
        if self.context is not None and not self.context.ard:
            raise ConfigurationError(
                f"context={self.context!r}: give a lengthscale for each coordinate of the context, as a tuple"
            )

    def split(self, X: Array) -> tuple[Array, Array]:
        """The coordinates in space, and those of the context."""
        width = X.shape[1] - (0 if self.context is None else len(np.atleast_1d(self.context.lengthscale)))
        return X[:, :width], X[:, width:]

    @property
    def timescale(self) -> float | None:
        """l_T, or None for a function that does not drift."""
        return None if self.temporal is None else float(np.asarray(self.temporal.lengthscale))

    def __call__(self, X: ArrayLike, t: ArrayLike, X2: ArrayLike | None = None, t2: ArrayLike | None = None) -> Array:
        """Covariances between (X, t) and (X2, t2), or among (X, t) themselves."""
        X, t = np.atleast_2d(np.asarray(X, dtype=float)), np.asarray(t, dtype=float)
        if X2 is None or t2 is None:
            return self._among(X, t)
        X2, t2 = np.atleast_2d(np.asarray(X2, dtype=float)), np.asarray(t2, dtype=float)
        rho_t = None if self.temporal is None else self.temporal.scaled_distance(t[:, None], t2[:, None])
        if self.context is None:
            return self._covariance(self.spatial.scaled_distance(X, X2), rho_t)
        (X, c), (X2, c2) = self.split(X), self.split(X2)
        return self._covariance(self.spatial.scaled_distance(X, X2), rho_t) * self.context(c, c2)

    def _among(self, X: Array, t: Array) -> Array:
        """The same, computed from the pairs above the diagonal only: half the exponentials."""
        X, c = self.split(X)
        rho = self.spatial.scaled_distance(X)
        rho_t = None if self.temporal is None else self.temporal.scaled_distance(t[:, None])
        pairs = np.empty_like(rho)
        for block in blocks(len(pairs)):
            pairs[block] = self._covariance(rho[block], None if rho_t is None else rho_t[block])
        if self.context is not None:
            pairs *= self.context.correlation(self.context.scaled_distance(c))
        return symmetric(pairs, self.scale, len(X))

    def _covariance(self, rho: Array, rho_t: Array | None) -> Array:
        if self.temporal is None or rho_t is None:
            return self.scale * self.spatial.correlation(rho)
        exponent = self.spatial.exponent(rho) + self.temporal.exponent(rho_t)
        return self.scale * self.spatial.value(rho) * self.temporal.value(rho_t) * np.exp(exponent)
