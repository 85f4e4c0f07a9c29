"""The moving maximizer of a benchmark on a grid of times, and from it max_x f(x, t) at any time.

Between two grid times the maximizer is taken from either end or from the line between, whichever is best *at t*:
where it moves smoothly the error is of fourth order in the grid's step, where it jumps of second order, and the
value is always attained, so a regret is never negative by more than that error.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.maximization import climb

STEPS = 2048  # of the grid of times
COARSE = 16  # the whole space is searched thoroughly at every 16th time,
SAMPLE, STARTS = 2**13, 64  # from the best of so many points,
KEPT, APART = 8, 0.02  # and so many distinct results start the climbs at the times up to the next;
QUICK_SAMPLE, QUICK_STARTS = 2**11, 4  # with the best of so many points of their own
REACH, WIDTH = 1e-3, 1e-6
CLIMB_STEPS, FOLLOW_STEPS, SHRINKS = 60, 25, 20
PROBES = slice(None, None, STEPS // 8)  # times at which a shipped trajectory is verified


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
    """Search everywhere at some times, then follow every good maximum to the neighbouring times."""
    times = np.arange(STEPS + 1) / STEPS
    sample = sobol(problem.dim, SAMPLE, rng=0)
    found = []
    for t in times[::COARSE]:
        U, f = _climbed(problem, _best_of(problem, sample, t, STARTS), np.full(STARTS, t), CLIMB_STEPS)
        found.append(_distinct(U[np.argsort(-f)]))
    found.append(found[-1])  # the last time has no later neighbour
    quick = sample[:QUICK_SAMPLE]
    starts = np.stack(
        [
            np.vstack([*found[k // COARSE : k // COARSE + 2], _best_of(problem, quick, t, QUICK_STARTS)])
            for k, t in enumerate(times)
        ]
    )
    each = starts.shape[1]
    U, f = _climbed(problem, starts.reshape(-1, problem.dim), np.repeat(times, each), FOLLOW_STEPS)
    best = f.reshape(len(times), each).argmax(axis=1)
    return Trajectory(_compassed(problem, U.reshape(len(times), each, -1)[np.arange(len(times)), best], times))


def _best_of(problem: Objective, sample: Array, t: float, count: int) -> Array:
    f = problem.values(problem.from_unit(sample), np.full(len(sample), t))
    return sample[np.argsort(-f)[:count]]


def _distinct(ranked: Array) -> Array:
    """The first few rows that are apart from each other, padded with the first one."""
    kept = [ranked[0]]
    for row in ranked[1:]:
        if len(kept) < KEPT and min(np.abs(row - other).max() for other in kept) > APART:
            kept.append(row)
    return np.array(kept + [ranked[0]] * (KEPT - len(kept)))


def _compassed(problem: Objective, U: Array, t: Array) -> Array:
    """The last digits without a gradient, for maxima that lie on a crease: try each direction, halve the step."""
    f = problem.values(problem.from_unit(U), t)
    for step in REACH * 0.5 ** np.arange(SHRINKS):
        for direction in np.vstack([np.eye(problem.dim), -np.eye(problem.dim)]):
            there = np.clip(U + step * direction, 0.0, 1.0)
            f_there = problem.values(problem.from_unit(there), t)
            better = f_there > f
            U, f = np.where(better[:, None], there, U), np.where(better, f_there, f)
    return U


def _climbed(problem: Objective, U: Array, t: Array, steps: int) -> tuple[Array, Array]:
    """Each row moved uphill at its own time, by central differences."""
    d = problem.dim

    def objective(U: Array) -> tuple[Array, Array]:
        shifts = WIDTH * np.vstack([np.zeros(d), np.eye(d), -np.eye(d)])
        around = np.clip(U[:, None] + shifts, 0.0, 1.0)
        f = problem.values(problem.from_unit(around.reshape(-1, d)), np.repeat(t, 2 * d + 1)).reshape(len(U), -1)
        run = np.einsum("mii->mi", around[:, 1 : d + 1] - around[:, d + 1 :])
        return f[:, 0], (f[:, 1 : d + 1] - f[:, d + 1 :]) / run

    top, _ = climb(objective, U, REACH, steps=steps, enough=-np.inf)
    return top, problem.values(problem.from_unit(top), t)


@cache
def _table() -> dict[str, Array]:
    file = resources.files("ebbtide.benchmarks") / "data" / "optima.npz"
    if not file.is_file():
        return {}
    with file.open("rb") as stream, np.load(stream) as archive:
        return {name: archive[name].astype(float) for name in archive.files}


def shipped(instance: str, problem: Objective) -> Trajectory | None:
    """The trajectory shipped with the package, if there is one for this function.

    `python -m ebbtide.benchmarks.tabulate` writes it together with some values of f, which reveal another function of
    the same name, or ours after a change.
    """
    table = _table()
    if instance not in table or table[instance].shape[1] != problem.dim:
        return None
    U, times = table[instance][PROBES], np.linspace(0.0, 1.0, STEPS + 1)[PROBES]
    same = np.allclose(problem.values(problem.from_unit(U), times), table[f"{instance} f"], rtol=1e-6)
    return Trajectory(table[instance]) if same else None


def to_be_shipped(instance: str, problem: Objective) -> dict[str, Array]:
    """The data that `shipped` reads. Within 1e-7 of the maximizer f is flat, so single precision is enough."""
    U: Any = trace(problem).U.astype(np.float32)
    times = np.linspace(0.0, 1.0, STEPS + 1)[PROBES]
    return {instance: U, f"{instance} f": problem.values(problem.from_unit(U[PROBES].astype(float)), times)}
