"""The measurements of `perf/arenas.py`, as far as they need no packages of others: the loop, and what is compared."""

import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebbtide as eb

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))
import arenas
import arenas_contenders
import arenas_runs
import world_runs

PROBLEM = "wlan-worst-user"  # with constraints, as a grid has them


def frame(regrets, asks=30, first=0):
    """As the kept runs are, of regrets by arena, contender and seed."""
    rows = [
        {"arena": arena, "contender": name, "asks": asks, "seed": seed, "first": first, "regret": lost}
        for (arena, name), losses in regrets.items()
        for seed, lost in enumerate(losses)
    ]
    keys = ["arena", "contender", "asks", "seed", "first"]
    return pd.DataFrame(rows).assign(taps=1, violated=0.0).set_index(keys)


def test_all_contenders_are_asked_at_the_same_moments_and_see_the_same_noise(monkeypatch):
    problem, seen = eb.benchmarks.get("shekel"), []

    class Fixed:
        def ask(self, t):
            seen.append(("asked", t))
            return np.full(3, 5.0)

        def tell(self, x, value, outcomes):
            seen.append(("told", value))

    monkeypatch.setattr(arenas_runs, "contender", lambda name, problem, seed: Fixed())
    for name in ("one", "other"):
        X, violated, _ = arenas_runs.pursued(arenas_runs.Case("shekel", name, 10, 3), problem)
    assert X.tolist() == [[5.0] * 3] * 10
    assert violated == 0.0
    assert seen[:20] == seen[20:]
    assert [t for word, t in seen[:20] if word == "asked"] == [k / 10 for k in range(10)]
    noise = [value - problem(X[0], k / 10) for k, value in enumerate(v for word, v in seen[:20] if word == "told")]
    assert 0.3 < np.std(noise) / problem.noise_std < 2.0


@pytest.mark.parametrize("told", ["context day", "limits", "movement"])
def test_an_optimizer_that_is_told_of_the_world(told):
    name = {"context day": "driver", "limits": PROBLEM, "movement": "hartmann3"}[told]
    problem = eb.benchmarks.get(name)
    one = arenas_contenders.Ebbtide(problem, 0, "tide", told)
    for k in range(6):
        x = one.ask(k / 6)
        one.tell(x, problem(x, k / 6), problem.outcomes(x, k / 6))
    history = one.optimizer.history
    assert all(bool(o.context) == ("context" in told) for o in history)
    assert all(bool(o.constraints) == (told == "limits") for o in history)
    assert [o.time for o in history] == [arenas_contenders.RUN * k / 6 for k in range(6)]


def test_the_best_static_setting_is_at_least_as_good_as_any_that_never_changes():
    problem = eb.benchmarks.get("hartmann3")
    settings = np.random.default_rng(0).random((200, 2))
    times = world_runs.moments()
    others = [world_runs.regret(problem, x[None], np.zeros(1), times) for x in settings]
    assert arenas_runs.static_regret(problem) <= min(others) * 1.001


def test_what_is_compared_is_paired_by_seed_and_the_best_window_is_that_of_each_seed():
    windows = {("a", f"window {size}"): [4.0, 9.0, 8.0] for size in arenas_contenders.WINDOWS}
    ours = {("a", "tide"): [1.0, 2.0, 4.0], ("a", "w-dbo"): [2.0, 4.0]}
    regrets = ours | windows | {("a", "window 30"): [5.0, 4.0, 9.0]}
    runs = arenas.Runs(frame(regrets), asks=30, seeds=5)
    rows = {row["rival"]: row for row in arenas.peers(runs, ["a"])}
    assert set(rows) == {"w-dbo", arenas.BEST_WINDOW}  # of the others there is no run
    assert arenas.peers(arenas.Runs(frame(regrets), asks=30, seeds=1), ["a"])[0]["pairs"] == 1
    assert arenas.peers(arenas.Runs(frame(regrets), asks=60, seeds=3), ["a"]) == []
    assert rows["w-dbo"]["ratio"] == 0.5
    assert rows["w-dbo"]["pairs"] == 2
    assert rows[arenas.BEST_WINDOW]["ratio"] == pytest.approx((1 / 4 * 2 / 4 * 4 / 8) ** (1 / 3), rel=0.01)
    assert rows[arenas.BEST_WINDOW]["theirs"] == pytest.approx(16 / 3, rel=0.01)


def test_over_all_arenas_every_pair_counts_once():
    regrets = {("a", "tide"): [1.0] * 5, ("a", "TPE"): [2.0] * 5, ("b", "tide"): [10.0] * 5, ("b", "TPE"): [80.0] * 5}
    (one, other, both) = arenas.peers(arenas.Runs(frame(regrets), asks=30, seeds=5), ["a", "b"])
    assert (one["ratio"], other["ratio"], both["ratio"]) == (0.5, 0.125, 0.25)
    assert both["arena"] == "all"
    assert both["pairs"] == 10
    assert both["p"] < 0.01


