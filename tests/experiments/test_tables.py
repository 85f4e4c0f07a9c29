"""Statistics over seeds, and the tables made of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from ebbtide.experiments import paper, statistics, tables


def summary(regrets):
    rows = [
        {"problem": problem, "algorithm": name, "seed": seed, "average_regret": value}
        for (problem, name), values in regrets.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_papers_averages_are_the_papers():
    """Its last line, from its other lines; it prints 0.47 for R-GP-UCB, which its figures make 0.477."""
    averages = statistics.normalised(paper.AVERAGE_REGRET).mean()
    assert averages.to_dict() == pytest.approx(
        {"gp-ucb": 0.48, "r-gp-ucb": 0.47, "tv-gp-ucb": 0.29, "et-gp-ucb": 0.54, "abo": 0.62, "w-dbo": 0.01}, abs=0.007
    )


def test_others_are_measured_on_the_scale_of_the_main_ones():
    means = pd.DataFrame({"a": [1.0, 5.0], "b": [3.0, 1.0], "ours": [0.0, 3.0]}, index=["p", "q"])
    scaled = statistics.normalised(means, among=["a", "b"])
    assert scaled["ours"].tolist() == [-0.5, 0.5]
    assert scaled["a"].tolist() == [0.0, 1.0]


def test_equal_regrets_are_no_division_by_zero():
    means = pd.DataFrame({"a": [2.0], "b": [2.0]}, index=["p"])
    assert statistics.normalised(means).to_numpy().tolist() == [[0.0, 0.0]]


def test_who_overlaps_the_best():
    """Student's t with two degrees of freedom: 4.30 standard errors to each side."""
    compared = statistics.compare(
        summary({("p", "best"): [1.0, 1.1, 0.9], ("p", "near"): [1.3, 1.5, 1.4], ("p", "far"): [9.0, 9.1, 9.2]}),
        "average_regret",
    )
    assert compared.errors.at["p", "best"] == pytest.approx(0.1 / np.sqrt(3))
    assert compared.overlapping(["best", "near", "far"]).loc["p"].to_dict() == {
        "best": True,
        "near": True,
        "far": False,
    }


def test_best_bold_and_overlapping_underlined():
    compared = statistics.compare(
        summary(
            {
                ("p", "a"): [1.0, 1.1, 0.9],
                ("p", "b"): [1.3, 1.5, 1.4],
                ("p", "c"): [9.0, 9.1, 9.2],
                ("p", "ours"): [0.1, 0.2, 0.3],
            }
        ),
        "average_regret",
    )
    table = tables.regret_table(compared, "a caption", main=["a", "b", "c"])
    marks = [(cell.bold, cell.underlined) for cell in table.rows[0][1:]]
    assert marks == [(True, False), (False, True), (False, False), (False, False)]
    assert "**1.000 ± 0.058**" in table.markdown()
    assert "<u>1.400 ± 0.058</u>" in table.markdown()
    assert r"\underline{1.400 $\pm$ 0.058}" in table.latex()
    assert "{lrrr|r}" in table.latex()
    assert '<td class="line-left">' in table.html()
    assert [cell.text for cell in table.rows[-1]] == ["normalised average", "0.00", "0.05", "1.00", "-0.10"]


def test_names_cannot_break_a_page_or_a_document():
    table = tables.Table("<b>&", ["<i>", "50 % & more_of {it}"], [[tables.Cell("<script>"), tables.Cell("a\\b")]])
    assert "<script>" not in table.html()
    assert "<b>" not in table.html()
    assert r"50 \% \& more\_of \{it\}" in table.latex()
    assert r"a\textbackslash{}b" in table.latex()


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (0.01234, "0.0123"), (float("nan"), "–"), (99.96, "100")]
)
def test_short_numbers(value, text):
    assert tables.short(value) == text


def test_ratios_are_paired_by_problem_and_seed():
    runs = summary({("p", "b"): [2.0, 1.0], ("p", "a"): [1.0, 2.0], ("q", "a"): [30.0, 50.0], ("q", "b"): [60.0, 50.0]})
    logs = statistics.relative(runs, to="a")["b"]
    assert np.exp(logs).to_dict() == pytest.approx({("p", 0): 2.0, ("p", 1): 0.5, ("q", 0): 2.0, ("q", 1): 1.0})
    mean, low, high = statistics.geometric(logs)
    assert mean == pytest.approx(2.0**0.25)
    interval = student.interval(0.95, 3, loc=logs.mean(), scale=logs.sem())
    assert (low, high) == pytest.approx(tuple(np.exp(interval)))
