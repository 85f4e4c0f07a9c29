"""Problems to develop a tracker on, none of which is a benchmark of the paper.

Space and time are [0, 1]; larger is better. The optimum at each step is found by a dense search, and kept in a folder.

| kind     | what it is                                                                                        |
|----------|---------------------------------------------------------------------------------------------------|
| draw     | a draw from a process: Matérn-5/2 in space, Matérn-3/2 in time (perf/draws.py explains the waves)  |
| static   | a draw that stays, and one that drifts                                                            |
| level    | a draw, and a level that moves all values alike                                                   |
| function | a test function with time as its last coordinate                                                  |
| peaks    | hills or one bowl that move in curves                                                             |
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.maximization import climb

STEPS = 150
WAVES, SAMPLE, POINTS, CLIMBERS, NUDGE = 500, 2**14, 2**13, 8, 1e-5
TURN = 6.28  # radians: the phases of what moves to and fro

TIMES = np.arange(STEPS) / STEPS

Function = Callable[[Array, Array], Array]  # of the rows of X, and of a time for each


@dataclass(frozen=True)
class Development:
    """One problem: f(X, t) in d dimensions."""

    name: str
    kind: str
    dim: int
    f: Function

    def __call__(self, X: Array, t: float | Array) -> Array:
        return self.f(X, np.broadcast_to(np.asarray(t, dtype=float), (len(X),)))

    @cached_property
    def deviation(self) -> float:
        """Over space and time."""
        points = sobol(self.dim + 1, SAMPLE, rng=0)
        return float(self(points[:, :-1], points[:, -1]).std())

    def optima(self, folder: Path, times: Array = TIMES) -> Array:
        """The best value at each step, or at other times; kept in the folder, which is for these times."""
        path = folder / f"{self.name}.npy"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            np.save(path, np.array([self.optimum(float(t)) for t in times]))
        found: Array = np.load(path)
        return found

    def optimum(self, t: float) -> float:
        """The best value at a time."""
        X, (moves, unit) = sobol(self.dim, POINTS, rng=1), (NUDGE * np.eye(self.dim), self.deviation)
        values = self(X, t)

        def with_gradient(Z: Array) -> tuple[Array, Array]:
            slopes = [(self(Z + move, t) - self(Z - move, t)) / (2.0 * NUDGE * unit) for move in moves]
            return self(Z, t) / unit, np.column_stack(slopes)

        top, _ = climb(with_gradient, X[np.argsort(-values)[:CLIMBERS]], 0.02, steps=40, enough=0.0)
        return float(max(values.max(), self(top, t).max()))


def drawn(seed: int, dim: int, lengthscale: float, timescale: float) -> Function:
    """A draw from a process with variance 1; an infinite timescale does not drift."""
    rng = np.random.default_rng([seed, dim, 77])
    omega = rng.normal(size=(WAVES, dim)) * np.sqrt(5.0 / rng.chisquare(5.0, (WAVES, 1))) / lengthscale
    eta = rng.standard_t(3.0, WAVES) / timescale if np.isfinite(timescale) else np.zeros(WAVES)
    phase = rng.uniform(0.0, 2.0 * np.pi, WAVES)

    def f(X: Array, t: Array) -> Array:
        values: Array = np.sqrt(2.0 / WAVES) * np.cos(X @ omega.T + np.multiply.outer(t, eta) + phase).sum(axis=1)
        return values

    return f


def sum_of(*parts: tuple[float, Function]) -> Function:
    return lambda X, t: np.sum([weight * f(X, t) for weight, f in parts], axis=0)


def level(f: Function) -> Function:
    """The same at all places."""
    return lambda X, t: f(np.zeros((len(t), 1)), t)


def swept(function: Callable[[Array], Array], low: float, high: float) -> Function:
    """−f, whose last coordinate is time."""
    return lambda X, t: -function(low + (high - low) * np.column_stack([X, t]))


def griewank(z: Array) -> Array:
    f: Array = 1.0 + (z**2).sum(axis=1) / 4000.0 - np.cos(z / np.sqrt(np.arange(1, z.shape[1] + 1))).prod(axis=1)
    return f


def levy(z: Array) -> Array:
    w = 1.0 + (z - 1.0) / 4.0
    first, last = w[:, :-1], w[:, -1]
    middle = ((first - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * first + 1.0) ** 2)).sum(axis=1)
    f: Array = np.sin(np.pi * w[:, 0]) ** 2 + middle + (last - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * last) ** 2)
    return f


def zakharov(z: Array) -> Array:
    s = 0.5 * z @ np.arange(1, z.shape[1] + 1)
    f: Array = (z**2).sum(axis=1) + s**2 + s**4
    return f


def dixon_price(z: Array) -> Array:
    steps = np.arange(2, z.shape[1] + 1) * (2.0 * z[:, 1:] ** 2 - z[:, :-1]) ** 2
    f: Array = (z[:, 0] - 1.0) ** 2 + steps.sum(axis=1)
    return f


def michalewicz(z: Array) -> Array:
    f: Array = -(np.sin(z) * np.sin(np.arange(1, z.shape[1] + 1) * z**2 / np.pi) ** 8).sum(axis=1)
    return f


def alpine(z: Array) -> Array:
    f: Array = np.abs(z * np.sin(z) + 0.1 * z).sum(axis=1)
    return f


def salomon(z: Array) -> Array:
    radius = np.linalg.norm(z, axis=1)
    f: Array = 1.0 - np.cos(2.0 * np.pi * radius) + 0.1 * radius
    return f


def goldstein_price(z: Array) -> Array:
    x, y = z.T
    a = 19.0 - 14.0 * x + 3.0 * x**2 - 14.0 * y + 6.0 * x * y + 3.0 * y**2
    b = 18.0 - 32.0 * x + 12.0 * x**2 + 48.0 * y - 36.0 * x * y + 27.0 * y**2
    f: Array = (1.0 + (x + y + 1.0) ** 2 * a) * (30.0 + (2.0 * x - 3.0 * y) ** 2 * b)
    return f


def bohachevsky(z: Array) -> Array:
    a, b = z[:, :-1], z[:, 1:]
    f: Array = (a**2 + 2.0 * b**2 - 0.3 * np.cos(3.0 * np.pi * a) - 0.4 * np.cos(4.0 * np.pi * b) + 0.7).sum(axis=1)
    return f


def cosine_mixture(z: Array) -> Array:
    f: Array = (z**2 - 0.1 * np.cos(5.0 * np.pi * z)).sum(axis=1)
    return f


def drop_wave(z: Array) -> Array:
    square = (z**2).sum(axis=1)
    f: Array = -(1.0 + np.cos(12.0 * np.sqrt(square))) / (0.5 * square + 2.0)
    return f


def branin(X: Array, t: Array) -> Array:
    a, b = 15.0 * X[:, 0] - 5.0, 15.0 * t
    bowl = (b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0) ** 2
    f: Array = -(bowl + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0)
    return f


def hills(seed: int, dim: int) -> Function:
    """Five hills whose places and heights go to and fro."""
    rng = np.random.default_rng([seed, dim, 5])
    centres, ways, heights = rng.random((5, dim)), rng.normal(size=(5, dim)), 0.5 + rng.random(5)
    phases, ways = rng.uniform(0.0, TURN, 5), ways / np.linalg.norm(ways, axis=1, keepdims=True)

    def hill(k: int, X: Array, t: Array) -> Array:
        centre = centres[k] + 0.25 * np.sin(1.4 * np.pi * t[:, None] + phases[k]) * ways[k]
        height = heights[k] * (1.0 + 0.4 * np.sin(2.6 * np.pi * t + 2.0 * phases[k]))
        values: Array = height * np.exp(((X - centre) ** 2).sum(axis=1) / (-0.08 * dim))
        return values

    return lambda X, t: np.max([hill(k, X, t) for k in range(5)], axis=0)


def bowl(seed: int, dim: int) -> Function:
    """A bowl whose lowest point goes round."""
    rng = np.random.default_rng([seed, dim, 6])
    root = rng.normal(size=(dim, dim))
    A, phases = root @ root.T / dim + 0.3 * np.eye(dim), rng.uniform(0.0, TURN, dim)

    def f(X: Array, t: Array) -> Array:
        turn = 2.0 * np.pi * np.multiply.outer(t, np.linspace(0.5, 1.2, dim)) + phases
        offset = X - (0.5 + 0.3 * np.sin(turn))
        values: Array = -np.einsum("ij,jk,ik->i", offset, A, offset)
        return values

    return f


DRAWN = (  # dimensions, l_S, l_T
    *((1, 0.2, 0.15), (2, 0.3, 0.3), (2, 0.2, 1.0), (3, 0.4, 0.3)),
    *((4, 0.6, 0.5), (5, 0.8, 0.3), (6, 0.9, 1.0), (3, 0.3, 0.1)),
)
STATIC = ((2, 0.25, 0.1, 0.7), (3, 0.4, 0.15, 0.7), (4, 0.6, 0.15, 0.8), (1, 0.15, 0.08, 0.6))
LEVELS = ((2, 0.3, 0.4, 2.0, 0.1), (3, 0.4, 0.5, 1.5, 0.3), (5, 0.8, 0.5, 2.0, 0.2), (4, 0.6, np.inf, 1.5, 0.15))
FUNCTIONS = (
    *((griewank, 3, -5.0, 5.0), (levy, 3, -10.0, 10.0), (zakharov, 2, -5.0, 10.0), (dixon_price, 3, -3.0, 3.0)),
    *((michalewicz, 3, 0.0, np.pi), (alpine, 4, -6.0, 6.0), (salomon, 2, -3.0, 3.0), (goldstein_price, 1, -2.0, 2.0)),
    *((bohachevsky, 3, -2.0, 2.0), (cosine_mixture, 4, -1.0, 1.0), (drop_wave, 1, -2.0, 2.0), (levy, 5, -5.0, 5.0)),
)


def problems() -> list[Development]:
    """All of them."""
    found = [
        Development(f"draw-{dim}-{space}-{time}", "draw", dim, drawn(number, dim, space, time))
        for number, (dim, space, time) in enumerate(DRAWN)
    ]
    for number, (dim, space, time, share) in enumerate(STATIC):
        still, moving = drawn(20 + number, dim, space, np.inf), drawn(40 + number, dim, space, time)
        sum_ = sum_of((share**0.5, still), ((1.0 - share) ** 0.5, moving))
        found.append(Development(f"static-{dim}", "static", dim, sum_))
    for number, (dim, space, time, height, pace) in enumerate(LEVELS):
        parts = (1.0, drawn(60 + number, dim, space, time)), (height, level(drawn(80 + number, 1, 1.0, pace)))
        found.append(Development(f"level-{dim}", "level", dim, sum_of(*parts)))
    for function, dim, low, high in FUNCTIONS:
        name = f"{function.__name__}-{dim}"
        found.append(Development(name, "function", dim, swept(function, low, high)))
    found.append(Development("branin-1", "function", 1, branin))
    found += [Development(f"hills-{dim}", "peaks", dim, hills(seed, dim)) for seed, dim in enumerate((2, 4))]
    found += [Development(f"bowl-{dim}", "peaks", dim, bowl(seed, dim)) for seed, dim in enumerate((3, 5))]
    return found
