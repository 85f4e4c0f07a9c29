"""What do a context, a cycle and constraints buy, and what do they cost? On benchmarks whose truth is known.

    make perf-world        (or: python perf/world.py --seeds 3 --only context cycle)

| figure       | what is compared                                                                                   |
|--------------|----------------------------------------------------------------------------------------------------|
| `context`    | regret with a context that drives the drift / without                                              |
| `irrelevant` | regret with a context that has nothing to do with the objective / without                          |
| `cycle`      | regret from the third day on, with the day as a cycle / without, and / the best static setting      |
| `baselines`  | the same without a cycle / the best static setting                                                 |
| `no-cycle`   | regret with a cycle that is not there / without                                                    |
| `violations` | the share of the asks whose measured values break a limit / the rate that was asked for            |
| `limits`     | regret with a limit / without, where the optimum is always allowed                                 |
| `ask`        | time of an ask with two context variables, a cycle and two constraints / without, n = 200          |

The regret is weighted with time: a setting is in force until the next ask. Ratios of regrets are paired by seed, which
is another instance of the benchmark (of a WLAN: the same walk, but other noise): geometric means with 95 % intervals.
Runs are kept in out/world.csv, and another call goes on with them: remove it when the model changes.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kept_runs import finished
from record import add_option, record
from scipy.stats import t as student
from world_ask import times_of_asks
from world_runs import STATIC, Case, Result, result

import ebbtide as eb
from ebbtide.gp.arrays import Array

ASKS = 300
BELOW_STATIC = {10: ("≤ 0.8", "≤ 0.5"), 20: ("≤ 0.5", "≤ 0.33"), 50: ("≤ 0.3", "≤ 0.2")}  # by the queries per day
FEW_QUERIES = (5, 10, 20, 50)  # without a cycle
RATES = (0.02, 0.05, 0.1)
DRIFTING = ("driver", "daily", "hartmann3", "rosenbrock", "shekel")  # where something irrelevant is given
WITHOUT_CYCLE = ("driver", "latency", "hartmann3", "rosenbrock", "shekel")


@dataclass(frozen=True)
class Ratio:
    """One line of the table: a ratio of two runs of the same seed, and what it should be."""

    figure: str
    case: str
    above: Case
    below: Case
    measure: str = "regret"
    must: str = ""
    aim: str = ""


def of(problem: str, told: str = "", *, d: int = 0, asks: int = ASKS, rate: float = 0.0, by: str = "tide") -> Case:
    """A case of any seed."""
    return Case(problem, d or eb.benchmarks.get(problem).dim, asks, by, told, rate, seed=0)


def context() -> Iterator[Ratio]:
    for problem, told, d in (("driver", "load", 2), ("driver", "load", 4), ("wlan-users", "users", 4)):
        with_it = of(problem, told, d=d)
        for algorithm in ("tide", "w-dbo"):
            without = of(problem, d=d, by=algorithm)
            must, aim = ("≤ 0.7", "≤ 0.4") if algorithm == "tide" else ("", "")
            case = f"{problem}, d = {d}: {told} / {algorithm} without"
            yield Ratio("context", case, with_it, without, must=must, aim=aim)


def irrelevant() -> Iterator[Ratio]:
    wanted = {"must": "≤ 1.05", "aim": "≤ 1.02"}
    for problem in DRIFTING:
        yield Ratio("irrelevant", f"{problem}: temperature", of(problem, "temperature"), of(problem), **wanted)
    both, load = of("driver", "load temperature"), of("driver", "load")
    yield Ratio("irrelevant", "driver: load and temperature / load", both, load, **wanted)


def cycle() -> Iterator[Ratio]:
    for d, queries in [(2, queries) for queries in BELOW_STATIC] + [(4, 20)]:
        runs: dict[str, Any] = {"d": d, "asks": 10 * queries}
        known, unknown, static = of("daily", "day", **runs), of("daily", **runs), of("daily", **runs, by=STATIC)
        where = f"daily, d = {d}, {queries} a day"
        yield Ratio("cycle", f"{where}: with / without", known, unknown, "late", "≤ 0.4", "≤ 0.2")
        must, aim = BELOW_STATIC[queries] if d == 2 else ("", "")
        yield Ratio("cycle", f"{where}: with / {STATIC}", known, static, "late", must, aim)


def baselines() -> Iterator[Ratio]:
    for d, queries in [(2, queries) for queries in FEW_QUERIES] + [(4, 20)]:
        runs: dict[str, Any] = {"d": d, "asks": 10 * queries}
        for algorithm in ("w-dbo", "tide"):
            above, below = of("daily", **runs, by=algorithm), of("daily", **runs, by=STATIC)
            yield Ratio("baselines", f"daily, d = {d}, {queries} a day: {algorithm} / {STATIC}", above, below, "late")


def no_cycle() -> Iterator[Ratio]:
    for problem in WITHOUT_CYCLE:
        yield Ratio("no-cycle", f"{problem}: day", of(problem, "day"), of(problem), must="≤ 1.05", aim="≤ 1.02")


def limits() -> Iterator[Ratio]:
    limited = of("latency-loose", "limits", rate=0.05)
    yield Ratio("limits", "latency-loose", limited, of("latency-loose"), must="≤ 1.3", aim="≤ 1.1")


POOLED = ("irrelevant", "no-cycle")  # what is of no use must not cost much, on the whole
RATIOS: dict[str, Callable[[], Iterator[Ratio]]] = {
    "baselines": baselines,
    "context": context,
    "irrelevant": irrelevant,
    "cycle": cycle,
    "no-cycle": no_cycle,
    "limits": limits,
}
LIMITED = {"latency": True, "wlan-worst-user": True, "latency-loose": False}  # whether the limit binds at the optimum


def violations() -> Iterator[tuple[Case, bool]]:
    for problem, binds in LIMITED.items():
        for rate in RATES:
            yield of(problem, "limits", rate=rate, asks=ASKS), binds


# --- many runs ----------------------------------------------------------------------------------------------------


def seeded(case: Case, seeds: int) -> list[Case]:
    return [replace(case, seed=seed) for seed in range(seeds)]


def compared(ratio: Ratio, runs: pd.DataFrame, seeds: int) -> dict[str, object]:
    """Geometric mean over the seeds, with its 95 % interval."""
    return averaged(ratio, ratio.case, log_ratios(ratio, runs, seeds))


def pooled(figure: str, runs: pd.DataFrame, seeds: int) -> dict[str, object]:
    """The same over all problems of a figure."""
    ratios = list(RATIOS[figure]())
    logs = np.concatenate([log_ratios(ratio, runs, seeds) for ratio in ratios])
    return averaged(ratios[0], "all of them", logs)


def log_ratios(ratio: Ratio, runs: pd.DataFrame, seeds: int) -> Array:
    above, below = (
        np.array([runs.loc[astuple(case), ratio.measure] for case in seeded(side, seeds)], dtype=float)
        for side in (ratio.above, ratio.below)
    )
    logs: Array = np.log(above / below)
    return logs


def averaged(ratio: Ratio, case: str, logs: Array) -> dict[str, object]:
    half = interval(logs)
    found = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    return line(ratio.figure, case, found, len(logs), ratio.must, ratio.aim)


def violated(case: Case, binds: bool, runs: pd.DataFrame, seeds: int) -> dict[str, object]:
    """The observed rate in units of the one that was asked for, pooled over the seeds; the interval is over seeds."""
    rates = np.array([runs.loc[astuple(each), "violated"] for each in seeded(case, seeds)], dtype=float) / case.rate
    half = interval(rates)
    found = np.array([rates.mean(), rates.mean() - half, rates.mean() + half])
    must, aim = ("0.5 to 1.5", "0.8 to 1.2") if binds else ("≤ 1.5", "≤ 1.2")
    return line("violations", f"{case.problem}, {100.0 * case.rate:g} %", found, seeds, must, aim)


def interval(values: Array) -> float:
    """Half of it, at 95 %."""
    if len(values) < 2:
        return float("nan")
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def line(figure: str, case: str, found: Sequence[float] | Array, pairs: int, must: str, aim: str) -> dict[str, object]:
    measured, low, high = (round(float(value), 3) for value in found)
    numbers = {"measured": measured, "low": low, "high": high, "pairs": pairs}
    return {"figure": figure, "case": case, **numbers, "must": must, "aim": aim}


def asked(repetitions: int) -> dict[str, object]:
    """Median of the ratios of neighbouring asks, with their quartiles."""
    plain, full = times_of_asks(repetitions)
    ratio = full / plain
    sys.stderr.write(f"plain {1e3 * np.median(plain):.1f} ms, with all {1e3 * np.median(full):.1f} ms\n")
    found = [np.median(full) / np.median(plain), *np.quantile(ratio, [0.25, 0.75])]
    return line("ask", "two context variables, a cycle, two constraints", found, repetitions, "≤ 4", "≤ 3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*RATIOS, "violations", "ask"]
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="*", choices=everything, default=everything)
    parser.add_argument("--repetitions", type=int, default=60, help="of the asks that are timed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("out/world.csv"), help="another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    ratios = [ratio for name in RATIOS if name in chosen.only for ratio in RATIOS[name]()]
    limited = list(violations()) if "violations" in chosen.only else []
    cases = [case for ratio in ratios for side in (ratio.above, ratio.below) for case in seeded(side, chosen.seeds)]
    cases += [case for limit, _ in limited for case in seeded(limit, chosen.seeds)]
    runs = finished(cases, result, (Case, Result), chosen.runs, chosen.jobs) if cases else pd.DataFrame()
    rows = [compared(ratio, runs, chosen.seeds) for ratio in ratios]
    rows += [pooled(figure, runs, chosen.seeds) for figure in POOLED if figure in chosen.only]
    rows += [violated(case, binds, runs, chosen.seeds) for case, binds in limited]
    asks = [asked(chosen.repetitions)] if "ask" in chosen.only else []
    for row in rows + asks:
        shown = f"{row['measured']:6} [{row['low']}, {row['high']}]"
        sys.stdout.write(f"{row['figure']:11} {row['case']:62} {shown:26} must {row['must']}, aim {row['aim']}\n")
    if rows:
        record("world", rows, "make perf-world")
    if asks:
        record("world-ask", asks, "make perf-world")


if __name__ == "__main__":
    main()
