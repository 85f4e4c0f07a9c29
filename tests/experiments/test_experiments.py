import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.pace import FEW_QUERIES

import ebbtide as eb
from ebbtide.experiments import Measured, Modelled, Protocol, Wall, run
from ebbtide.experiments.pace import pace

SHORT = Protocol(duration=30.0, n_initial=8, compute=FEW_QUERIES)


# --- one run --------------------------------------------------------------------------------------------------


def test_a_frame_has_a_row_a_query():
    outcome = run("hartmann3", "w-dbo", seed=0, protocol=SHORT)
    frame, problem = outcome.frame, eb.benchmarks.get("hartmann3")
    assert list(frame.columns) == ["t", "x0", "x1", "y", "f", "regret", "n", "response_s", "removed"]
    X, t = frame[["x0", "x1"]].to_numpy(), frame["t"].to_numpy()
    assert (np.diff(t) > 0).all()
    assert 1 / 40 < t[0] <= t[-1] <= 1.0
    assert np.allclose(problem(X, t), frame["f"])
    assert np.allclose(problem.optimum(t) - frame["f"], frame["regret"])
    assert outcome.average_regret == pytest.approx(frame["regret"].mean())
    assert frame["n"].iloc[0] == 8
    assert frame["n"].iloc[-1] == 8 + len(frame) - 1 - frame["removed"].sum()
    assert len(outcome.history) == 8 + len(frame)
    assert frame.attrs["algorithm"] == "w-dbo"
    assert frame.attrs["protocol"]["duration"] == 30.0


def test_a_query_computed_at_t_lands_after_the_modelled_time():
    frame = run("hartmann3", "keep-all", seed=0, protocol=Protocol(duration=120.0, compute=FEW_QUERIES)).frame
    landed = 120.0 * frame["t"].to_numpy()
    n = 15 + np.arange(len(frame))
    assert np.allclose(np.diff(landed, prepend=3.0), 0.9 + 0.004 * n)
    assert landed[-1] <= 120.0 < landed[-1] + 0.9 + 0.004 * (n[-1] + 1)  # no other query would have fitted in
    assert np.allclose(frame["response_s"], 0.9 + 0.004 * n)
    assert np.array_equal(frame["n"], n)


@pytest.mark.slow
def test_what_is_forgotten_buys_queries():
    protocol = Protocol(duration=150.0, compute=FEW_QUERIES)
    keep, forget = (run("eggholder", name, seed=0, protocol=protocol).frame for name in ("keep-all", "w-dbo"))
    assert forget["n"].mean() < keep["n"].mean() / 2
    assert len(forget) > 1.2 * len(keep)


@pytest.mark.slow
def test_the_noise_is_the_protocols():
    protocol = Protocol(noise=0.05, duration=150.0, compute=Modelled((0.5,)))
    frame = run("ackley", "random", seed=1, protocol=protocol).frame
    assert len(frame) > 250
    noise = (frame["y"] - frame["f"]).to_numpy()
    expected = eb.benchmarks.get("ackley").noise_std
    assert noise.std() == pytest.approx(expected, rel=0.15)
    assert abs(noise.mean()) < 4 * expected / math.sqrt(len(noise))
    other = replace(protocol, noise_of="deviation")
    smaller = run("ackley", "random", seed=1, protocol=other).frame
    assert np.allclose(smaller["y"] - smaller["f"], math.sqrt(0.05) * noise)  # the same draws, of another size
    quiet = run("ackley", "random", seed=1, protocol=Protocol(noise=0.0, duration=60.0, compute=FEW_QUERIES)).frame
    assert (quiet["y"] == quiet["f"]).all()


def test_all_algorithms_see_the_same_initial_observations():
    histories = [run("shekel", name, seed=5, protocol=SHORT).history[:8] for name in ("gp-ucb", "w-dbo", "abo")]
    told = [[(o.params, o.time, o.value) for o in history] for history in histories]
    assert told[0] == told[1] == told[2]
    assert max(o.time for o in histories[0]) < 1.5
    other = run("shekel", "w-dbo", seed=6, protocol=SHORT).history[:8]
    assert [o.params for o in other] != [o.params for o in histories[1]]


