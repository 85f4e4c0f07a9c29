"""Correlation functions of the scaled distance ρ = ‖(x − x′)/l‖.

Every derivative that the library needs follows from k(ρ) and one more function, the *slope*

    h(ρ) = −k′(ρ)/ρ ,

which is finite at ρ = 0 for all but Matérn-½ (where it is set to 0: the kink has no derivative):

    ∂k/∂x           = −h · (x − x′)/l²
    ∂k/∂log l       =  h · ρ²                     (isotropic)
    ∂k/∂log l_g     =  h · (x_g − x′_g)²/l_g²     (ARD)

Both are given as factors of one exponential, k = value·e^exponent and h = slope·e^exponent. The exponential is
the expensive part: a product of kernels adds the exponents and computes it once.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array

FAR = 1e8  # correlations are 0 beyond this distance; polynomials of larger ones could overflow


@dataclass(frozen=True)
class Stationary(ABC):
    """A correlation function with one lengthscale, or one per coordinate (ARD)."""

    by_step: ClassVar[bool] = False  # whether time is counted in observations told instead of the clock's unit

    lengthscale: float | tuple[float, ...]

    def __post_init__(self) -> None:
        scales = np.atleast_1d(np.asarray(self.lengthscale, dtype=float))
        if scales.ndim != 1 or scales.size == 0 or not (np.isfinite(scales).all() and (scales > 0).all()):
            raise ConfigurationError(
                f"lengthscale={self.lengthscale!r}: give one positive number, or one per coordinate for ARD"
            )
        plain = float(scales[0]) if np.ndim(self.lengthscale) == 0 else tuple(map(float, scales))
        object.__setattr__(self, "lengthscale", plain)

    @abstractmethod
    def value(self, rho: Array) -> Array | float:
        """k(ρ) without its exponential."""

    @abstractmethod
    def slope(self, rho: Array) -> Array | float:
        """h(ρ) without its exponential."""

    @abstractmethod
    def exponent(self, rho: Array) -> Array:
        """The logarithm of the exponential that k and h share."""

    def parts(self, rho: Array) -> tuple[Array | float, Array | float, Array]:
        """Value, slope and exponent together, for whoever needs all three."""
        return self.value(rho), self.slope(rho), self.exponent(rho)

    def correlation(self, rho: Array) -> Array:
        """k(ρ)."""
        return self.value(rho) * np.exp(self.exponent(rho))

    @property
    def ard(self) -> bool:
        return isinstance(self.lengthscale, tuple)

    @property
    def shortest(self) -> float:
        """The shortest lengthscale, or the only one."""
        return min(self.lengthscale) if isinstance(self.lengthscale, tuple) else self.lengthscale

    def scaled_distance(self, X: Array, Z: Array | None = None) -> Array:
        """ρ between the rows of X and Z, (n, m); without Z, between the pairs of X in SciPy's condensed order.

        Differences are taken before the division: seconds since 1970 over a short l_T would lose their last digits.
        """
        self.check_coordinates(X.shape[1])
        scale = 1.0
        if isinstance(self.lengthscale, tuple):
            X, Z = X / self.lengthscale, None if Z is None else Z / self.lengthscale
        else:
            scale = 1.0 / self.lengthscale
        rho: Array = pdist(X) if Z is None else cdist(X, Z)
        rho *= scale
        return rho

    def roughly_scaled_distance(self, X: Array, Z: Array) -> Array:
        """The same from ρ² = |x|² − 2xᵀz + |z|²: much faster, but where ρ is about 0 only the first half of its digits
        is right.
        """
        self.check_coordinates(X.shape[1])
        X, Z = X / self.lengthscale, Z / self.lengthscale
        square = X @ (-2.0 * Z.T)
        square += np.vecdot(X, X)[:, None]
        square += np.vecdot(Z, Z)
        return np.sqrt(np.maximum(square, 0.0, out=square), out=square)

    def check_coordinates(self, d: int) -> None:
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != d:
            raise ConfigurationError(
                f"the kernel has {len(self.lengthscale)} lengthscales but the points have {d} coordinates; "
                "give one lengthscale, or one per coordinate"
            )

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """The matrix of correlations between the rows of X and of Z."""
        X = np.atleast_2d(np.asarray(X, dtype=float))
        Z = X if Z is None else np.atleast_2d(np.asarray(Z, dtype=float))
        return self.correlation(np.minimum(self.scaled_distance(X, Z), FAR))

    def with_lengthscale(self, lengthscale: float | tuple[float, ...]) -> Self:
        return replace(self, lengthscale=lengthscale)


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """k = exp(−ρ²/2): infinitely smooth.

    >>> bool(SquaredExponential(lengthscale=2.0)([[0.0]], [[2.0]])[0, 0] == np.exp(-0.5))
    True
    """

    lengthscale: float | tuple[float, ...] = 1.0

    def value(self, rho: Array) -> float:
        return 1.0

    def slope(self, rho: Array) -> float:
        return 1.0

    def exponent(self, rho: Array) -> Array:
        return -0.5 * rho * rho


SMOOTHEST = 100.5  # beyond it a Matérn cannot be told from a squared exponential, and its polynomial takes long


@dataclass(frozen=True)
class Matern(Stationary):
    """Matérn of half-integer smoothness ν = p + ½, up to 100.5: e^{−z} times a polynomial in z = √(2ν) ρ.

    >>> bool(np.isclose(Matern(0.5, lengthscale=1.0)([[0.0]], [[1.0]])[0, 0], np.exp(-1.0)))
    True
    """

    nu: float = 2.5
    lengthscale: float | tuple[float, ...] = 1.0

    def __init__(self, nu: float = 2.5, lengthscale: float | tuple[float, ...] = 1.0) -> None:
        object.__setattr__(self, "nu", float(nu))
        object.__setattr__(self, "lengthscale", lengthscale)
        if not (0.0 < self.nu <= SMOOTHEST and (self.nu - 0.5).is_integer()):
            raise ConfigurationError(f"nu={nu!r}: ebbtide's Matérn takes half-integers: 0.5, 1.5, 2.5, … {SMOOTHEST}")
        self.__post_init__()

    @property
    def rate(self) -> float:
        """√(2ν): k decays as e^{−rate·ρ}."""
        return math.sqrt(2.0 * self.nu)

    @property
    def _order(self) -> int:
        """p."""
        return int(self.nu)

    def value(self, rho: Array) -> Array:
        return polynomial(matern_coefficients(self._order), self.rate * rho)

    def slope(self, rho: Array) -> Array:
        if self._order == 0:
            return np.divide(1.0, rho, out=np.zeros_like(rho), where=rho > 0)
        return polynomial(_slope_coefficients(self._order), self.rate * rho)

    def exponent(self, rho: Array) -> Array:
        return -self.rate * rho

    def correlation(self, rho: Array) -> Array:
        z = self.rate * rho
        k = polynomial(matern_coefficients(self._order), z)
        k *= np.exp(np.negative(z, out=z), out=z)
        return k

    def parts(self, rho: Array) -> tuple[Array, Array, Array]:
        p, z = self._order, self.rate * rho
        slope = polynomial(_slope_coefficients(p), z) if p else self.slope(rho)
        return polynomial(matern_coefficients(p), z), slope, -z


@dataclass(frozen=True)
class StepDecay(Matern):
    """TV-GP-UCB's kernel in time, (1 − ε)^{|i−j|/2} (Bogunovic, Scarlett and Cevher, 2016).

    i and j are positions in the order told. This is Matérn-½ of the position, with l = −2/ln(1 − ε) steps.

    >>> bool(np.isclose(StepDecay(lengthscale=-2.0 / np.log(0.81))([[1.0]], [[5.0]])[0, 0], 0.81**2))
    True
    """

    by_step: ClassVar[bool] = True

    def __init__(self, lengthscale: float = 1.0, nu: float = 0.5) -> None:
        if nu != 0.5:
            raise ConfigurationError(
                f"nu={nu!r}: StepDecay is (1 − ε)^(steps/2), a Matérn of smoothness 0.5; leave nu out"
            )
        super().__init__(nu, lengthscale)

    @property
    def epsilon(self) -> float:
        """ε: the share of the function that is new at each step."""
        return -math.expm1(-2.0 / float(np.asarray(self.lengthscale)))


@lru_cache
def matern_coefficients(p: int) -> tuple[float, ...]:
    """The polynomial of Matérn-(p+½), lowest power first; 1 at z = 0.

    p!/(2p)! Σ_k (p+k)!/(k!(p−k)!) (2z)^{p−k}
    """
    coefficients = [1.0]
    for j in range(p):
        coefficients.append(coefficients[-1] * 2.0 * (p - j) / ((2 * p - j) * (j + 1)))
    return tuple(coefficients)


@lru_cache
def _slope_coefficients(p: int) -> tuple[float, ...]:
    """(z^ν K_ν)′ = −z^ν K_{ν−1}: the slope of a Matérn is ν/(ν − 1) times the Matérn one order below."""
    return tuple((p + 0.5) / (p - 0.5) * coefficient for coefficient in matern_coefficients(p - 1))


def polynomial(coefficients: tuple[float, ...], z: Array) -> Array:
    """Horner's rule in place: one pass over memory per coefficient."""
    if len(coefficients) == 1:
        return np.full_like(z, coefficients[0])
    result = coefficients[-1] * z
    result += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result *= z
        result += coefficient
    return result
