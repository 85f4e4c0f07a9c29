"""What somebody who runs a study is told in plain sentences, and when."""

import math
import re
from typing import Any

import numpy as np
import pytest

import ebbtide as eb
from ebbtide import wire
from ebbtide.study import unknown_cycle


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
    opt = studied(4.0, n=80)
    said, again = opt.warnings
    assert again.startswith("The values seem to come back every 3")  # sixteen measurements
    span = opt.hyperparameters["timescale"]
    assert span < 2.0 * 15  # measured every 2, so fewer than 15 per l_T
    assert f"(l_T = {span:.3g}, one measurement every 2)" in said
    often = re.search(r"measure every ([\d.]+) or more often", said)
    assert often is not None
    assert float(often[1]) == pytest.approx(span / 15, rel=0.05)
    assert wire.model(opt)["warnings"] == [said, again]


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


# --- a cycle that the study was not told of --------------------------------------------------------------------


def round_and_round(steps: int, *, dt: float, seed: int = 0, period: float = 1.0, **options: Any) -> eb.Optimizer:
    """A hill that goes round once a period: on average over space, the values do not change at all."""
    clock, rng = options.pop("clock", None) or eb.ManualClock(), np.random.default_rng([seed, 5])
    space = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
    opt = eb.Optimizer(space, direction="maximize", clock=clock, seed=seed, **options)
    for _ in range(steps):
        trial = opt.ask()
        angle = 2.0 * math.pi * trial.time / period
        off = (trial.params["x"] - 0.5 - 0.3 * math.sin(angle)) ** 2 + (
            trial.params["y"] - 0.5 - 0.3 * math.cos(angle)
        ) ** 2
        opt.tell(trial, math.exp(-off / 0.08) + 0.05 * rng.normal())
        clock.advance(dt)
    return opt


def cycles_seen(opt: eb.Optimizer) -> list[str]:
    return [said for said in opt.warnings if "come back" in said]


@pytest.mark.slow
def test_a_cycle_is_suggested_with_its_period():
    """In many studies: what is seen depends on what was asked, and so on the processor's last digits. With twice the
    period the values come back, too; it may be found instead, but seldom.
    """
    studies = [round_and_round(80, dt=30.0, seed=seed, period=300.0) for seed in range(6)]
    seen = [(opt, said) for opt in studies for said in cycles_seen(opt)]
    periods = []
    for opt, said in seen:
        found = re.search(r"come back every (\d+).*cycles=\{'every_\1': \1.0\}", said)
        assert found is not None
        periods.append(float(found[1]) / 300.0)
        assert said in wire.model(opt)["warnings"]
    assert len(periods) >= 2
    assert np.abs(np.array(periods) - np.round(periods)).max() < 0.1
    assert np.isclose(periods, 1.0, rtol=0.05).sum() > len(periods) / 2
    assert cycles_seen(round_and_round(80, dt=30.0, seed=0, period=300.0, cycles={"day": 300.0})) == []


def test_what_has_not_come_back_three_times_is_no_cycle():
    assert cycles_seen(round_and_round(40, dt=0.06)) == []


def wandering(seed: int) -> eb.Optimizer:
    """The optimum walks: fast for an even seed, slowly for an odd one."""
    clock, rng = eb.ManualClock(), np.random.default_rng(seed)
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=seed)
    best = 0.5
    for _ in range(80):
        trial = opt.ask()
        opt.tell(trial, (trial.params["x"] - best) ** 2 + 0.01 * rng.normal())
        best = float(np.clip(best + (0.02 if seed % 2 else 0.1) * rng.normal(), 0.0, 1.0))
        clock.advance(1.0)
    return opt


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_an_optimum_that_wanders_has_no_cycle(seed):
    assert cycles_seen(wandering(seed)) == []


@pytest.mark.very_slow
def test_at_most_one_of_fifty_studies_is_told_of_a_cycle_that_it_does_not_have():
    assert sum(bool(cycles_seen(wandering(seed))) for seed in range(100, 150)) <= 1


@pytest.mark.very_slow
def test_most_cycles_are_found_within_a_week():
    weeks = [round_and_round(7 * 15, dt=1.0 / 15.0, seed=seed) for seed in range(20, 30)]
    assert sum(bool(cycles_seen(opt)) for opt in weeks) >= 7


@pytest.mark.parametrize("value", [0.0, 1e300, 1e-300])
def test_values_that_cannot_be_judged_are_no_cycle(value):
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)
    for k in range(40):
        clock.advance(1.0)
        opt.tell({"x": (0.37 * k) % 1.0}, value * math.cos(k))
    opt.ask()
    assert cycles_seen(opt) == []


def test_a_period_near_a_day_is_a_day():
    assert unknown_cycle._suggested(86_000.0, seconds=True) == {"day": 86_400.0}
    assert unknown_cycle._suggested(86_000.0, seconds=False) == {"every_86000": 86_000.0}


# --- constraints -----------------------------------------------------------------------------------------------


def limited(latencies: list[float], *, start: float | None = 0.2, rate: float = 0.05) -> list[str]:
    """What is said after asks whose latency, which may be at most 50, was this."""
    clock = eb.ManualClock()
    opt = eb.Optimizer(
        {"x": eb.Float(0.0, 1.0)},
        clock=clock,
        seed=0,
        algorithm="random",
        constraints={"p99": eb.AtMost(50.0)},
        violation_rate=rate,
        start=None if start is None else {"x": start},
    )
    for latency in latencies:
        opt.tell(opt.ask(), 1.0, constraints={"p99": latency})
        clock.advance(1.0)
    return [said for said in opt.warnings if "limit" in said or "constraint" in said]


def test_a_start_that_breaks_a_limit():
    (said,) = limited([60.0, 40.0])
    assert said.startswith("The start setting {'x': 0.2} itself broke a limit in 1 of 1 measurements: no rate")
    assert limited([40.0, 60.0]) == []


def test_limits_that_nothing_seems_to_meet():
    (said,) = limited([40.0, *[60.0] * 20], start=None)
    assert said.startswith("20 of the last 20 measurements broke a limit")
    assert "no rate can be promised" in said
    assert limited([40.0, *[60.0] * 15], start=None) == []  # too early to say
    assert limited([40.0, *[60.0] * 10, *[40.0] * 10], start=None) == []


@pytest.mark.slow
def test_limits_that_are_broken_more_often_than_wanted():
    (said,) = limited([60.0 if k % 6 == 5 else 40.0 for k in range(60)])
    assert "no rate" not in said
    assert said.startswith("17% of 60 asks broke a constraint, and at most 5% were wanted (p99 17%)")
    assert limited([60.0 if k % 6 == 5 else 40.0 for k in range(29)]) == []  # too few to say
    assert limited([60.0 if k % 6 == 5 else 40.0 for k in range(60)], rate=0.15) == []
    assert limited([60.0 if k in (7, 30) else 40.0 for k in range(60)], rate=0.02) == []  # 3.3 %, by chance


def test_nothing_is_said_of_limits_before_anything_was_measured():
    assert limited([]) == []
    assert limited([], start=None) == []


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
