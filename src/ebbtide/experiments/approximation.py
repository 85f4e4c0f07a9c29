"""How far the bound of Theorem 4.1 is from the exact criterion (Appendix C), with its two errors separated.

The bound takes (1) the whole space for the domain, ∫_{ℝ^d} for ∫_{[0,1]^d}, and (2) the difference of variances for
the squared difference of deviations. The paper studies them together; here each has its own criterion:

| criterion | integral over | deviations         | written |
|-----------|---------------|--------------------|---------|
| bound     | ℝ^d           | bounded            | R̂       |
| capped    | ℝ^d, entries of C_S at most 1 (App. C) | bounded | – |
| box       | [0,1]^d       | bounded            | –       |
| exact     | [0,1]^d       | as they are        | R       |

so R̂ against box is the first error alone, box against R the second alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, lambertw
from scipy.stats import spearmanr

from ebbtide.gp.arrays import Array
from ebbtide.gp.convolutions import temporal_convolution
from ebbtide.gp.criterion import Bound, Exact, criterion
from ebbtide.gp.kernels import Matern, SpaceTimeKernel, SquaredExponential
from ebbtide.gp.posterior import Posterior, condition

# --- the integral in space (Figure 6) -------------------------------------------------------------------------


def whole_space(X: Array, lengthscale: float) -> Array:
    """∫_{ℝ^d} k_S(x, xᵢ) k_S(x, xⱼ) dx = π^{d/2} l^d exp(−‖xᵢ − xⱼ‖²/4l²), k_S squared exponential."""
    squared = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=-1)
    integral: Array = (math.sqrt(math.pi) * lengthscale) ** X.shape[1] * np.exp(-squared / (4.0 * lengthscale**2))
    return integral


def unit_box(X: Array, lengthscale: float) -> Array:
    """The same over [0,1]^d, exactly: ∏ exp(−Δ²/4l²) (√π l/2) [erf((1−m)/l) + erf(m/l)], m the midpoint."""
    middle = 0.5 * (X[:, None, :] + X[None, :, :]) / lengthscale
    inside = 0.5 * (erf(1.0 / lengthscale - middle) + erf(middle))
    share: Array = whole_space(X, lengthscale) * inside.prod(axis=-1)
    return share


def critical_lengthscale(first: Array, second: Array) -> float:
    """Where the absolute error is largest (Proposition C.1): the integral over the whole space is 1 there."""
    squared = float(((first - second) ** 2).sum())
    return math.exp(0.5 * lambertw(math.pi * squared / (2.0 * len(first))).real) / math.sqrt(math.pi)


@dataclass(frozen=True)
class SpatialError:
    """The error of the spatial bound for two points, against l_S."""

    lengthscales: Array
    outside: Array  # what lies outside of the box: the error without the cap
    capped: Array  # 1 − the integral on the box: the error of the cap
    box: Array  # the integral itself
    critical: float

    @property
    def absolute(self) -> Array:
        """A(xᵢ, xⱼ; l_S) of Appendix C."""
        return np.minimum(self.outside, self.capped)

    @property
    def relative(self) -> Array:
        return self.absolute / self.box


def spatial_error(X: Array, lengthscales: Array) -> SpatialError:
    """For the two points X (2, d)."""
    box = np.array([unit_box(X, lengthscale)[0, 1] for lengthscale in lengthscales])
    outside = np.array([whole_space(X, lengthscale)[0, 1] for lengthscale in lengthscales]) - box
    return SpatialError(lengthscales, outside, 1.0 - box, box, critical_lengthscale(*X))


# --- the criterion (Figure 7) ---------------------------------------------------------------------------------

TIMESCALE, NOISE, NOW = 0.3, 0.05, 1.0


@dataclass(frozen=True)
class Scores:
    """Every observation's relevance by the four criteria of the table above."""

    bound: Array
    capped: Array
    box: Array
    exact: Array
    indefinite: bool  # whether C_S with its entries capped has negative eigenvalues
    quadrature: float  # the largest relative error of the quadrature, seen on the box's bound


def scores(posterior: Posterior, now: float, nodes: int) -> Scores:
    """For a squared-exponential kernel in space."""
    p, lengthscale = posterior, float(np.asarray(posterior.kernel.spatial.lengthscale))
    assert p.kernel.temporal is not None  # noqa: S101  (for mypy: `dataset` always has one)
    time = temporal_convolution(p.kernel.temporal, now - p.t)
    assert time is not None  # noqa: S101

    def by(space: Array) -> Array:
        return Bound(p.P, p.alpha, space * time.matrix).scores()

    whole, box = whole_space(p.X, lengthscale), by(unit_box(p.X, lengthscale))
    capped = np.minimum(whole, 1.0)
    exact = criterion(p.kernel, p.P, p.alpha, p.X, p.t, now, "exact", nodes=nodes)
    assert isinstance(exact, Exact)  # noqa: S101
    by_nodes = Bound(p.P, p.alpha, exact.phi @ exact.phi.T).scores()
    return Scores(
        by(whole),
        by(capped),
        box,
        exact.scores(),
        indefinite=bool(np.linalg.eigvalsh(capped)[0] < -1e-6),
        quadrature=float(np.abs(by_nodes / box - 1.0).max()),
    )


def dataset(d: int, lengthscale: float, n: int, rng: np.random.Generator) -> Posterior:
    """n observations of a draw from the process itself, uniform in space and in the time before now."""
    kernel = SpaceTimeKernel(1.0, SquaredExponential(lengthscale), Matern(1.5, TIMESCALE))
    X, t = rng.random((n, d)), NOW * rng.random(n)
    covariance = kernel(X, t) + NOISE * np.eye(n)
    return condition(kernel, NOISE, X, t, np.linalg.cholesky(covariance) @ rng.normal(size=n))


@dataclass(frozen=True)
class CriterionError:
    """Medians over the observations of several datasets, against l_S."""

    lengthscales: Array
    bound: Array  # |R̂ − R|/R
    capped: Array  # the same with the entries of C_S capped
    space: Array  # |R̂ − box|/box: the error of the whole space alone
    deviation: Array  # |box − R|/R: the error of the variance bound alone
    rank: Array  # Spearman's correlation of R̂ and R
    rank_box: Array  # of box and R
    first: Array  # how often R̂ and R would remove the same observation first
    indefinite: Array  # how often C_S with its entries capped is not positive semi-definite
    quadrature: float


def criterion_error(d: int, lengthscales: Array, datasets: int, n: int, nodes: int) -> CriterionError:
    rows, worst = [], 0.0
    for lengthscale in lengthscales:
        several = [
            scores(dataset(d, lengthscale, n, np.random.default_rng([d, k])), NOW, nodes) for k in range(datasets)
        ]
        worst = max(worst, *(s.quadrature for s in several))
        pairs = {
            "bound": [(s.bound, s.exact) for s in several],
            "capped": [(s.capped, s.exact) for s in several],
            "space": [(s.bound, s.box) for s in several],
            "deviation": [(s.box, s.exact) for s in several],
        }
        row = {name: np.median(np.concatenate([np.abs(a / b - 1.0) for a, b in both])) for name, both in pairs.items()}
        row["rank"] = np.mean([spearmanr(s.bound, s.exact).statistic for s in several])
        row["rank_box"] = np.mean([spearmanr(s.box, s.exact).statistic for s in several])
        row["indefinite"] = np.mean([s.indefinite for s in several])
        row["first"] = np.mean([s.bound.argmin() == s.exact.argmin() for s in several])
        rows.append(row)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return CriterionError(lengthscales, **columns, quadrature=worst)
