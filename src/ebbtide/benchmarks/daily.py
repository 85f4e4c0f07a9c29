"""Daily: an optimum that goes round once a day, for ten days, none of them quite like the one before.

The maximizer goes round a circle once a day (in four dimensions round two circles, the second a quarter of a day
behind). From day to day the circle's radius changes by up to 15 % and its phase by up to half an hour of 24, both
moving linearly from noon to noon, and over the whole run its middle drifts slowly.
"""

from types import MappingProxyType

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.walks import Drift, checked_seed, hill
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array

DAYS = 10
RADIUS, RADIUS_SPREAD = 0.3, 0.15
PHASE_SPREAD = 2.0 * np.pi * 0.5 / 24.0
DRIFT, TURNS = 0.08, 1.5
WIDTH = 0.45


class Daily(Problem):
    """On the unit square, or the unit cube of four dimensions; its days are a cycle of a tenth of the run."""

    name = "daily"
    cycles = MappingProxyType({"day": 1.0 / DAYS})

    def __init__(self, seed: int = 0, d: int = 2) -> None:
        if d not in (2, 4):
            raise ConfigurationError(f"d={d!r}: choose 2 or 4")
        self.seed = checked_seed(seed)
        self.bounds = np.tile([0.0, 1.0], (d, 1))
        rng = np.random.default_rng([seed, d, 1])
        self.radii = RADIUS * (1.0 + RADIUS_SPREAD * rng.uniform(-1.0, 1.0, DAYS))
        self.phases = PHASE_SPREAD * rng.uniform(-1.0, 1.0, DAYS)
        self.drift = Drift.drawn(rng, d, TURNS)

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}" if self.dim == 2 else f"{self.name}-{self.seed}-d{self.dim}"

    def values(self, X: Array, t: Array) -> Array:
        return hill(X - self.best(t), WIDTH)

    def best(self, t: Array) -> Array:
        noons = (np.arange(DAYS) + 0.5) / DAYS
        radius, phase = (np.interp(t, noons, daily)[:, None] for daily in (self.radii, self.phases))
        circles = 0.5 * np.pi * (np.arange(self.dim) // 2)
        angle = 2.0 * np.pi * DAYS * t[:, None] + phase - circles - 0.5 * np.pi * (np.arange(self.dim) % 2)
        return np.asarray(0.5 + radius * np.cos(angle) + DRIFT * self.drift(t))
