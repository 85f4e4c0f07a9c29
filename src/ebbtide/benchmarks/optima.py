"""The moving maximizer of a benchmark on a grid of times, and max_x f(x, t) from it at any time.

Between two grid times the maximizer is taken from either end and from halfway between, whichever is best *at t*:
where it moves smoothly the error is of fourth order in the grid's step, where it jumps of second order, and the
value is always attained, so a regret is never negative by more than that error.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Protocol

import numpy as np
from scipy.stats import qmc

from ebbtide.arrays import Array
from ebbtide.maximization import climb

STEPS = 2048  # of the grid of times
COARSE = 16  # the whole space is searched at every 16th time, the others start from what was found there
SAMPLE = 2**13  # points of that search,
STARTS = 64  # of which the best are climbed from,
KEPT = 6  # and the best results kept
REACH, WIDTH = 1e-3, 1e-6
CLIMB_STEPS, FOLLOW_STEPS = 60, 25


class Objective(Protocol):
    @property
    def dim(self) -> int: ...
    def from_unit(self, U: Array) -> Array: ...
    def values(self, X: Array, t: Array) -> Array: ...


@dataclass(frozen=True)
class Trajectory:
    """Maximizers at the times k/(rows − 1), in the unit cube."""

    U: Array

    def highest(self, problem: Objective, t: Array) -> Array:
        """max_x f(x, t)."""
        place = t * (len(self.U) - 1)
        k = np.minimum(place.astype(int), len(self.U) - 2)
        left, right, share = self.U[k], self.U[k + 1], (place - k)[:, None]
        candidates = np.stack([left, right, left + share * (right - left)])
        highest: Array = np.max([problem.values(problem.from_unit(U), t) for U in candidates], axis=0)
        return highest


def trace(problem: Objective) -> Trajectory:
    """Search everywhere at some times, then follow every good maximum found from there to its neighbours in time."""
    times = np.arange(STEPS + 1) / STEPS
    sample = qmc.Sobol(problem.dim, rng=0).random(SAMPLE)
    found = []
    for t in times[::COARSE]:
        f = problem.values(problem.from_unit(sample), np.full(SAMPLE, t))
        starts = sample[np.argsort(-f)[:STARTS]]
        U, f = _climbed(problem, starts, np.full(STARTS, t), CLIMB_STEPS)
        found.append(U[np.argsort(-f)[:KEPT]])
    found.append(found[-1])  # the last time has no later neighbour
    starts = np.stack([np.vstack(found[k // COARSE : k // COARSE + 2]) for k in range(STEPS + 1)])
    U, f = _climbed(problem, starts.reshape(-1, problem.dim), np.repeat(times, 2 * KEPT), FOLLOW_STEPS)
    U, f = U.reshape(len(times), 2 * KEPT, -1), f.reshape(len(times), -1)
    return Trajectory(U[np.arange(len(times)), f.argmax(axis=1)])


def _climbed(problem: Objective, U: Array, t: Array, steps: int) -> tuple[Array, Array]:
    """Each row moved uphill at its own time, by central differences."""
    d = problem.dim

    def objective(U: Array) -> tuple[Array, Array]:
        shifts = WIDTH * np.vstack([np.zeros(d), np.eye(d), -np.eye(d)])
        around = np.clip(U[:, None] + shifts, 0.0, 1.0)
        f = problem.values(problem.from_unit(around.reshape(-1, d)), np.repeat(t, 2 * d + 1)).reshape(len(U), -1)
        run = np.einsum("mii->mi", around[:, 1 : d + 1] - around[:, d + 1 :])
        return f[:, 0], (f[:, 1 : d + 1] - f[:, d + 1 :]) / run

    top = climb(objective, U, REACH, steps=steps, enough=-np.inf)
    return top, problem.values(problem.from_unit(top), t)


@cache
def _table() -> dict[str, Array]:
    file = resources.files("ebbtide.benchmarks") / "data" / "optima.npz"
    if not file.is_file():
        return {}
    with file.open("rb") as stream, np.load(stream) as archive:
        return {name: archive[name].astype(float) for name in archive.files}


def shipped(instance: str) -> Trajectory | None:
    """The trajectory that comes with the package (`python -m ebbtide.benchmarks.tabulate` makes it), if it does."""
    rows = _table().get(instance)
    return None if rows is None else Trajectory(rows)
