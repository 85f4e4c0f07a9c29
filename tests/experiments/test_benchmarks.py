import csv
import math
import sys
from importlib import resources
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import qmc

import ebbtide as eb
from ebbtide.benchmarks import wlan
from ebbtide.benchmarks.optima import trace
from ebbtide.benchmarks.temperature import DAYS

NAMES = eb.benchmarks.names()
TWELVE_PLUS = [
    *("rastrigin", "schwefel", "styblinski-tang", "eggholder", "ackley", "rosenbrock", "shekel", "hartmann3"),
    *("hartmann6", "powell", "six-hump-camel", "switching-camel", "temperature", "wlan", "moving-peaks"),
    *("driver", "daily", "latency", "latency-loose", "wlan-users", "wlan-worst-user"),
]


def test_the_names_are_those_of_the_contract():
    assert sorted(NAMES) == sorted(TWELVE_PLUS)
    assert len(eb.benchmarks.PAPER) == 12
    assert set(eb.benchmarks.PAPER) < set(NAMES)


# --- the optimum, against an independent search ---------------------------------------------------------------


def allowed(problem, U, t):
    """The values at points of the unit cube; far below all others where a constraint is not met."""
    X = problem.from_unit(U)
    return np.where(problem.feasible(X, t), problem(X, t), -1e6)


def searched_maximum(problem, t):
    """A fine grid up to two dimensions, dense Sobol points above; the best few polished by Nelder–Mead."""
    d = problem.dim
    if d == 1:
        U = np.linspace(0.0, 1.0, 20_001)[:, None]
    elif d == 2:
        axis = np.linspace(0.0, 1.0, 401)
        U = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    else:
        U = qmc.Sobol(d, rng=7).random(2**16)
    f = allowed(problem, U, t)
    starts = U[np.argsort(-f)[:: 1 if d == 1 else 5][:4]]
    polished = [
        -minimize(
            lambda u: -allowed(problem, u, t),
            u,
            method="Nelder-Mead",
            bounds=[(0.0, 1.0)] * d,
            options={"xatol": 1e-5, "fatol": 1e-9, "maxfev": 400 * d},
        ).fun
        for u in starts
    ]
    return max(f.max(), *polished)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_at_random_times(name):
    problem = eb.benchmarks.get(name)
    scale = 1e-3 * np.ptp(problem.signal)
    for t in np.random.default_rng(11).random(2):
        ours, theirs = problem.optimum(t), searched_maximum(problem, t)
        assert theirs - scale < ours  # as high as the search, and attained:
        # higher than the search only where that is blunt; no point is higher than the optimum.
        assert ours < theirs + (scale if problem.best(np.zeros(1)) is None else math.inf)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if eb.benchmarks.get(name).dim <= 2])
def test_the_optimum_at_very_many_times(name):
    """Where a fine grid can be had: its best is nowhere higher."""
    problem = eb.benchmarks.get(name)
    one = problem.dim == 1
    axis = np.linspace(0.0, 1.0, 4001 if one else 121)
    U = axis[:, None] if one else np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    times = np.random.default_rng(2).random(800 if one else 100)
    best = np.array([allowed(problem, U, t).max() for t in times])
    assert (best - problem.optimum(times)).max() < 5e-4 * np.ptp(problem.signal)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_sampled_value_is_above_the_optimum(name):
    problem = eb.benchmarks.get(name)
    rng = np.random.default_rng(3)
    U, t = rng.random((20_000, problem.dim)), rng.random(20_000)
    assert (allowed(problem, U, t) <= problem.optimum(t) + 1e-3 * np.ptp(problem.signal)).all()


@pytest.mark.slow
def test_a_function_that_has_a_shipped_name_does_not_get_its_optimum():
    class Hartmann3(eb.benchmarks.Problem):
        bounds = [[0.0, 1.0], [0.0, 1.0]]  # type: ignore[assignment]  # noqa: RUF012

        def values(self, X, t):
            return -((X[:, 0] - t) ** 2) - X[:, 1]

    mine = Hartmann3()
    assert mine.name == mine.instance == "hartmann3"
    assert np.allclose(mine.optimum(np.linspace(0.0, 1.0, 30)), 0.0, atol=1e-6)


