"""Commands and patience for the tests of `ebbtide tune`."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

PYTHON = [sys.executable, "-I", "-S", "-c"]
AMPLE = 60.0  # a time limit that no machine needs
SHORT = 0.25  # one that has to pass


def interrupt_this() -> None:
    """As Ctrl-C does, from any thread."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


class Lifeline:
    """A FIFO that a command and all that it starts hold open: it ends when the last of them has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def holding(self, script: str) -> list[str]:
        """The script in a shell that holds the line, as does whatever it starts."""
        return ["sh", "-c", f'exec 9>"$0"; echo alive >&9; {script}', str(self.path)]

    def wait_for_a_sign(self) -> None:
        self._read_until(b"alive\n")

    def assert_ended(self) -> None:
        self._read_until(b"")

    def _read_until(self, wanted: bytes) -> None:
        patience = time.monotonic() + AMPLE
        while time.monotonic() < patience:
            try:
                if os.read(self.reader, 100) == wanted:
                    return
            except BlockingIOError:
                pass
            time.sleep(0.01)
        pytest.fail(f"{wanted!r} never came: the command did not start, or something of it is still running")