def test_the_objectives_own_time_passes_too():
    protocol = Protocol(duration=60.0, evaluation=4.0, compute=FEW_QUERIES)
    slow = run("hartmann3", "w-dbo", seed=0, protocol=protocol).frame
    assert np.diff(60.0 * slow["t"]).min() > 4.9
    assert len(slow) < 13


def test_abos_moment_is_honoured():
    outcome = run("powell", "abo", seed=0)
    waits = np.diff(600.0 * outcome.columns["t"]) - outcome.columns["response_s"][1:]
    assert waits.max() > 10.0
    assert outcome.columns["t"][-1] <= 1.0


def test_the_time_weighted_regret_is_its_integral():
    """By hand for a run with few queries: the query in force loses until the next lands."""
    outcome = run("rosenbrock", "w-dbo", seed=0, protocol=Protocol(duration=30.0, compute=Modelled((5.0,))))
    problem, t = eb.benchmarks.get("rosenbrock"), outcome.columns["t"]
    X = np.column_stack([outcome.columns["x0"], outcome.columns["x1"]])
    loss = 0.0
    for x, start, end in zip(X, t, [*t[1:], 1.0], strict=True):
        moments = np.linspace(start, end, 4001)
        loss += np.trapezoid(problem.optimum(moments) - problem(x, moments), moments)
    assert outcome.time_weighted_regret == pytest.approx(loss / (1.0 - t[0]), rel=1e-3)


@pytest.mark.slow
def test_the_wlan_has_its_own_kernel_in_time():
    """A built-in name uses it; a user's own algorithm does not."""
    half = run("wlan", "w-dbo", seed=0, protocol=SHORT)
    mine = run("wlan", eb.Algorithm(temporal=eb.Matern(0.5)), seed=0, protocol=SHORT)
    default = run("wlan", eb.Algorithm(), seed=0, protocol=SHORT)
    assert np.array_equal(half.columns["x0"], mine.columns["x0"])
    assert not np.array_equal(half.columns["x0"], default.columns["x0"])
    assert mine.algorithm.startswith("Algorithm(")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["w-dbo", "r-gp-ucb", "abo"])
def test_same_seed_same_frame(algorithm):
    protocol = Protocol(duration=60.0, compute=FEW_QUERIES)
    first, second = (run("temperature", algorithm, seed=2, protocol=protocol) for _ in range(2))
    assert first.frame.equals(second.frame)
    assert first.time_weighted_regret == second.time_weighted_regret


@pytest.mark.slow
def test_frames_are_the_same_on_one_core_and_on_two():
    """Another process, with as many BLAS threads as there are, and one that has a single one."""
    script = (
        "import ebbtide as eb, hashlib\n"
        "columns = eb.experiments.run('temperature', 'w-dbo', 3, eb.experiments.Protocol(duration=10.0)).columns\n"
        "print(hashlib.sha256(b''.join(c.tobytes() for c in columns.values())).hexdigest())"
    )
    digests = set()
    for threads in ("1", "2"):
        environment = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PATH": ""}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
        digests.add(done.stdout)
    assert len(digests) == 1


# --- how time passes ------------------------------------------------------------------------------------------


class Stepping:
    """A clock of the machine that is a fixed step further at every reading, and as far as one sleeps."""

    def __init__(self, step):
        self.now, self.step = 100.0, step

    def __call__(self):
        self.now += self.step
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 0.0)


def test_measured_time_is_real_time_times_the_speed(monkeypatch):
    """On a machine whose clock goes on by 10 ms at every reading: each ask takes a whole number of them, times 50."""
    monkeypatch.setattr(time, "perf_counter", Stepping(0.01))
    outcome = run("hartmann3", "w-dbo", seed=0, protocol=Protocol(duration=30.0, compute=Measured(speed=50.0)))
    landed, response = 30.0 * outcome.columns["t"], outcome.columns["response_s"]
    readings = response / (50.0 * 0.01)
    assert np.allclose(readings, readings.round())
    assert readings.min() >= 1.0
    gaps = np.diff(landed)
    assert (gaps >= response[1:] - 1e-9).all()
    assert np.allclose(gaps / 0.5, (gaps / 0.5).round())
    assert landed[-1] <= 30.0


