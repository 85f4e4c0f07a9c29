"""The measurements of `perf/world.py` use the library as a user would: short runs of each kind."""

import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

import ebbtide as eb

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))
import world
import world_runs
from kept_runs import finished


def short(case):
    return world_runs.result(replace(case, asks=12))


@pytest.mark.parametrize(
    "told",
    [
        ("driver", "load"),
        ("driver", "load temperature"),
        ("hartmann3", "temperature day"),
        ("daily", "day"),
        ("wlan-users", "users"),
    ],
)
def test_a_run_with_what_it_is_told(told):
    found = short(world.of(*told))
    assert 0.0 < found.regret < np.inf
    assert found.violated == 0.0


@pytest.mark.parametrize("problem", world.LIMITED)
def test_a_run_with_limits(problem):
    found = short(world.of(problem, "limits", rate=0.1))
    assert 0.0 < found.regret < np.inf
    assert 0.0 <= found.violated < 0.5


def test_without_limits_they_are_broken():
    """So that a rate of violations can be too high."""
    assert world_runs.result(world.of("latency", asks=60)).violated > 0.2


def test_no_optimizer_that_stands_still_is_better_than_the_best_static_setting():
    problem, times = eb.benchmarks.get("daily"), world_runs.moments()
    static = world_runs.static_regret(problem, times)
    settings = np.random.default_rng(0).random((200, 2))
    regrets = [world_runs.regret(problem, x[None], np.zeros(1), times) for x in settings]
    assert static <= min(regrets) < 1.2 * static


def test_the_runs_that_a_file_has_are_not_made_again(tmp_path):
    file, case = tmp_path / "runs.csv", replace(world.of("daily"), asks=12)
    kinds = (world_runs.Case, world_runs.Result)
    finished([case], world_runs.result, kinds, file, jobs=1)
    header, line = (row.split(",") for row in file.read_text().splitlines())
    line[header.index("regret")] = "0.125"
    file.write_text("\n".join(map(",".join, (header, line))) + "\n")
    again = finished([case], world_runs.result, kinds, file, jobs=1)
    assert again.loc[astuple(case), "regret"] == 0.125


def test_every_figure_says_what_it_must_be():
    lines = [ratio for figure in world.RATIOS.values() for ratio in figure()]
    assert {line.figure for line in lines if line.must} == {"context", "irrelevant", "cycle", "no-cycle", "limits"}
    assert all(astuple(line.above) != astuple(line.below) for line in lines)
    assert len({(line.figure, line.case) for line in lines}) == len(lines)