def test_runs_come_seed_by_seed_and_slow_ones_last_with_fewer_seeds():
    chosen = arenas.options().parse_args(["--seeds", "3", "--slow-seeds", "1", "--arenas", "gmpb-2d"])
    cases = arenas.cases_of(chosen)
    last = [case for case in cases if case.first or case.contender in arenas.slow(case.asks)]
    assert {(case.contender, case.asks, case.first) for case in last} == {
        *((name, asks, 0) for name in arenas.SLOW for asks in (300, 1000)),
        *((name, asks, 0) for name in ("w-dbo", *arenas.WINDOW_NAMES) for asks in (3000, 10000)),
        ("TPE", 10000, 0),
        *((name, n, first) for n in (3000, 10000) for peer, first in arenas.BEGINNINGS for name in (peer, "tide")),
    }
    assert {case.seed for case in last} == {0}
    assert cases[-len(last) :] == last
    assert [case.seed for case in cases[: -len(last)]] == sorted(case.seed for case in cases[: -len(last)])
    assert {case.contender for case in cases} >= {*arenas.quick(300), *arenas.SLOW, "tide: limits"}
    assert all(case.contender in arenas_contenders.CONTENDERS or case.contender == arenas_runs.STATIC for case in cases)
    assert len({astuple(case) for case in cases if case.contender == "TPE"}) == 1 + 3 * sum(
        asks <= arenas.MANY for asks in arenas.ASKS
    )


def test_the_beginning_of_a_run_is_judged_until_its_last_ask(monkeypatch):
    """Its asks, moments and noise are those of the whole run."""

    class Fixed:
        def ask(self, t):
            return np.array([0.2, 0.7]) if t < 0.25 else np.array([0.9, 0.9])

        def tell(self, x, value, outcomes):
            told.append(value)

    monkeypatch.setattr(arenas_runs, "contender", lambda name, problem, seed: Fixed())
    problem, told = eb.benchmarks.get("hartmann3"), []
    monkeypatch.setattr(arenas_runs, "problem_of", lambda case: problem)
    lost = arenas_runs.result(arenas_runs.Case("hartmann3", "one", 40, 3, first=10)).regret
    begun, told = told, []
    arenas_runs.result(arenas_runs.Case("hartmann3", "one", 40, 3))
    assert begun == told[:10]
    times = world_runs.moments()[world_runs.moments() < 0.25]
    assert lost == world_runs.regret(problem, np.array([[0.2, 0.7]]), np.zeros(1), times)


def test_beginnings_are_compared_with_as_much_of_our_own_run():
    name, first = arenas.BEGINNINGS[0]
    whole = frame({("a", "tide"): [1.0, 1.0]})
    runs = pd.concat([whole, frame({("a", "tide"): [2.0, 3.0], ("a", name): [8.0, 12.0]}, first=first)])
    assert arenas.peers(arenas.Runs(runs, asks=30, seeds=2), ["a"]) == []
    (row,) = arenas.beginnings(arenas.Runs(runs, asks=30, seeds=2), ["a"])
    assert (row["figure"], row["ratio"], row["ours"], row["theirs"], row["pairs"]) == ("beginnings", 0.25, 2.5, 10.0, 2)
    assert row["rival"] == f"{name}, the first {first:,}"


def test_the_best_static_setting_has_no_number_of_asks():
    asked = frame({("a", "tide"): [1.0, 2.0]})
    runs = pd.concat([asked, frame({("a", arenas_runs.STATIC): [4.0, 8.0]}, asks=0)])
    (row,) = arenas.peers(arenas.Runs(runs, asks=30, seeds=2), ["a"])
    assert (row["rival"], row["ratio"], row["pairs"]) == (arenas_runs.STATIC, 0.25, 2)


def test_a_grid_whose_optimizer_is_told_of_its_world_is_apart_from_all():
    regrets = {("simbench", "tide"): [1.0], ("simbench", "tide: context day"): [0.5], ("simbench", "TPE"): [2.0]}
    regrets |= {("a", "tide"): [1.0], ("a", "TPE"): [4.0]}
    rows = arenas.peers(arenas.Runs(frame(regrets), asks=30, seeds=1), ["a", "simbench"])
    ratios = {row["arena"]: row["ratio"] for row in rows}
    assert ratios == {"a": 0.25, "simbench": 0.5, "simbench told": 0.25, "all": pytest.approx(0.125**0.5, rel=0.01)}
