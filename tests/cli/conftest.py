"""What the tests of `ebbtide tune` share."""

import os
import signal

import pytest
from helpers.tuning import Lifeline

from ebbtide.tuning import command, endpoint


@pytest.fixture
def lifeline(tmp_path):
    line = Lifeline(tmp_path / "lifeline")
    yield line
    os.close(line.reader)


@pytest.fixture
def little_grace(monkeypatch):
    """A command that ignores SIGTERM is killed soon."""
    for module in (command, endpoint):
        monkeypatch.setattr(module, "GRACE", 0.2)


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
