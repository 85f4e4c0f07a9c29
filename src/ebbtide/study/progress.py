"""A status line for `optimize`: updated in place on a terminal, printed every ten seconds elsewhere."""

import sys
import time
from collections.abc import Sized
from contextlib import suppress
from typing import Protocol


class Watched(Protocol):
    @property
    def dataset(self) -> Sized: ...
    @property
    def told(self) -> int: ...


class Progress:
    def __init__(self, duration: float, enabled: bool) -> None:
        self.duration, self.enabled = duration, enabled and sys.stderr is not None
        self.terminal = self.enabled and sys.stderr.isatty()
        self.next_line = 0.0

    def update(self, elapsed: float, optimizer: Watched) -> None:
        if not self.enabled or time.monotonic() < self.next_line:
            return
        self.next_line = time.monotonic() + (0.1 if self.terminal else 10.0)
        line = (
            f"{min(elapsed / self.duration, 1.0):4.0%}  {elapsed:.1f} of {self.duration:g}  "
            f"{optimizer.told} told, {len(optimizer.dataset)} active"
        )
        self._show(f"\r{line}\x1b[K" if self.terminal else f"{line}\n")

    def close(self) -> None:
        if self.terminal:
            self._show("\n")

    def _show(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed must not end the loop
            print(text, end="", file=sys.stderr, flush=True)
