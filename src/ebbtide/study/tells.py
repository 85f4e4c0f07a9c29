"""Checks of a tell: its value, time and key, and whether it was told before."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.checks import as_finite, is_text, is_whole
from ebbtide.clock import GRACE, LARGEST_TIME, YEAR_2000, is_far_ahead
from ebbtide.errors import ObservationError, TrialError
from ebbtide.records import Kind, Observation, Trial, copied
from ebbtide.space import Params
from ebbtide.study.engine import Engine
from ebbtide.study.log import Log

MAX_KEY = 200  # characters of an idempotency key
WARNS = 4  # functions up from where a warning is raised is who called `Optimizer.tell`


@dataclass(frozen=True)
class Tell:
    """One tell: an outcome (None: it failed, or was called off) for a trial, or for parameters measured elsewhere."""

    subject: Trial | Mapping[str, Any]
    outcome: float | None
    abandoned: bool
    time: float | None
    key: str | None
    system_clock: bool
    measured: Params = field(default_factory=dict)  # of the context
    constraints: dict[str, float] | None = None

    def observation(self, engine: Engine, log: Log, now: float) -> Observation | None:
        """The observation to record, checked; None if it was told before."""
        moment = now if self.time is None else self._checked(self.time, now)
        if not isinstance(self.subject, Trial):
            params = engine.space.check(self.subject)
            if self._told_under_key(log, None, params):
                return None
            return self._around(engine, None, self._told(params, moment))
        trial = self.subject
        if self._told_under_key(log, trial.id, trial.params):
            return None
        asked = engine.active.pending.get(trial.id)  # nearly always found here, without reading the log
        if asked is None or asked.params != trial.params:
            asked = asked_before(log, trial)
            if self._told_before(log, trial.id):
                return None
        if self.time is None:
            moment = self._moment_of(asked, now, max(now, engine.latest_reading))
        return self._around(engine, asked, self._told(asked.params, moment, trial.id, asked.kind))

    def _told(self, params: Params, time: float, trial: str | None = None, kind: Kind | None = None) -> Observation:
        return Observation(
            params,
            time,
            self.outcome,
            trial,
            kind=kind,
            key=self.key,
            abandoned=self.abandoned,
            constraints=self.constraints,
        )

    def _around(self, engine: Engine, asked: Trial | None, told: Observation) -> Observation:
        """The observation with what was measured beside its value. What was not is as it was for the trial, or as it
        was measured last. Without a value, it may be unknown, and nobody needs to hear of it.
        """
        if engine.definition.conditions.context is None:
            return told
        before = {} if asked is None else asked.context or {}
        try:
            completed = engine.completed(before | self.measured, told.time)
        except ObservationError:
            if told.value is not None:
                raise
            return told
        if told.value is not None:
            completed.warn(WARNS)
        earlier = () if asked is None else asked.filled
        filled = [name for name in completed.context or {} if name in earlier or name in completed.ages]
        return replace(
            told, context=completed.context, filled=tuple(name for name in filled if name not in self.measured)
        )

    def _moment_of(self, asked: Trial, now: float, latest: float) -> float:
        """The trial's own time. The clock may have gone back since the ask, so the time is compared with the latest
        reading; if the clock was wrong at the ask, the time is now. A query that ends without a value before its time
        (ABO waits) ends now.
        """
        if self.system_clock and is_far_ahead(asked.time, now):
            return now
        return min(asked.time, latest) if self.outcome is None else self._checked(asked.time, latest)

    def _checked(self, time: Any, now: float) -> float:
        return checked_time(time, now, system_clock=self.system_clock)

    def _told_before(self, log: Log, trial_id: str) -> bool:
        """Whether the same was told before; an error if something else was."""
        earlier = log.observation_of(trial_id)
        if earlier is not None and not self._is_same(earlier):
            raise TrialError(
                f"trial {trial_id!r} was told {_shown(earlier)} before and {_shown(self)} now; a trial has one "
                "value: for another measurement of the same point, tell its parameters: tell(trial.params, value)"
            )
        return earlier is not None

    def _told_under_key(self, log: Log, trial_id: str | None, params: Mapping[str, Any]) -> bool:
        """Whether the same was told before under the same idempotency key; an error if something else was."""
        earlier = None if self.key is None else log.observation_under(self.key)
        if earlier is None:
            return False
        if (earlier.trial_id, earlier.params) != (trial_id, params) or not self._is_same(earlier):
            raise TrialError(
                f"under the key {self.key!r}, {earlier.params} was told {_shown(earlier)} before, and {params} is told "
                f"{_shown(self)} now; a key belongs to one tell: make a new one for each"
            )
        return True

    def _is_same(self, earlier: Observation) -> bool:
        """Whether what was measured is what was told before."""
        known = earlier.context or self.measured
        outcome = (earlier.value, earlier.abandoned, earlier.constraints)
        same_context = all(known[name] == value for name, value in self.measured.items())
        return same_context and outcome == (self.outcome, self.abandoned, self.constraints)


def checked_value(value: Any, failed: bool, abandoned: bool = False) -> float | None:
    """A finite number; None for an evaluation that failed or was called off."""
    if failed and abandoned:
        raise ObservationError("failed=True and abandoned=True: an evaluation that was called off did not fail")
    if failed or abandoned:
        if value is not None:
            how, was = ("failed", "failed") if failed else ("abandoned", "was called off")
            raise ObservationError(f"value={value!r} and {how}=True: an evaluation that {was} has no value")
        return None
    outcome = as_finite(value)
    if outcome is None:
        raise ObservationError(f"value={value!r}: tell a finite number, or failed=True if the evaluation failed")
    return outcome


def checked_time(time: Any, now: float, *, system_clock: bool) -> float:
    """A time that is not in the future, and that the system clock can have shown."""
    moment = finite_time(time)
    if abs(moment) > LARGEST_TIME:
        raise ObservationError(f"time={time!r}: give a time between {-LARGEST_TIME:g} and {LARGEST_TIME:g}")
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
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY and is_text(key) and "\0" not in key):
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
    return copied(asked)


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


def _shown(told: Observation | Tell) -> str:
    outcome, context = (told.value, told.context) if isinstance(told, Observation) else (told.outcome, told.measured)
    shown = "that it was abandoned" if told.abandoned else "that it failed" if outcome is None else repr(outcome)
    beside = {"constraints": told.constraints, "context": context}
    return shown + "".join(f", {name} {values}" for name, values in beside.items() if values)
