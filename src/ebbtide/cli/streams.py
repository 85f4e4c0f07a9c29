"""Standard streams that were closed, whose disk is full, whose terminal is gone, or that nobody reads."""

import os
import select
import shutil
import sys
from contextlib import suppress
from typing import IO, cast

PATIENCE = 0.1  # seconds for a reader to make room


def prepare() -> None:
    """Open the streams that were closed when we started: the next file opened would get their numbers, and our text."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(file)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process


def finish() -> None:
    """Forget what could not be written: at the exit, Python would fail once more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def display() -> IO[str]:
    """Standard error, for what is only shown: what cannot be written is dropped, and the work goes on."""
    return cast("IO[str]", _Display())


class _Display:
    """As much of a stream as a console of Rich needs."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            if _has_room():
                sys.stderr.write(text)
                sys.stderr.flush()
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def columns() -> int:
    """The width of the terminal at standard error, now; standard output may be another one, or none."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return width or shutil.get_terminal_size().columns


def _has_room() -> bool:
    """A pipe to `less` is full when the screen is, and a terminal after Ctrl-S: writing there would wait for a key."""
    try:
        return bool(select.select([], [sys.stderr], [], PATIENCE)[1])
    except (OSError, ValueError):  # not a stream that one can ask
        return True
