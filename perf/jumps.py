"""Objectives that jump, and `tide` with and without noticing it, W-DBO and the best static setting in hindsight.

    make perf-jumps        (or: python perf/jumps.py --seeds 3 --jobs 2)

Peaks of five shapes in two, three and five dimensions. A landscape stays as it is for ten asks, 60 times in a run;
then all heights, places and widths change at once, by as much as the seed says. Noise with 5 % of the signal's
variance. Ratios of regrets, paired by problem and seed: geometric means with 95 % intervals, and by shape.

`jumps=True` was developed on other draws of the same kind.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from record import add_option, record
from scipy.optimize import minimize
from values import interval

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.quasirandom import sobol

CHANGES, PER_CHANGE, RUN = 60, 10, 600.0
NOISE = 0.05**0.5  # deviations of the signal
HEIGHTS, WIDEN = (0.6, 1.4), 0.1
SAMPLE, EVERY = 2**9, 5  # of the signal's deviation: points, of each so many landscapes
POOL, CLIMBERS = 2**12, 4  # of the search for the best static setting
DIMENSIONS = (2, 3, 5)
TIDE = eb.algorithms.get("tide")
STATIC = "best static"
VARIANTS = {
    "tide": TIDE,
    "without noticing": replace(TIDE, jumps=False),
    "as if it always jumped": replace(TIDE, temporal=eb.Matern(0.5), jumps=False),
    "w-dbo": eb.algorithms.get("w-dbo"),
}


def rugged(h: Array, r: Array, offsets: Array) -> Array:
    waves: Array = 0.08 * (np.cos(9.0 * np.pi * np.abs(offsets)).mean(axis=2) - 1.0)
    return h - r + waves


SHAPES: dict[str, Callable[[Array, Array, Array], Array]] = {  # of height, distance in widths, and offsets
    "cones": lambda h, r, offsets: h - r,
    "hills": lambda h, r, offsets: h * np.exp(-2.0 * r**2),
    "needles": lambda h, r, offsets: h / (1.0 + (2.5 * r) ** 2),
    "rugged": rugged,
    "bowls": lambda h, r, offsets: h - r**2,
}


@dataclass(frozen=True)
class Peaks:
    """Landscapes that take turns; at each place the highest of some peaks counts."""

    shape: str
    dim: int
    seed: int

    @cached_property
    def landscapes(self) -> list[tuple[Array, Array, Array]]:
        """Heights, places and widths of each."""
        rng = np.random.default_rng([self.seed, self.dim, list(SHAPES).index(self.shape), 17])
        count, step, swing = int(rng.integers(4, 13)), 10.0 ** rng.uniform(-2.3, -1.4), rng.uniform(0.05, 0.25)
        root = np.sqrt(self.dim / 2.0)
        h, c = rng.uniform(*HEIGHTS, count), rng.random((count, self.dim))
        w = rng.uniform(0.15, 0.6, count) * root
        found = []
        for _ in range(CHANGES):
            found.append((h, c, w))
            ways = rng.normal(size=c.shape)
            ways *= step * np.sqrt(self.dim) / np.linalg.norm(ways, axis=1, keepdims=True)
            h, c = reflected(h + swing * rng.normal(size=count), *HEIGHTS), reflected(c + ways, 0.0, 1.0)
            w = np.clip(w * np.exp(WIDEN * rng.normal(size=count)), 0.1 * root, 0.9 * root)
        return found

    def at(self, turn: int, X: Array) -> Array:
        h, c, w = self.landscapes[turn]
        offsets = X[:, None] - c
        highest: Array = SHAPES[self.shape](h, np.linalg.norm(offsets, axis=2) / w, offsets).max(axis=1)
        return highest

    def mean(self, X: Array) -> Array:
        """Over all landscapes."""
        mean: Array = np.mean([self.at(turn, X) for turn in range(CHANGES)], axis=0)
        return mean

    @cached_property
    def tops(self) -> Array:
        """The best value of each landscape: every peak is highest at its centre."""
        return np.array([self.at(turn, c).max() for turn, (_, c, _) in enumerate(self.landscapes)])

    @cached_property
    def deviation(self) -> float:
        points = sobol(self.dim, SAMPLE, rng=0)
        return float(np.std([self.at(turn, points) for turn in range(0, CHANGES, EVERY)]))


def reflected(values: Array, low: float, high: float) -> Array:
    """Mirrored at the bounds."""
    folded = np.mod(values - low, 2.0 * (high - low))
    mirrored: Array = low + np.minimum(folded, 2.0 * (high - low) - folded)
    return mirrored


def regret(case: tuple[Peaks, str]) -> float:
    """Of a variant, or of the best static setting."""
    peaks, name = case
    with one_blas_thread():
        return static_regret(peaks) if name == STATIC else pursued(peaks, VARIANTS[name])


def pursued(peaks: Peaks, algorithm: eb.Algorithm) -> float:
    clock, rng = eb.ManualClock(), np.random.default_rng([peaks.seed, 3])
    space = {f"x{i}": eb.Float(0.0, 1.0) for i in range(peaks.dim)}
    opt = eb.Optimizer(space, direction="maximize", clock=clock, seed=peaks.seed, algorithm=algorithm)
    lost = []
    for turn in np.repeat(range(CHANGES), PER_CHANGE):
        trial = opt.ask()
        value = float(peaks.at(turn, np.array([list(trial.params.values())]))[0])
        lost.append(peaks.tops[turn] - value)
        opt.tell(trial, value + NOISE * peaks.deviation * float(rng.normal()))
        clock.advance(RUN / (CHANGES * PER_CHANGE))
    return float(np.mean(lost))


def static_regret(peaks: Peaks) -> float:
    pool = sobol(peaks.dim, POOL, rng=1)
    starts = pool[np.argsort(-peaks.mean(pool))[:CLIMBERS]]

    def cost(x: Array) -> float:
        return -float(peaks.mean(np.clip(x, 0.0, 1.0)[None])[0])

    ends = [minimize(cost, x, method="Nelder-Mead", options={"maxfev": 400}) for x in starts]
    return float(peaks.tops.mean() + min(end.fun for end in ends))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    add_option(parser)
    chosen = parser.parse_args()
    problems = [Peaks(shape, dim, seed) for seed, dim, shape in product(range(chosen.seeds), DIMENSIONS, SHAPES)]
    names = [STATIC, *VARIANTS]
    with ProcessPoolExecutor(chosen.jobs) as pool:
        found = list(pool.map(regret, product(problems, names), chunksize=len(names)))
    logs = dict(zip(names, np.log(np.reshape(found, (-1, len(names)))).T, strict=True))
    shapes = np.array([problem.shape for problem in problems])
    rows: list[dict[str, object]] = []
    for ours, theirs in [(name, "tide") for name in list(VARIANTS)[1:]] + [(name, STATIC) for name in VARIANTS]:
        ratios = logs[ours] - logs[theirs]
        parts = {shape: round(float(np.exp(ratios[shapes == shape].mean())), 2) for shape in SHAPES}
        rows.append({"regret of": ours, "relative to": theirs} | interval(ratios) | parts)
        sys.stdout.write(f"{rows[-1]}\n")
    record("jumps", rows, "make perf-jumps")


if __name__ == "__main__":
    main()
