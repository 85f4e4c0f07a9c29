"""What limits a recommendation: how the model is read, what it believes of itself, or what was measured?

    python perf/reading.py        (or: --seeds 1)

tide asks 150 times on the draws from Gaussian processes of tracker_problems.py. From the same observations, every seven
asks, a setting is chosen in several ways; its true regret is in deviations of the signal. Geometric means over
draws and seeds, with 95 % intervals.
"""

import argparse

import numpy as np
from caution import EVERY, most_promising
from record import add_option, record
from tracker import NOISE, TIDE
from tracker_problems import DRAWN, STEPS, Development, problems
from values import interval

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.posterior import Moment, condition
from ebbtide.parts.maximization import maximize

Chosen = dict[str, Array]  # a setting by the way in which it was chosen


def chosen(opt: eb.Optimizer, X: Array, truth: Moment, values: Array) -> Chosen:
    """By tide's model, by one that knows the true hyperparameters, and by the true values where it has measured."""
    rng = np.random.default_rng([opt.seed, opt.asked])
    with one_blas_thread():
        best_mean = maximize(eb.UCB(beta=0.0), truth, opt.space, rng, len(X))
    return {
        "what tide recommends": opt.space.encode(opt.recommend().params),
        "the best mean": opt.space.encode(most_promising(opt)),
        "the best mean with the true hyperparameters": best_mean,
        "the same, where something was measured": X[int(np.argmax(truth.predict(X)[0]))],
        "the best that was measured, in truth": X[int(np.argmax(values))],
    }


def regrets(problem: Development, lengthscale: float, timescale: float, seed: int) -> dict[str, float]:
    """The mean regret of each way to choose."""
    clock, noise = eb.ManualClock(), NOISE * problem.deviation
    errors = noise * np.random.default_rng([seed, 3]).normal(size=STEPS)
    space = {f"x{i}": eb.Float(0.0, 1.0) for i in range(problem.dim)}
    opt = eb.Optimizer(space, direction="maximize", clock=clock, seed=seed, algorithm=TIDE)
    temporal = eb.Matern(1.5, lengthscale=timescale * STEPS)
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, lengthscale=lengthscale), temporal)
    X, y = np.empty((STEPS, problem.dim)), np.empty(STEPS)
    found: list[list[float]] = []
    for step in range(STEPS):
        trial = opt.ask()
        X[step] = list(trial.params.values())
        y[step] = problem(X[step : step + 1], step / STEPS)[0] + errors[step]
        opt.tell(trial, float(y[step]))
        if step >= EVERY and step % EVERY == 0:
            told, now = slice(step + 1), step / STEPS
            truth = condition(kernel, noise**2, X[told], np.arange(step + 1.0), y[told]).at(float(step))
            ways = chosen(opt, X[told], truth, problem(X[told], now))
            found.append((problem.optimum(now) - problem(np.array(list(ways.values())), now)).tolist())
        clock.advance(1.0)
    return dict(zip(ways, np.mean(found, axis=0) / problem.deviation, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    add_option(parser)
    options = parser.parse_args()
    draws = [problem for problem in problems() if problem.kind == "draw"]
    runs = [
        regrets(problem, space, time, seed)
        for problem, (_, space, time) in zip(draws, DRAWN, strict=True)
        for seed in range(options.seeds)
    ]
    rows = [{"chosen": way} | interval(np.log([run[way] for run in runs])) for way in runs[0]]
    for row in rows:
        print(row)
    record("reading", rows, "python perf/reading.py")


if __name__ == "__main__":
    main()
