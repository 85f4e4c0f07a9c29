"""A cycle that the model does not know of: a periodogram of what it cannot explain.

Under the model, α = P y has the covariance P. If something comes back with frequency ω, the level of the function and
its slopes in space go up and down with it, so that α has a part along the columns of B:

    B(ω) = [ψ cos ωt, ψ sin ωt]      ψ = (1, coordinates in space)        Q(ω) = (Bᵀα)ᵀ (BᵀPB)⁻¹ (Bᵀα)

Without a cycle, Q is χ² with as many degrees of freedom as B has columns, however the function drifts: drift is in P.
(With P = I and ψ = 1, Q is the periodogram of Lomb and Scargle.) The highest peak only proposes a period. The values
must also be much more likely under a kernel with that cycle (kernels/cyclic.py) than under any without.
"""

from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import gammaincc

from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Cycle, Cyclic, Stationary
from ebbtide.gp.linalg import factorize, solve
from ebbtide.gp.posterior import Posterior

PERIODS = 3.0  # that the observations must cover
PER_PERIOD = 4.0  # observations that a period must have
OVERSAMPLING = 3.0  # frequencies per width of a peak
MAX_FREQUENCIES = 256
DIRECTIONS = 4  # in space, along which the observations vary most
CHANCE = 0.1  # how often a peak as high may occur without a cycle
NATS = 8.0  # by which the values must be more likely with the cycle
MULTIPLES = (1.0, 2.0, 3.0)  # of the period of the highest peak, which may be that of a harmonic
# Hyperparameters that are tried, the last two as factors. Noise and l_T may have been fitted to a cycle, or to a drift
# that is faster than l_T can be.
SHARES, NOISES, TIMESCALES = (0.3, 0.8), (1.0, 0.3, 0.1), (0.2, 0.4, 0.7, 1.0, 3.0)


def hidden_period(posterior: Posterior, y: Array, interval: float) -> float | None:
    """The period with which the observed values come back, more than the kernel says; None if they do not."""
    span = float(np.ptp(posterior.t))
    if not 0.0 < interval <= span < np.inf:
        return None
    lowest, step = PERIODS / span, 1.0 / (OVERSAMPLING * span)
    count = int(min((1.0 / (PER_PERIOD * interval) - lowest) / step + 1.0, MAX_FREQUENCIES))
    if count < 2:
        return None
    power, freedom = periodogram(posterior, lowest + step * np.arange(float(count)))
    peak = int(np.argmax(power))
    if not count * gammaincc(0.5 * freedom, 0.5 * power[peak]) < CHANCE:
        return None
    near: Array = lowest + step * np.maximum(peak + np.linspace(-1.0, 1.0, 17), 0.0)
    shortest = 1.0 / float(near[np.argmax(periodogram(posterior, near)[0])])
    likelihood = _Likelihood(posterior, y)
    best = max(product(SHARES, NOISES, TIMESCALES), key=lambda tried: likelihood(shortest, *tried))
    periods = [multiple * shortest for multiple in MULTIPLES if multiple * shortest < 1.001 / lowest]
    nats, period = max((likelihood(period, *best), period) for period in periods)
    without = max(likelihood(None, *tried) for tried in product((0.0,), NOISES, TIMESCALES))
    return period if nats - without > NATS else None


def periodogram(posterior: Posterior, frequencies: Array) -> tuple[Array, int]:
    """Q at these frequencies (per unit of time, not radians), and its degrees of freedom without a cycle."""
    psi = _directions(posterior.points)
    phase = 2.0 * np.pi * np.multiply.outer(posterior.t - posterior.t.min(), frequencies)
    waves = np.stack([np.cos(phase), np.sin(phase)], axis=-1)
    B = (waves[..., None] * psi[:, None, None, :]).reshape(len(phase), len(frequencies), -1)
    scores = np.einsum("nfq,n->fq", B, posterior.alpha)
    PB = (posterior.P @ B.reshape(len(phase), -1)).reshape(B.shape)
    variances = np.einsum("nfq,nfr->fqr", B, PB, optimize=True)
    variances += 1e-9 * np.trace(variances, axis1=1, axis2=2)[:, None, None] * np.eye(B.shape[-1])
    solved = np.linalg.solve(variances, scores[..., None])[..., 0]
    return np.einsum("fq,fq->f", scores, solved), B.shape[-1]


def _directions(points: Array) -> Array:
    """ψ: ones, and the directions in which the points vary most, each with unit variance."""
    left, sizes, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    kept = left[:, :DIRECTIONS][:, sizes[:DIRECTIONS] > 1e-3 * max(1.0, float(sizes[0]))]
    return np.column_stack([np.ones(len(points)), np.sqrt(len(points)) * kept])


class _Likelihood:
    """The log likelihood of the values, up to a constant, under the posterior's kernel with some changes."""

    def __init__(self, posterior: Posterior, y: Array) -> None:
        kernel = posterior.kernel
        self.y, self.t, self.noise, self.scale = y, posterior.t[:, None], posterior.noise, kernel.scale
        if kernel.temporal is None or kernel.timescale is None:
            raise ConfigurationError("a kernel without a temporal part has no cycles")
        self.timescale, self.temporal = kernel.timescale, kernel.temporal
        self.rest = replace(kernel, scale=1.0, temporal=None)(posterior.X, posterior.t)  # k_S, and k_C

    def __call__(self, period: float | None, share: float, noise: float, timescale: float) -> float:
        """With one more cycle, unless the period is None; `noise` and `timescale` are factors."""
        temporal = self._temporal(timescale * self.timescale, period, share)
        covariance = self.rest * temporal(self.t, self.t) * (self.scale + (1.0 - noise) * self.noise)
        covariance.flat[:: len(self.y) + 1] += noise * self.noise
        factor = factorize(covariance)
        return -0.5 * (float(self.y @ solve(factor, self.y)) + factor.log_determinant)

    def _temporal(self, timescale: float, period: float | None, share: float) -> Stationary:
        known = self.temporal
        family, cycles = (known.family, known.cycles) if isinstance(known, Cyclic) else (known, ())
        if period is not None:
            others = [replace(cycle, share=(1.0 - share) * cycle.share) for cycle in cycles]
            cycles = (*others, Cycle(period, share, 10.0 * period))
        return Cyclic(timescale, family, cycles) if cycles else family.with_lengthscale(timescale)
