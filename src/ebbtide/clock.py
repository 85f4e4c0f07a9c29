"""Where "now" comes from. Any object with `now() -> float` is a clock."""

import math
import time
import warnings
from typing import Protocol

from ebbtide.errors import ClockWarning, ConfigurationError


class Clock(Protocol):
    def now(self) -> float: ...


LONGEST_NAP = 0.05  # seconds
DAY = 86_400.0
GRACE = 5.0  # seconds by which a time may be ahead of the system clock: clocks differ
FAR = 7 * DAY  # two clocks that differ by more: one of them is wrong, and was not merely corrected
LARGEST_TIME = 1e100  # in any unit: the squared difference of two times must be finite
YEAR_2000 = 946_684_800.0  # a machine that shows an earlier time has not been set yet


class _ProcessTime:
    """The wall clock when the process started, plus monotonic time since then.

    It follows the wall clock forward, up to `FAR` at a time: after a boot, or when the machine was suspended. It never
    goes back.
    """

    def __init__(self) -> None:
        self._ahead = time.time() - time.monotonic()  # of monotonic time
        self._warned = False

    def now(self) -> float:
        wall, monotonic = time.time(), time.monotonic()  # in this order: a pause in between must not look like a step
        own = monotonic + self._ahead
        if wall > own and not is_far_ahead(wall, own):
            self._ahead += wall - own
            own = monotonic + self._ahead
        self._warn(wall - own)
        return own

    def _warn(self, step: float) -> None:
        """Warn once of each time that the wall clock is far away."""
        warned, self._warned = self._warned, abs(step) > FAR
        if self._warned and not warned:
            warnings.warn(
                f"the machine's clock went {'forward' if step > 0.0 else 'back'} by {abs(step) / DAY:,.1f} days, which "
                "is not followed: this process goes on counting from the time at which it started. If the machine's "
                "clock is right now, start the process again",
                ClockWarning,
                stacklevel=4,
            )


_PROCESS = _ProcessTime()


def is_far_ahead(moment: float, now: float) -> bool:
    """Whether a time is so far after now, by the system clock, that it must be wrong; unless the clock is not set."""
    return moment - now > FAR and now >= YEAR_2000


class SystemClock:
    """Seconds since the epoch: the wall clock when the process started, plus monotonic time since then.

    If the wall clock is set back, nothing changes. If it is ahead, by 7 days at most, it is followed.
    """

    def __init__(self) -> None:
        self._least = -math.inf  # how far it is ahead of monotonic time, at least
        self._warned = False

    def never_before(self, reading: float) -> None:
        """After a restart: continue from the last time recorded, if the wall clock is behind it.

        A time that is more than 7 days ahead was recorded by a clock that was wrong; it is not followed.
        """
        now = _PROCESS.now()
        if not is_far_ahead(reading, now):
            self._least = max(self._least, reading - time.monotonic())
        elif not self._warned:
            self._warned = True
            warnings.warn(
                f"the last time recorded is {(reading - now) / DAY:,.1f} days ahead of this machine's clock, which is "
                "not followed. If the machine's clock is wrong, set it and start again; if it was wrong before, set "
                "aside what is dated in the future: `ebbtide forget-future`, or Optimizer.forget_future()",
                ClockWarning,
                stacklevel=2,
            )

    def now(self) -> float:
        """Seconds since 1970."""
        return max(_PROCESS.now(), time.monotonic() + self._least)


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
        if not abs(start) <= LARGEST_TIME:
            raise ConfigurationError(f"start={start!r}: give a number up to {LARGEST_TIME:g}, in any unit of time")
        self._now = float(start)

    def now(self) -> float:
        """The start, plus everything it was advanced by."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigurationError(f"advance({seconds!r}): time only moves forward; give a finite number ≥ 0")
        self._now += seconds