@pytest.mark.slow
def test_what_is_shipped_is_what_is_traced():
    problem = eb.benchmarks.get("six-hump-camel")
    t = np.linspace(0.0, 1.0, 500)
    assert np.allclose(trace(problem).highest(problem, t), problem.optimum(t), atol=1e-6)


# --- the functions, against known values ----------------------------------------------------------------------

# From the literature: the global minimum of each classic and where it is, time being the last coordinate.
CLASSICS = {
    "rastrigin": ([0.0] * 5, 0.0),
    "schwefel": ([420.968746] * 4, 0.0),
    "styblinski-tang": ([-2.903534] * 4, -39.16599 * 4),
    "eggholder": ([512.0, 404.2319], -959.6407),
    "ackley": ([0.0] * 4, 0.0),
    "rosenbrock": ([1.0] * 3, 0.0),
    "shekel": ([4.0] * 4, -10.536),
    "hartmann3": ([0.114614, 0.555649, 0.852547], -3.86278),
    "hartmann6": ([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], -3.32237),
    "powell": ([0.0] * 4, 0.0),
    "six-hump-camel": ([0.0898, -0.7126], -1.0316),
}


@pytest.mark.parametrize("name", CLASSICS)
def test_the_classics_have_their_published_minimum(name):
    problem: Any = eb.benchmarks.get(name)
    (*x, z_t), minimum = CLASSICS[name]
    t = (z_t - problem.low) / (problem.high - problem.low)
    assert -problem(x, t) == pytest.approx(minimum, abs=2e-3)
    assert -problem.optimum(t) == pytest.approx(minimum, abs=2e-3)
    assert problem.dim == len(x)


def test_the_switching_camel_changes_its_coordinates_at_minus_one_half():
    plain, switching = eb.benchmarks.get("six-hump-camel"), eb.benchmarks.get("switching-camel")
    x = np.array([[1.3]])
    assert switching(x, 0.374)[0] == plain(x, 0.374)[0]
    z_t = -2.0 + 4.0 * 0.375
    assert switching(x, 0.375)[0] == pytest.approx(plain([z_t], (1.3 + 2.0) / 4.0))


def test_the_wlan_is_shannons_formula():
    """One user at one moment, by hand: distances, losses, SINR."""
    problem: Any = eb.benchmarks.get("wlan")
    x, t = np.array([10.0, 1.5, 200.0, 40.0]), 0.37
    total = 0.0
    for user in problem.positions(np.array([t]))[0]:
        received = []
        for node, power in zip([(20, 20), (60, 20), (20, 60), (60, 60)], x, strict=True):
            distance = max(1.0, math.dist(user, node))
            loss_db = 20.0 * math.log10(2437.0) - 28.0 + 30.0 * math.log10(distance)
            received.append((distance, 10.0 ** ((10.0 * math.log10(power) - loss_db) / 10.0)))
        _, signal = min(received)
        others = sum(p for _, p in received) - signal
        noise = 10.0 ** ((-174.0 + 10.0 * math.log10(20e6) + 7.0) / 10.0)
        total += 20e6 * math.log2(1.0 + signal / (others + noise)) / 1e6
    assert problem(x, t) == pytest.approx(total, rel=1e-9)


def test_the_wlans_users_walk():
    problem: Any = eb.benchmarks.get("wlan")
    seconds = np.linspace(0.0, 600.0, 1201)
    places = problem.positions(seconds / 600.0)
    assert places.shape == (1201, 18, 2)
    assert ((places >= 0.0) & (places <= wlan.SIDE)).all()
    speed = np.linalg.norm(np.diff(places, axis=0), axis=2) / 0.5
    assert speed.max() < 1.2 + 1e-9
    assert 0.2 < (speed > 0.0).mean() < 0.95  # they walk, and they pause


def table(name):
    """A data file of the package."""
    file = resources.files("ebbtide.benchmarks") / "data" / name
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_the_field_of_temperature_passes_through_the_motes():
    problem = eb.benchmarks.get("temperature")
    places = {f"m{row['mote_id']}": [float(row["x_m"]), float(row["y_m"])] for row in table("mote_locs.csv")}
    readings = table("intel_temp_10min_20040304-0308.csv")
    for row in (readings[10], readings[70], readings[100]):
        middle = (float(row["minute"]) + 5.0) / 1440.0
        known = [mote for mote in row if mote in places and row[mote]]
        assert len(known) > 40
        f = problem(np.array([places[mote] for mote in known]), middle)
        missed = np.abs(f - [float(row[mote]) for mote in known])
        assert missed.max() < 1.0
        assert missed.mean() < 0.1


