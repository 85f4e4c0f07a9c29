"""The benchmarks with a context, a cycle or constraints: what drives them, against their definition and a search."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import qmc

import ebbtide as eb

TIMES = np.linspace(0.0, 1.0, 401)
SEEDS = range(5)


def live(name: str, **options: Any) -> Any:
    return eb.benchmarks.get(name, **options)


# --- a driver that the context reveals ------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 4])
def test_the_load_decides_where_the_drivers_optimum_is(d):
    """Moments of the same load have the same best setting but for the drift; others have another."""
    for seed in SEEDS:
        problem = live("driver", seed=seed, d=d)
        best, load = problem.best(TIMES), problem.load(TIMES)
        drift = np.ptp(best - 0.3 * np.cos(np.pi * (load[:, None] / 2000.0 + np.arange(d) / d)), axis=0)
        assert (drift < 0.17).all()
        assert np.ptp(best, axis=0).max() > 0.4
        assert ((best > 0.0) & (best < 1.0)).all()
        assert (load >= 0.0).all()
        assert (load <= 2000.0).all()
        assert load.max() > 1300.0  # in a burst


def test_the_load_moves_much_faster_than_the_drift():
    problem = live("driver")
    paths = problem.best(TIMES), 0.08 * problem.drift(TIMES)
    moves, drifts = (np.abs(np.diff(path, axis=0)).mean() for path in paths)
    assert moves > 5.0 * drifts


def test_the_context_is_what_drives_and_something_that_does_not():
    problem = live("driver", seed=3)
    measured = [problem.context(float(t)) for t in TIMES]
    assert [context["load"] for context in measured] == problem.load(TIMES).tolist()
    apart = [
        abs(np.corrcoef(live("driver", seed=seed).load.states, live("driver", seed=seed).temperature.states)[0, 1])
        for seed in range(20)
    ]
    assert np.mean(apart) < 0.25  # independent walks of 25 memories


# --- a cycle --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 4])
def test_the_daily_optimum_goes_round_once_a_day_and_no_day_is_like_the_other(d):
    for seed in SEEDS:
        problem = live("daily", seed=seed, d=d)
        assert problem.cycles == {"day": 0.1}
        best = problem.best(TIMES)
        assert ((best > 0.0) & (best < 1.0)).all()
        offset = best - best.mean(axis=0)
        turned = np.unwrap(np.arctan2(offset[:, 1], offset[:, 0]))
        assert turned[-1] - turned[0] == pytest.approx(10.0 * 2.0 * np.pi, abs=0.6)
        a_day, half_a_day = (np.linalg.norm(best[lag:] - best[:-lag], axis=1) for lag in (40, 20))
        assert 0.01 < a_day.mean() < 0.15  # yesterday's same hour is near, but not the same
        assert half_a_day.mean() > 0.45


def test_the_daily_instances_differ_by_seed_and_dimension():
    found = {live("daily", seed=seed, d=d).instance for seed in (0, 1) for d in (2, 4)}
    assert found == {"daily-0", "daily-1", "daily-0-d4", "daily-1-d4"}
    assert live("daily", seed=1).best(TIMES[:1]).tolist() != live("daily").best(TIMES[:1]).tolist()


# --- constraints ----------------------------------------------------------------------------------------------


def test_the_latency_limit_binds_at_times():
    for seed in SEEDS:
        problem = live("latency", seed=seed)
        p99 = problem.outcomes(problem.best(TIMES), TIMES)["p99_ms"]
        assert (p99 <= 50.0 + 1e-9).all()
        binds = np.isclose(p99, 50.0)
        assert 0.15 < binds.mean() < 0.9
        assert (~problem.feasible(problem.top(TIMES), TIMES) == binds).all()  # just where the top is out of reach


def test_the_loose_limit_forbids_much_but_never_the_best():
    for seed in SEEDS:
        problem = live("latency-loose", seed=seed)
        spare = 50.0 - problem.outcomes(problem.best(TIMES), TIMES)["p99_ms"]
        assert spare.min() > 2.0 * problem.outcome_noise_std["p99_ms"]
        assert (problem.best(TIMES) == problem.top(TIMES)).all()
        points = np.random.default_rng(0).random((4000, 2))
        assert 0.02 < 1.0 - problem.feasible(points, np.random.default_rng(1).random(4000)).mean() < 0.5


@pytest.mark.parametrize("seed", SEEDS)
def test_the_constrained_optimum_of_latency_by_sequential_programming(seed):
    problem = live("latency", seed=seed)
    for t in np.random.default_rng(seed).random(4):
        found = minimize(
            lambda x, t=t: -problem(np.clip(x, 0.0, 1.0), t),
            [0.4, 0.4],
            method="SLSQP",
            bounds=[(0.0, 1.0)] * 2,
            constraints={
                "type": "ineq",
                "fun": lambda x, t=t: 50.0 - problem.outcomes(np.clip(x, 0.0, 1.0), t)["p99_ms"],
            },
            options={"ftol": 1e-12},
        )
        assert -found.fun == pytest.approx(problem.optimum(t), abs=1e-6)


def test_an_outcome_is_what_its_definition_says():
    problem = live("latency")
    x, t = [0.3, 0.4], 0.7
    reach = problem.reach(np.array([t]))[0]
    assert problem.outcomes(x, t) == {"p99_ms": pytest.approx(20.0 + 30.0 * (0.5 / reach) ** 2)}
    assert isinstance(problem.outcomes(x, t)["p99_ms"], float)
    assert problem.feasible(x, t) is (problem.outcomes(x, t)["p99_ms"] <= 50.0)
    assert problem.outcomes([x, x, x], [0.1, 0.2, 0.3])["p99_ms"].shape == (3,)


# --- the WLAN -------------------------------------------------------------------------------------------------


def test_the_number_of_users_is_the_number_who_are_served():
    problem = live("wlan-users")
    x, t = np.array([10.0, 1.5, 200.0, 40.0]), 0.37
    users = problem.context(t)["users"]
    assert users == int(users)
    rates = problem.rates(x[None], np.array([t]))[0]
    assert problem(x, t) == pytest.approx(math.fsum(rates[: int(users)]) / users)
    counts = problem.users(TIMES)
    assert counts.min() == 6.0
    assert counts.max() > 15.0


def test_equal_powers_serve_the_worst_user_well_enough_at_all_times():
    for seed in SEEDS:
        problem = live("wlan-worst-user", seed=seed)
        for power in (20.0, 200.0):
            worst = problem.outcomes(np.full((len(TIMES), 4), power), TIMES)["worst_mbit"]
            assert worst.min() > 8.0


def test_the_best_powers_without_the_worst_user_leave_it_without_service():
    problem, free = live("wlan-worst-user"), live("wlan")
    times = TIMES[::40]
    assert (problem.optimum(times) <= free.optimum(times) + 1e-6).all()
    assert (problem.optimum(times) < 0.97 * free.optimum(times)).mean() > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("t", [0.1, 0.33, 0.61])
def test_the_constrained_optimum_of_the_wlan_by_sequential_programming(t):
    """In the logarithms of the powers, with a constraint for every user, from the best of many feasible points."""
    problem = live("wlan-worst-user")
    moment, (low, high) = np.array([t]), np.log(problem.bounds[0])
    z = low + (high - low) * qmc.Sobol(4, rng=5).random(4096)
    feasible = z[problem.feasible(np.exp(z), t)]
    starts = feasible[np.argsort(-problem(np.exp(feasible), t))[:12]]
    found = [
        minimize(
            lambda z: -problem.values(np.exp(z)[None], moment)[0] / 1000.0,
            start,
            method="SLSQP",
            bounds=[(low, high)] * 4,
            constraints={"type": "ineq", "fun": lambda z: problem.rates(np.exp(z)[None], moment)[0] - 4.0},
            options={"maxiter": 200, "ftol": 1e-10},
        )
        for start in starts
    ]
    best = max(-1000.0 * each.fun for each in found if problem.rates(np.exp(each.x)[None], moment).min() > 4.0 - 1e-4)
    assert problem.optimum(t) == pytest.approx(best, abs=1e-3 * np.ptp(problem.signal))


# --- the interface --------------------------------------------------------------------------------------------


def test_the_live_benchmarks_say_what_they_are_for():
    words = {
        name: (list(live(name).context_space), list(live(name).cycles), list(live(name).constraints))
        for name in eb.benchmarks.LIVE
    }
    assert words == {
        "driver": (["load", "temperature"], [], []),
        "daily": ([], ["day"], []),
        "latency": ([], [], ["p99_ms"]),
        "latency-loose": ([], [], ["p99_ms"]),
        "wlan-users": (["users"], [], []),
        "wlan-worst-user": ([], [], ["worst_mbit"]),
    }


def test_a_benchmark_of_the_paper_has_none_of_them():
    problem = eb.benchmarks.get("ackley")
    assert (problem.context(0.3), problem.outcomes([0.0, 0.0, 0.0], 0.3)) == ({}, {})
    assert (dict(problem.context_space), dict(problem.cycles), dict(problem.constraints)) == ({}, {}, {})
    assert problem.feasible([0.0, 0.0, 0.0], 0.3) is True


@pytest.mark.parametrize("options", [{"d": 3}, {"seed": -1}, {"seed": 0.5}])
@pytest.mark.parametrize("name", ["driver", "daily"])
def test_an_instance_that_is_not_there(name, options):
    with pytest.raises(eb.ConfigurationError):
        live(name, **options)
