"""A correlation in time that fades and comes back: what is the same every day stays known for many days.

    k(τ) = (1 − Σ aⱼ) k_T(τ/l₁) + Σ aⱼ k_T(τ/lⱼ) k_P(τ; Pⱼ, rⱼ)          lⱼ long, l₁ short

| symbol | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| k_T    | the family, such as Matérn-3/2                                                      |
| l₁     | how fast the part that does not come back drifts: the l_T of the budget             |
| aⱼ     | the share of the variance that comes back with period Pⱼ                            |
| lⱼ     | how slowly the course of a period changes                                           |
| rⱼ     | how smooth that course is: moments r/2π of a period apart are alike                 |
| k_P    | exp(−2 sin²(πτ/P)/r²) as a cosine series Σ w_h cos(2πhτ/P), cut off after `HARMONICS` |

With z = 1/r², w_h ∝ e^{−z} I_h(z) (twice that for h > 0), made to sum to 1: positive weights, so k_P is a correlation.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.special import ive

from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels.stationary import Stationary

HARMONICS = 8


@dataclass(frozen=True)
class Cycle:
    """One cycle: its period, the share of the variance that comes back, for how long, and how smoothly."""

    period: float
    share: float = 0.5
    lengthscale: float = 1.0
    smoothness: float = 0.7

    def __post_init__(self) -> None:
        positive = (self.period, self.share, self.lengthscale, self.smoothness)
        if not (np.isfinite(positive).all() and min(positive) > 0.0 and self.share < 1.0):
            raise ConfigurationError(f"{self!r}: give positive numbers, and a share below 1")

    def course(self, tau: Array) -> Array:
        """k_P(τ)."""
        return np.asarray(chebval(np.cos((2.0 * np.pi / self.period) * tau), self.weights[0]), dtype=float)

    def harmonics(self, tau: Array) -> Array:
        """cos 2πhτ/P, one row for each h = 0 … HARMONICS: cos((h+1)θ) = 2 cos θ cos hθ − cos((h−1)θ)."""
        rows = np.ones((HARMONICS + 1, len(tau)))
        rows[1] = np.cos((2.0 * np.pi / self.period) * tau)
        for h in range(2, HARMONICS + 1):
            rows[h] = 2.0 * rows[1] * rows[h - 1] - rows[h - 2]
        return rows

    @property
    def weights(self) -> tuple[Array, Array]:
        """w_h for h = 0 … HARMONICS, and their derivatives with respect to log r."""
        return _weights(self.smoothness)

    @property
    def frequencies(self) -> Array:
        """2πh/P."""
        return (2.0 * np.pi / self.period) * np.arange(HARMONICS + 1.0)


@lru_cache
def _weights(smoothness: float) -> tuple[Array, Array]:
    z = 1.0 / smoothness**2
    orders = np.arange(HARMONICS + 1)
    twice = np.where(orders == 0, 1.0, 2.0)
    raw = twice * ive(orders, z)
    by_z = twice * (0.5 * (ive(orders - 1, z) + ive(orders + 1, z)) - ive(orders, z))
    weights = raw / raw.sum()
    slopes = -2.0 * z * (by_z - weights * by_z.sum()) / raw.sum()
    weights.flags.writeable = slopes.flags.writeable = False
    return weights, slopes


@dataclass(frozen=True)
class Cyclic(Stationary):
    """See the top of this file; `lengthscale` is l₁.

    >>> from ebbtide.gp.kernels import Matern
    >>> kernel = Cyclic(0.2, Matern(1.5), (Cycle(period=1.0, share=0.8, lengthscale=20.0),))
    >>> half_a_day, a_day = kernel([[0.0]], [[0.5], [1.0]])[0]
    >>> bool(a_day > 0.75 > half_a_day)
    True
    """

    family: Stationary
    cycles: tuple[Cycle, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family.by_step:
            raise ConfigurationError(f"{self.family!r} counts steps: a cycle needs a kernel that reads the clock")
        if sum(cycle.share for cycle in self.cycles) >= 1.0:
            raise ConfigurationError(f"{self.cycles!r}: the shares of the cycles must sum to less than 1")

    @property
    def scale(self) -> float:
        """l₁."""
        return float(np.asarray(self.lengthscale))

    @property
    def rest(self) -> float:
        """1 − Σ aⱼ: the share that does not come back."""
        return 1.0 - sum(cycle.share for cycle in self.cycles)

    def value(self, rho: Array) -> Array:
        tau = self.scale * rho
        total: Array = self.rest * self.family.correlation(rho)
        for cycle in self.cycles:
            total += cycle.share * self.family.correlation(tau / cycle.lengthscale) * cycle.course(tau)
        return total

    def exponent(self, rho: Array) -> Array:
        return np.zeros_like(rho)

    def slope(self, rho: Array) -> Array:
        """−k′(ρ)/ρ; with s = τ/lⱼ, −(k_T(s) k_P(τ))′/ρ = h(s) (l₁/lⱼ)² k_P + k_T(s) l₁² Σ w_h ω_h² sinc(ω_h τ)."""
        tau = self.scale * rho
        total: Array = self.rest * _slope(self.family, rho)
        for cycle in self.cycles:
            s = tau / cycle.lengthscale
            weights, frequencies = cycle.weights[0], cycle.frequencies
            turning = sum(w * f * f * np.sinc(f * tau / np.pi) for w, f in zip(weights, frequencies, strict=True))
            fading = _slope(self.family, s) * (self.scale / cycle.lengthscale) ** 2 * cycle.course(tau)
            total += cycle.share * (fading + self.family.correlation(s) * self.scale**2 * turning)
        return total

    def fitted(self, timescale: float, cycles: tuple[tuple[float, float, float], ...]) -> "Cyclic":
        """The same periods with other hyperparameters: for each cycle (share, lⱼ, r)."""
        pairs = zip(self.cycles, cycles, strict=True)
        return Cyclic(timescale, self.family, tuple(Cycle(cycle.period, *values) for cycle, values in pairs))


def _slope(family: Stationary, rho: Array) -> Array:
    return family.slope(rho) * np.exp(family.exponent(rho))
