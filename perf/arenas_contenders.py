"""Who competes in the arenas: ebbtide, and others in the same loop of asks and tells.

Each is asked for a setting at a moment, and is told the noisy value there. Peers that know nothing about time stand for
what their users have today.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.gp.arrays import Array

RUN = 600.0  # the clock at the end of a run; a benchmark's time is from 0 to 1
FIRST = 10  # random settings before a peer without a start of its own has a model
TAP_LIMIT, MOVE_COST = 1.0, 0.5  # one position at a time; kW for moving a parameter across its range
RATE = 0.05  # of violations that is asked for


def setting(problem: Problem, unit: Array) -> Array:
    """A point of the unit cube in the problem's units, where a tap is whole."""
    x: Array = problem.from_unit(unit[None])[0]
    return x


class Contender(Protocol):
    def ask(self, t: float) -> Array:
        """A setting for the time t (0 to 1), in the problem's units."""

    def tell(self, x: Array, value: float, outcomes: dict[str, float]) -> None:
        """The noisy value of the last setting, and what else was measured."""


class Ebbtide:
    """An algorithm, told as much of the problem as `told` says: context, day, limits, movement."""

    def __init__(self, problem: Problem, seed: int, algorithm: str | eb.Algorithm, told: str = "") -> None:
        self.problem, self.clock, self.told = problem, eb.ManualClock(), told.split()
        start = None if problem.acceptable is None else dict(problem.acceptable)
        self.optimizer = eb.Optimizer(
            problem.space,
            direction="maximize",
            algorithm=algorithm,
            clock=self.clock,
            seed=1000 + seed,
            start=start,
            **self._words(),
        )

    def _words(self) -> dict[str, Any]:
        words: dict[str, Any] = {}
        if "context" in self.told:
            words["context"] = dict(self.problem.context_space)
        if "day" in self.told:
            words["cycles"] = {name: RUN * period for name, period in self.problem.cycles.items()}
        if "limits" in self.told:
            words |= {"constraints": dict(self.problem.constraints), "violation_rate": RATE}
        if "movement" in self.told:
            words["movement"] = eb.Movement(limit={"x0": TAP_LIMIT}, cost=MOVE_COST)
        return words

    def ask(self, t: float) -> Array:
        self.clock.advance(RUN * t - self.clock.now())
        self.trial = self.optimizer.ask(context=self.problem.context(t) if "context" in self.told else None)
        return np.array([self.trial.params[name] for name in self.problem.space])

    def tell(self, x: Array, value: float, outcomes: dict[str, float]) -> None:
        self.optimizer.tell(self.trial, value, constraints=outcomes if "limits" in self.told else None)


class Optuna:
    """A sampler of Optuna's."""

    def __init__(self, problem: Problem, seed: int, sampler: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.problem = problem
        self.study = optuna.create_study(direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed))

    def ask(self, t: float) -> Array:
        self.trial = self.study.ask()
        suggested = [
            self.trial.suggest_float(name, parameter.low, parameter.high, step=parameter.step)
            for name, parameter in self.problem.space.items()
        ]
        return np.array(suggested)

    def tell(self, x: Array, value: float, outcomes: dict[str, float]) -> None:
        self.study.tell(self.trial, value)


class CmaEs:
    """CMA-ES of the package `cmaes`, from the middle, with its default population.

    Where it should stop, it starts anew at the best of its last generation: otherwise its steps may grow beyond all
    bounds on an objective that jumps.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.generation: list[tuple[Array, float]] = []
        self._start(np.full(problem.dim, 0.5))

    def _start(self, mean: Array) -> None:
        from cmaes import CMA

        unit = np.tile([0.0, 1.0], (self.problem.dim, 1))
        self.search = CMA(mean=mean, sigma=0.3, bounds=unit, seed=self.seed)

    def ask(self, t: float) -> Array:
        self.unit = self.search.ask()
        return setting(self.problem, self.unit)

    def tell(self, x: Array, value: float, outcomes: dict[str, float]) -> None:
        self.generation.append((self.unit, -value))
        if len(self.generation) == self.search.population_size:
            self.search.tell(self.generation)
            if self.search.should_stop():
                best, _ = min(self.generation, key=lambda told: told[1])
                self._start(best)
            self.generation = []


class SimulatedTime:
    """What Xopt takes for the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Xopt:
    """Xopt's time-dependent upper confidence bound, on a clock that we set."""

    def __init__(self, problem: Problem, seed: int) -> None:
        import torch
        from xopt import VOCS
        from xopt.generators.bayesian import TDUpperConfidenceBoundGenerator, time_dependent

        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.problem, self.rng = problem, np.random.default_rng([seed, 23])
        time_dependent.time = self.time = SimulatedTime()
        bounds = {name: [parameter.low, parameter.high] for name, parameter in problem.space.items()}
        self.generator = TDUpperConfidenceBoundGenerator(vocs=VOCS(variables=bounds, objectives={"f": "MAXIMIZE"}))
        self.asked = 0

    def ask(self, t: float) -> Array:
        self.time.now = 1.0 + RUN * t
        self.asked += 1
        if self.asked <= FIRST:
            return setting(self.problem, self.rng.random(self.problem.dim))
        (found,) = self.generator.generate(1)
        low, high = self.problem.bounds.T
        x = np.clip([found[name] for name in self.problem.space], low, high)
        return setting(self.problem, (x - low) / (high - low))

    def tell(self, x: Array, value: float, outcomes: dict[str, float]) -> None:
        import pandas as pd

        row = dict(zip(self.problem.space, x.tolist(), strict=True)) | {"f": value, "time": self.time.now}
        self.generator.add_data(pd.DataFrame([row]))


def window(size: int) -> eb.Algorithm:
    return replace(eb.algorithms.get("sliding-window"), staleness=eb.SlidingWindow(size=size))


WINDOWS = (15, 30, 60, 120)
CONTENDERS: dict[str, Callable[[Problem, int], Contender]] = {
    "tide": lambda problem, seed: Ebbtide(problem, seed, "tide"),
    "w-dbo": lambda problem, seed: Ebbtide(problem, seed, "w-dbo"),
    **{
        f"window {size}": lambda problem, seed, size=size: Ebbtide(problem, seed, window(size))  # type: ignore[misc]
        for size in WINDOWS
    },
    "CMA-ES": CmaEs,
    "TPE": lambda problem, seed: Optuna(problem, seed, "TPESampler"),
    "GPSampler": lambda problem, seed: Optuna(problem, seed, "GPSampler"),
    "Xopt": Xopt,
    **{
        f"tide: {told}": lambda problem, seed, told=told: Ebbtide(problem, seed, "tide", told)  # type: ignore[misc]
        for told in ("context", "day", "context day", "limits", "movement")
    },
}


def contender(name: str, problem: Problem, seed: int) -> Contender:
    warnings.simplefilter("ignore")  # peers warn of what they cannot know here
    return CONTENDERS[name](problem, seed)
