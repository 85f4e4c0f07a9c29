"""Failures that teach, and recommendations that hold, on problems whose truth is known.

    make perf-caution        (or: python perf/caution.py --seeds 10 --only failures)
    python perf/caution.py --only protocol --jobs 2        takes half an hour; goes on if it is interrupted

failures: a tenth of a square fails; how many of 150 asks fail, how many in a row, and how good are the others?
recommendations: the true regret of what is recommended, every few asks, relative to W-DBO with the best posterior mean
(what `recommend` was at first). Ratios are geometric means, paired by benchmark and seed.
protocol: the same every ten seconds under the protocol of the tables (600 s, hundreds to thousands of asks).
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from kept_runs import finished
from record import add_option, record
from values import interval

import ebbtide as eb
from ebbtide.experiments.simulation import Simulation
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.parts.acquisition import UCB
from ebbtide.parts.maximization import maximize
from ebbtide.space import Params

ASKS = 150
EVERY = 7  # asks between two recommendations
PROTOCOL, MOMENT_S = eb.experiments.Protocol(noise_of="deviation"), 10.0  # between two recommendations
SQUARE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
FAILING = {"a corner": lambda p: p["x"] > 0.684 and p["y"] > 0.684, "an edge": lambda p: p["x"] > 0.9}


def hill(params: Params, t: float) -> float:
    """A hill that goes round in a circle."""
    x, y = 0.5 + 0.3 * math.sin(t / 24.0), 0.5 + 0.3 * math.cos(t / 24.0)
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08)


def failures(seeds: int, algorithms: Sequence[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for place, fails in FAILING.items():
        for algorithm in algorithms:
            for on_failure in ("ignore", "worst"):
                found = np.array([_failed(fails, algorithm, on_failure, seed) for seed in range(seeds)])
                failed, longest, value = found.T
                rows.append(
                    {"fails": place, "algorithm": algorithm, "on_failure": on_failure, "seeds": seeds}
                    | {"fewest": int(failed.min()), "most": int(failed.max()), "longest": int(longest.max())}
                    | {"value": round(float(value.mean()), 3)}
                )
                print(rows[-1], flush=True)
    return rows


def _failed(fails, algorithm: str, on_failure, seed: int) -> tuple[int, int, float]:  # type: ignore[no-untyped-def]
    clock, rng = eb.ManualClock(), np.random.default_rng(seed)
    opt = eb.Optimizer(SQUARE, direction="maximize", clock=clock, seed=seed, algorithm=algorithm, on_failure=on_failure)
    values = []
    for _ in range(ASKS):
        trial = opt.ask()
        if fails(trial.params):
            opt.tell(trial, failed=True)
        else:
            values.append(hill(trial.params, trial.time))
            opt.tell(trial, values[-1] + 0.05 * rng.normal())
        clock.advance(1.0)
    failed = [observation.failed for observation in opt.history]
    longest = max((len(list(run)) for each, run in groupby(failed) if each), default=0)
    return sum(failed), longest, float(np.mean(values))


def recommendations(seeds: int, benchmarks: Sequence[str]) -> list[dict[str, object]]:
    rows, everything = [], []
    for name in benchmarks:
        pairs = [_regrets(name, seed) for seed in range(seeds)]
        logs = np.array([np.log(now / before) for now, before in pairs])
        everything += logs.tolist()
        rows.append({"benchmark": name, "median": round(float(np.median(np.exp(logs))), 3)} | interval(logs))
        print(rows[-1], flush=True)
    logs = np.array(everything)
    rows.append({"benchmark": "all", "median": round(float(np.median(np.exp(logs))), 3)} | interval(logs))
    print(rows[-1], flush=True)
    return rows


def _regrets(name: str, seed: int) -> tuple[float, float]:
    """The mean regret of tide's recommendations, and of the best posterior mean of W-DBO."""
    return _regret(name, seed, "tide", cautious=True), _regret(name, seed, "w-dbo", cautious=False)


