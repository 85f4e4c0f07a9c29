"""The mean of the process: what the model expects where nothing was measured.

An optimizer measures good places again and again, so the plain average of its values is far above (or below) what an
unknown place is worth, and the unknown looks better than it is. Here neighbours share their weight: the estimate is
that of generalised least squares, with a standard normal prior on the mean of the standardised values.

| symbol | meaning                                                   |
|--------|-----------------------------------------------------------|
| Δ      | covariance of the observations, with noise                |
| w      | Δ⁻¹1: the weight of each observation; a crowd shares one  |

    mean = wᵀz / (wᵀ1 + 1)

If the mean is known to be near m, with a spread s, that takes the place of the standard normal: a Student t with ν
degrees of freedom, which is a normal with the precision p = (ν + 1)/(ν s² + (wᵀz/wᵀ1 − m)²), so that it gives way where
the values are clearly elsewhere:

    mean = (wᵀz + p m) / (wᵀ1 + p)
"""

from typing import Literal

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import SpaceTimeKernel
from ebbtide.gp.linalg import factorize, solve

MeanMethod = Literal["average", "weighted"]

FREEDOM = 4.0  # ν


def weighted_mean(
    kernel: SpaceTimeKernel, noise: float, X: Array, t: Array, z: Array, expected: tuple[float, float] | None = None
) -> float:
    """The mean of the process that standardised values (mean 0, variance 1) come from; `expected` is (m, s)."""
    covariance = kernel(X, t, X, t) + noise * np.eye(len(z))
    return mean_by(solve(factorize(covariance), np.ones(len(z))), z, expected)


def mean_by(weights: Array, z: Array, expected: tuple[float, float] | None = None) -> float:
    """The mean by the weights w; never outside the range of the values, and of what is expected."""
    if expected is None:
        mean = float(weights @ z) / (float(weights.sum()) + 1.0)
        return float(np.clip(mean, z.min(), z.max()))
    (m, s), total, weighted = expected, float(weights.sum()), float(weights @ z)
    precision = (FREEDOM + 1.0) / (FREEDOM * s**2 + (weighted / total - m) ** 2)
    mean = (weighted + precision * m) / (total + precision)
    return float(np.clip(mean, min(m, z.min()), max(m, z.max())))
