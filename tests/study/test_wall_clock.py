"""The machine's clock is set while a program runs, and between two programs: by ± 1 hour, ± 1 day, ± 10 years.

Tells go on, time never goes back, and what was recorded while the clock was wrong can be set aside.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from click.testing import CliRunner
from helpers.serving import served
from helpers.studies import TINY, column, url
from helpers.walls import DAY, HOUR, YEAR, Wall

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.dashboard.views import Views
from ebbtide.study.storage import Storage

FAR = 7 * DAY
# Where the wall clock is, one step after the other, relative to the true time: each comes back before the next.
STEPS = [0.0, HOUR, 0.0, -HOUR, 0.0, DAY, 0.0, -DAY, 0.0, 10 * YEAR, 0.0, -10 * YEAR, 0.0]


def check(told, expected):
    """Everything was told, in an order of time that never goes back, and no time was far from the truth."""
    assert len(told) == expected
    assert all(earlier.time <= later.time for earlier, later in pairwise(told))
    assert all(abs(observation.time - time.time()) < FAR for observation in told)


LOOP = """
    import sys, time, warnings
    import ebbtide as eb
    from pathlib import Path
    wall, steps = Path(sys.argv[1]), eval(sys.argv[2])
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, seed=0, storage=sys.argv[3], name="edge")
    warnings.simplefilter("always")
    with warnings.catch_warnings(record=True) as warned:
        for step in steps:
            wall.write_text(repr(step))
            trial = opt.ask()
            opt.tell(trial, trial.params["x"])
            if abs(step) < 7 * 86400:
                opt.tell({"x": 0.5}, 0.5, time=time.time())
    print([type(warning.message).__name__ for warning in warned])
"""


def run(code, *arguments, wall):
    command = [sys.executable, "-c", "\n".join(line[4:] for line in code.splitlines()), *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | wall.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_program_goes_on_whatever_is_done_to_the_clock(tmp_path):
    wall = Wall(tmp_path)
    said = run(LOOP, wall.file, STEPS, url(tmp_path / "s.db"), wall=wall)
    assert said.split() == ["['ClockWarning',", "'ClockWarning']"]  # of ten years, forward and back
    with eb.Optimizer.open(url(tmp_path / "s.db"), "edge") as opt:
        check([o for o in opt.history if o.trial_id is not None], len(STEPS))
        assert opt.told == 2 * len(STEPS) - 2


@pytest.mark.slow
def test_a_service_goes_on_whatever_is_done_to_the_clock(tmp_path):
    wall = Wall(tmp_path)
    with served(tmp_path, env=wall.environment) as server, eb.Client(server.url, patience=60.0) as client:
        study = client.create("edge", TINY, seed=0)
        for step in STEPS:
            wall.shift(step)
            trial = study.ask()
            study.tell(trial, trial.params["x"])
            if abs(step) < FAR:
                study.tell({"x": 0.5}, 0.5, time=time.time() + step)  # the clients' clocks are set, too
        check([o for o in study.history if o.trial_id is not None], len(STEPS))
        assert study.told == 2 * len(STEPS) - 2
    assert "days, which is not followed" in server.log


@pytest.mark.slow
def test_a_command_is_tuned_whatever_is_done_to_the_clock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wall = Wall(tmp_path)
    (tmp_path / "space.toml").write_text('[x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n')
    (tmp_path / "steps.txt").write_text("".join(f"{step!r}\n" for step in STEPS))
    # The measured command sets the clock: to the next line of the file, which it takes out.
    script = 'head -n 1 steps.txt > wall.txt; sed -i 1d steps.txt; echo "$0"'
    command = [sys.executable, "-m", "ebbtide", "tune", "--storage", "sqlite:///s.db", "--name", "edge"]
    command += ["--space", "space.toml", "--trials", str(len(STEPS)), "--", "sh", "-c", script, "{x}"]
    done = subprocess.run(command, env=os.environ | wall.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with eb.Optimizer.open("sqlite:///s.db", "edge") as opt:
        check(opt.history, len(STEPS))
        assert not any(observation.failed for observation in opt.history)


# --- between two programs -----------------------------------------------------------------------------------------

BEFORE = """
    import sys
    import ebbtide as eb
    with eb.Optimizer({"x": eb.Float(0.0, 1.0)}, seed=0, storage=sys.argv[1], name="edge") as opt:
        for _ in range(6):
            trial = opt.ask()
            opt.tell(trial, (trial.params["x"] - 0.9) ** 2)
        opt.tell(opt.ask(), failed=True)
        opt.ask()
"""


AFTER = """
    import sys, time, warnings
    import ebbtide as eb
    from pathlib import Path
    warnings.simplefilter("error")
    opt = eb.Optimizer.open(sys.argv[1], "edge")
    opt.tell(opt.ask(), 0.5)
    Path(sys.argv[2]).write_text("0.0")
    opt.tell(opt.ask(), 0.5, time=time.time())
    print(opt.history[-2].time, opt.history[-1].time)
