"""Checks of a tell: its value, time and key, and whether it was told before."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.checks import as_finite, is_text, is_whole
from ebbtide.errors import ObservationError, TrialError
from ebbtide.records import Observation, Trial
from ebbtide.study.engine import Engine
from ebbtide.study.log import Log

GRACE = 5.0  # seconds by which a time told may be ahead of the system clock
YEAR_2000 = 946_684_800.0
MAX_KEY = 200  # characters of an idempotency key


@dataclass(frozen=True)
class Tell:
    """One tell: an outcome (None: it failed) for a trial, or for parameters measured elsewhere."""

    subject: Trial | Mapping[str, Any]
    outcome: float | None
    time: float | None
    key: str | None
    system_clock: bool

    def observation(self, engine: Engine, log: Log, now: float) -> Observation | None:
        """The observation to record, checked; None if it was told before."""
        moment = now if self.time is None else self._checked(self.time, now)
        if not isinstance(self.subject, Trial):
            params = engine.space.check(self.subject)
            told = self.key is not None and told_under(log, self.key, None, params, self.outcome)
            return None if told else Observation(params, moment, self.outcome, key=self.key)
        trial = self.subject
        if self.key is not None and told_under(log, self.key, trial.id, trial.params, self.outcome):
            return None
        asked = engine.active.pending.get(trial.id)  # nearly always found here, without reading the log
        if asked is None or asked.params != trial.params:
            asked = asked_before(log, trial)
            if told_before(log, trial.id, self.outcome):
                return None
        if self.time is None:
            moment = self._moment_of(asked, max(now, engine.latest_reading))
        return Observation(asked.params, moment, self.outcome, trial.id, key=self.key)

    def _moment_of(self, asked: Trial, latest: float) -> float:
        """The trial's own time. The clock may have gone back since the ask, so the time is compared with the latest
        reading. A query that is called off before its time (ABO waits) failed now.
        """
        return min(asked.time, latest) if self.outcome is None else self._checked(asked.time, latest)

    def _checked(self, time: Any, now: float) -> float:
        return checked_time(time, now, system_clock=self.system_clock)


def checked_value(value: Any, failed: bool) -> float | None:
    """A finite number; None for a failed evaluation."""
    if failed:
        if value is not None:
            raise ObservationError(f"value={value!r} and failed=True: a failed evaluation has no value")
        return None
    outcome = as_finite(value)
    if outcome is None:
        raise ObservationError(f"value={value!r}: tell a finite number, or failed=True if the evaluation failed")
    return outcome


def checked_time(time: Any, now: float, *, system_clock: bool) -> float:
    """A time that is not in the future, and that the system clock can have shown."""
    moment = finite_time(time)
    if moment > now + (GRACE if system_clock else 0.0):
        raise ObservationError(
            f"time={time!r} is {moment - now:g} after now ({now!r}): no value can come from the future; "
            "wait until then, or check the clock's unit"
        )
    if system_clock and moment < YEAR_2000:
        raise ObservationError(
            f"time={time!r} is before the year 2000 by the system clock, which counts seconds since 1970; "
            "for steps or simulated time, pass clock=eb.ManualClock()"
        )
    return min(moment, now)


def finite_time(time: Any) -> float:
    moment = as_finite(time)
    if moment is None:
        raise ObservationError(f"time={time!r}: give a finite number, in the clock's unit")
    return moment


def checked_key(key: Any) -> str | None:
    """An idempotency key."""
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY and is_text(key)):
        raise ObservationError(f"key={key!r}: give a string of 1 to {MAX_KEY} characters, a new one for each tell")
    return key


def as_id(given: Any) -> Any:
    """An id is a string of digits; a whole number means the same."""
    return str(given) if is_whole(given) else given


def asked_under(log: Log, trial_id: str | int) -> Trial:
    """The trial with this id; an error if there is none."""
    asked = log.trial(as_id(trial_id))
    if asked is None:
        raise never_asked(trial_id)
    return replace(asked, params=dict(asked.params))


def never_asked(trial_id: object) -> TrialError:
    return TrialError(f"trial {trial_id!r} was never asked for; use an id that ask() returned")


def asked_before(log: Log, trial: Trial) -> Trial:
    """The trial as it was asked; an error if it never was."""
    asked = log.trial(trial.id)
    if asked is None or asked.params != trial.params:
        raise TrialError(
            f"trial {trial.id!r} with {trial.params} is not one that this optimizer asked for; for other data, or for "
            "parameters that you have changed, tell the parameters: tell(trial.params, value, time=...)"
        )
    return asked


def told_before(log: Log, trial_id: str, value: float | None) -> bool:
    """Whether this value was told before; an error if another one was."""
    earlier = log.observation_of(trial_id)
    if earlier is not None and earlier.value != value:
        raise TrialError(
            f"trial {trial_id!r} was told {_shown(earlier.value)} before and {_shown(value)} now; a trial has one "
            "value: for another measurement of the same point, tell its parameters: tell(trial.params, value)"
        )
    return earlier is not None


def told_under(log: Log, key: str, trial_id: str | None, params: Mapping[str, Any], value: float | None) -> bool:
    """Whether this was told before under the same idempotency key; an error if something else was."""
    earlier = log.observation_under(key)
    if earlier is None:
        return False
    if (earlier.trial_id, earlier.params, earlier.value) != (trial_id, params, value):
        raise TrialError(
            f"under the key {key!r}, {earlier.params} was told {_shown(earlier.value)} before, and {params} is told "
            f"{_shown(value)} now; a key belongs to one tell: make a new one for each"
        )
    return True


def _shown(value: float | None) -> str:
    return "that it failed" if value is None else repr(value)
