"""A Matérn kernel in time, seen from later: a form of finite rank, whose features do not depend on the present.

For s ≥ tᵢ and u = ω(s − tᵢ), k_T(s, tᵢ) = e^{−u} Σ c_k u^k. With a fixed reference time and v = ω(s − reference) the
binomial theorem separates the future s from the observation i:

    k_T(s, tᵢ) = e^{−v} Σ_a g_a(v) ψ_a(i)        ψ_a(i) = e^{−uᵢ} uᵢ^a        g_a(v) = Σ_m c_{a+m} binom(a+m, a) v^m

    C_T(now)ᵢⱼ = ∫ k_T k_T over [now, ∞) = Σ_ab G_ab(now) ψ_a(i) ψ_b(j)

So everything that depends on the observations can be carried along while time passes.

| symbol | meaning                                                          | shape  |
|--------|------------------------------------------------------------------|--------|
| p      | the order: ν = p + ½                                             |        |
| ω      | √(2ν)/l_T                                                        |        |
| uᵢ     | ω(reference − tᵢ): the age of an observation at the reference    | (n,)   |
| ψ      | the features of the observations                                 | (p+1, n) |
| v₀     | ω(now − reference)                                               |        |
| G      | ∫ e^{−2(v−v₀)} g gᵀ dv from v₀ on, up to a constant              | (p+1, p+1) |
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.convolutions import laguerre, moments
from ebbtide.gp.kernels import Matern

GONE = 800.0  # e^{−u} is 0 beyond this age; powers of larger ones could overflow


@dataclass(frozen=True)
class Fading:
    """How what was observed fades, counted from a reference time."""

    order: int
    rate: float  # ω
    reference: float

    @classmethod
    def of(cls, kernel: Matern, reference: float) -> "Fading":
        return cls(round(kernel.nu - 0.5), kernel.rate / float(np.asarray(kernel.lengthscale)), reference)

    @property
    def rank(self) -> int:
        return self.order + 1

    def features_of(self, t: float) -> list[float]:
        """ψ of one observation."""
        u = min(self.rate * (self.reference - t), GONE)
        return [math.exp(-u) * u**a for a in range(self.rank)]

    def features(self, t: Array) -> Array:
        """ψ of observations at these times."""
        u = np.minimum(self.rate * (self.reference - t), GONE)
        features: Array = np.exp(-u) * u ** np.arange(self.rank)[:, None]
        return features

    def courses(self, now: float, delays: Array) -> Array:
        """e^{v₀−v} g(v) at delays after now (p+1, m): how the features add up there, up to a factor e^{v₀}."""
        later = self.rate * delays
        v = self.rate * (now - self.reference) + later
        courses: Array = np.exp(-later) * (_polynomials(self.order) @ v ** np.arange(self.rank)[:, None])
        return courses

    def gram(self, now: float) -> Array:
        """G, up to a constant; Gauss–Laguerre with p+1 nodes is exact, because g gᵀ has degree 2p."""
        nodes, weights = laguerre(self.rank)
        v = self.rate * (now - self.reference) + 0.5 * nodes
        g = _polynomials(self.order) @ v ** np.arange(self.rank)[:, None]
        return (weights * g) @ g.T

    def moved(self, reference: float) -> tuple["Fading", Array]:
        """The same with another reference, and the matrix that turns the old features into the new ones:
        uᵢ grows by δ, so ψ′_a = e^{−δ} Σ_b binom(a, b) δ^{a−b} ψ_b.
        """
        delta = min(self.rate * (reference - self.reference), GONE)
        change = np.zeros((self.rank, self.rank))
        for a in range(self.rank):
            change[a, : a + 1] = [math.comb(a, b) * delta ** (a - b) for b in range(a + 1)]
        return Fading(self.order, self.rate, reference), math.exp(-delta) * change


@lru_cache
def _polynomials(p: int) -> Array:
    """The coefficients of g_a, lowest power first."""
    coefficients = np.array([moments(p, a) for a in range(p + 1)])
    coefficients.flags.writeable = False
    return coefficients
