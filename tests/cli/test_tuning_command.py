"""One evaluation by a command: its value, what may go wrong, and that nothing of it is left."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest
from helpers.tuning import AMPLE, PYTHON, SHORT, interrupt_this

from ebbtide.tuning import command, guard, run_command
from ebbtide.tuning.outcome import LONGEST_QUOTE

pytestmark = pytest.mark.usefixtures("little_grace")


def python(code):
    return run_command([*PYTHON, code], AMPLE)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("print(3)", 3.0),
        ("print('warming up\\n', -2.5e-3, '\\n\\n  \\n')", -0.0025),
        ("print('10 %\\r', end=''); print('4.5', end='')", 4.5),
        ("print('7\\r\\n')", 7.0),
        ("""print('log'); print('{"value": 1.5, "unit": "dB"}')""", 1.5),
        ("import sys; print(8); print('a warning', file=sys.stderr)", 8.0),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\n6\\n')", 6.0),
        ("import sys; print('x' * 99 + '\\n', end='') or [print('y' * 9999) for _ in range(99)]; print(11)", 11.0),
        ("import sys; [print('e' * 9999, file=sys.stderr) for _ in range(99)]; print(12)", 12.0),
        ("import sys; print(len(sys.stdin.read()))", 0.0),
    ],
)
def test_the_value_is_the_last_line(code, value):
    outcome = python(code)
    assert (outcome.value, outcome.problem) == (value, None)
    assert 0.0 < outcome.seconds < AMPLE


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("print(5); raise SystemExit('no route\\tto \\x1b[31mhost\\x1b[0m\\n\\n')", "exit code 1: no route to host"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; print(5, flush=True); os.abort()", "killed by SIGABRT"),
        ("import os; os.kill(os.getpid(), 63)", "killed by signal 63"),  # which has no name
        ("pass", "printed nothing"),
        ("print(' \\n\\t\\n')", "printed nothing"),
        ("import sys; print('boo', file=sys.stderr)", "printed nothing: boo"),
        ("print(5); print('done')", "the last line is 'done', not a finite number"),
        ("print('nan')", "'nan'"),
        ("print('-inf')", "'-inf'"),
        ("print('1e999')", "'1e999'"),
        ("print('2024_01')", "'2024_01'"),
        ("print('3,5')", "'3,5'"),
        ("print('{\"value\": NaN}')", "NaN"),
        ("print('{\"value\": true}')", "true"),
        ('print(\'{"value": "3"}\')', "finite number"),
        ("print('{\"cost\": 3}')", "cost"),
        ("print('{\"value\": 1' + '0' * 9000 + '}')", "finite number"),
        ("print('{\"value\": ' + '[' * 60000)", "finite number"),
        ("print('{')", "'{'"),
        ("print('[3]')", "'[3]'"),
        ("import os; os.write(1, bytes(range(128, 256)))", "the last line is '"),
        ("print('1' * 70000)", "a last line longer than 65536 bytes"),
    ],
)
def test_what_went_wrong_is_said_in_one_line(code, problem):
    outcome = python(code)
    assert outcome.value is None
    assert problem in outcome.problem
    assert outcome.problem.isprintable()
    assert len(outcome.problem) <= LONGEST_QUOTE


def test_commands_that_cannot_start(tmp_path):
    script = tmp_path / "not-executable"
    script.write_text("echo 1")
    script.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert "cannot start './nowhere': No such file" in run_command(["./nowhere"], AMPLE).problem
    assert "Permission denied" in run_command([str(script)], AMPLE).problem
    assert "cannot start ''" in run_command([""], AMPLE).problem
    assert "null byte" in run_command(["true", "a\0b"], AMPLE).problem
    assert "surrogates" in run_command(["true", "\ud800"], AMPLE).problem
    assert "too long" in run_command(["true", *["x" * 100_000] * 100], AMPLE).problem


def test_a_hanging_command_ends_with_all_that_it_started(lifeline):
    outcome = run_command(lifeline.holding("echo 5; echo stuck >&2; sleep 1000 & sleep 1000"), SHORT)
    assert outcome.value is None
    assert outcome.problem.startswith("still running after 0.25 s")
    lifeline.assert_ended()


def test_one_that_ignores_sigterm_is_killed(lifeline):
    outcome = run_command(lifeline.holding("trap '' TERM; while :; do sleep 0.05; done"), SHORT)
    assert "still running" in outcome.problem
    assert "could not" not in outcome.problem
    lifeline.assert_ended()


def test_one_that_ends_well_at_sigterm_is_late_all_the_same(lifeline):
    outcome = run_command(lifeline.holding("trap 'echo 7; exit 0' TERM; while :; do sleep 0.02; done"), SHORT)
    assert outcome.value is None
    assert "still running" in outcome.problem
    lifeline.assert_ended()


def test_one_that_closes_its_output_and_hangs(lifeline):
    assert "still running" in run_command(lifeline.holding("exec >&- 2>&-; sleep 1000"), SHORT).problem
    lifeline.assert_ended()


def test_a_grandchild_that_keeps_the_output_open(lifeline):
    outcome = run_command(lifeline.holding("sleep 1000 & echo 4"), AMPLE)
    assert (outcome.value, outcome.problem) == (4.0, None)
    lifeline.assert_ended()


def test_a_grandchild_in_a_session_of_its_own_is_not_waited_for():
    """Nor heard out: it goes on forever, which ends when nobody listens any more."""
    outcome = python(
        "import os\n"
        "ready, go = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.write(go, b'!')\n"
        "    while True: os.write(1, b'3\\n' * 9999)\n"
        "os.read(ready, 1)\n"
        "print(3)\n"
    )
    assert outcome.value == 3.0


def test_endless_output_ends_when_its_time_is_over():
    assert "still running" in run_command(["yes"], SHORT).problem
    assert "still running" in run_command([*PYTHON, "while True: print('x' * 99999, end='')"], SHORT).problem


def test_much_output_takes_little_memory():
    tracemalloc.start()
    try:
        outcome = python("for _ in range(320): print('x' * 100_000, end='')\nprint('\\n1')")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.value == 1.0
    assert peak < 1_000_000  # of 32 MB that were printed


@pytest.fixture
def started(monkeypatch):
    """Every process that is started."""
    processes = []
    popen = subprocess.Popen

    def remembered(*args, **options):
        processes.append(popen(*args, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    return processes


def test_one_that_nobody_may_kill_does_not_hold_the_loop_up(monkeypatch, started):
    """As of another user."""

    def refused(group, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refused)
    monkeypatch.setattr(command, "DEATH", 0.1)
    outcome = run_command(["sleep", "1000"], 0.1)
    assert outcome.problem == "still running after 0.1 s, and could not be killed"
    started[-1].kill()
    started[-1].wait()


def test_nothing_stays_beside_the_command(started):
    run_command(["echo", "1"], AMPLE)
    run_command(["./nowhere"], AMPLE)
    run_command(["sleep", "1000"], 0.05)
    assert len(started) == 4  # two commands, each with its guard
    assert all(process.returncode is not None for process in started)


def test_a_system_without_a_shell_still_measures(monkeypatch):
    monkeypatch.setattr(guard, "SHELL", "/nowhere/sh")
    assert run_command(["echo", "1"], AMPLE).value == 1.0


def test_a_guard_that_was_killed_is_not_missed(monkeypatch):
    """Its end of the pipe is closed before the command tells it anything."""
    monkeypatch.setattr(guard, "GUARD", "exit")
    popen = subprocess.Popen

    def patient(argv, **options):
        process = popen(argv, **options)
        if guard.GUARD in argv:
            process.wait(AMPLE)
        return process

    monkeypatch.setattr(subprocess, "Popen", patient)
    assert run_command(["echo", "1"], AMPLE).value == 1.0


def test_the_command_gets_our_environment_but_no_secret(monkeypatch):
    monkeypatch.setenv("EBBTIDE_TOKEN", "a-long-secret")
    monkeypatch.setenv("EDGE", "7")
    outcome = run_command(["sh", "-c", 'echo "$EDGE${EBBTIDE_TOKEN+1}"'], AMPLE)
    assert outcome.value == 7.0
    assert os.environ["EBBTIDE_TOKEN"] == "a-long-secret"


KILLED = """
import sys
from ebbtide.tuning import run_command

