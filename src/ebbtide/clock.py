"""Where "now" comes from. Any object with `now() -> float` is a clock."""

import math
import time
from typing import Protocol

from ebbtide.errors import ConfigurationError


class Clock(Protocol):
    def now(self) -> float: ...


LONGEST_NAP = 0.05  # seconds

_WALL_AT_START = time.time()
_MONOTONIC_AT_START = time.monotonic()


class SystemClock:
    """Seconds since the epoch: the wall clock when the process started, plus monotonic time since then.

    Changes of the system's time (by NTP or by hand) have no effect.
    """

    def __init__(self) -> None:
        self._offset = 0.0

    def never_before(self, time: float) -> None:
        """After a restart: continue from the last time recorded, if the wall clock is behind it."""
        self._offset += max(0.0, time - self.now())

    @staticmethod
    def _plain() -> float:
        return _WALL_AT_START + (time.monotonic() - _MONOTONIC_AT_START)

    def now(self) -> float:
        """Seconds since 1970."""
        return self._plain() + self._offset


def wait_until(clock: Clock, moment: float) -> None:
    """Return when the clock shows `moment`. A ManualClock is advanced to it."""
    while (missing := moment - clock.now()) > 0.0:
        if isinstance(clock, ManualClock):
            clock.advance(missing)
        else:
            time.sleep(min(missing, LONGEST_NAP))  # a user's clock may run faster than real time


class ManualClock:
    """A clock that moves only when you advance it, in any unit: for simulations, tests and replays.

    >>> clock = ManualClock(start=10.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    12.5
    """

    def __init__(self, start: float = 0.0) -> None:
        if not math.isfinite(start):
            raise ConfigurationError(f"start={start!r}: give a finite number, in any unit of time")
        self._now = float(start)

    def now(self) -> float:
        """The start, plus everything it was advanced by."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigurationError(f"advance({seconds!r}): time only moves forward; give a finite number ≥ 0")
        self._now += seconds
