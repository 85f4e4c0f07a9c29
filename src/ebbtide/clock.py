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
    """Seconds since the epoch, by the wall at the start of the process and by monotonic time since.

    A step of the system's time (NTP, a change by hand) changes nothing.
    """

    def __init__(self) -> None:
        self._offset = 0.0

    def never_before(self, time: float) -> None:
        """After a restart: go on from the last time recorded, should the wall be behind it."""
        self._offset += max(0.0, time - self.now())

    @staticmethod
    def _plain() -> float:
        return _WALL_AT_START + (time.monotonic() - _MONOTONIC_AT_START)

    def now(self) -> float:
        """Seconds since 1970."""
        return self._plain() + self._offset


def wait_until(clock: Clock, moment: float) -> None:
    """Return when the clock shows `moment`: by moving it, if it moves only when told to."""
    while (missing := moment - clock.now()) > 0.0:
        if isinstance(clock, ManualClock):
            clock.advance(missing)
        else:
            time.sleep(min(missing, LONGEST_NAP))  # a clock of someone's own may run faster than seconds


class ManualClock:
    """A clock that moves only when told to, in any unit: simulations, tests, replays.

    >>> clock = ManualClock(start=10.0)
    >>> clock.advance(2.5)
    >>> clock.now()
    12.5
    """

    def __init__(self, start: float = 0.0) -> None:
        if not math.isfinite(start):
            raise ConfigurationError(f"start={start!r}: a clock starts at a finite time")
        self._now = float(start)

    def now(self) -> float:
        """The time that it was moved to."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigurationError(f"advance({seconds!r}): time moves forward, by a finite amount")
        self._now += seconds
