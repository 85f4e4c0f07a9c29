"""Table 2 and Figure 5: the six published algorithms, and ours beside them, on the twelve benchmarks."""

import numpy as np
import pandas as pd

from ebbtide import algorithms, benchmarks
from ebbtide.experiments import paper, statistics
from ebbtide.experiments.campaign import Job, grid
from ebbtide.experiments.figures import comparison
from ebbtide.experiments.reproduction.studio import Section, Studio
from ebbtide.experiments.tables import Table, regret_table, value_table

EXACT = "w-dbo-exact"
OURS = (EXACT, algorithms.DEFAULT)
ELSEWHERE = "wlan"  # in another unit and another network than the paper's


def jobs(studio: Studio) -> list[Job]:
    contenders = {name: name for name in (*paper.ALGORITHMS, *OURS)} | dict(studio.also)
    return grid(benchmarks.PAPER, contenders, studio.seeds, studio.protocol)


def make(studio: Studio) -> Section:
    summary = studio.run("table", jobs(studio))
    studio.save_data(summary, "runs")
    return from_summary(studio, summary)


def from_summary(studio: Studio, summary: pd.DataFrame) -> Section:
    """The section from the summary alone, without the runs."""
    regret, over_time = (statistics.compare(summary, f"{kind}_regret") for kind in ("average", "time_weighted"))
    tables = {
        "regret": regret_table(
            regret,
            f"Average regret ± standard error ({studio.scale}); in brackets the paper's (Table 2; its averages "
            "computed from its figures). Of the six, the lowest is bold, those whose 95 % confidence intervals "
            "overlap it are underlined; normalised: 0 for the lowest of the six on a benchmark, 1 for the highest.",
            main=paper.ALGORITHMS,
            published=paper.AVERAGE_REGRET,
            line_before=("temperature",),
        ),
        "regret-over-time": regret_table(
            over_time,
            f"Time-weighted regret ± standard error ({studio.scale}): what the query in force loses, on average.",
            main=paper.ALGORITHMS,
            line_before=("temperature",),
        ),
        "sizes": _plain(summary, "size", "Active observations, mean over the queries"),
        "queries": _plain(summary, "queries", "Queries made"),
        "timescales": _plain(
            summary, "timescale_s", "Fitted l_T in seconds, median over the queries; TV-GP-UCB counts steps"
        ),
    }
    for name, table in tables.items():
        studio.save_table(table, name)
    studio.save_data(_long(regret), "regret")
    normalised = statistics.normalised(regret.means, paper.ALGORITHMS)
    # Ours may be far below the best of the six: on their scale it would fill the picture.
    picture = studio.save_figure(comparison.summary(statistics.normalised(regret.means)), "summary")
    caption = (
        "Average regret on every benchmark, normalised over all of these algorithms; the average in black (the paper's "
        "Figure 5)."
    )
    return Section(
        "Comparison",
        [*_statements(normalised, regret), _default(summary, regret), _over_time(over_time)],
        list(tables.values()),
        [(picture, caption)],
    )


def _plain(summary: pd.DataFrame, measure: str, caption: str) -> Table:
    return value_table(statistics.compare(summary, measure).means, caption + ".")


def _long(regret: statistics.Comparison) -> pd.DataFrame:
    """Problem, algorithm, mean, standard error, seeds, and the paper's figure."""
    parts = {"mean": regret.means, "standard_error": regret.errors, "seeds": regret.counts}
    data = pd.DataFrame({name: part.stack() for name, part in parts.items()})
    data["paper"] = paper.AVERAGE_REGRET.stack()
    return data.rename_axis(["problem", "algorithm"]).reset_index()


def _statements(normalised: pd.DataFrame, regret: statistics.Comparison) -> list[str]:
    averages = normalised.mean()
    six = averages[list(paper.ALGORITHMS)].sort_values()
    verdict = "confirmed" if six.index[0] == "w-dbo" else "refuted"
    ranking = ", ".join(f"{name} {value:.2f}" for name, value in six.items())
    six_regrets = regret.means[list(paper.ALGORITHMS)]
    overlapping = regret.overlapping(paper.ALGORITHMS)["w-dbo"]
    won = [str(p) for p in regret.means.index if six_regrets.loc[p].idxmin() == "w-dbo"]
    close = [str(p) for p in regret.means.index if overlapping[p] and p not in won]
    better = [str(p) for p in regret.means.index if regret.means.at[p, EXACT] < regret.means.at[p, "w-dbo"]]
    return [
        f"W-DBO has the lowest normalised average of the six: {verdict} ({ranking}).",
        f"It is the best of the six on {_listed(won)}; its interval overlaps the best one's on {_listed(close)}.",
        f"The criterion itself ({EXACT}) has {averages[EXACT]:.2f} on the same scale, and a lower regret than the "
        f"bound on {len(better)} of {len(regret.means)}: {_listed(better)}.",
    ]


def _default(summary: pd.DataFrame, regret: statistics.Comparison) -> str:
    """How the default algorithm compares with W-DBO, here and in the paper."""
    name, logs = algorithms.DEFAULT, statistics.relative(summary, to="w-dbo")
    mean, low, high = statistics.geometric(logs[name])
    by_problem = np.exp(logs[name].groupby(level="problem").mean())
    ours = regret.means.drop(ELSEWHERE, errors="ignore")
    below = {who: ours[who] <= paper.AVERAGE_REGRET["w-dbo"].reindex(ours.index) for who in ("w-dbo", name)}
    return (
        f"The default, {name}, has {mean:.2f} of W-DBO's regret (95 % interval {low:.2f} to {high:.2f}), at most "
        f"{by_problem.max():.2f} on a benchmark ({by_problem.idxmax()}). It is at or below the paper's W-DBO on "
        f"{below[name].sum()} of the {len(below[name])} that can be compared; W-DBO itself on {below['w-dbo'].sum()}."
    )


def _over_time(regret: statistics.Comparison) -> str:
    six = statistics.normalised(regret.means, paper.ALGORITHMS).mean()[list(paper.ALGORITHMS)].sort_values()
    won = sum(regret.means[list(paper.ALGORITHMS)].idxmin(axis=1) == "w-dbo")
    ranking = ", ".join(f"{name} {value:.2f}" for name, value in six.items())
    return f"Time-weighted, W-DBO is the best of the six on {won} of {len(regret.means)}; normalised: {ranking}."


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
