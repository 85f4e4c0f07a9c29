"""What to expect at a point, all things considered: prediction, risk of failure, cost of moving, constraints.

An acquisition sees the outlook instead of the bare posterior. With p the probability that an evaluation fails at x,
w what a failure counts as, and c·|x − x₀| the cost of moving there from the setting in force:

    mean = (1 − p) μ + p w − c |x − x₀|₁            deviation = (1 − p) σ

| symbol | meaning                                                          | shape  |
|--------|------------------------------------------------------------------|--------|
| F, S   | weights of failures and of successes near x, and recent          | (m,)   |
| p      | (F + a p₀)/(F + S + a): as if a evaluations here had failed at the rate p₀ | (m,)   |
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from ebbtide.gp.arrays import Array, Mask
from ebbtide.gp.posterior import Gradient, Interval, Moment, Outline, Posterior
from ebbtide.parts.feasibility import Feasibility

DOUBT, RATE = 0.25, 0.02  # a and p₀: a single failure at x makes p about 0.8
REACH = 0.12  # distance over which an evaluation says whether its neighbours fail, times √d
FADING = 1.0  # times l_T: a place that has recovered must be found again
CHUNK = 32  # points looked at together
CLOSE = 0.25  # times REACH: how sharply success and failure are told apart where nothing should be risked
LASTING = 4.0  # times FADING: there, a failure is remembered for longer


class Risk:
    """The probability that an evaluation fails, at one moment, from where evaluations failed and succeeded."""

    def __init__(self, failed: tuple[Array, Array], succeeded: tuple[Array, Array], fading: float) -> None:
        """From the coordinates and the ages of both; what happened `fading` ago counts for 1/e."""
        failed, succeeded = ((X, np.maximum(age, 0.0) / fading) for X, age in (failed, succeeded))
        self._failed, self._succeeded = ((X, np.exp(-age)) for X, age in (failed, succeeded))
        self._ages = failed[1], succeeded[1]

    def __call__(self, X: Array) -> Array:
        return self.with_gradient(X)[0]

    def likely(self, X: Array) -> Mask:
        """Where an evaluation probably fails, or the closest evidence, in space and time, is a failure.

        Many successes further away make p small, but say nothing about a place next to a failure.
        """
        pairs = zip((self._failed, self._succeeded), self._ages, strict=True)
        failure, success = (_distance(X, data, age).min(axis=1, initial=np.inf) for (data, _), age in pairs)
        likely: Mask = (failure < success) | (self(X) > 0.5)
        return likely

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """p, and its gradient with respect to x (m, d)."""
        (F, dF), (S, dS) = _nearby(X, *self._failed), _nearby(X, *self._succeeded)
        total = F + S + DOUBT
        p = (F + DOUBT * RATE) / total
        return p, ((1.0 - p)[:, None] * dF - p[:, None] * dS) / total[:, None]


def _distance(X: Array, data: Array, age: Array) -> Array:
    """|x − xᵢ|²/2r² + age: how far evidence is, in space and time."""
    square = (CLOSE * REACH) ** 2 * X.shape[1]
    distance: Array = cdist(X, data, "sqeuclidean") / (2.0 * square) + age / LASTING
    return distance


def _nearby(X: Array, data: Array, weights: Array) -> tuple[Array, Array]:
    """Σᵢ wᵢ exp(−|x − xᵢ|²/2r²), and its gradient."""
    square = (REACH * REACH) * X.shape[1]
    near = np.exp(cdist(X, data, "sqeuclidean") / (-2.0 * square)) * weights
    total = near.sum(axis=1)
    return total, (near @ data - total[:, None] * X) / square


@dataclass(frozen=True)
class Moving:
    """What it costs to move away from the setting in force: `cost` for the whole range of one parameter."""

    origin: Array
    cost: float

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """The cost, and its gradient."""
        offset = X - self.origin
        return self.cost * np.abs(offset).sum(axis=1), self.cost * np.sign(offset)


@dataclass(frozen=True)
class Outlook:
    """A posterior, seen with the risk of failure, the cost of moving and the constraints. It can be asked whatever a
    posterior can.
    """

    predictor: Moment | Interval
    risk: Risk | None
    failure_value: float  # what a failure counts as, if there is a risk
    moving: Moving | None
    feasibility: Feasibility | None = None

    @property
    def posterior(self) -> Posterior:
        return self.predictor.posterior

    def _split(self, Z: Array) -> Array:
        """The coordinates in space: over an interval there is one more, for the time."""
        return Z[:, : self.posterior.points.shape[1]]

    def predict(self, Z: Array) -> tuple[Array, Array]:
        mean, std = self._seen(Z, *self.predictor.predict(Z))
        return mean if self.feasibility is None else mean - self.feasibility.loss(self._split(Z)), std

    def scan(self, Z: Array) -> tuple[Array, Array]:
        """With fewer digits, for many points (see posterior.py)."""
        mean, std = self._seen(Z, *self.predictor.scan(Z))
        return mean if self.feasibility is None else mean - self.feasibility.loss(self._split(Z)), std

    def outline(self, Z: Array) -> Outline | None:
        """Without the constraints, which need a prediction each, and can only make the mean smaller."""
        outline = self.predictor.outline(Z)
        if outline is None and self.feasibility is None:
            return None
        mean, std = self._seen(Z, *(self.predictor.scan(Z) if outline is None else outline[:2]))
        return Outline(mean, std, float(mean.max()) if self.feasibility is None else self._highest(Z, mean))

    def _highest(self, Z: Array, mean: Array) -> float:
        """The largest mean where the constraints are met, looking only where it may be."""
        order, best = np.argsort(-mean, kind="stable"), -np.inf
        for rows in (order[start : start + CHUNK] for start in range(0, len(order), CHUNK)):
            if self.feasibility is None or best >= mean[rows[0]]:
                break
            best = max(best, float((mean[rows] - self.feasibility.loss(self._split(Z[rows]))).max()))
        return best

    def _seen(self, Z: Array, mean: Array, std: Array) -> tuple[Array, Array]:
        """With the risk of failure and the cost of moving."""
        if self.risk is not None:
            p = self.risk(self._split(Z))
            mean, std = mean + p * (self.failure_value - mean), (1.0 - p) * std
        if self.moving is not None:
            mean = mean - self.moving(self._split(Z))[0]
        return mean, std

    def predict_with_gradient(self, Z: Array) -> tuple[Array, Array, Gradient]:
        mean, std, gradient = self.predictor.predict_with_gradient(Z)
        if self.risk is not None:
            risk = self.risk.with_gradient(self._split(Z))
            mean, std, gradient = _with_risk(mean, std, gradient, self.failure_value, *risk)
        if self.moving is not None:
            mean, gradient = _less(mean, gradient, *self.moving(self._split(Z)))
        if self.feasibility is not None:
            mean, gradient = _less(mean, gradient, *self.feasibility.loss_with_gradient(self._split(Z)))
        return mean, std, gradient


def _with_risk(
    mean: Array, std: Array, gradient: Gradient, failure_value: float, p: Array, p_slope: Array
) -> tuple[Array, Array, Gradient]:
    def seen(by_mean: Array, by_std: Array) -> Array:
        by_p = by_mean * (failure_value - mean) - by_std * std
        found = gradient((1.0 - p) * by_mean, (1.0 - p) * by_std)
        found[:, : p_slope.shape[1]] += by_p[:, None] * p_slope  # the risk does not depend on the coordinate of time
        return found

    return mean + p * (failure_value - mean), (1.0 - p) * std, seen


def _less(mean: Array, gradient: Gradient, cost: Array, slope: Array) -> tuple[Array, Gradient]:
    """A mean, less a cost that depends on the coordinates in space."""

    def seen(by_mean: Array, by_std: Array) -> Array:
        found = gradient(by_mean, by_std)
        found[:, : slope.shape[1]] -= by_mean[:, None] * slope
        return found

    return mean - cost, seen
