"""ebbtide and its peers in arenas that others wrote: the same asks at the same moments, the same noise.

    make perf-arenas        (or: python perf/arenas.py --seeds 3 --asks 300 --only peers)

| figure  | what is compared                                                                                     |
|---------|------------------------------------------------------------------------------------------------------|
| `peers` | time-weighted regret of `tide` / each other contender, in each arena and over all; "simbench told"    |
|         | is the grid with a `tide` that is told of load, sun and day, and does not count among all;           |
|         | `beginnings`: the same over the first asks of a run                                                  |
| `grid`  | `tide` on SimBench, told of the load and the sun, the day, the limits, or the cost of moving / untold |

Ratios are paired by seed: geometric means with 95 % intervals, and the p of Wilcoxon's signed-rank test. "best window"
is the sliding window whose length was the best in hindsight for each seed, "best static" the best setting in
hindsight among those that never change, for which the number of asks does not matter. What takes minutes a run has
`--slow-seeds`: GPSampler and Xopt with few asks, W-DBO with many; the column `pairs` says how many seeds both have.
With most asks a run of GPSampler or Xopt would take hours, so both sides are compared over the beginning of a run.
Runs are kept in out/arenas.csv, and another call goes on with them: remove it when an optimizer changes.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from arenas_contenders import WINDOWS
from arenas_runs import STATIC, Case, Result, result
from kept_runs import finished
from record import add_option, record
from scipy.stats import wilcoxon
from world import interval

from ebbtide.gp.arrays import Array

ARENAS = ("gmpb-2d", "gmpb-3d", "gmpb-5d", "deap-moving-peaks", "simbench")
QUICK = ("tide", "CMA-ES", "TPE")
FASTEST = ("tide", "CMA-ES")
SLOW = ("GPSampler", "Xopt")
BEGINNINGS = (("GPSampler", 1000), ("Xopt", 300))  # of runs with MANY asks or more: how many of them are made
ASKS = (300, 1000, 3000, 10000)  # 3, 10, 30 and 100 between two changes; on the grid 43, 143, 429 and 1,429 a day
# With more asks than FEW, the grid is told all or nothing; with more than MANY, few contenders end within minutes.
FEWEST, FEW, MANY = ASKS[:3]
BEST_WINDOW, WINDOW_NAMES = "best window", tuple(f"window {size}" for size in WINDOWS)
RIVALS = ("w-dbo", BEST_WINDOW, "CMA-ES", "TPE", "GPSampler", "Xopt", STATIC)
TOLD_OF_ITS_WORLD = ("simbench told", "simbench", "tide: context day")  # a name, the arena and our contender
# What the grid's optimizer is told, the arena, and the measure that is compared with an optimizer that is not told.
TOLD = (
    ("context", "simbench", "regret"),
    ("day", "simbench", "regret"),
    ("context day", "simbench", "regret"),
    ("limits", "simbench-limits", "violated"),
    ("limits", "simbench-limits", "regret"),
    ("movement", "simbench", "taps"),
    ("movement", "simbench", "regret"),
)


def quick(asks: int) -> tuple[str, ...]:
    """The contenders that all seeds have."""
    if asks > MANY:
        return FASTEST
    return QUICK + (("w-dbo", *WINDOW_NAMES) if asks <= FEW else ())


def slow(asks: int) -> tuple[str, ...]:
    """Those that take minutes a run."""
    if asks <= FEW:
        return SLOW
    return ("w-dbo", *WINDOW_NAMES, *(("TPE",) if asks > MANY else ()))


def begun(asks: int) -> list[tuple[str, int]]:
    """Those that would take hours, how many of their asks are made, and the same for ours."""
    return [pair for name, first in BEGINNINGS for pair in ((name, first), ("tide", first))] if asks >= MANY else []


def informed(asks: int) -> list[tuple[str, str]]:
    """The contenders that are told something of a grid, and with which each is compared."""
    told = [(arena, name) for told, arena, _ in TOLD for name in ("tide", f"tide: {told}")]
    return told if asks <= FEW else [TOLD_OF_ITS_WORLD[1:]] if asks <= MANY else []


def cases_of(chosen: argparse.Namespace) -> list[Case]:
    """Seed by seed, so that whatever is there when it is interrupted can be compared; what is slow at last."""
    cases = []
    for seed in range(chosen.seeds):
        if "peers" in chosen.only:
            cases += [Case(arena, STATIC, 0, seed) for arena in chosen.arenas]
            cases += [Case(arena, name, n, seed) for n in chosen.asks for arena in chosen.arenas for name in quick(n)]
        if "grid" in chosen.only:
            cases += [Case(arena, name, n, seed) for n in chosen.asks for arena, name in informed(n)]
    for seed in range(min(chosen.slow_seeds, chosen.seeds)) if "peers" in chosen.only else ():
        runs = [(arena, n) for n in chosen.asks for arena in chosen.arenas]
        cases += [Case(arena, name, n, seed) for arena, n in runs for name in slow(n)]
        cases += [Case(arena, name, n, seed, first) for arena, n in runs for name, first in begun(n)]
    return cases


class Runs:
    """The measures of finished runs."""

    def __init__(self, frame: pd.DataFrame, asks: int, seeds: int) -> None:
        made = frame.reset_index()
        self.frame = made[made["asks"].isin([0, asks]) & (made["seed"] < seeds)]

    def of(self, arena: str, contender: str, measure: str, first: int = 0) -> pd.Series:
        """By seed, as far as there are runs."""
        if contender == BEST_WINDOW:
            windows = [self.of(arena, name, measure, first) for name in WINDOW_NAMES]
            return pd.concat(windows, axis=1, join="inner").min(axis=1)
        frame = self.frame
        mine = (frame["arena"] == arena) & (frame["contender"] == contender) & (frame["first"] == first)
        return frame[mine].set_index("seed")[measure].astype(float)

    def pairs(self, arena: str, above: str, below: str, measure: str = "regret", first: int = 0) -> tuple[Array, Array]:
        """Of the seeds that both have."""
        columns = [self.of(arena, name, measure, first) for name in (above, below)]
        both = pd.concat(columns, axis=1, join="inner").sort_index()
        return both.iloc[:, 0].to_numpy(), both.iloc[:, 1].to_numpy()


def compared(figure: str, arena: str, rival: str, above: Array, below: Array) -> dict[str, object]:
    """A line: the geometric mean of the ratios with its interval, p, and both means."""
    logs = np.log(above / below)
    half = interval(logs)
    numbers = {
        "ratio": np.exp(logs.mean()),
        "low": np.exp(logs.mean() - half),
        "high": np.exp(logs.mean() + half),
        "p": wilcoxon(logs).pvalue if len(logs) > 1 else np.nan,
        "ours": above.mean(),
        "theirs": below.mean(),
    }
    rounded = {name: float(f"{value:.3g}") for name, value in numbers.items()}
    return {"figure": figure, "arena": arena, "rival": rival, **rounded, "pairs": len(logs)}


def peers(runs: Runs, arenas: Sequence[str]) -> list[dict[str, object]]:
    rows = []
    for rival in RIVALS:
        pairs = {arena: runs.pairs(arena, "tide", rival) for arena in arenas}
        met = {arena: pair for arena, pair in pairs.items() if len(pair[0])}
        rows += [compared("peers", arena, rival, *pair) for arena, pair in met.items()]
        name, arena, ours = TOLD_OF_ITS_WORLD
        told = runs.pairs(arena, ours, rival)
        rows += [compared("peers", name, rival, *told)] if arena in arenas and len(told[0]) else []
        if len(met) > 1:
            above, below = (np.concatenate(side) for side in zip(*met.values(), strict=True))
            rows.append(compared("peers", "all", rival, above, below) | {"ours": "", "theirs": ""})
    return rows


def beginnings(runs: Runs, arenas: Sequence[str]) -> list[dict[str, object]]:
    rows = []
    for rival, first in BEGINNINGS:
        pairs = {arena: runs.pairs(arena, "tide", rival, first=first) for arena in arenas}
        named = f"{rival}, the first {first:,}"
        rows += [compared("beginnings", arena, named, *pair) for arena, pair in pairs.items() if len(pair[0])]
    return rows


def grid(runs: Runs) -> list[dict[str, object]]:
    pairs = [
        (told, arena, measure, runs.pairs(arena, f"tide: {told}", "tide", measure)) for told, arena, measure in TOLD
    ]
    return [
        compared("grid", arena, f"{told}: {measure}", *pair) for told, arena, measure, pair in pairs if len(pair[0])
    ]


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--slow-seeds", type=int, default=3, help="of GPSampler, Xopt and a long W-DBO")
    parser.add_argument("--asks", type=int, nargs="*", default=list(ASKS), help="in a run; several are compared apart")
    parser.add_argument("--arenas", nargs="*", default=list(ARENAS))
    parser.add_argument("--only", nargs="*", choices=["peers", "grid"], default=["peers", "grid"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("out/arenas.csv"), help="another call goes on with them")
    add_option(parser)
    return parser


def main() -> None:
    chosen = options().parse_args()
    frame = finished(cases_of(chosen), result, (Case, Result), chosen.runs, chosen.jobs)
    rows: list[dict[str, object]] = []
    for asks in chosen.asks:
        runs = Runs(frame, asks, chosen.seeds)
        found = peers(runs, chosen.arenas) + beginnings(runs, chosen.arenas) if "peers" in chosen.only else []
        found += grid(runs) if "grid" in chosen.only else []
        rows += [{"asks": asks} | row for row in found]
    sys.stderr.write("\n")
    for row in rows:
        shown = f"{row['ratio']:6} [{row['low']}, {row['high']}]"
        sys.stdout.write(f"{row['asks']:4} {row['figure']:10} {row['arena']:18} {row['rival']:28} {shown:24}")
        sys.stdout.write(f" p = {row['p']:6}  {row['ours']} / {row['theirs']}, {row['pairs']} pairs\n")
    record("arenas", rows, "make perf-arenas")


if __name__ == "__main__":
    main()
