"""Driver: the load decides which setting is best, and the load can be measured.

The load is a mean-reverting random walk with bursts, in requests per second. The best setting is a smooth function of
it, and so is how much there is to gain; beside that, the best setting drifts slowly, which the load does not reveal.
A second quantity that can be measured, the temperature of the room, has nothing to do with anything.
"""

from types import MappingProxyType

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.walks import Drift, Walk, checked_seed, hill
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.space import Float

LOADS = (0.0, 2000.0)
MEAN, DEVIATION, MEMORY = 800.0, 450.0, 1.0 / 25.0
BURSTS, HEIGHTS, DECAY = 8, (500.0, 1200.0), 1.0 / 50.0
TEMPERATURES = (15.0, 30.0)
DRIFT, TURNS = 0.08, 1.5
WIDTH = 0.35


class Driver(Problem):
    """On the unit square, or the unit cube of four dimensions."""

    name = "driver"
    context_space = MappingProxyType({"load": Float(*LOADS), "temperature": Float(*TEMPERATURES)})

    def __init__(self, seed: int = 0, d: int = 2) -> None:
        if d not in (2, 4):
            raise ConfigurationError(f"d={d!r}: choose 2 or 4")
        self.seed = checked_seed(seed)
        self.bounds = np.tile([0.0, 1.0], (d, 1))
        rng = np.random.default_rng([seed, d, 2])
        load = Walk.reverting(rng, MEAN, DEVIATION, MEMORY).with_bursts(rng, BURSTS, HEIGHTS, DECAY)
        self.load = load.within(*LOADS)
        self.temperature = Walk.reverting(rng, 22.0, 2.0, MEMORY).within(*TEMPERATURES)
        self.drift = Drift.drawn(rng, d, TURNS)

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}" if self.dim == 2 else f"{self.name}-{self.seed}-d{self.dim}"

    def context(self, t: float) -> dict[str, float]:
        moment = np.array([t])
        return {"load": float(self.load(moment)[0]), "temperature": float(self.temperature(moment)[0])}

    def values(self, X: Array, t: Array) -> Array:
        return (1.0 + self.load(t) / LOADS[1]) * hill(X - self.best(t), WIDTH)

    def best(self, t: Array) -> Array:
        turn = np.pi * (self.load(t)[:, None] / LOADS[1] + np.arange(self.dim) / self.dim)
        return np.asarray(0.5 + 0.3 * np.cos(turn) + DRIFT * self.drift(t))
