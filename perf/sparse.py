"""How often must one ask? Regret with few queries per l_T, relative to the best static setting in hindsight.

    make perf-sparse           (or: python perf/sparse.py --dims 2 --queries 5 20 --seeds 4 --runs out/sparse.csv)
    python perf/sparse.py --dims 2 --lengthscale 0.5 --noise 0.5          # draws from another process

The objectives are draws from a Gaussian process (draws.py). Each query is in force until the next one. Below 1, a
contender is better than any setting that is left alone; the best of these is known only afterwards.

| contender      | what it does                                                                                    |
|----------------|-------------------------------------------------------------------------------------------------|
| an algorithm   | fits everything; "+ start" means that it begins with the start                                  |
| hold the start | the best of ten random settings at t = 0, forever                                               |
| limit √β = …   | UCB with the true hyperparameters; the best √β in hindsight is "limit" in what is printed       |
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from draws import TIMESCALE, Draw
from record import add_option, record
from scipy.stats import t as student

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.posterior import condition
from ebbtide.parts.maximization import maximize
from ebbtide.space import Space

HOLD, LIMIT, START = "hold the start", "limit √β = ", " + start"
ROOTS = (0.25, 0.5, 1.0, 1.5, 2.0)  # √β
LENGTHSCALE, NOISE = 0.25, 0.2  # of the usual process: l_S, and the deviation of the noise, relative to the signal's
REMEMBERED = 2.5  # l_T, after which the limit's model forgets: the correlation is 7 %
WHERE = ["dim", "lengthscale", "noise", "timescales", "queries", "contender"]
KEYS = [*WHERE, "seed"]


@dataclass(frozen=True)
class Case:
    """One run: a draw, how often it is queried, and who queries. Its fields are the key of its result."""

    dim: int
    lengthscale: float  # l_S
    noise: float  # standard deviation; the signal's is 1
    queries: int  # per l_T
    contender: str
    seed: int
    timescales: int  # how long the run is, in l_T

    @property
    def times(self) -> Array:
        return np.arange(self.queries * self.timescales) * TIMESCALE / self.queries


Measure = Callable[[Array, float], float]


@lru_cache(maxsize=16)
def drawn(seed: int, dim: int, lengthscale: float, timescales: int) -> Draw:
    return Draw(seed, dim, lengthscale, timescales)


def space(dim: int) -> Space:
    return Space({f"x{i}": eb.Float(0.0, 1.0) for i in range(dim)})


def ratio(case: Case) -> float:
    """The time-weighted regret of a run, relative to that of the best static setting."""
    draw = drawn(case.seed, case.dim, case.lengthscale, case.timescales)
    rng = np.random.default_rng([case.seed, case.queries, 16])

    def measured(x: Array, moment: float) -> float:
        return float(draw(x[None], np.array([moment]))[0] + case.noise * rng.normal())

    name = case.contender.removesuffix(START)
    start = draw.start if case.contender.endswith(START) else None
    with one_blas_thread():
        if name == HOLD:
            X = np.tile(draw.start, (len(case.times), 1))
        elif name.startswith(LIMIT):
            X = with_true_hyperparameters(case, float(name.removeprefix(LIMIT)), start, measured)
        else:
            X = pursued(case, name, start, measured)
    return draw.regret(X, case.times) / draw.static_regret


def pursued(case: Case, algorithm: str | eb.Algorithm, start: Array | None, measured: Measure) -> Array:
    """The settings that an optimizer asks for."""
    clock, names = eb.ManualClock(), [f"x{i}" for i in range(case.dim)]
    n_initial = None if start is None else 1  # after a start, the model is asked at once
    optimizer = eb.Optimizer(
        space(case.dim),
        direction="maximize",
        algorithm=algorithm,
        clock=clock,
        seed=1000 + case.seed,
        n_initial=n_initial,
    )
    X = np.empty((len(case.times), case.dim))
    for k, moment in enumerate(case.times):
        clock.advance(moment - clock.now())
        if k == 0 and start is not None:
            X[k], first = start, dict(zip(names, map(float, start), strict=True))
            optimizer.tell(first, measured(start, moment), time=moment)
            continue
        trial = optimizer.ask()
        X[k] = [trial.params[name] for name in names]
        optimizer.tell(trial, measured(X[k], moment))
    return X


def with_true_hyperparameters(case: Case, root: float, start: Array | None, measured: Measure) -> Array:
    """The settings that UCB asks for with the process's own kernel and noise; only its randomness is left to chance."""
    kernel = eb.SpaceTimeKernel(
        1.0, eb.Matern(2.5, lengthscale=case.lengthscale), eb.Matern(1.5, lengthscale=TIMESCALE)
    )
    rng = np.random.default_rng([case.seed, 17])
    X, y = np.empty((len(case.times), case.dim)), np.empty(len(case.times))
    for k, moment in enumerate(case.times):
        if k == 0:
            X[k] = rng.random(case.dim) if start is None else start
        else:
            held = slice(max(0, k - round(REMEMBERED * case.queries)), k)
            posterior = condition(kernel, case.noise**2, X[held], case.times[held], y[held])
            X[k] = maximize(eb.UCB(beta=root**2), posterior.at(moment), space(case.dim), rng, k)
        y[k] = measured(X[k], moment)
    return X


