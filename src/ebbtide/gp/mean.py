"""The mean of the process: what the model expects where nothing was measured.

An optimizer measures good places again and again, so the plain average of its values is far above (or below) what an
unknown place is worth, and the unknown looks better than it is. Here neighbours share their weight: the estimate is
that of generalised least squares, with a standard normal prior on the mean of the standardised values.

| symbol | meaning                                                   |
|--------|-----------------------------------------------------------|
| Δ      | covariance of the observations, with noise                |
| w      | Δ⁻¹1: the weight of each observation; a crowd shares one  |

    mean = wᵀz / (wᵀ1 + 1)
"""

from typing import Literal

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import SpaceTimeKernel
from ebbtide.gp.linalg import factorize, solve

MeanMethod = Literal["average", "weighted"]


def weighted_mean(kernel: SpaceTimeKernel, noise: float, X: Array, t: Array, z: Array) -> float:
    """The mean of the process that standardised values (mean 0, variance 1) come from."""
    covariance = kernel(X, t, X, t) + noise * np.eye(len(z))
    return mean_by(solve(factorize(covariance), np.ones(len(z))), z)


def mean_by(weights: Array, z: Array) -> float:
    """The mean by the weights w; never outside the range of the values."""
    mean = float(weights @ z) / (float(weights.sum()) + 1.0)
    return float(np.clip(mean, z.min(), z.max()))
