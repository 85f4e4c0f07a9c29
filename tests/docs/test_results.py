"""The published figures are those of the published runs: every table of docs/results.md comes from docs/data."""

from pathlib import Path

import pandas as pd
import pytest

import ebbtide as eb
from ebbtide.experiments import paper, statistics
from ebbtide.experiments.reproduction import sensitivity
from ebbtide.experiments.tables import regret_table, value_table

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
SEVEN = [*paper.ALGORITHMS, "w-dbo-exact"]


def runs(name):
    return pd.read_csv(DOCS / "data" / f"{name}.csv", dtype={"algorithm": str})


@pytest.fixture(scope="module")
def table():
    return runs("table")


def test_the_table_is_complete(table):
    assert len(table) == 840
    assert sorted(set(table["problem"])) == sorted(eb.benchmarks.PAPER)
    assert sorted(set(table["algorithm"])) == sorted(SEVEN)
    assert set(table["seed"]) == set(range(10))
    assert not table.duplicated(["problem", "algorithm", "seed"]).any()


@pytest.mark.parametrize(
    ("measure", "published"), [("average_regret", paper.AVERAGE_REGRET), ("time_weighted_regret", None)]
)
def test_regrets_are_those_of_the_runs(table, measure, published):
    compared = statistics.compare(table, measure)
    made = regret_table(compared, "", main=paper.ALGORITHMS, published=published).markdown()
    assert made in PAGE


@pytest.mark.parametrize("measure", ["size", "queries"])
def test_sizes_and_queries_are_those_of_the_runs(table, measure):
    assert value_table(statistics.compare(table, measure).means, "").markdown() in PAGE


def test_the_seeds_that_the_pilot_had_not_seen(table):
    means = statistics.compare(table[table["seed"] >= 3], "average_regret").means
    averages = statistics.normalised(means, paper.ALGORITHMS).mean()
    text = f"{averages['w-dbo']:.2f} for W-DBO and {averages['tv-gp-ucb']:.2f} for TV-GP-UCB"
    assert averages[list(paper.ALGORITHMS)].nsmallest(2).index.tolist() == ["w-dbo", "tv-gp-ucb"]
    assert text in PAGE


def test_the_readme_has_the_same_averages(table):
    means = statistics.compare(table, "average_regret").means
    averages = statistics.normalised(means, paper.ALGORITHMS).mean()
    cells = [f"**{averages[name]:.2f}**" if name == "w-dbo" else f"{averages[name]:.2f}" for name in SEVEN]
    assert "| " + " | ".join(cells) + " |" in README


def test_the_sensitivity_is_that_of_its_runs():
    data = runs("sensitivity")
    assert sorted(set(data["problem"])) == sorted(sensitivity.PROBLEMS)
    alphas = [f"{alpha:g}" for alpha in sensitivity.ALPHAS]
    assert list(dict.fromkeys(data["algorithm"])) == alphas
    assert regret_table(statistics.compare(data, "average_regret"), "", main=alphas).markdown() in PAGE


def test_the_anisotropic_table_is_that_of_its_runs():
    data = runs("ard")
    assert regret_table(statistics.compare(data, "average_regret"), "", main=paper.ALGORITHMS).markdown() in PAGE


def test_what_speed_buys_is_that_of_its_runs():
    data = runs("speed").set_index("problem")
    assert len(data) >= 6
    for problem, row in data.iterrows():
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {problem} | {row['queries']:,} "))
        assert f"| {row['size']:.0f} |" in line
        assert f"| {row['average_regret']:.3g} |" in line
