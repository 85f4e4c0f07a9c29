"""What the examples with real systems share: the time of day, unprivileged processes, and a clean end."""

import contextlib
import math
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

DAY = 300.0  # seconds: the load repeats after this time
NOBODY = "nobody"
PATIENCE = 30.0  # seconds for a server to start or to stop


def tide(at: float, day: float = DAY) -> float:
    """How far the day has come in: 0 at midnight, when the clock shows a multiple of `day`, and 1 at noon.

    >>> [round(tide(at, day=4.0), 3) for at in (0.0, 1.0, 2.0, 3.0, 4.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * at / day)


def between(midnight: float, noon: float, at: float, day: float = DAY) -> float:
    """A rate that changes by multiples: `midnight` at midnight, `noon` at noon, half way between their geometric mean.

    >>> [round(between(1.0, 100.0, at, day=4.0), 3) for at in (0.0, 1.0, 2.0)]
    [1.0, 10.0, 100.0]
    """
    return math.exp(math.log(midnight) + tide(at, day) * (math.log(noon) - math.log(midnight)))


def fail(reason: str) -> None:
    """End a measuring script as `ebbtide tune` expects it of a failure: one line, and an exit code other than 0."""
    sys.exit(reason)


def unprivileged() -> dict[str, Any]:
    """Options of subprocess.Popen: as root, run as `nobody`; everybody else runs it as themselves."""
    return {} if os.geteuid() else {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder in which the unprivileged user may write; it is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ebbtide-"))
    try:
        if not os.geteuid():
            os.chown(folder, pwd.getpwnam(NOBODY).pw_uid, -1)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def server(argv: Sequence[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """A server that answers when the block begins and has ended when it is left, however it is left."""
    with log.open("wb") as output:
        # A session of its own: Ctrl-C reaches us alone, and we end the server when its clients are done.
        # And if we are killed, the kernel interrupts it.
        last_will = ["setpriv", "--pdeathsig", "INT", "--"]
        process = subprocess.Popen(
            [*last_will, *argv], stdout=output, stderr=output, start_new_session=True, **unprivileged()
        )
        try:
            _wait_for(ready, process, log)
            yield
        finally:
            _end(process)


def _wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not answer; it printed:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)  # PostgreSQL: disconnect the clients and shut down; Redis: shut down
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM cleans up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables that the measuring scripts find their system by."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
