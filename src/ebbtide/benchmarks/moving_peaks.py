"""Branke's moving peaks (1999), scenario 2, made continuous in time.

Ten cones in [0, 100]^5, at first all of height 50; f is the highest of them at each place. At each of 60 changes a
peak's height moves by 7·N(0, 1) within [30, 70], its width by N(0, 1) within [1, 12], and its place by a step of length
1 in a random direction (λ = 0: the steps are independent), all reflected at their bounds. Between two changes
everything moves linearly.

In the original a change comes every 5,000 evaluations; a live system has no such count, so the 60 changes are spread
evenly over the run: one every 10 s of 600 s.
"""

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.checks import is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array

PEAKS, DIMENSION, SIDE, CHANGES = 10, 5, 100.0, 60
HEIGHTS, INITIAL_HEIGHT, HEIGHT_SEVERITY = (30.0, 70.0), 50.0, 7.0
WIDTHS, WIDTH_SEVERITY = (1.0, 12.0), 1.0
SHIFT_LENGTH = 1.0


class MovingPeaks(Problem):
    name = "moving-peaks"
    bounds = np.tile([0.0, SIDE], (DIMENSION, 1))

    def __init__(self, seed: int = 0) -> None:
        if not (is_whole(seed) and seed >= 0):
            raise ConfigurationError(f"seed={seed!r}: give a whole number ≥ 0")
        self.seed = seed
        rng = np.random.default_rng(seed)
        heights, widths = np.full(PEAKS, INITIAL_HEIGHT), rng.uniform(*WIDTHS, PEAKS)
        places = rng.uniform(0.0, SIDE, (PEAKS, DIMENSION))
        states = [(heights, widths, places)]
        for _ in range(CHANGES):
            heights = _reflected(heights + HEIGHT_SEVERITY * rng.normal(size=PEAKS), *HEIGHTS)
            widths = _reflected(widths + WIDTH_SEVERITY * rng.normal(size=PEAKS), *WIDTHS)
            direction = rng.normal(size=(PEAKS, DIMENSION))
            step = SHIFT_LENGTH * direction / np.linalg.norm(direction, axis=1, keepdims=True)
            places = _reflected(places + step, 0.0, SIDE)
            states.append((heights, widths, places))
        self.heights, self.widths, self.places = (np.array(parts) for parts in zip(*states, strict=True))

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}"

    def values(self, X: Array, t: Array) -> Array:
        distance = np.linalg.norm(X[:, None] - _between(self.places, t), axis=2)
        f: Array = (_between(self.heights, t) - _between(self.widths, t) * distance).max(axis=1)
        return f

    def best(self, t: Array) -> Array:
        """The top of the highest peak: no other cone can be higher there, or it would be the highest peak."""
        highest = _between(self.heights, t).argmax(axis=1)
        tops: Array = _between(self.places, t)[np.arange(len(t)), highest]
        return tops


def _between(states: Array, t: Array) -> Array:
    """The state at time t, linearly between two changes."""
    place = t * CHANGES
    k = np.minimum(place.astype(int), CHANGES - 1)
    share = (place - k).reshape(-1, *[1] * (states.ndim - 1))
    between: Array = states[k] + share * (states[k + 1] - states[k])
    return between


def _reflected(values: Array, low: float, high: float) -> Array:
    """Mirrored at the bounds, as often as it takes."""
    folded = np.mod(values - low, 2.0 * (high - low))
    reflected: Array = low + np.minimum(folded, 2.0 * (high - low) - folded)
    return reflected
