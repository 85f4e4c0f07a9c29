"""The log marginal likelihood of a space-time kernel, its gradient, and its average information.

    L        = −½ yᵀα − ½ log|Δ| − (n/2) log 2π
    ∂L/∂θₐ   = ½ (αᵀ Kₐ α − tr(P Kₐ))                      Kₐ = ∂Δ/∂θₐ
    Hₐᵦ      = ½ (Kₐα)ᵀ P (Kᵦα)

θ is the vector of hyperparameters.py.

H is the *average information* (Gilmour, Thompson and Cullis, 1995): its expectation is the Fisher information
½ tr(P Kₐ P Kᵦ), but it costs O(n²) instead of O(n³), and it is positive semi-definite everywhere. With Newton
steps based on it, a refit costs a few factorizations.

All elementwise work is done on the n(n−1)/2 pairs above the diagonal (pairs.py).
"""

import math
from functools import cached_property

import numpy as np
from scipy.spatial.distance import squareform

from ebbtide.gp.arrays import Array
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.linalg import factorize, invert, solve, symmetric
from ebbtide.gp.pairs import Pairs
from ebbtide.gp.posterior import Posterior


class Likelihood:
    """L(θ) for fixed data; distances are computed once."""

    def __init__(self, families: Families, X: Array, t: Array, y: Array) -> None:
        self.families = families
        self.X, self.t, self.y = X, t, y
        self.pairs = Pairs.among(families, X, t)

    def __call__(self, theta: Array) -> "Evaluation":
        return Evaluation(self, self.families.hyperparameters(theta))


class Evaluation:
    """L at one θ. The value costs one Cholesky factor; the derivatives and the posterior share one inverse.

    θ is that of the hyperparameters to the last bit, so whoever has stored them can compute the same again.
    """

    def __init__(self, likelihood: Likelihood, hyper: Hyperparameters) -> None:
        self.likelihood, self.hyperparameters = likelihood, hyper
        self.theta = theta = hyper.to_vector()
        self.scale, self.noise = math.exp(theta[0]), math.exp(theta[0] + theta[-1])
        self.covariances = likelihood.pairs.at(theta)
        y = likelihood.y
        n = len(y)
        self.factor = factorize(symmetric(self.covariances.values, self.scale + self.noise, n))
        self.alpha = solve(self.factor, y)
        self.value = -0.5 * (float(y @ self.alpha) + self.factor.log_determinant + n * math.log(2.0 * math.pi))

    @cached_property
    def P(self) -> Array:
        return invert(self.factor)

    @cached_property
    def slopes(self) -> Array:
        """∂K/∂θ of the pairs, for the parameters between the scale and the noise."""
        return self.covariances.derivatives()

    def derivatives(self) -> tuple[Array, Array]:
        """The gradient of L and its average information."""
        y, alpha, P, slopes = self.likelihood.y, self.alpha, self.P, self.slopes
        n = len(y)
        P_pairs = squareform(P, checks=False)
        traces = [n, *(2.0 * slopes @ P_pairs), self.noise * float(np.trace(P))]
        # ∂Δ/∂log λ is Δ itself, and Δα = y.
        columns = [y, *(symmetric(pairs, 0.0, n) @ alpha for pairs in slopes), self.noise * alpha]
        K_alpha = np.column_stack(columns)
        gradient = 0.5 * (K_alpha.T @ alpha - traces)
        return gradient, 0.5 * K_alpha.T @ (P @ K_alpha)

    def posterior(self) -> Posterior:
        """The process conditioned at this θ, without another factorization."""
        data = self.likelihood
        kernel = data.families.kernel(self.hyperparameters)
        return Posterior(kernel, self.noise, data.X, data.t, self.P, self.alpha, self.factor.jitter_rungs)