def test_wall_time_is_waited_for(monkeypatch):
    """On a machine whose clock stands still, but for the time that is waited."""
    machine = Stepping(0.0)
    monkeypatch.setattr(time, "perf_counter", machine)
    monkeypatch.setattr(time, "monotonic", machine)
    monkeypatch.setattr(time, "sleep", machine.sleep)
    protocol = Protocol(duration=1.5, initial_share=0.2, evaluation=0.1, compute="wall")
    outcome = run("hartmann3", "w-dbo", seed=0, protocol=protocol)
    landed = 1.5 * outcome.columns["t"]
    assert landed == pytest.approx(0.3 + 0.1 * np.arange(len(landed)))
    assert landed[-1] == pytest.approx(1.5, abs=0.11)
    assert machine.now - 100.0 == pytest.approx(landed[-1] + 0.1)


def test_the_paces_by_name():
    slow, fast = pace("modelled:botorch"), pace("modelled:ebbtide")
    assert isinstance(slow, Modelled)
    assert slow.seconds(100) == pytest.approx(0.13 + 3e-6 * 100**2)
    assert isinstance(fast, Modelled)
    assert fast.seconds(200) < 0.1
    assert pace("measured") == Measured(1.0)
    assert pace("measured:30") == Measured(30.0)
    assert pace("wall") == Wall()


def test_the_pace_of_botorch_is_the_one_that_was_measured():
    """Between the smallest and the largest size within a factor of 1.5 of each measurement."""
    measured = pd.read_csv(Path(__file__).parents[2] / "docs" / "data" / "pace-botorch.csv")
    constant, per_square = measured["constant"].iloc[0], measured["per_n2"].iloc[0]
    assert pace("modelled:botorch") == Modelled((constant, 0.0, per_square))
    modelled = constant + per_square * measured["n"] ** 2
    assert np.abs(np.log(modelled / measured["measured_s"])).max() < math.log(1.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Protocol(duration=0.0),
        lambda: Protocol(duration=math.inf),
        lambda: Protocol(n_initial=-1),
        lambda: Protocol(initial_share=1.0),
        lambda: Protocol(noise=-0.1),
        lambda: Protocol(noise_of="amplitude"),  # type: ignore[arg-type]
        lambda: Protocol(evaluation=math.nan),
        lambda: Protocol(compute="modelled"),
        lambda: Protocol(compute="modelled:torch"),
        lambda: Protocol(compute="measured:fast"),
        lambda: Protocol(compute=5),  # type: ignore[arg-type]
        lambda: Modelled(0.9),  # type: ignore[arg-type]
        lambda: run("ackley", seed=None),  # type: ignore[arg-type]
        lambda: Modelled(()),
        lambda: Modelled((0.0,)),
        lambda: Modelled((1.0, -1.0)),
        lambda: Measured(0.0),
        lambda: run("nowhere"),
        lambda: run("ackley", "magic"),
        lambda: run("ackley", protocol=Protocol(duration=0.1)),
    ],
)
def test_what_is_wrong_is_said(make):
    with pytest.raises(eb.ConfigurationError):
        make()


@pytest.mark.parametrize("compute", [Modelled((2.0,)), Measured(50.0), Wall()], ids=repr)
def test_a_pace_of_ones_own_has_its_frame_too(compute, monkeypatch):
    """On a machine on which no ask takes longer than there is time for."""
    machine = Stepping(0.002)
    for name, instead in (("perf_counter", machine), ("monotonic", machine), ("sleep", machine.sleep)):
        monkeypatch.setattr(time, name, instead)
    outcome = run("six-hump-camel", protocol=Protocol(duration=20.0 if compute != Wall() else 0.5, compute=compute))
    assert outcome.frame.attrs["protocol"]["compute"] == repr(compute)


def test_no_random_number_is_used_twice():
    """The random control's queries are none of the initial points."""
    outcome = run("hartmann3", "random", seed=0, protocol=SHORT)
    initial = [tuple(o.params.values()) for o in outcome.history[:8]]
    values = {round(v, 12) for point in initial for v in point}
    queried = np.concatenate([outcome.columns["x0"], outcome.columns["x1"]]).round(12)
    assert values.isdisjoint(queried.tolist())


def test_progress_is_told():
    seen = []
    run("hartmann3", "w-dbo", seed=0, protocol=SHORT, progress=seen.append)
    assert seen == sorted(seen)
    assert 25.0 < seen[-1] <= 30.0
