"""Moving peaks of other authors: landscapes that change a hundred times in a run, and stand still in between.

Both packages count evaluations, and change after so many. A live system has no such count, so here the changes are
spread evenly over time: landscape k is in force while k ≤ 100 t < k + 1. Everything else, how it changes and the value
of a point, is the package's own code with its own defaults.
"""

import copy
import random
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.benchmarks.walks import checked_seed
from ebbtide.gp.arrays import Array

ENVIRONMENTS = 100  # the default of `gmpb`


class Environments(Problem):
    """Landscapes that take turns. A subclass makes the first and changes it, knows its values and its top."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = checked_seed(seed)
        self.landscapes = self._drawn()

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}"

    def _drawn(self) -> list[Any]:
        landscape, change = self.first()
        landscapes = [copy.deepcopy(landscape)]
        for _ in range(ENVIRONMENTS - 1):
            change()
            landscapes.append(copy.deepcopy(landscape))
        return landscapes

    @abstractmethod
    def first(self) -> tuple[Any, Callable[[], object]]:
        """The package's own landscape, and what changes it."""

    @abstractmethod
    def heights(self, landscape: Any, X: Array) -> Array:
        """The values of the rows of X."""

    @abstractmethod
    def top(self, landscape: Any) -> Array:
        """Where it is highest."""

    def values(self, X: Array, t: Array) -> Array:
        turns, f = self._turns(t), np.empty(len(X))
        for turn in np.unique(turns):
            rows = turns == turn
            f[rows] = self.heights(self.landscapes[turn], X[rows])
        return f

    def best(self, t: Array) -> Array:
        tops: Array = self._tops[self._turns(t)]
        return tops

    @cached_property
    def _tops(self) -> Array:
        return np.array([self.top(landscape) for landscape in self.landscapes])

    def _turns(self, t: Array) -> Array:
        turns: Array = np.minimum((t * ENVIRONMENTS).astype(int), ENVIRONMENTS - 1)
        return turns


class GeneralizedMovingPeaks(Environments):
    """The generalized moving peaks benchmark of Yazdani et al., as the package `gmpb` has it: ten peaks in [−100, 100],
    rotated, asymmetric and rugged.
    """

    name = "gmpb"
    PEAKS = 10

    def __init__(self, d: int = 2, seed: int = 0) -> None:
        self.name = f"gmpb-{d}d"
        self.bounds = np.tile([-100.0, 100.0], (d, 1))
        super().__init__(seed)

    def first(self) -> tuple[Any, Callable[[], object]]:
        from gmpb import GMPB, GMPBConfig

        landscape = GMPB(GMPBConfig(d=self.dim, m=self.PEAKS, T=ENVIRONMENTS, auto_step=False), seed=self.seed)
        return landscape, landscape.step_environment

    def heights(self, landscape: Any, X: Array) -> Array:
        f: Array = landscape.evaluate_batch(X)
        return f

    def top(self, landscape: Any) -> Array:
        """The centre of the highest peak: every peak's height is its value at its centre, and is nowhere exceeded."""
        highest = max(landscape.get_state().components, key=lambda peak: peak.h)
        return np.asarray(highest.c)


class DeapMovingPeaks(Environments):
    """Branke's moving peaks, scenario 2, as DEAP has it: ten cones in [0, 100]^5, whose steps are correlated."""

    name = "deap-moving-peaks"
    bounds = np.tile([0.0, 100.0], (5, 1))

    def first(self) -> tuple[Any, Callable[[], object]]:
        from deap.benchmarks.movingpeaks import SCENARIO_2, MovingPeaks

        generator = random.Random(self.seed)  # noqa: S311  (a landscape, no secret)
        landscape = MovingPeaks(self.dim, random=generator, **SCENARIO_2)
        return landscape, landscape.changePeaks

    def heights(self, landscape: Any, X: Array) -> Array:
        return np.array([landscape(x, count=False)[0] for x in X.tolist()])

    def top(self, landscape: Any) -> Array:
        return np.array(landscape.globalMaximum()[1])
