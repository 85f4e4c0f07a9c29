"""Which inference tracks better? Average regret of W-DBO with MLE and with MAP, on objectives that drift.

    make perf-tracking        (or: python perf/tracking.py --seeds 10)

Protocol: the objective's last coordinate is time and sweeps its range once in 600 s; 15 random observations in the
first 15 s; a query a second; noise of 5 % of the signal's variance; Matérn-5/2 in space, Matérn-3/2 in time. Regret is
the mean over the queries of max_x f(x, t) − f(x_q, t).
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

import ebbtide as eb
from ebbtide.arrays import Array

DURATION, FIRST, INITIAL = 600.0, 15.0, 15


@dataclass(frozen=True)
class Drifting:
    """−f on [low, high]^(d+1), the last coordinate being time."""

    f: Callable[[Array], Array]
    low: float
    high: float
    d: int

    def __call__(self, X: Array, t: float | Array) -> Array:
        """Larger is better; X (m, d) in the unit cube, t in [0, 1]."""
        Z = np.column_stack([X, np.broadcast_to(t, len(X))])
        return -self.f(self.low + (self.high - self.low) * Z)


def rosenbrock(z: Array) -> Array:
    value: Array = (100.0 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (z[:, :-1] - 1.0) ** 2).sum(axis=1)
    return value


def ackley(z: Array) -> Array:
    radius, waves = np.sqrt((z**2).mean(axis=1)), np.cos(2.0 * np.pi * z).mean(axis=1)
    value: Array = 20.0 + np.e - 20.0 * np.exp(-0.2 * radius) - np.exp(waves)
    return value


def shekel(z: Array) -> Array:
    beta = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10.0
    rows = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]])
    centres = np.vstack([rows, rows]).T
    value: Array = -(1.0 / (((z[:, None] - centres) ** 2).sum(axis=2) + beta)).sum(axis=1)
    return value


def hartmann3(z: Array) -> Array:
    weights = np.array([1.0, 1.2, 3.0, 3.2])
    A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    centres = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    value: Array = -(np.exp(-(A * (z[:, None] - centres) ** 2).sum(axis=2)) @ weights)
    return value


def powell(z: Array) -> Array:
    a, b, c, d = z.T
    value: Array = (a + 10.0 * b) ** 2 + 5.0 * (c - d) ** 2 + (b - 2.0 * c) ** 4 + 10.0 * (a - d) ** 4
    return value


def camel(z: Array) -> Array:
    x, t = z.T
    value: Array = (4.0 - 2.1 * x**2 + x**4 / 3.0) * x**2 + x * t + (-4.0 + 4.0 * t**2) * t**2
    return value


def eggholder(z: Array) -> Array:
    a, b = z.T
    left = -(b + 47.0) * np.sin(np.sqrt(np.abs(b + a / 2.0 + 47.0)))
    value: Array = left - a * np.sin(np.sqrt(np.abs(a - b - 47.0)))
    return value


PROBLEMS = {
    "rosenbrock": Drifting(rosenbrock, -1.0, 1.5, 2),
    "shekel": Drifting(shekel, 0.0, 10.0, 3),
    "hartmann3": Drifting(hartmann3, 0.0, 1.0, 2),
    "powell": Drifting(powell, -4.0, 5.0, 3),
    "ackley": Drifting(ackley, -32.0, 32.0, 3),
    "camel": Drifting(camel, -2.0, 2.0, 1),
    "eggholder": Drifting(eggholder, -512.0, 512.0, 1),
}

ALGORITHMS = {
    "w-dbo, MAP": eb.Algorithm(),
    "w-dbo, MLE": eb.Algorithm(inference="mle"),
    "w-dbo-exact, MAP": eb.algorithms.get("w-dbo-exact"),
    "never forget, MAP": eb.Algorithm(staleness=eb.KeepAll()),
}


@cache
def optima(name: str) -> tuple[Array, Array]:
    """max_x f(x, t) on a grid of times: a dense sample, the best of it polished."""
    problem = PROBLEMS[name]
    X = qmc.Sobol(problem.d, rng=0).random(2**13)
    times, best = np.linspace(0.0, 1.0, 301), []
    for t in times:
        values = problem(X, t)
        starts = X[np.argsort(-values)[:4]]
        polished = [
            minimize(lambda x, t=t: -problem(x[None], t)[0], x, bounds=[(0.0, 1.0)] * problem.d).fun for x in starts
        ]
        best.append(max(values.max(), -min(polished)))
    return times, np.array(best)


def run(name: str, algorithm: eb.Algorithm, seed: int) -> tuple[float, float, float]:
    """(average regret, mean size of the dataset, median l_T as a fraction of the experiment)."""
    problem = PROBLEMS[name]
    rng = np.random.default_rng(seed)
    noise = np.sqrt(0.05) * problem(rng.random((4096, problem.d)), rng.random(4096)).std()
    clock = eb.ManualClock()
    names = [f"x{i}" for i in range(problem.d)]
    space = {key: eb.Float(0.0, 1.0) for key in names}
    # No compute passes between ask and query here; the clock moves before the query is computed.
    algorithm = replace(algorithm, timing=eb.Immediate(aim="now"))
    opt = eb.Optimizer(space, direction="maximize", algorithm=algorithm, clock=clock, seed=seed, n_initial=0)
    starts = np.sort(rng.uniform(0.0, FIRST, INITIAL))
    clock.advance(FIRST)
    for t, x in zip(starts, rng.random((INITIAL, problem.d)), strict=True):
        y = problem(x[None], t / DURATION)[0] + noise * rng.normal()
        opt.tell(dict(zip(names, map(float, x), strict=True)), float(y), time=float(t))
    times, best = optima(name)
    regrets, sizes, timescales = [], [], []
    while clock.now() < DURATION:
        trial = opt.ask()
        x, t = np.array([[trial.params[key] for key in names]]), trial.time / DURATION
        f = float(problem(x, t)[0])
        opt.tell(trial, f + noise * rng.normal())
        regrets.append(np.interp(t, times, best) - f)
        sizes.append(len(opt.dataset))
        timescales.append(opt.hyperparameters["timescale"])
        clock.advance(1.0)
    return float(np.mean(regrets)), float(np.mean(sizes)), float(np.median(timescales)) / DURATION


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--algorithms", nargs="*", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    chosen = parser.parse_args()
    print(f"{'average regret ± standard error (mean size, median l_T)':<16}\n")
    print(f"{'':<12}" + "".join(f"{label:>34}" for label in chosen.algorithms))
    with ProcessPoolExecutor(2) as pool:
        for name in chosen.problems:
            cells = []
            for label in chosen.algorithms:
                jobs = [pool.submit(run, name, ALGORITHMS[label], seed) for seed in range(chosen.seeds)]
                regret, size, timescale = np.array([job.result() for job in jobs]).T
                error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else 0.0
                cells.append(f"{regret.mean():.3g} ± {error:.2g} ({size.mean():.0f}, {np.median(timescale):.2g})")
            print(f"{name:<12}" + "".join(f"{cell:>34}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
