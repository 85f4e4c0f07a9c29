"""Where the constraints are met: one process per measured outcome, and the probability that all keep their limits.

With y_j the value of outcome j that would be measured at x, and everything counted from its limit in its own unit, so
that it must be at most 0 and an unknown place is as likely to break it as not:

    p(x) = ∏ⱼ Φ(sⱼ)        sⱼ = −μⱼ/√(σⱼ² + noiseⱼ)

An ask chooses among the places with p ≥ level. The level is not 1 − rate: models are wrong, and the rate that counts is
the one observed. So it is learned: each value that breaks a limit raises it, each that does not lowers it, in
proportion to the rate that is allowed (adaptive conformal inference, Gibbs and Candès, 2021). In the long run the share
of violations is then the one that was asked for, or less if the best settings are far from the limits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from ebbtide.gp.arrays import Array
from ebbtide.gp.posterior import Moment

PENALTY = 10.0  # deviations of the objective that are lost for each nat by which log p is below the level's
RAISE = 0.6  # by how much a violation raises the level's log odds
LOWEST, HIGHEST = 0.0, 9.0  # log odds of the level


def first_level(rate: float) -> float:
    """Log odds of the level before anything was learned: what a right model would need."""
    return math.log((1.0 - rate) / rate)


def calibrated(level: float, broken: int, kept: int, rate: float) -> float:
    """The level after more measurements; it stays the same if a share `rate` of them breaks a limit."""
    change = RAISE * (broken - kept * rate / (1.0 - rate))
    return min(max(level + change, LOWEST), HIGHEST)


@dataclass(frozen=True)
class Feasibility:
    """The outcomes that are limited, at one moment, and the level (log odds) that is required."""

    outcomes: Sequence[Moment]
    level: float

    def log_probability(self, X: Array) -> Array:
        """log p at the rows of X."""
        return self._log_probability([outcome.predict(X) for outcome in self.outcomes], len(X))

    def _log_probability(self, predictions: Sequence[tuple[Array, Array]], rows: int) -> Array:
        total = np.zeros(rows)
        for (mean, std), outcome in zip(predictions, self.outcomes, strict=True):
            total += log_ndtr(-mean / np.sqrt(std * std + outcome.posterior.noise))
        return total

    @property
    def required(self) -> float:
        """The logarithm of the least probability that is accepted."""
        return -math.log1p(math.exp(-self.level))

    def loss(self, X: Array) -> Array:
        """What the objective loses where the constraints are not met with the required probability."""
        return PENALTY * np.maximum(self.required - self.log_probability(X), 0.0)

    def loss_with_gradient(self, X: Array) -> tuple[Array, Array]:
        log_p, slope = np.zeros(len(X)), np.zeros_like(X)
        for outcome in self.outcomes:
            mean, std, gradient = outcome.predict_with_gradient(X)
            total = np.sqrt(std * std + outcome.posterior.noise)
            s = -mean / total
            each = log_ndtr(s)
            log_p += each
            # φ(s)/Φ(s), by logarithms: both underflow far from what is feasible.
            ratio = np.exp(-0.5 * s * s - 0.5 * math.log(2.0 * math.pi) - each)
            slope += gradient(-ratio / total, ratio * mean * std / total**3)
        short = self.required - log_p
        return PENALTY * np.maximum(short, 0.0), np.where(short[:, None] > 0.0, -PENALTY * slope, 0.0)

    def met(self, X: Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Where the probability is as required, up to rounding."""
        return self.log_probability(X) >= self.required - 1e-3
