"""What somebody who runs a study is told in plain sentences, and when."""

import math
import re
from typing import Any

import numpy as np
import pytest

import ebbtide as eb
from ebbtide import wire


def studied(per_timescale: float, n: int = 60, **options: Any) -> eb.Optimizer:
    """A study of an optimum that goes to and fro; a quarter of a turn has this many measurements."""
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0, **options)
    rng = np.random.default_rng(0)
    for _ in range(n):
        trial = opt.ask()
        best = 0.5 + 0.4 * math.sin(0.5 * math.pi * clock.now() / (2.0 * per_timescale))
        opt.tell(trial, (trial.params["x"] - best) ** 2 + 0.01 * rng.normal())
        clock.advance(2.0)
    return opt


@pytest.mark.slow
def test_an_objective_that_changes_too_fast_for_the_pace():
    opt = studied(4.0)
    (said,) = opt.warnings
    span = opt.hyperparameters["timescale"]
    assert span < 2.0 * 15  # measured every 2, so fewer than 15 per l_T
    assert f"(l_T = {span:.3g}, one measurement every 2)" in said
    often = re.search(r"measure every ([\d.]+) or more often", said)
    assert often is not None
    assert float(often[1]) == pytest.approx(span / 15, rel=0.05)
    assert wire.model(opt)["warnings"] == [said]


@pytest.mark.slow
def test_one_that_can_be_followed():
    opt = studied(80.0)
    assert opt.hyperparameters["timescale"] > 2.0 * 15
    assert opt.warnings == []


def test_nothing_is_said_before_enough_is_known():
    assert eb.Optimizer({"x": eb.Float(0.0, 1.0)}).warnings == []
    assert studied(4.0, n=10).warnings == []


def told(outcomes: str) -> eb.Optimizer:
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)
    for outcome in outcomes:
        clock.advance(1.0)
        opt.tell({"x": 0.5}, 1.0 if outcome == "." else None, failed=outcome == "x", abandoned=outcome == "a")
    return opt


@pytest.mark.parametrize(
    ("outcomes", "count"),
    [
        ("." * 10 + "x" * 10, 10),
        ("x" * 10 + "." * 10, 10),
        ("x" * 30, 20),
        ("." * 40 + "x." * 10, 10),
        ("." * 10 + "a" * 20 + "x" * 10, 10),  # what was called off does not count
    ],
)
def test_many_failures_of_late(outcomes, count):
    (said,) = told(outcomes).warnings
    assert said.startswith(f"{count} of the last 20 evaluations failed")


@pytest.mark.parametrize("outcomes", ["x" * 19, "x" * 20 + "." * 11, "." * 11 + "x" * 9, "." * 20, "a" * 30])
def test_few_failures_or_long_ago(outcomes):
    assert told(outcomes).warnings == []


def test_a_baseline_without_anything_to_compare_it_with():
    space = {"x": eb.Float(0.0, 1.0)}
    (said,) = eb.Optimizer(space, baseline={"x": 0.5}).warnings
    assert "explore is 1" in said
    assert eb.Optimizer(space, baseline={"x": 0.5}, explore=0.2).warnings == []


@pytest.mark.parametrize(("every", "says"), [(5, True), (20, False)])
def test_constraints_that_are_broken_far_more_often_than_wanted(every: int, says: bool) -> None:
    opt = eb.Optimizer(
        {"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=0, n_initial=1000, constraints={"p99": eb.AtMost(50.0)}
    )
    for k in range(29):
        opt.tell(opt.ask(), 1.0, constraints={"p99": 60.0 if k % every == 0 else 40.0})
    assert opt.warnings == []
    opt.tell(opt.ask(), 1.0, constraints={"p99": 40.0})
    expected = "20% of 30 asks broke a constraint, and at most 5% were wanted (p99 20%)"
    assert [sentence.startswith(expected) for sentence in opt.warnings] == [True] * says
