"""One evaluation by a command. Whatever happens, the result is an Outcome, and nothing of the command is left."""

import errno
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import IO, Any

from ebbtide.tuning.guard import guarded
from ebbtide.tuning.outcome import Outcome, Tail, one_line, outcome_of_last_line, reason

CHUNK = 64 * 1024
LAST_READS = 32  # after the command's end: enough for a full pipe, but not for an orphan that keeps writing
GRACE = 1.0  # seconds between SIGTERM and SIGKILL
DEATH = 5.0  # seconds for SIGKILL to work; it fails on another user's process and while a process waits for a dead disk
LONGEST_ENDING = GRACE + DEATH  # seconds that an evaluation may take beyond its time
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.05
OUR_TURN = 1.0  # seconds in which we are told to stop if the command was
SECRETS = ("EBBTIDE_TOKEN",)  # in our environment, and not for the command


def run_command(argv: Sequence[str], timeout: float, *, prints_value: bool = True) -> Outcome:
    """Run a command until it ends or its time is over. Nothing of its process group is left running."""
    ran = run(argv, timeout)
    if ran.problem is not None:
        return Outcome(None, ran.problem, ran.seconds)
    outcome = outcome_of_last_line(ran.out, ran.seconds) if prints_value else Outcome(None, None, ran.seconds)
    return replace(outcome, problem=outcome.problem and ran.complaint(outcome.problem))


@dataclass(frozen=True)
class Ran:
    """A command that has ended: what it printed, or one line about what went wrong."""

    out: Tail
    err: Tail
    seconds: float
    problem: str | None

    def complaint(self, why: str) -> str:
        """One line, with the last one that it printed about itself."""
        return one_line(": ".join(filter(None, [why, self.err.last_line()])))


def run(argv: Sequence[str], timeout: float) -> Ran:
    """The same, whatever the command prints."""
    started = time.monotonic()
    out, err = Tail(), Tail()
    why = None
    try:
        with _running(argv) as process:
            in_time = _listen(process, started + timeout, out, err)
            if in_time and _was_told_to_stop(process.returncode):
                time.sleep(OUR_TURN)
    except _StartError as error:
        return Ran(out, err, time.monotonic() - started, str(error))
    if not in_time:
        survived = "" if process.returncode is not None else ", and could not be killed"
        why = f"still running after {timeout:g} s{survived}"
    elif process.returncode != 0:
        why = _ending(process.returncode)
    ran = Ran(out, err, time.monotonic() - started, None)
    return ran if why is None else replace(ran, problem=ran.complaint(why))


class _StartError(Exception):
    """The command could not be started."""


@contextmanager
def _running(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a session of its own, which is ended however this block is left, and if we are killed."""
    with ExitStack() as to_end:
        try:
            _check_executable(argv[0])
            with _signals_held():
                start, stdin = to_end.enter_context(guarded(argv, GRACE, environment()))
                process = subprocess.Popen(  # noqa: S603 - a list, and no shell that would read it
                    start,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env=environment(),
                )
                to_end.callback(_end, process)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ValueError: a NUL, a lone surrogate
            raise _StartError(one_line(f"cannot start {argv[0]!r}: {reason(error)}")) from error
        yield process


def _check_executable(name: str) -> None:
    """The error that starting it would raise, if it starts at all: the shell that becomes the command has no words."""
    if shutil.which(name) is None:
        code = errno.EACCES if os.path.dirname(name) and os.path.exists(name) else errno.ENOENT
        raise OSError(code, os.strerror(code))


def environment() -> dict[str, str]:
    """Ours, without what is secret: a command may print its environment, or send it somewhere."""
    return {name: value for name, value in os.environ.items() if name not in SECRETS}


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay Ctrl-C: between the fork and the moment we know the child's PID it would leave the child running."""
    held: list[tuple[int, FrameType | None]] = []
    handlers = _handlers()
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: held.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in held:
            handlers[number](number, frame)


def _handlers() -> dict[int, Callable[[int, FrameType | None], Any]]:
    """Handlers that may raise: that of Ctrl-C, and those that somebody installed for SIGTERM and SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    return {int(number): handler for number, handler in found.items() if callable(handler)}


def _listen(process: subprocess.Popen[bytes], deadline: float, out: Tail, err: Tail) -> bool:
    """Read output until the command ends (True) or the deadline passes (False).

    Not until the output ends: a process that the command started may hold it open forever.
    """
    with selectors.PollSelector() as pipes:
        for pipe, tail in zip(_pipes(process), (out, err), strict=True):
            pipes.register(pipe, selectors.EVENT_READ, tail)
        nap = SHORTEST_NAP
        while (running := process.poll() is None) and (left := deadline - time.monotonic()) > 0.0:
            heard = _hear(pipes, min(nap, left))
            nap = SHORTEST_NAP if heard else min(2.0 * nap, LONGEST_NAP)
        for _ in range(LAST_READS):
            if not _hear(pipes, 0.0):
                break
    return not running


def _pipes(process: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    return [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]


def _hear(pipes: selectors.BaseSelector, seconds: float) -> bool:
    ready = pipes.select(seconds)
    for key, _ in ready:
        chunk = os.read(key.fd, CHUNK)
        if chunk:
            key.data.add(chunk)
        else:
            pipes.unregister(key.fileobj)
    return bool(ready)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process group, then kill what is left of it. A second Ctrl-C cuts the grace short."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            _wait(process, GRACE)
    finally:
        _signal(process, signal.SIGKILL)
        _wait(process, DEATH)
        for pipe in _pipes(process):
            pipe.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # EPERM: on macOS only a zombie is left of the group; on Linux it belongs to another user.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _was_told_to_stop(code: int) -> bool:
    """By whoever stops everything, as at a shutdown: then we are told too, and the evaluation did not fail."""
    return any(code in (-number, 128 + number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"
