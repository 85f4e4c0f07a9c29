"""A run of `arenas.py`: a contender in an arena, asked at even intervals."""

import time
from dataclasses import dataclass

import numpy as np
from arenas_contenders import contender
from scipy.optimize import minimize
from world_runs import moments, regret

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.quasirandom import sobol

STATIC = "best static"
POOL, CLIMBERS, EVERY = 2048, 3, 10  # of the search for it: points, how many are refined, every so many moments


@dataclass(frozen=True)
class Case:
    """One run. Its fields are the key of its result."""

    arena: str
    contender: str
    asks: int
    seed: int
    first: int = 0  # so many of the asks are made; 0: all


@dataclass(frozen=True)
class Result:
    """The regret is weighted with time, as far as asks are made: a setting is in force until the next ask."""

    regret: float
    violated: float  # the share of the asks whose measured values break a limit of the arena
    taps: int  # how often x0 changed, which is the tap of a grid
    seconds: float  # of asks and tells


def problem_of(case: Case) -> Problem:
    """A landscape of the seed's own; of a grid always the same week, with other noise."""
    options = {} if case.arena.startswith("simbench") else {"seed": case.seed}
    return eb.benchmarks.get(case.arena, **options)


def result(case: Case) -> Result:
    problem = problem_of(case)
    with one_blas_thread():
        if case.contender == STATIC:
            return Result(static_regret(problem), 0.0, 0, 0.0)
        X, violated, seconds = pursued(case, problem)
        asked = np.arange(len(X)) / case.asks
        lost = regret(problem, X, asked, moments()[moments() < len(X) / case.asks])
    return Result(lost, violated, int(np.count_nonzero(np.diff(X[:, 0]))), seconds)


def pursued(case: Case, problem: Problem) -> tuple[Array, float, float]:
    """The settings, the share that breaks a limit, and the seconds that it took; all see the same noise."""
    rng = np.random.default_rng([case.seed, case.asks, 29])
    one = contender(case.contender, problem, case.seed)
    made = case.first or case.asks
    X, broken, seconds = np.empty((made, problem.dim)), 0, 0.0
    for k in range(made):
        t, noise = k / case.asks, rng.normal(size=1 + len(problem.constraints))
        began = time.perf_counter()
        X[k] = one.ask(t)
        seconds += time.perf_counter() - began
        value = problem(X[k], t) + problem.noise_std * noise[0]
        outcomes = {
            name: measured + problem.outcome_noise_std[name] * error
            for (name, measured), error in zip(problem.outcomes(X[k], t).items(), noise[1:], strict=True)
        }
        broken += any(limit.is_broken(outcomes[name]) for name, limit in problem.constraints.items())
        began = time.perf_counter()
        one.tell(X[k], value, outcomes)
        seconds += time.perf_counter() - began
    return X, broken / made, seconds


def static_regret(problem: Problem) -> float:
    """Of the best setting in hindsight among those that never change."""
    times = moments()[::EVERY]

    def lost(u: Array) -> float:
        x = problem.from_unit(np.clip(u, 0.0, 1.0)[None])[0]
        return -float(problem(x, times).mean())

    pool = sobol(problem.dim, POOL, rng=0)
    values = np.mean([problem.values(problem.from_unit(pool), np.full(POOL, t)) for t in times], axis=0)
    best = pool[np.argsort(-values)[:CLIMBERS]]
    ends = [minimize(lost, u, method="Nelder-Mead", options={"maxfev": 200}) for u in best]
    u = min(ends, key=lambda end: float(end.fun)).x
    x = problem.from_unit(np.clip(u, 0.0, 1.0)[None])
    return regret(problem, x, np.zeros(1), moments())
