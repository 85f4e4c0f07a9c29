"""What memory costs: policies for `tide`, where many queries are made, on the problems of perf/tracker_problems.py.

    python perf/tracker_dense.py --jobs 2        goes on if it is interrupted

A run has 600 s, and noise with 5 % of the signal's deviation. Either an ask takes the longer, the more is remembered,
as in the tables of the paper (`modelled:botorch`), or a query takes half a second, whatever is remembered. Ratios to
`tide` with W-DBO's budget, paired by problem and seed: geometric means, and for regret a 95 % interval.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kept_runs import finished
from numpy.typing import ArrayLike
from record import add_option, record
from tracker_problems import Development, problems
from values import interval

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.gp.arrays import Array

TIDE = eb.algorithms.get("tide")
MOMENTS = np.linspace(0.0, 1.0, 301)  # at which the optimum is searched; between two of them it is taken to move evenly
PACES: dict[str, str | eb.experiments.Modelled] = {
    "as in the tables": "modelled:botorch",
    "0.5 s": eb.experiments.Modelled((0.5,)),
}
REFERENCE = "W-DBO's budget"
Variant = Callable[[int], eb.Algorithm]  # by the number of parameters


def forgetting(staleness: eb.Staleness) -> Variant:
    return lambda d: replace(TIDE, staleness=staleness)


def budget(**options: Any) -> Variant:
    return forgetting(eb.WassersteinBudget(min_active=100, **options))


VARIANTS: dict[str, Variant] = {
    REFERENCE: budget(),
    "α = 1": budget(alpha=1.0),
    "the criterion itself": budget(method="exact"),
    "the criterion itself, α = 1": budget(method="exact", alpha=1.0),
    "the criterion itself, α = 4": budget(method="exact", alpha=4.0),
    "ResponseBudget": forgetting(eb.ResponseBudget(min_active=100)),
}


SLOWING, CONSTANT = PACES
# At a constant pace nothing is gained by forgetting, and `ResponseBudget` is W-DBO's budget (a test says so).
TRIED = {
    SLOWING: list(VARIANTS),
    CONSTANT: [REFERENCE, "the criterion itself", "the criterion itself, α = 1"],
}


class Posed(Problem):
    """One of the problems as a benchmark."""

    bounds = np.array([[0.0, 1.0]])

    def __init__(self, source: Development, folder: Path) -> None:
        self.source, self.name, self.folder = source, source.name, folder
        self.bounds = np.array([[0.0, 1.0]] * source.dim)

    def values(self, X: Array, t: Array) -> Array:
        return self.source(X, t)

    def optimum(self, t: ArrayLike) -> Any:
        return np.interp(np.asarray(t, dtype=float), MOMENTS, self._best)

    @cached_property
    def _best(self) -> Array:
        return self.source.optima(self.folder, MOMENTS)


@dataclass(frozen=True)
class Case:
    variant: str
    problem: str
    seed: int
    pace: str
    optima: str  # the folder where they are kept


@dataclass(frozen=True)
class Result:
    regret: float
    weighted: float  # with time
    size: float
    queries: int
    wall_s: float


@cache
def posed(folder: str) -> dict[str, Posed]:
    return {problem.name: Posed(problem, Path(folder)) for problem in problems()}


def result(case: Case) -> Result:
    problem = posed(case.optima)[case.problem]
    protocol = eb.experiments.Protocol(noise_of="deviation", compute=PACES[case.pace])
    run = eb.experiments.run(problem, VARIANTS[case.variant](problem.dim), case.seed, protocol)
    size = float(run.columns["n"].mean())
    return Result(run.average_regret, run.time_weighted_regret, size, len(run.columns["t"]), run.wall_s)


def compared(runs: pd.DataFrame, pace: str, variant: str) -> dict[str, object]:
    """The ratios of a variant, over the runs that the reference has, too."""
    found, usual = (runs.xs((name, pace), level=("variant", "pace")) for name in (variant, REFERENCE))
    others = ["weighted", "size", "queries"]
    logs = np.log(found[["regret", *others]] / usual[["regret", *others]]).dropna()
    return (
        {"pace": pace, "variant": variant}
        | interval(logs["regret"].to_numpy())
        | {name: round(float(np.exp(logs[name].mean())), 3) for name in others}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paces", nargs="+", choices=PACES, default=list(PACES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("out/tracker-dense"), help="another call goes on from here")
    add_option(parser)
    chosen = parser.parse_args()
    cases = [
        Case(variant, problem.name, seed, pace, str(chosen.folder / "optima"))
        for pace in chosen.paces
        for variant in TRIED[pace]
        for seed in range(chosen.seeds)
        for problem in problems()
    ]
    runs = finished(cases, result, (Case, Result), chosen.folder / "runs.csv", chosen.jobs)
    rows = [compared(runs, pace, name) for pace in chosen.paces for name in TRIED[pace] if name != REFERENCE]
    for row in rows:
        print(row, flush=True)
    record("tracker-dense", rows, "python perf/tracker_dense.py")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