"""


@pytest.mark.slow
def test_a_clock_that_is_not_set_yet_is_no_reason_to_stop(tmp_path):
    wall = Wall(tmp_path)
    run(BEFORE, url(tmp_path / "s.db"), wall=wall)
    wall.shift(-40 * YEAR)  # as after a boot without a battery; then NTP sets it
    unset, as_set = map(float, run(AFTER, url(tmp_path / "s.db"), wall.file, wall=wall).split())
    assert abs(unset - time.time()) < HOUR  # continued from the last time recorded
    assert unset <= as_set <= time.time()


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead")
    run(BEFORE, url(folder / "s.db"), wall=Wall(folder, 10 * YEAR))
    return folder / "s.db"


@pytest.fixture
def ahead(once, tmp_path):
    """A study that was used while the clock was ten years ahead."""
    return shutil.copy(once, tmp_path / "s.db")


@pytest.mark.slow
def test_a_time_recorded_ten_years_ahead_is_not_followed(ahead):
    with pytest.warns(eb.ClockWarning, match=r"is 3,65\d\.\d days ahead .* `ebbtide forget-future`"):
        opt = eb.Optimizer.open(url(ahead), "edge")
    assert abs(opt.ask().time - time.time()) < HOUR
    (lost,) = opt.pending_trials[:1]
    opt.tell(lost, 0.5)  # asked ten years ahead: it was measured now at the latest
    for x in (0.1, 0.2, 0.3, 0.4, 0.5):
        opt.tell({"x": x}, (x - 0.2) ** 2, time=time.time())
    assert all(abs(o.time - time.time()) < HOUR for o in opt.history[7:])
    assert abs(opt.recommend().params["x"] - 0.2) < 0.15  # by what was told now
    assert any("6 active observations are dated in the future" in said for said in opt.warnings)
    opt.close()


def test_the_dashboard_shows_such_a_study_as_of_now(ahead):
    view = Views(Storage.of(url(ahead), read_only=True)).study("edge", None, None)
    assert abs(view["model"]["recommendation"]["time"] - time.time()) < HOUR
    assert any("`ebbtide forget-future`" in said for said in view["advice"])


def forget_future(path):
    done = CliRunner().invoke(ebbtide, ["forget-future", "--storage", url(path), "--name", "edge"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_what_is_dated_in_the_future_can_be_set_aside(ahead):
    values = column(ahead, "SELECT value FROM tells ORDER BY line")
    assert forget_future(ahead) == {"set_aside": 6}
    assert forget_future(ahead) == {"set_aside": 0}
    with eb.Optimizer.open(url(ahead), "edge") as opt:  # without a warning, which would be an error
        assert len(opt.dataset) == 0
        assert opt.warnings == []
        assert abs(opt.ask().time - time.time()) < HOUR
        assert [o.value for o in opt.history] == [*values, None]  # the last one is the ask that was called off
        assert opt.history[-1].abandoned


def test_a_process_that_has_the_study_open_learns_of_it(ahead):
    with pytest.warns(eb.ClockWarning, match="ahead"):
        opt = eb.Optimizer.open(url(ahead), "edge")
    forget_future(ahead)
    opt.ask()
    assert len(opt.dataset) == 0
    assert opt.warnings == []
    opt.close()
    eb.Optimizer.open(url(ahead), "edge").close()


def test_ten_observations_later_it_is_set_aside_without_being_told_to(ahead):
    with pytest.warns(eb.ClockWarning, match="ahead"):
        opt = eb.Optimizer.open(url(ahead), "edge")
    for _ in range(10):
        opt.tell(opt.ask(), 1.0)
    with pytest.warns(eb.ClockWarning, match="6 observations dated after it are set aside"):
        opt.ask()
    assert len(opt.dataset) == 10
    opt.close()
    eb.Optimizer.open(url(ahead), "edge").close()


@pytest.mark.slow
def test_a_study_that_is_an_hour_ahead_is_followed_and_can_be_set_right(tmp_path):
    run(BEFORE, url(tmp_path / "s.db"), wall=Wall(tmp_path, HOUR))
    with eb.Optimizer.open(url(tmp_path / "s.db"), "edge") as opt:
        assert opt.ask().time > time.time() + 0.9 * HOUR
    assert forget_future(tmp_path / "s.db") == {"set_aside": 6}
    with eb.Optimizer.open(url(tmp_path / "s.db"), "edge") as opt:
        assert abs(opt.ask().time - time.time()) < 0.5 * HOUR


def test_only_the_file_of_a_study_by_the_systems_clock_can_be_set_right(tmp_path):
    arguments = ["forget-future", "--storage", "http://127.0.0.1:1", "--name", "edge"]
    assert "give the database itself" in CliRunner().invoke(ebbtide, arguments).output
    with pytest.raises(eb.ConfigurationError, match="your own clock"):
        eb.Optimizer(TINY, clock=eb.ManualClock()).forget_future()