# --- many runs ----------------------------------------------------------------------------------------------------


def finished(cases: Sequence[Case], runs: Path, jobs: int) -> pd.DataFrame:
    """The results of these runs; those that the file has are not made again."""
    known = pd.read_csv(runs) if runs.exists() else pd.DataFrame(columns=[*KEYS, "ratio"])
    done = set(known[KEYS].itertuples(index=False, name=None))
    missing = [case for case in cases if key(case) not in done]
    runs.parent.mkdir(parents=True, exist_ok=True)
    with runs.open("a", encoding="utf-8", newline="") as file, ProcessPoolExecutor(jobs) as pool:
        writer = csv.writer(file, lineterminator="\n")
        if not runs.stat().st_size:
            writer.writerow([*KEYS, "ratio"])
        for number, (case, found) in enumerate(zip(missing, pool.map(ratio, missing), strict=True), start=1):
            writer.writerow([*key(case), found])
            file.flush()
            sys.stderr.write(f"\r{number} of {len(missing)} runs ")
    wanted = pd.DataFrame([key(case) for case in cases], columns=KEYS)
    return wanted.merge(pd.read_csv(runs), on=KEYS)


def key(case: Case) -> tuple[object, ...]:
    return tuple(getattr(case, name) for name in KEYS)


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the seeds with 95 % intervals; of the limits, only the best √β in hindsight is left."""
    lines = pd.DataFrame(_lines(runs))
    start = lines["contender"].str.endswith(START)
    family = lines["contender"].where(
        ~lines["contender"].str.startswith(LIMIT), np.where(start, "limit" + START, "limit")
    )
    best = lines.groupby([*WHERE[:-1], family], sort=False)["ratio"].idxmin()
    return lines.assign(contender=family).loc[best].reset_index(drop=True)


def _lines(runs: pd.DataFrame) -> Iterator[dict[str, object]]:
    for where, group in runs.groupby(WHERE, sort=False):
        logs = np.log(group["ratio"])
        half = student.ppf(0.975, max(1, len(logs) - 1)) * logs.std() / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
        name = str(where[-1]).removesuffix(START)
        yield dict(zip(WHERE, where, strict=True)) | {
            "root_beta": float(name.removeprefix(LIMIT)) if name.startswith(LIMIT) else None,
            "seeds": len(logs),
            "ratio": round(float(np.exp(logs.mean())), 4),
            "low": round(float(np.exp(logs.mean() - half)), 4),
            "high": round(float(np.exp(logs.mean() + half)), 4),
        }


def contenders(algorithms: Sequence[str], roots: Sequence[float]) -> list[str]:
    either = [*algorithms, *(f"{LIMIT}{root:g}" for root in roots)]
    return [HOLD, *either, *(name + START for name in either)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--queries", type=int, nargs="*", default=[5, 10, 20, 50, 150], help="per l_T")
    parser.add_argument("--algorithms", nargs="*", default=["w-dbo", "tide", "sliding-window"])
    parser.add_argument("--roots", type=float, nargs="*", default=ROOTS, help="√β of the limit")
    parser.add_argument("--lengthscale", type=float, default=LENGTHSCALE, help="l_S")
    parser.add_argument("--noise", type=float, default=NOISE, help="standard deviation, relative to the signal's")
    parser.add_argument("--timescales", type=int, default=8, help="the length of a run, in l_T")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("out/sparse.csv"), help="another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    cases = [
        Case(dim, chosen.lengthscale, chosen.noise, queries, contender, chosen.first_seed + seed, chosen.timescales)
        for dim in chosen.dims
        for queries in chosen.queries
        for contender in contenders(chosen.algorithms, chosen.roots)
        for seed in range(chosen.seeds)
    ]
    found = summary(finished(cases, chosen.runs, chosen.jobs))
    for dim, lines in found.groupby("dim"):
        table = lines.pivot_table(index="queries", columns="contender", values="ratio", sort=False)
        sys.stdout.write(f"\nd = {dim}\n\n{table.round(2).to_string()}\n")
    usual = (chosen.lengthscale, chosen.noise) == (LENGTHSCALE, NOISE)
    name = "sparse" if usual else f"sparse-{chosen.lengthscale:g}-{chosen.noise:g}"
    record(name, found.to_dict("records"), "make perf-sparse")


if __name__ == "__main__":
    main()
