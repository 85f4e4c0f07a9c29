"""A run of `world.py`: a benchmark, and an optimizer that is told some of what can be known of it."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.benchmarks.walks import Walk
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.quasirandom import sobol

RUN = 600.0  # the clock at the end of a run; a benchmark's time is from 0 to 1
DAY = 0.1  # of the run
SETTLED = 2.0 * DAY  # from the third day on
MOMENTS = 2000  # at which the regret is looked at
POOL, POOL_MOMENTS = 1024, 200  # points and moments of the search for the best static setting
STATIC = "best static"
TEMPERATURES = eb.Float(15.0, 30.0)
SEEDED = ("driver", "daily", "latency", "latency-loose")  # of each seed another instance
DIMENSIONS = ("driver", "daily")  # with several numbers of parameters


@dataclass(frozen=True)
class Case:
    """One run. Its fields are the key of its result."""

    problem: str
    d: int
    asks: int
    algorithm: str
    told: str  # names of context variables, "day", "limits"; what the benchmark does not have is made up
    rate: float  # of violations that is asked for
    seed: int


@dataclass(frozen=True)
class Result:
    """Regrets are weighted with time, and relative to the best setting that is allowed; none is below 0."""

    regret: float
    late: float  # from the third day on
    violated: float  # the share of the asks whose measured values break a limit


def moments() -> Array:
    times: Array = (np.arange(MOMENTS) + 0.5) / MOMENTS
    return times


@cache
def problem_of(name: str, d: int, seed: int) -> Problem:
    options = {"seed": seed} if name in SEEDED else {}
    return eb.benchmarks.get(name, **options, **({"d": d} if name in DIMENSIONS else {}))


def result(case: Case) -> Result:
    problem = problem_of(case.problem, case.d, case.seed)
    with one_blas_thread():
        if case.algorithm == STATIC:
            return Result(static_regret(problem, moments()), static_regret(problem, late_moments()), 0.0)
        X, violated = pursued(case, problem)
    asked = np.arange(case.asks) / case.asks
    return Result(regret(problem, X, asked, moments()), regret(problem, X, asked, late_moments()), violated)


def late_moments() -> Array:
    return moments()[moments() >= SETTLED]


def regret(problem: Problem, X: Array, asked: Array, times: Array) -> float:
    held = X[np.searchsorted(asked, times, side="right") - 1]
    return float(np.maximum(problem.optimum(times) - problem(held, times), 0.0).mean())


def pursued(case: Case, problem: Problem) -> tuple[Array, float]:
    """The settings that an optimizer asks for, and how many of the asks break a limit."""
    world, clock, rng = World(case, problem), eb.ManualClock(), np.random.default_rng([case.seed, case.asks, 18])
    opt = eb.Optimizer(
        problem.space,
        direction="maximize",
        algorithm=case.algorithm,
        clock=clock,
        seed=1000 + case.seed,
        start=None if problem.acceptable is None else dict(problem.acceptable),
        **world.words(),
    )
    X, broken = np.empty((case.asks, problem.dim)), 0
    for k in range(case.asks):
        t = k / case.asks
        clock.advance(RUN * t - clock.now())
        trial = opt.ask(**world.context(t))
        X[k] = [trial.params[name] for name in problem.space]
        noise = rng.normal(size=1 + len(problem.constraints))
        outcomes = {
            name: value + problem.outcome_noise_std[name] * error
            for (name, value), error in zip(problem.outcomes(X[k], t).items(), noise[1:], strict=True)
        }
        broken += any(limit.is_broken(outcomes[name]) for name, limit in problem.constraints.items())
        told: dict[str, Any] = {"constraints": outcomes} if world.limited else {}
        opt.tell(trial, problem(X[k], t) + problem.noise_std * noise[0], **told)
    return X, broken / case.asks


class World:
    """What an optimizer is told about a benchmark."""

    def __init__(self, case: Case, problem: Problem) -> None:
        self.problem, self.rate = problem, case.rate
        told = case.told.split()
        self.limited, self.daily = "limits" in told, "day" in told
        self.measured = [name for name in told if name not in ("limits", "day")]
        rng = np.random.default_rng([case.seed, 19])
        self.temperature = Walk.reverting(rng, 22.0, 2.0, memory=1.0 / 25.0)

    def words(self) -> dict[str, Any]:
        """Options for the optimizer; those that are not needed are left out."""
        known = {"temperature": TEMPERATURES, **self.problem.context_space}
        words: dict[str, Any] = {"context": {name: known[name] for name in self.measured}} if self.measured else {}
        if self.daily:
            words["cycles"] = {name: RUN * period for name, period in (self.problem.cycles or {"day": DAY}).items()}
        if self.limited:
            words |= {"constraints": dict(self.problem.constraints), "violation_rate": self.rate}
        return words

    def context(self, t: float) -> dict[str, Any]:
        if not self.measured:
            return {}
        known = {"temperature": float(self.temperature(np.array([t]))[0])} | self.problem.context(t)
        return {"context": {name: known[name] for name in self.measured}}


def static_regret(problem: Problem, times: Array) -> float:
    """Of the best setting in hindsight among those that never change."""
    best = problem.optimum(times)

    def lost(u: Array, step: int = 1) -> float:
        x = problem.from_unit(np.clip(u, 0.0, 1.0))
        return float((best[::step] - problem(x, times[::step])).mean())

    pool = sobol(problem.dim, POOL, rng=0)
    coarse = np.array([lost(u, len(times) // POOL_MOMENTS) for u in pool])
    ends = [
        minimize(lost, u, method="Nelder-Mead", bounds=[(0.0, 1.0)] * problem.dim, options={"maxfev": 200}).fun
        for u in pool[np.argsort(coarse)[:3]]
    ]
    return float(min(ends))
