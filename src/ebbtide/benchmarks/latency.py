"""Latency: the most throughput with a p99 of at most 50 ms, where what is allowed changes with time.

Throughput has a hill that drifts. Latency grows with the distance from the mildest setting, the origin, and how far
one may go before it reaches its limit, the reach, changes with time:

    p99(x, t) = 20 ms + 30 ms · (|x| / reach(t))²,    so that    p99 ≤ 50 ms  ⇔  |x| ≤ reach(t).

The best setting is the hill's top, or, while that is out of reach, the point within reach that is nearest to it.

| name            | the top is within reach                                                      |
|-----------------|------------------------------------------------------------------------------|
| `latency`       | at times; at the others the best setting is one whose latency is at its limit  |
| `latency-loose` | always, by 0.15 at least                                                     |
"""

from types import MappingProxyType

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.walks import Drift, checked_seed, hill
from ebbtide.gp.arrays import Array
from ebbtide.study.limits import AtMost

LIMIT_MS, MILDEST_MS = 50.0, 20.0
MIDDLE, DRIFT, TURNS = (0.6, 0.5), 0.2, 3.0
REACH, REACH_DRIFT, REACH_TURNS = 0.75, 0.3, 4.0
SPARE, SPARE_DRIFT = 0.25, 0.1  # of the reach beyond the top, where that is always within reach
WIDTH = 0.35


class Latency(Problem):
    """On the unit square: two settings that buy throughput with latency."""

    name = "latency"
    bounds = np.tile([0.0, 1.0], (2, 1))
    constraints = MappingProxyType({"p99_ms": AtMost(LIMIT_MS)})
    acceptable = MappingProxyType({"x0": 0.2, "x1": 0.2})

    def __init__(self, seed: int = 0) -> None:
        self.seed = checked_seed(seed)
        rng = np.random.default_rng([seed, 3])
        self.drift, self.change = Drift.drawn(rng, 2, TURNS), Drift.drawn(rng, 1, REACH_TURNS)

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}"

    def top(self, t: Array) -> Array:
        """Where throughput is highest, within reach or not."""
        return np.asarray(MIDDLE + DRIFT * self.drift(t))

    def reach(self, t: Array) -> Array:
        """How far from the mildest setting one may go."""
        reach: Array = REACH + REACH_DRIFT * self.change(t)[:, 0]
        return reach

    def values(self, X: Array, t: Array) -> Array:
        return hill(X - self.top(t), WIDTH)

    def outcome_values(self, X: Array, t: Array) -> dict[str, Array]:
        used = np.linalg.norm(X, axis=1) / self.reach(t)
        return {"p99_ms": MILDEST_MS + (LIMIT_MS - MILDEST_MS) * used**2}

    def best(self, t: Array) -> Array:
        top = self.top(t)
        inward: Array = np.minimum(1.0, self.reach(t) / np.linalg.norm(top, axis=1))[:, None]
        return inward * top


class LooseLatency(Latency):
    """The hill's top is always within reach."""

    name = "latency-loose"

    def reach(self, t: Array) -> Array:
        reach: Array = np.linalg.norm(self.top(t), axis=1) + SPARE + SPARE_DRIFT * self.change(t)[:, 0]
        return reach
