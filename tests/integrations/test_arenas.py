"""The benchmarks of others: that they are theirs, and that they are benchmarks."""

import random

import gmpb
import numpy as np
import pandapower
import pytest
import simbench
from deap.benchmarks import movingpeaks

import ebbtide as eb
from ebbtide.benchmarks.arenas import grid
from ebbtide.errors import ConfigurationError
from ebbtide.testing.benchmarks import BENCHMARK_CHECKS

PEAKS = ("gmpb-2d", "gmpb-3d", "gmpb-5d", "deap-moving-peaks")


@pytest.fixture(scope="module")
def week():
    return eb.benchmarks.get("simbench")


@pytest.mark.parametrize("name", eb.benchmarks.ARENAS)
@pytest.mark.parametrize("check", BENCHMARK_CHECKS, ids=lambda check: check.__name__)
def test_an_arena_is_a_benchmark(name, check):
    check(eb.benchmarks.get(name))


# --- moving peaks ---------------------------------------------------------------------------------------------


def test_the_generalized_peaks_are_the_packages_own_and_change_with_time():
    """The package itself, counting its evaluations: ten in each of its environments."""
    config = gmpb.GMPBConfig(d=3, m=10, change_frequency=10)
    original, problem = gmpb.GMPB(config, seed=4), eb.benchmarks.get("gmpb-3d", seed=4)
    X = np.random.default_rng(0).uniform(-100.0, 100.0, (1000, 3))
    t = (np.arange(1000) + 0.5) / 1000
    assert np.array_equal(original.evaluate_batch(X), problem(X, t))


def test_deaps_peaks_are_the_packages_own_and_change_with_time():
    scenario = movingpeaks.SCENARIO_2 | {"period": 10}
    original = movingpeaks.MovingPeaks(5, random=random.Random(4), **scenario)
    problem = eb.benchmarks.get("deap-moving-peaks", seed=4)
    X = np.random.default_rng(0).uniform(0.0, 100.0, (1000, 5))
    t = (np.arange(1000) + 0.5) / 1000
    assert np.array_equal([original(list(x))[0] for x in X], problem(X, t))


@pytest.mark.parametrize("name", PEAKS)
def test_between_two_changes_nothing_moves_and_at_a_change_it_does(name):
    problem = eb.benchmarks.get(name)
    x = problem.bounds.mean(axis=1)
    assert problem(x, 0.3001) == problem(x, 0.3099) != problem(x, 0.3101)
    assert problem.optimum(0.3001) == problem.optimum(0.3099) != problem.optimum(0.3101)


@pytest.mark.parametrize("name", PEAKS)
def test_another_seed_is_another_landscape(name):
    first, second = (eb.benchmarks.get(name, seed=seed) for seed in (0, 1))
    assert first.instance != second.instance
    assert first.optimum(0.5) != second.optimum(0.5)


# --- the grid -------------------------------------------------------------------------------------------------


def test_the_power_flow_is_pandapowers(week):
    """Newton's method of pandapower on SimBench's own tables, at moments and settings of all kinds."""
    net = simbench.get_simbench_net(grid.CODE)
    net.trafo["tap_changer_type"] = "Ratio"
    profiles = simbench.get_absolute_values(net, profiles_instead_of_study_cases=True)
    rated, largest = net.storage["sn_mva"], net.storage["sn_mva"].idxmax()
    rng = np.random.default_rng(1)
    for quarter in rng.integers(0, 7 * 96, 12):
        row, x = 22 * 7 * 96 + quarter, week.from_unit(rng.random((1, 4)))[0]
        net.load["p_mw"], net.load["q_mvar"] = profiles["load", "p_mw"].loc[row], profiles["load", "q_mvar"].loc[row]
        net.sgen["p_mw"] = profiles["sgen", "p_mw"].loc[row]
        net.sgen["q_mvar"] = x[1] * np.sqrt(1.0 / 0.9**2 - 1.0) * net.sgen["p_mw"]
        net.storage["p_mw"] = np.where(rated.index == largest, x[2], x[3]) * rated
        net.trafo["tap_pos"] = x[0]
        pandapower.runpp(net, numba=False, tolerance_mva=1e-10)
        lost = 1e3 * (net.res_line["pl_mw"].sum() + net.res_trafo["pl_mw"].sum())
        voltages = net.res_bus["vm_pu"].drop(net.ext_grid["bus"])
        cost = lost + 100.0 * (voltages - 1.0).abs().mean()
        assert week(x, quarter / (7 * 96)) == pytest.approx(-cost, rel=1e-7)


def test_the_load_and_the_sun_are_simbenchs(week):
    net = simbench.get_simbench_net(grid.CODE)
    profiles = simbench.get_absolute_values(net, profiles_instead_of_study_cases=True)
    row = 22 * 7 * 96 + 48
    assert week.context(48 / (7 * 96)) == pytest.approx(
        {
            "load_kw": 1e3 * profiles["load", "p_mw"].loc[row].sum(),
            "sun_kw": 1e3 * profiles["sgen", "p_mw"].loc[row].sum(),
        }
    )


def test_the_tabulated_optimum_is_shipped_and_a_dense_search_finds_none_better(week, monkeypatch):
    monkeypatch.setattr("ebbtide.benchmarks.problem.trace", None)  # it would take minutes
    axis = np.linspace(-1.0, 1.0, 21)
    X = np.stack(np.meshgrid([0.0, 1.0, 2.0], axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 4)
    for t in np.random.default_rng(2).random(12):
        best = week(X, t).max()
        assert best - 1e-4 < week.optimum(t) < best + 0.15  # the grid's spacing loses some of it


def test_the_best_settings_keep_the_limits_so_both_have_the_same_optimum(week):
    limited, times = eb.benchmarks.get("simbench-limits"), np.linspace(0.0, 1.0, 2049)
    best = week.from_unit(week._trajectory.U)
    assert limited.feasible(best, times).all()
    assert np.array_equal(limited.optimum(times), week.optimum(times))
    assert not limited.feasible([-2.0, 1.0, 0.0, 0.0], 0.5)


def test_the_optimizer_is_asked_for_whole_taps(week):
    run = eb.experiments.run(week, "tide", 0, eb.experiments.Protocol(duration=5.0))
    assert set(run.columns["x0"]) <= {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert {o.params["x0"] for o in run.history} <= {-2.0, -1.0, 0.0, 1.0, 2.0}


# --- what is wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("simbench", {"week": 52}, "week=52"),
        ("simbench", {"seed": 1}, "does not take these options"),
        ("gmpb-2d", {"seed": -1}, "seed=-1"),
        ("gmpb-2d", {"week": 1}, "does not take these options"),
    ],
)
def test_options_that_do_not_fit(name, options, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        eb.benchmarks.get(name, **options)