def _regret(name: str, seed: int, algorithm: str, *, cautious: bool) -> float:
    problem, clock, rng = eb.benchmarks.get(name), eb.ManualClock(), np.random.default_rng([seed, 7])
    opt = eb.Optimizer(problem.space, direction="maximize", clock=clock, seed=seed, algorithm=algorithm)
    regret = []
    for ask in range(ASKS):
        trial, t = opt.ask(), ask / ASKS
        opt.tell(trial, problem(_point(trial.params), t) + problem.noise_std * rng.normal())
        if ask >= EVERY and ask % EVERY == 0:
            params = opt.recommend().params if cautious else most_promising(opt)
            regret.append(problem.optimum(t) - problem(_point(params), t))
        clock.advance(1.0)
    return float(np.mean(regret))


@dataclass(frozen=True)
class Case:
    benchmark: str
    algorithm: str
    seed: int


@dataclass(frozen=True)
class Recommended:
    regret: float


def under_the_protocol(seeds: int, benchmarks: Sequence[str], jobs: int, file: Path) -> list[dict[str, object]]:
    cases = [Case(name, each, seed) for name in benchmarks for seed in range(seeds) for each in ("tide", "w-dbo")]
    runs = finished(cases, _recommended, (Case, Recommended), file, jobs)
    tide, published = (runs.xs(each, level="algorithm")["regret"] for each in ("tide", "w-dbo"))
    logs = np.log(tide / published).dropna()
    parts = {name: logs.xs(name, level="benchmark").to_numpy() for name in benchmarks} | {"all": logs.to_numpy()}
    rows: list[dict[str, object]] = []
    for name, found in parts.items():
        rows.append({"benchmark": name, "median": round(float(np.median(np.exp(found))), 3)} | interval(found))
        print(rows[-1], flush=True)
    return rows


def _recommended(case: Case) -> Recommended:
    problem, cautious = eb.benchmarks.get(case.benchmark), case.algorithm == "tide"
    algorithm = replace(eb.algorithms.get(case.algorithm), temporal=problem.temporal)
    regret, due = [], MOMENT_S
    with one_blas_thread():
        simulation = Simulation(problem, algorithm, case.seed, PROTOCOL)
        simulation.observe_initially()

        def look(elapsed: float) -> None:
            nonlocal due
            if elapsed < due:
                return
            due = MOMENT_S * (elapsed // MOMENT_S + 1.0)
            opt, t = simulation.optimizer, elapsed / PROTOCOL.duration
            params = opt.recommend().params if cautious else most_promising(opt)
            regret.append(problem.optimum(t) - problem(_point(params), t))

        simulation.pursue(look)
    return Recommended(float(np.mean(regret)))


def _point(params: Params) -> Array:
    return np.array(list(params.values()))


def most_promising(opt: eb.Optimizer) -> Params:
    """The best posterior mean, whatever its deviation."""
    engine, now = opt._engine, opt.clock.now()
    moment = engine.posterior(now).at(engine.axis.place(now))
    x = maximize(UCB(beta=0.0), moment, opt.space, np.random.default_rng([opt.seed, opt.asked]), len(moment.posterior))
    return opt.space.decode(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=["failures", "recommendations"])
    parser.add_argument("--benchmarks", nargs="*", default=eb.benchmarks.PAPER)
    parser.add_argument("--jobs", type=int, default=1, help="of protocol")
    parser.add_argument("--runs", type=Path, default=Path("out/recommended.csv"), help="of protocol")
    add_option(parser)
    chosen = parser.parse_args()
    if "failures" in chosen.only:
        record("failures", failures(min(chosen.seeds, 4), ["w-dbo", "tide"]), "make perf-caution")
    if "recommendations" in chosen.only:
        record("recommendations", recommendations(chosen.seeds, chosen.benchmarks), "make perf-caution")
    if "protocol" in chosen.only:
        rows = under_the_protocol(chosen.seeds, chosen.benchmarks, chosen.jobs, chosen.runs)
        record("recommendations-protocol", rows, "python perf/caution.py --only protocol")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
