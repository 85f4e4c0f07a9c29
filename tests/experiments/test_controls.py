"""The comparisons of `perf/controls.py`: which window is the best in hindsight, and what is divided by what."""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))
import controls

from ebbtide import SlidingWindow
from ebbtide.algorithms import get


def runs(regrets, **columns):
    """A line for each run, of regrets by benchmark, algorithm and seed."""
    rows = [
        {
            "problem": problem,
            "algorithm": name,
            "seed": seed,
            "average_regret": lost,
            "time_weighted_regret": 2.0 * lost,
        }
        for (problem, name), losses in regrets.items()
        for seed, lost in enumerate(losses)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_a_windows_length_is_the_best_of_each_benchmark():
    losses = {"a": [5.0, 4.0, 3.0, 2.0, 1.0], "b": [2.0, 1.0, 3.0, 4.0, 5.0]}
    pilot = runs(
        {
            (problem, controls.label(length)): [loss, loss]
            for problem, each in losses.items()
            for length, loss in zip(controls.LENGTHS, each, strict=True)
        }
    )
    assert controls.best_lengths(pilot) == {"a": 480, "b": 60}


def test_a_window_differs_from_w_dbo_in_nothing_but_what_it_forgets():
    one = controls.windows()[controls.label(60)]
    assert one.staleness == SlidingWindow(size=60)
    assert replace(one, staleness=get("w-dbo").staleness) == get("w-dbo")


def test_ours_is_divided_by_theirs_seed_by_seed():
    table = runs({("a", "tide"): [1.0, 2.0], ("b", "tide"): [1.0, 1.0], ("a", "w-dbo"): [4.0, 4.0]})
    table = pd.concat([table, runs({("b", "w-dbo"): [2.0, 2.0]})])
    theirs = runs({("a", "random-removal"): [2.0, 4.0], ("b", "random-removal"): [8.0, 8.0]})
    found = pd.DataFrame(controls.comparisons(theirs, table)).set_index(["measure", "ours", "problem"])
    assert found.loc[("average_regret", "tide"), "ratio"].to_dict() == {"a": 0.5, "b": 0.125, "all": 0.25}
    assert found.loc[("time_weighted_regret", "w-dbo"), "ratio"].to_dict() == pytest.approx(
        {"a": 2.0**0.5, "b": 0.25, "all": 0.595}, abs=0.001
    )
    assert set(found["seeds"]) == {2}


def test_a_window_tells_its_length_with_each_benchmark():
    table = runs({(p, name): [1.0, 2.0] for p in "ab" for name in controls.OURS})
    theirs = runs({(p, "window"): [1.0, 3.0] for p in "ab"}).assign(length=[30, 30, 60, 60])
    found = pd.DataFrame(controls.comparisons(theirs, table)).query("measure == 'average_regret' and ours == 'tide'")
    lengths = found.set_index("problem")["length"]
    assert lengths[["a", "b"]].to_list() == [30, 60]
    assert pd.isna(lengths["all"])
