"""Commands and patience for the tests of `ebbtide tune`."""

import os
import signal
import sys
import threading
import time

import pytest

PYTHON = [sys.executable, "-I", "-S", "-c"]
AMPLE = 60.0  # a time limit that no machine needs
SHORT = 0.25  # one that has to pass


def interrupt_this():
    """As Ctrl-C does, from any thread."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


class Lifeline:
    """A FIFO that a command and all that it starts hold open: it ends when the last of them has."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def holding(self, script):
        """The script in a shell that holds the line, as does whatever it starts."""
        return ["sh", "-c", f'exec 9>"$0"; echo alive >&9; {script}', str(self.path)]

    def wait_for_a_sign(self):
        self._read_until(b"alive\n")

    def assert_ended(self):
        self._read_until(b"")

    def _read_until(self, wanted):
        patience = time.monotonic() + AMPLE
        while time.monotonic() < patience:
            try:
                if os.read(self.reader, 100) == wanted:
                    return
            except BlockingIOError:
                pass
            time.sleep(0.01)
        pytest.fail(f"{wanted!r} never came: the command did not start, or something of it is still running")
