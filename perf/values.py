"""What `tide` adds to W-DBO: does it follow values that change by multiples, and does it survive gross errors?

    make perf-values        (or: python perf/values.py --seeds 10 --only outliers jump)

| case       | what is told                                                                     |
|------------|----------------------------------------------------------------------------------|
| clean      | the benchmark, a query every second or two: the price of `tide` where nothing is wrong |
| outliers   | in 90 steps, two values are off by 100 deviations of the signal                  |
| jump       | at half time the objective is mirrored, and all values rise by ten deviations    |
| multiples  | exp(3 z), z being the benchmark in deviations from its mean                      |
| steep      | −exp(−1.5 z): where settings are bad, it falls by multiples; with noise          |

Each figure is a ratio of regrets, paired by benchmark and seed, as a geometric mean with its 95 % interval.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from campaigns import made
from record import add_option, record

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.experiments.campaign import grid
from ebbtide.gp.arrays import Array

STEPS, SETTLED, WRONG = 90, 20, 100.0
PROTOCOL = eb.experiments.Protocol(compute=eb.experiments.Modelled((0.9, 0.004)))  # a second or two between queries
WITHOUT = "tide without transform"
ALGORITHMS = {name: eb.algorithms.get(name) for name in ("tide", "w-dbo")}
ALGORITHMS[WITHOUT] = replace(ALGORITHMS["tide"], transform="none")
MOVING = ["shekel", "hartmann3", "ackley", "six-hump-camel", "eggholder", "rosenbrock"]


@dataclass(frozen=True)
class Case:
    """What is measured at a place and time, given the benchmark there, and the best that could have been."""

    name: str
    problem: Problem
    seed: int

    @property
    def deviation(self) -> float:
        """Of the benchmark over space and time."""
        return float(self.problem.signal.std())

    def values(self, x: Array, t: float) -> tuple[float, float]:
        """The value at x, and the best at that time."""
        best = self.problem.optimum(t)
        if self.name == "jump" and t >= 0.5:
            low, high = self.problem.bounds.T
            return self.problem(low + high - x, t) + 10.0 * self.deviation, best + 10.0 * self.deviation
        return float(self._scaled(np.array(self.problem(x, t)))), float(self._scaled(np.array(best)))

    def _scaled(self, f: Array) -> Array:
        """The case's function of a benchmark's values."""
        z = (f - self.problem.signal.mean()) / self.deviation
        scaled: dict[str, Array] = {"multiples": np.exp(3.0 * z), "steep": -np.exp(-1.5 * z)}
        return scaled.get(self.name, f)

    def errors(self) -> Array:
        """What is added to the value of each step."""
        rng = np.random.default_rng([self.seed, 15])
        noise: Array = 0.05**0.5 * self._scaled(self.problem.signal).std() * rng.normal(size=STEPS)
        if self.name == "multiples":
            return np.zeros(STEPS)
        if self.name == "outliers":
            wrong = rng.choice(np.arange(SETTLED, STEPS), 2, replace=False)
            noise[wrong] += WRONG * self.deviation * rng.choice([-1.0, 1.0], 2)
        return noise


def regrets(case: Case, algorithm: eb.Algorithm) -> Array:
    """The regret of each step."""
    problem, clock = case.problem, eb.ManualClock()
    opt = eb.Optimizer(problem.space, direction="maximize", algorithm=algorithm, clock=clock, seed=case.seed)
    regret = []
    for step, error in enumerate(case.errors()):
        trial = opt.ask()
        value, best = case.values(np.array(list(trial.params.values())), step / (STEPS - 1))
        opt.tell(trial, value + error)
        regret.append(best - value)
        clock.advance(1.0)
    return np.array(regret)


def steps_compared(benchmarks: Sequence[str], seeds: int, chosen: Sequence[str]) -> Iterator[dict[str, object]]:
    """One row per comparison."""
    late = slice(STEPS // 2, None)
    comparisons: list[tuple[str, str, tuple[str, str], tuple[str, str], slice]] = [
        ("outliers", "w-dbo with / without", ("outliers", "w-dbo"), ("plain", "w-dbo"), slice(None)),
        ("outliers", "tide with / without", ("outliers", "tide"), ("plain", "tide"), slice(None)),
        ("jump", "tide / w-dbo, second half", ("jump", "tide"), ("jump", "w-dbo"), late),
        ("multiples", "tide / w-dbo", ("multiples", "tide"), ("multiples", "w-dbo"), slice(None)),
        ("steep", "tide / w-dbo", ("steep", "tide"), ("steep", "w-dbo"), slice(None)),
        ("steep", "tide / tide without transform", ("steep", "tide"), ("steep", WITHOUT), slice(None)),
    ]
    for kind, label, above, below, part in comparisons:
        if kind in chosen:
            yield {"case": kind, "ratio": label} | ratios(benchmarks, seeds, above, below, part)


def ratios(
    benchmarks: Sequence[str], seeds: int, above: tuple[str, str], below: tuple[str, str], part: slice
) -> dict[str, object]:
    logs = []
    for name in benchmarks:
        for seed in range(seeds):
            top, bottom = (
                regrets(Case(kind, eb.benchmarks.get(name), seed), ALGORITHMS[algorithm])[part].mean()
                for kind, algorithm in (above, below)
            )
            logs.append(np.log(top / bottom))
        sys.stderr.write(f"{above} / {below} {name}: {np.exp(np.mean(logs[-seeds:])):.3f}\n")
    return interval(np.array(logs))


def clean(benchmarks: Sequence[str], seeds: int, runs: Path | None) -> dict[str, object]:
    summary = made(grid(benchmarks, {name: name for name in ("w-dbo", "tide")}, seeds, PROTOCOL), runs)
    table = summary.pivot_table(index=["problem", "seed"], columns="algorithm", values="average_regret")
    logs = np.log(table["tide"] / table["w-dbo"])
    sys.stderr.write("\n" + np.exp(logs.groupby("problem").mean()).to_string() + "\n")
    return {"case": "clean", "ratio": "tide / w-dbo"} | interval(logs.to_numpy())


def interval(logs: Array) -> dict[str, object]:
    """Geometric mean, and its 95 % interval from the spread of the pairs."""
    error = 1.96 * float(logs.std(ddof=1)) / len(logs) ** 0.5 if len(logs) > 1 else float("nan")
    as_ratio: Callable[[float], float] = lambda value: round(float(np.exp(value)), 3)  # noqa: E731
    mean = float(logs.mean())
    return {"mean": as_ratio(mean), "low": as_ratio(mean - error), "high": as_ratio(mean + error), "pairs": len(logs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["clean", "outliers", "jump", "multiples", "steep"])
    parser.add_argument("--benchmarks", nargs="*", help="default: the paper's for `clean`, six of them for the others")
    parser.add_argument("--runs", type=Path, help="keep the runs of `clean` here; another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    rows = list(steps_compared(chosen.benchmarks or MOVING, chosen.seeds, chosen.only))
    if "clean" in chosen.only:
        rows.insert(0, clean(chosen.benchmarks or eb.benchmarks.PAPER, chosen.seeds, chosen.runs))
    for row in rows:
        interval_shown = f"[{row['low']}, {row['high']}]"
        print(f"{row['case']!s:10} {row['ratio']!s:28} {row['mean']!s:6} {interval_shown:16} {row['pairs']} pairs")
    record("values", rows, "make perf-values")


if __name__ == "__main__":
    main()
