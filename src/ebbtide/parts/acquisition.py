"""What to query next: an acquisition scores a point by its posterior mean and deviation.

Values are standardised, and larger is better. An acquisition returns its value and its derivatives with respect
to mean and deviation; the maximizer adds the gradient of the posterior.

The incumbent of EI and PI is the best posterior mean *now*, because the best value ever seen says little about a
function that has drifted since.
"""

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array


@dataclass(frozen=True)
class Context:
    """What an acquisition may use besides mean and deviation."""

    n: int  # active observations
    dim: int  # parameters
    incumbent: float  # the best posterior mean now
    pace: float | None = None  # queries per l_T; None for a model without one


class Acquisition(Protocol):
    """The interface of an acquisition: any callable with this signature.

    With an attribute `doubts = True`, some asks are made at random while the model believes that the parameters hardly
    matter (maximization.py).
    """

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        """(value, ∂value/∂mean, ∂value/∂std)."""
        ...


@dataclass(frozen=True)
class UCB:
    """μ + √β σ with β = 0.2 d ln(2n), or a constant β."""

    beta: float | None = None

    def __post_init__(self) -> None:
        if self.beta is None:
            return
        beta = as_finite(self.beta)
        if beta is None or beta < 0.0:
            raise ConfigurationError(f"beta={self.beta!r}: give a finite number ≥ 0, or None for 0.2·d·ln(2n)")
        object.__setattr__(self, "beta", beta)

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        beta = 0.2 * context.dim * log(2 * max(context.n, 1)) if self.beta is None else self.beta
        root = sqrt(beta)
        return mean + root * std, _everywhere(1.0, mean), _everywhere(root, std)


@dataclass(frozen=True)
class TrackingUCB:
    """μ + √β σ with β = weight · √d · ln(q), q being the queries per l_T (at most 2n): for objectives that drift.

    What a probe finds stays true for about one l_T. The more queries fit into that time, the more of them can use it,
    so the more a probe may cost. Without an l_T, the objective is taken to stay as it is: q = 2n, as in `UCB`.

    It doubts a model for which the parameters hardly matter: then one ask in four is made at random.
    """

    weight: float = 0.5
    doubts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        weight = as_finite(self.weight)
        if weight is None or weight < 0.0:
            raise ConfigurationError(f"weight={self.weight!r}: give a finite number ≥ 0")
        object.__setattr__(self, "weight", weight)

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        so_far = 2.0 * max(context.n, 1)
        queries = so_far if context.pace is None else min(max(context.pace, 1.0), so_far)
        root = sqrt(self.weight * sqrt(context.dim) * log(queries))
        return mean + root * std, _everywhere(1.0, mean), _everywhere(root, std)


@dataclass(frozen=True)
class LowerBound:
    """μ − doubt · σ: what can be counted on. Its maximum is near what was measured; for recommendations."""

    doubt: float

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        return mean - self.doubt * std, _everywhere(1.0, mean), _everywhere(-self.doubt, std)


@dataclass(frozen=True)
class EI:
    """The logarithm of the expected improvement over the incumbent: log σ + log h(z), h(z) = φ(z) + z Φ(z)."""

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        z = (mean - context.incumbent) / std
        log_h, log_phi = log_improvement(z), _log_density(z)
        return (
            np.log(std) + log_h,
            np.exp(log_ndtr(z) - log_h) / std,
            np.exp(log_phi - log_h) / std,
        )


@dataclass(frozen=True)
class PI:
    """The logarithm of the probability of improving on the incumbent by `margin` (in standard deviations of y).

    Without a margin the incumbent itself, whose probability is one half, would be chosen again and again.
    """

    margin: float = 0.05

    def __post_init__(self) -> None:
        margin = as_finite(self.margin)
        if margin is None:
            raise ConfigurationError(f"margin={self.margin!r}: give a finite number")
        object.__setattr__(self, "margin", margin)

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        z = (mean - context.incumbent - self.margin) / std
        hazard = sqrt(2.0 / pi) / erfcx(-z / sqrt(2.0)) / std  # φ/Φ without dividing two numbers near 0
        return log_ndtr(z), hazard, -z * hazard


@dataclass(frozen=True)
class Random:
    """The same score everywhere, so that the maximizer picks a random point: a control for comparisons."""

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        return np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(std)


def _everywhere(value: float, like: Array) -> Array:
    """The same value for each point; in the steps of an ascent, NumPy's `full_like` takes thrice as long."""
    array = np.empty(like.shape)
    array.fill(value)
    return array


def _log_density(z: Array) -> Array:
    return -0.5 * z * z - 0.5 * log(2.0 * pi)


def log_improvement(z: Array) -> Array:
    """log(φ(z) + z Φ(z)) without underflow: for z < −1, h = φ(z)·(1 − |z| √(π/2) erfcx(|z|/√2))."""
    middle = np.clip(z, -1.0, None)
    direct = np.log(np.exp(_log_density(middle)) + middle * np.exp(log_ndtr(middle)))
    tail = np.clip(-z, 1.0, 1e3)
    far = np.log1p(-tail * sqrt(pi / 2.0) * erfcx(tail / sqrt(2.0)))
    far = np.where(z < -1e3, -2.0 * np.log(np.maximum(-z, 1.0)), far)
    return np.where(z > -1.0, direct, _log_density(z) + far)
