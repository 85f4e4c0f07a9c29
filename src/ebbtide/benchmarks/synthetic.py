"""The classics, with time as their last coordinate, which sweeps its range once (Appendix H.2 and H.4 of the paper).

They are minimization problems, so −f is maximized. z has one row per point, (m, d + 1).
"""

from collections.abc import Callable

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.gp.arrays import Array

Function = Callable[[Array], Array]


class Synthetic(Problem):
    """−f on [low, high]^(d+1); `minimizer` is every coordinate of the minimum, where it never moves."""

    def __init__(
        self, name: str, function: Function, low: float, high: float, d: int, minimizer: float | None = None
    ) -> None:
        self.name, self.function, self.low, self.high, self.minimizer = name, function, low, high, minimizer
        self.bounds = np.tile([low, high], (d, 1))

    def values(self, X: Array, t: Array) -> Array:
        return -self.function(np.column_stack([X, self.low + (self.high - self.low) * t]))

    def best(self, t: Array) -> Array | None:
        return None if self.minimizer is None else np.full((len(t), self.dim), self.minimizer)


def rastrigin(z: Array) -> Array:
    f: Array = 10.0 * z.shape[1] + (z**2 - 10.0 * np.cos(2.0 * np.pi * z)).sum(axis=1)
    return f


def schwefel(z: Array) -> Array:
    f: Array = 418.9829 * z.shape[1] - (z * np.sin(np.sqrt(np.abs(z)))).sum(axis=1)
    return f


def styblinski_tang(z: Array) -> Array:
    f: Array = 0.5 * (z**4 - 16.0 * z**2 + 5.0 * z).sum(axis=1)
    return f


def eggholder(z: Array) -> Array:
    a, b = z.T
    f: Array = -(b + 47.0) * np.sin(np.sqrt(np.abs(b + a / 2.0 + 47.0))) - a * np.sin(np.sqrt(np.abs(a - b - 47.0)))
    return f


def ackley(z: Array) -> Array:
    radius, waves = np.sqrt((z**2).mean(axis=1)), np.cos(2.0 * np.pi * z).mean(axis=1)
    f: Array = 20.0 + np.e - 20.0 * np.exp(-0.2 * radius) - np.exp(waves)
    return f


def rosenbrock(z: Array) -> Array:
    f: Array = (100.0 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (z[:, :-1] - 1.0) ** 2).sum(axis=1)
    return f


SHEKEL_BETA = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10.0
SHEKEL_ROWS = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]])
SHEKEL_CENTRES = np.vstack([SHEKEL_ROWS, SHEKEL_ROWS]).T


def shekel(z: Array) -> Array:
    f: Array = -(1.0 / (_squared_distances(z, SHEKEL_CENTRES) + SHEKEL_BETA)).sum(axis=1)
    return f


def _squared_distances(z: Array, centres: Array) -> Array:
    squares: Array = ((z[:, None] - centres) ** 2).sum(axis=2)
    return squares


HARTMANN_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN3_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
HARTMANN3_P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
HARTMANN6_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN6_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann(z: Array, A: Array, P: Array) -> Array:
    f: Array = -(np.exp(-(A * (z[:, None] - P) ** 2).sum(axis=2)) * HARTMANN_ALPHA).sum(axis=1)
    return f


def hartmann3(z: Array) -> Array:
    return _hartmann(z, HARTMANN3_A, HARTMANN3_P)


def hartmann6(z: Array) -> Array:
    return _hartmann(z, HARTMANN6_A, HARTMANN6_P)


def powell(z: Array) -> Array:
    a, b, c, d = z.T
    f: Array = (a + 10.0 * b) ** 2 + 5.0 * (c - d) ** 2 + (b - 2.0 * c) ** 4 + 10.0 * (a - d) ** 4
    return f


def six_hump_camel(z: Array) -> Array:
    x, t = z.T
    f: Array = (4.0 - 2.1 * x**2 + x**4 / 3.0) * x**2 + x * t + (-4.0 + 4.0 * t**2) * t**2
    return f


def switching_camel(z: Array) -> Array:
    """The camel whose two coordinates change places at t = −1/2."""
    return np.where(z[:, 1] < -0.5, six_hump_camel(z), six_hump_camel(z[:, ::-1]))


SCHWEFEL_MINIMIZER = 420.968746  # of 418.9829 − z sin √|z| on [−500, 500]
STYBLINSKI_TANG_MINIMIZER = float(np.roots([4.0, 0.0, -32.0, 5.0]).real.min())

PROBLEMS = {
    problem.name: problem
    for problem in (
        Synthetic("rastrigin", rastrigin, -4.0, 4.0, d=4, minimizer=0.0),
        Synthetic("schwefel", schwefel, -500.0, 500.0, d=3, minimizer=SCHWEFEL_MINIMIZER),
        Synthetic("styblinski-tang", styblinski_tang, -5.0, 5.0, d=3, minimizer=STYBLINSKI_TANG_MINIMIZER),
        Synthetic("eggholder", eggholder, -512.0, 512.0, d=1),
        Synthetic("ackley", ackley, -32.0, 32.0, d=3, minimizer=0.0),
        Synthetic("rosenbrock", rosenbrock, -1.0, 1.5, d=2),
        Synthetic("shekel", shekel, 0.0, 10.0, d=3),
        Synthetic("hartmann3", hartmann3, 0.0, 1.0, d=2),
        Synthetic("hartmann6", hartmann6, 0.0, 1.0, d=5),
        Synthetic("powell", powell, -4.0, 5.0, d=3),
        Synthetic("six-hump-camel", six_hump_camel, -2.0, 2.0, d=1),
        Synthetic("switching-camel", switching_camel, -2.0, 2.0, d=1),
    )
}