def test_nowhere_is_it_warmer_than_at_a_mote_by_much():
    problem: Any = eb.benchmarks.get("temperature")
    for t in (0.1, 0.45, 0.55, 0.9):
        assert problem.optimum(t) < problem(problem.motes, t).max() + 1.0


def test_every_day_is_an_instance_of_its_own():
    days: list[Any] = [eb.benchmarks.get("temperature", day=day) for day in DAYS]
    assert len({day.optimum(0.5) for day in days}) == 5
    assert len(days[4].motes) == 51  # one of the 52 was failing on the last day


def test_moving_peaks_are_branke_s():
    problem: Any = eb.benchmarks.get("moving-peaks")
    assert problem.heights.shape == (61, 10)
    assert (problem.heights[0] == 50.0).all()
    assert ((problem.heights >= 30.0) & (problem.heights <= 70.0)).all()
    assert ((problem.widths >= 1.0) & (problem.widths <= 12.0)).all()
    steps = np.linalg.norm(np.diff(problem.places, axis=0), axis=2)
    assert steps.max() <= 1.0 + 1e-12
    assert np.median(steps) == pytest.approx(1.0)
    x, t = np.full(5, 30.0), 0.5  # at change 30, the literal definition
    cones = [problem.heights[30, i] - problem.widths[30, i] * math.dist(x, problem.places[30, i]) for i in range(10)]
    assert problem(x, t) == pytest.approx(max(cones))
    assert eb.benchmarks.get("moving-peaks", seed=1).optimum(0.3) != problem.optimum(0.3)


# --- the interface --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_is_vectorised(name):
    problem = eb.benchmarks.get(name)
    rng = np.random.default_rng(0)
    X, t = problem.from_unit(rng.random((6, problem.dim))), rng.random(6)
    rows = [problem(x, float(s)) for x, s in zip(X, t, strict=True)]
    assert all(isinstance(f, float) for f in rows)
    assert np.allclose(problem(X, t), rows, rtol=1e-12)
    assert problem(X[:, None], t[None]).shape == (6, 6)
    assert problem(X, 0.5).shape == (6,)
    assert problem.optimum(t).shape == (6,)
    assert isinstance(problem.optimum(0.5), float)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_noise_is_5_percent_of_the_signals_variance(name):
    problem = eb.benchmarks.get(name)
    rng = np.random.default_rng(1)
    f = problem(problem.from_unit(rng.random((50_000, problem.dim))), rng.random(50_000))
    assert problem.noise_std == pytest.approx(math.sqrt(0.05) * f.std(), rel=0.05)


@pytest.mark.parametrize(
    "call",
    [
        lambda: eb.benchmarks.get("nothing"),
        lambda: eb.benchmarks.get("ackley", seed=3),
        lambda: eb.benchmarks.get("temperature", day="2004-02-28"),
        lambda: eb.benchmarks.get("wlan", seed=-1),
        lambda: eb.benchmarks.get("wlan", day=1),
        lambda: eb.benchmarks.get("ackley")([0.0, 0.0], 0.5),
        lambda: eb.benchmarks.get("ackley")([0.0, 0.0, 99.0], 0.5),
        lambda: eb.benchmarks.get("ackley")([0.0, 0.0, math.nan], 0.5),
        lambda: eb.benchmarks.get("ackley")([0.0, 0.0, 0.0], 1.5),
        lambda: eb.benchmarks.get("ackley").optimum(-0.1),
    ],
)
def test_what_is_wrong_is_said(call):
    with pytest.raises(eb.ConfigurationError):
        call()


@pytest.mark.parametrize(
    ("name", "package"), [("gmpb-2d", "gmpb"), ("deap-moving-peaks", "deap"), ("simbench-limits", "pandapower")]
)
def test_an_arena_without_its_package_says_how_to_get_it(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # as if it was not installed
    monkeypatch.setitem(sys.modules, "deap.benchmarks.movingpeaks", None)
    with pytest.raises(eb.ConfigurationError, match=rf"{name} needs {package}.*ebbtide\[arenas\]"):
        eb.benchmarks.get(name)
