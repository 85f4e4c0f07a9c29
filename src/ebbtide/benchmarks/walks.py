"""Paths over a run, drawn from a generator: slow drifts, and a load that comes back to its mean and has bursts."""

from dataclasses import dataclass

import numpy as np

from ebbtide.checks import is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array

WAVES = 3
STEPS = 1000  # of a random walk over the run


def checked_seed(seed: int) -> int:
    if not (is_whole(seed) and seed >= 0):
        raise ConfigurationError(f"seed={seed!r}: give a whole number ≥ 0")
    return seed


@dataclass(frozen=True)
class Drift:
    """Smooth paths within [−1, 1], each a mean of three cosines; `turns` is how often the fastest comes round."""

    frequencies: Array  # (paths, waves)
    phases: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, paths: int, turns: float) -> "Drift":
        shape = (paths, WAVES)
        return cls(rng.uniform(0.3 * turns, turns, shape), rng.uniform(0.0, 2.0 * np.pi, shape))

    def __call__(self, t: Array) -> Array:
        """(m, paths)."""
        paths: Array = np.cos(2.0 * np.pi * self.frequencies * t[:, None, None] + self.phases).mean(axis=2)
        return paths


@dataclass(frozen=True)
class Walk:
    """A random walk on a grid of times, linear in between."""

    states: Array  # (steps + 1,)

    @classmethod
    def reverting(cls, rng: np.random.Generator, mean: float, deviation: float, memory: float) -> "Walk":
        """Mean-reverting (Ornstein–Uhlenbeck): after `memory` a correlation of 1/e is left."""
        kept = np.exp(-1.0 / (STEPS * memory))
        states = [rng.normal()]
        for step in rng.normal(size=STEPS):
            states.append(kept * states[-1] + np.sqrt(1.0 - kept**2) * step)
        return cls(mean + deviation * np.array(states))

    def with_bursts(self, rng: np.random.Generator, count: int, heights: tuple[float, float], decay: float) -> "Walk":
        """At random times it is suddenly higher, and comes back over `decay`."""
        since = np.linspace(0.0, 1.0, STEPS + 1) - rng.uniform(0.0, 1.0, (count, 1))
        shape = np.where(since >= 0.0, np.exp(-np.maximum(since, 0.0) / decay), 0.0)
        return Walk(self.states + (rng.uniform(*heights, (count, 1)) * shape).sum(axis=0))

    def within(self, low: float, high: float) -> "Walk":
        return Walk(np.clip(self.states, low, high))

    def held(self, t: Array) -> Array:
        """As it was at the latest step, for what changes in jumps."""
        states: Array = self.states[np.floor(t * (len(self.states) - 1)).astype(int)]
        return states

    def __call__(self, t: Array) -> Array:
        return np.interp(t, np.linspace(0.0, 1.0, len(self.states)), self.states)


def hill(offsets: Array, width: float) -> Array:
    """1 at no offset, and falling smoothly with the distance, (m,) of (m, d)."""
    height: Array = np.exp(-0.5 * (offsets**2).sum(axis=1) / width**2)
    return height