run_command(sys.argv[1:], 1000.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", ["sleep 1000 & sleep 1000", "trap '' TERM HUP; while :; do sleep 0.05; done"])
def test_the_command_ends_with_all_that_it_started_when_we_are_killed(lifeline, script):
    with subprocess.Popen([sys.executable, "-c", KILLED, *lifeline.holding(script)]) as loop:
        lifeline.wait_for_a_sign()
        loop.kill()
    lifeline.assert_ended()


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_cuts_the_grace_short(lifeline, monkeypatch):
    monkeypatch.setattr(command, "GRACE", 100 * AMPLE)

    def interrupt_twice():
        lifeline.wait_for_a_sign()
        interrupt_this()
        lifeline.wait_for_a_sign()  # it has been asked to end, and did not
        interrupt_this()

    impatient = threading.Thread(target=interrupt_twice)
    impatient.start()
    script = 'trap "echo alive >&9" TERM; exec 9>"$0"; echo alive >&9; while :; do sleep 0.05; done'
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", script, str(lifeline.path)], 100 * AMPLE)
    impatient.join()
    lifeline.assert_ended()


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("ending", ["kill -TERM $$", "exit 143"])
def test_one_that_is_stopped_just_before_us_has_not_failed(monkeypatch, ending):
    """A shutdown stops all processes, in any order."""
    monkeypatch.setattr(command, "OUR_TURN", 100 * AMPLE)
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", f"(sleep 0.2; kill -INT $PPID) & {ending}"], AMPLE)


def test_one_that_is_stopped_by_itself_has(monkeypatch):
    monkeypatch.setattr(command, "OUR_TURN", 0.01)
    assert run_command(["sh", "-c", "kill -TERM $$"], AMPLE).problem == "killed by SIGTERM"


@pytest.mark.usefixtures("ctrl_c")
def test_a_ctrl_c_while_the_command_starts_leaves_nothing_running(lifeline, monkeypatch):
    popen = subprocess.Popen

    def interrupted(*args, **kwargs):
        process = popen(*args, **kwargs)
        interrupt_this()
        time.sleep(0.01)  # here an interrupt would be raised, and the process forgotten
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(lifeline.holding("sleep 1000"), AMPLE)
    lifeline.assert_ended()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_can_be_run_from_any_thread():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(run_command(["echo", "2"], AMPLE)))
    thread.start()
    thread.join()
    assert outcomes[0].value == 2.0


def test_no_descriptor_stays_open():
    before = len(os.listdir("/dev/fd"))
    run_command(["echo", "1"], AMPLE)
    run_command(["./nowhere"], AMPLE)
    run_command(["true", "\0"], AMPLE)
    run_command(["sleep", "1000"], 0.05)
    assert len(os.listdir("/dev/fd")) <= before  # fewer, if something of another test was collected meanwhile


KILLED_AT_ONCE = """
import os, signal, subprocess
from ebbtide.tuning import guard, run_command

popen = subprocess.Popen

def deadly(argv, **options):
    process = popen(argv, **options)
    if guard.BECOME in argv:
        print(process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return process

subprocess.Popen = deadly
run_command(["sleep", "1000"], 1000.0)
"""


@pytest.mark.slow
def test_nor_does_a_command_outlive_us_that_was_started_a_moment_ago():
    done = subprocess.run([sys.executable, "-c", KILLED_AT_ONCE], stdout=subprocess.PIPE, timeout=AMPLE)
    assert done.returncode == -signal.SIGKILL
    group, patience = int(done.stdout), time.monotonic() + AMPLE
    while _is_there(group) and time.monotonic() < patience:
        time.sleep(0.02)
    assert not _is_there(group)


def _is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
