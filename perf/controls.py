"""tide and W-DBO against simpler ways to forget, on the paper's twelve benchmarks, under the protocol of the table.

    make perf-controls        (or: python perf/controls.py --runs out/controls)

| rival            | what it is                                                                   |
|------------------|------------------------------------------------------------------------------|
| `oldest-first`   | forgets as many as W-DBO would, but the oldest                               |
| `random-removal` | forgets as many as W-DBO would, at random                                    |
| `window`         | W-DBO's model with a sliding window, of the length that is best in hindsight |

A window's length is chosen for each benchmark, by the mean regret of the first seeds (`--pilot`), and only the chosen
one is run with the others. The runs of tide and W-DBO are those of the table, in docs/data/table.csv. Ratios of regrets
are paired by benchmark and seed; over all benchmarks, their geometric mean, its interval and p are those of the twelve
means.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from campaigns import made
from record import DATA, add_option, record
from scipy.stats import wilcoxon

import ebbtide as eb
from ebbtide.experiments import Protocol, statistics
from ebbtide.experiments.campaign import Job, grid

PROTOCOL = Protocol(noise_of="deviation")
OURS = ("tide", "w-dbo")
SIMPLE = ("oldest-first", "random-removal")
WINDOW = "window"
LENGTHS = (30, 60, 120, 240, 480)
MEASURES = ("average_regret", "time_weighted_regret")


def label(length: int) -> str:
    return f"{WINDOW} of {length}"


def windows(lengths: tuple[int, ...] = LENGTHS) -> dict[str, eb.Algorithm]:
    base = eb.algorithms.get("sliding-window")
    return {label(length): replace(base, staleness=eb.SlidingWindow(size=length)) for length in lengths}


def best_lengths(summary: pd.DataFrame) -> dict[str, int]:
    """Of each benchmark: the length with the lowest mean regret."""
    means = statistics.compare(summary, MEASURES[0]).means[list(windows())]
    return {problem: LENGTHS[int(line.to_numpy().argmin())] for problem, line in means.iterrows()}


def rivals(chosen: argparse.Namespace) -> pd.DataFrame:
    """The runs of all rivals, a window under the name of all windows, with its length in a column."""
    simple = made(grid(chosen.benchmarks, SIMPLE, chosen.seeds, PROTOCOL), chosen.runs)
    pilot = made(grid(chosen.benchmarks, windows(), chosen.pilot, PROTOCOL), chosen.runs)
    lengths = best_lengths(pilot)
    jobs: list[Job] = []
    for problem, length in lengths.items():
        jobs += grid([problem], windows((length,)), chosen.seeds, PROTOCOL)
    best = made(jobs, chosen.runs)
    return pd.concat([simple, best.assign(algorithm=WINDOW, length=best["problem"].map(lengths))])


def logarithms(theirs: pd.DataFrame, ours: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Of our regret / a rival's, for each benchmark and seed: a column for each rival."""
    wide = theirs.pivot(index=["problem", "seed"], columns="algorithm", values=measure)
    mine = ours.set_index(["problem", "seed"])[measure].reindex(wide.index)
    return np.log(1.0 / wide.div(mine, axis=0))


def compared(logs: "pd.Series[float]", lengths: Mapping[str, float]) -> Iterator[dict[str, object]]:
    """A line for each benchmark, and one for all."""
    by_problem = logs.groupby("problem", sort=False)
    cases = [*by_problem, ("all", by_problem.mean())]
    for problem, values in cases:
        ratio, low, high = (round(number, 3) for number in statistics.geometric(values))
        p = float(f"{wilcoxon(values).pvalue:.2g}") if len(values) > 1 else np.nan
        length = lengths.get(problem, np.nan)
        yield {"problem": problem, "ratio": ratio, "low": low, "high": high, "p": p, "length": length}


def comparisons(theirs: pd.DataFrame, table: pd.DataFrame) -> Iterator[dict[str, object]]:
    lengths = theirs.drop_duplicates(["algorithm", "problem"]).set_index(["algorithm", "problem"])
    for measure, ours in product(MEASURES, OURS):
        logs = logarithms(theirs, table[table["algorithm"] == ours], measure)
        for rival in logs:
            known = lengths.loc[rival]["length"].dropna().astype(int).to_dict() if "length" in lengths else {}
            for line in compared(logs[rival], known):
                yield {"measure": measure, "ours": ours, "rival": rival} | line | {"seeds": len(logs.groupby("seed"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--pilot", type=int, default=3, help="seeds by which a window's length is chosen")
    parser.add_argument("--benchmarks", nargs="*", default=list(eb.benchmarks.PAPER))
    parser.add_argument("--runs", type=Path, help="keep the runs here; another call goes on with them")
    add_option(parser)
    chosen = parser.parse_args()
    rows = list(comparisons(rivals(chosen), pd.read_csv(DATA / "table.csv")))
    sys.stderr.write("\n")
    sys.stdout.write(pd.DataFrame(rows).to_string(index=False) + "\n")
    record("controls", rows, "make perf-controls")


if __name__ == "__main__":
    main()
