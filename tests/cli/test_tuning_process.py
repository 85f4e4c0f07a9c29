"""`ebbtide tune` as a process that is killed, hung up on, and whose output goes nowhere."""

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager, suppress

import pytest
from helpers.serving import served
from helpers.tuning import AMPLE

import ebbtide as eb
from ebbtide.cli import tuning

SPACE = '[power]\ntype = "float"\nlow = 1.0\nhigh = 100.0\n'
STORAGE = "sqlite:///tuner.db"
MEASURE = ["echo", "{power}"]
FAST = ("--algorithm", "random", "--start", "power=50", "--start", "power=60")  # which need no model

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "space.toml").write_text(SPACE)
    return tmp_path


def tune(*options, command=MEASURE, storage=STORAGE):
    own = [sys.executable, "-m", "ebbtide", "tune", "--space", "space.toml", "--storage", storage, "--name", "edge"]
    return [*own, "--timeout", "10m", "--seed", "0", *FAST, *options, "--", *command]


def told(storage=STORAGE):
    if storage != STORAGE:
        with eb.Client(storage) as client:
            return [(o.trial_id, o.failed, o.abandoned) for o in client.study("edge").history]
    with eb.Optimizer.open(storage, "edge") as study:
        return [(o.trial_id, o.failed, o.abandoned) for o in study.history]


def values(*numbers):
    return [(str(number), False, False) for number in numbers]


def abandoned(number):
    return (str(number), False, True)


# --- killed -----------------------------------------------------------------------------------------------------------


def held(lifeline):
    """A command that takes long, with a process of its own."""
    return [*lifeline.holding("sleep 1000 & sleep 1000"), "{power}"]


@pytest.mark.parametrize("kind", ["a file", "a service"])
def test_one_that_was_killed_leaves_no_process_and_its_trial_is_abandoned_at_the_next_start(folder, lifeline, kind):
    def check(storage):
        process = subprocess.Popen(tune(command=held(lifeline), storage=storage), stderr=subprocess.DEVNULL)
        lifeline.wait_for_a_sign()
        process.kill()
        process.wait(AMPLE)
        lifeline.assert_ended()
        assert told(storage) == []
        done = subprocess.run(tune("--trials", "2", storage=storage), capture_output=True, text=True, timeout=AMPLE)
        assert done.returncode == 0, done.stderr
        assert told(storage) == [abandoned(0), *values(1, 2)]

    if kind == "a file":
        check(STORAGE)
        assert sorted(path.name for path in folder.iterdir()) == ["lifeline", "space.toml", "tuner.db"]
        return
    with served(folder) as server:
        check(server.url)
    assert list((folder / "state" / "ebbtide").iterdir()) == []


def test_two_loops_on_one_study_leave_each_others_trials_alone(folder, lifeline):
    first = subprocess.Popen(tune(command=held(lifeline)), stderr=subprocess.DEVNULL)
    lifeline.wait_for_a_sign()
    second = subprocess.Popen(tune(command=held(lifeline)), stderr=subprocess.DEVNULL)
    lifeline.wait_for_a_sign()
    first.kill()
    first.wait(AMPLE)
    subprocess.run(tune("--trials", "1"), stderr=subprocess.DEVNULL, timeout=AMPLE, check=True)
    assert told() == [abandoned(0), *values(2)]
    second.terminate()
    assert second.wait(AMPLE) == 0
    assert told() == [abandoned(0), *values(2), abandoned(1)]
    lifeline.assert_ended()


