"""Why the distance is normalised (Figures 1 and 2): the same distance can mean much or little.

One dimension, say time: a process conditioned on a few observations, with and without the last of them. The value of
that one is chosen to give the distance, or the ratio R, that the figure shows.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import SpaceTimeKernel, SquaredExponential
from ebbtide.gp.posterior import Posterior, condition

GRID = np.linspace(0.0, 1.0, 801)
NOISE = 1e-4


@dataclass(frozen=True)
class Pair:
    """Two posteriors on GRID, with all observations and without the last."""

    lengthscale: float
    observed: tuple[Array, Array]  # x, y; the last is the one left out
    mean: Array
    std: Array
    mean_without: Array
    std_without: Array

    @property
    def distance(self) -> float:
        """W₂ over the domain, equation (8)."""
        return _norm(self.mean - self.mean_without, self.std - self.std_without)

    @property
    def distance_to_prior(self) -> float:
        return _norm(self.mean, self.std - 1.0)

    @property
    def ratio(self) -> float:
        """R, equation (9)."""
        return self.distance / self.distance_to_prior


def _norm(mean: Array, std: Array) -> float:
    return float(np.sqrt(np.trapezoid(mean**2 + std**2, GRID)))


def _posterior(lengthscale: float, x: Array, y: Array) -> Posterior:
    kernel = SpaceTimeKernel(1.0, SquaredExponential(lengthscale), None)
    return condition(kernel, NOISE, x[:, None], np.zeros(len(x)), y)


def pair(lengthscale: float, x: Array, y: Array) -> Pair:
    mean, std = _posterior(lengthscale, x, y).predict(GRID[:, None], np.zeros(len(GRID)))
    mean_without, std_without = _posterior(lengthscale, x[:-1], y[:-1]).predict(GRID[:, None], np.zeros(len(GRID)))
    return Pair(lengthscale, (x, y), mean, std, mean_without, std_without)


def _sample(lengthscale: float, seed: int) -> tuple[Array, Array]:
    """Observations about a lengthscale apart of a draw from the process; the one to be left out in the middle."""
    rng = np.random.default_rng(seed)
    count = int(np.clip(round(1.2 / lengthscale), 4, 24))
    x = (np.arange(count) + 0.5 + 0.25 * rng.uniform(-1.0, 1.0, count)) / count
    middle = int(np.abs(x - 0.5).argmin())
    x = np.append(np.delete(x, middle), x[middle])
    covariance = SquaredExponential(lengthscale)(x[:, None]) + 1e-8 * np.eye(count)
    return x, np.linalg.cholesky(covariance) @ rng.normal(size=count)


def _with_last_value(lengthscale: float, seed: int, shift: float) -> Pair:
    """The last value `shift` above what the others predict."""
    x, y = _sample(lengthscale, seed)
    expected, _ = _posterior(lengthscale, x[:-1], y[:-1]).predict(x[-1:, None], np.zeros(1))
    return pair(lengthscale, x, np.append(y[:-1], expected + shift))


def at_distance(lengthscale: float, distance: float, seed: int) -> Pair:
    """A pair whose posteriors are this far apart."""
    shift = brentq(lambda s: _with_last_value(lengthscale, seed, s).distance - distance, 0.0, 50.0)
    return _with_last_value(lengthscale, seed, shift)


def at_ratio(lengthscale: float, ratio: float, seed: int) -> Pair:
    """A pair with this R."""
    shift = brentq(lambda s: _with_last_value(lengthscale, seed, s).ratio - ratio, 0.0, 50.0)
    return _with_last_value(lengthscale, seed, shift)