@contextmanager
def heard(*numbers):
    """Whoever runs the tests may ignore them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_that_follows_another_is_no_impatience(monkeypatch):
    """So that the command has its time to clean up; unless the first was lost, as in a destructor."""
    with heard(signal.SIGHUP, signal.SIGTERM), tuning.signals_as_ctrl_c():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        monkeypatch.setattr(tuning, "ONE_STOP", -1.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_comes_after_the_stop_changes_nothing(folder, lifeline):
    with heard(signal.SIGHUP):
        process = subprocess.Popen(tune(command=held(lifeline)), stderr=subprocess.PIPE)
    lifeline.wait_for_a_sign()
    process.send_signal(signal.SIGHUP)
    while b"Stopped" not in process.stderr.readline():
        pass
    time.sleep(0.01)  # the handlers have been put back by now, but the interpreter has not ended
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=AMPLE)
    assert process.returncode == 0


@pytest.mark.parametrize("signals", [[signal.SIGHUP, signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]])
def test_several_signals_at_once_are_one(folder, lifeline, signals):
    with heard(*signals):
        process = subprocess.Popen(tune(command=held(lifeline)), stderr=subprocess.PIPE)
    lifeline.wait_for_a_sign()
    for number in signals:
        process.send_signal(number)
    _, said = process.communicate(timeout=AMPLE)
    assert process.returncode == 0, said
    assert told() == [abandoned(0)]
    lifeline.assert_ended()
    assert sorted(path.name for path in folder.iterdir()) == ["lifeline", "space.toml", "tuner.db"]


def test_a_terminal_that_is_closed_stops_it_cleanly(folder, lifeline):
    """As by a lost ssh connection: SIGHUP, and nothing can be written any more."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        command = tune(command=held(lifeline))
        os.execv(command[0], command)
    lifeline.wait_for_a_sign()
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    lifeline.assert_ended()
    assert told() == [abandoned(0)]


def test_a_user_without_a_home_tunes_a_service_too(monkeypatch):
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert tuning.claims_of("http://127.0.0.1:8411", "edge") is not None
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert tuning.claims_of("http://127.0.0.1:8411", "edge") is None


# --- its output goes nowhere ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>&1", "2>&1 | head -1"])
def test_the_loop_goes_on_whatever_happens_to_what_is_shown(folder, where):
    if "full" in where and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    script = f'"$@" {where.partition("|")[0]}; echo $? >code'
    script = f"{{ {script}; }} | head -1" if "|" in where else script
    done = subprocess.run(["sh", "-c", script, "sh", *tune("--trials", "5")], capture_output=True, timeout=AMPLE)
    assert (folder / "code").read_text() == "0\n", done
    assert told() == values(*range(5))


@pytest.mark.parametrize("terminal", [False, True])
def test_the_loop_goes_on_when_nobody_reads_what_is_shown(folder, terminal):
    """A pager whose screen is full, a terminal after Ctrl-S."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 100):
            pass
    os.set_blocking(writer, True)
    done = subprocess.run(tune("--trials", "3"), stderr=writer, timeout=AMPLE)
    assert done.returncode == 0
    assert told() == values(0, 1, 2)
    os.close(reader)
    os.close(writer)


def test_a_line_fits_the_terminal_that_shows_it(folder, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 45))
    subprocess.run(tune("--trials", "3"), stdout=subprocess.DEVNULL, stderr=writer, timeout=AMPLE, check=True)
    os.close(writer)
    shown = b""
    with suppress(OSError):  # EIO at the end
        while chunk := os.read(reader, 65536):
            shown += chunk
    os.close(reader)
    lines = [text.replace("\x1b[K", "") for text in shown.decode().split("\r") if "\x1b[K" in text]
    assert [len(text) for text in lines] == [44] * 3


def test_a_failure_is_a_failure_even_if_nobody_hears_of_it(folder):
    done = subprocess.run(["sh", "-c", '"$@" 2>/dev/full', "sh", *tune("--trials", "1", command=["false", "{power}"])])
    assert done.returncode == 1


def test_the_token_stays_with_us(folder, monkeypatch):
    monkeypatch.setenv("EBBTIDE_TOKEN", "a-long-secret")
    command = ["sh", "-c", "env >>env; echo 1", "{power}"]
    subprocess.run(tune("--trials", "1", command=command), stderr=subprocess.DEVNULL, timeout=AMPLE, check=True)
    text = (folder / "env").read_text()
    assert "a-long-secret" not in text
    assert "XDG_STATE_HOME=" in text
