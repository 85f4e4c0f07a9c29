"""The loop: ask, evaluate, tell, at a given pace and through failures, until Ctrl-C."""

import math
import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from ebbtide.clock import Clock, SystemClock, wait_until
from ebbtide.errors import (
    ConfigurationError,
    EbbtideError,
    NothingKnownError,
    NumericalError,
    ObservationError,
    ServiceError,
    StorageError,
    TrialError,
)
from ebbtide.records import Recommendation, Trial
from ebbtide.tuning.claims import Claim, Claims
from ebbtide.tuning.context import Reading
from ebbtide.tuning.outcome import Outcome, one_line
from ebbtide.tuning.status import Status

# Errors that may pass: a full disk, a lock, a server that restarts, a model that cannot be computed just now.
PASSING = (StorageError, ServiceError, NumericalError)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the study is tried again
FAILURE_PACE = 1.0  # seconds between starts after a failure without a pace: failures must not fill the log
LOOK_EVERY = 1.0  # seconds between two recommendations
LOOK_SHARE = 0.1  # of the time at most, where a recommendation takes long
OWN = 1.0  # seconds by which the leases of several loops may differ
LONGEST_DURATION = 366 * 24 * 3600.0

T = TypeVar("T")


@dataclass(frozen=True)
class Around:
    """How the context of a study is measured (None: it has none), and which words are told beside a value."""

    read: Callable[[], Reading] | None = None
    told: Sequence[Literal["context", "constraints"]] = ()


class Study(Protocol):
    """What the loop needs of eb.Optimizer. If the study has a `clock`, a trial is evaluated at its time.

    It may also have `asked`, `told`, `gain`, `warnings` and `pending_trials`, and needs `trial` if trials are claimed.
    """

    def ask(self, *, lease: float | None = None) -> Trial: ...
    def tell(
        self, trial: Trial, value: float | None = None, *, failed: bool = False, abandoned: bool = False
    ) -> object: ...
    def recommend(self) -> Recommendation: ...

    # With conditions, `ask` and `recommend` also take a `context`, and `tell` a `context` and `constraints`.


def tune(
    study: Study,
    evaluate: Callable[[dict[str, Any]], Outcome],
    *,
    every: float | None,
    show: Callable[[Status], object],
    stop_after: int | None = None,
    lease: float | None = None,
    claims: Claims | None = None,
    around: Around | None = None,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Evaluate what the study asks for, again and again, until `stop_after` evaluations or a KeyboardInterrupt.

    Evaluations start every `every` seconds; after one that takes longer, the next starts at once. `lease` is the time
    in which an evaluation is told even at worst; trials with this lease that were not are told as abandoned. With
    `claims`, so are those that a killed loop has left behind, at once. `around` reads the context, and says what of
    that which is printed beside a value is told with it.
    """
    rounds = _Rounds(study, evaluate, show, lease, claims, around or Around(), sleep, monotonic)
    rounds.settle_left_behind()
    due = monotonic()
    while stop_after is None or rounds.status.count < stop_after:
        if (missing := due - monotonic()) > 0.0:
            sleep(missing)
        started = monotonic()
        outcome = rounds.one()
        if every is not None:
            due = max(due + every, monotonic())
        elif outcome.value is None:
            due = started + FAILURE_PACE


class _Rounds:
    def __init__(
        self,
        study: Study,
        evaluate: Callable[[dict[str, Any]], Outcome],
        show: Callable[[Status], object],
        lease: float | None,
        claims: Claims | None,
        around: Around,
        sleep: Callable[[float], object],
        monotonic: Callable[[], float],
    ) -> None:
        self.study, self.evaluate, self.show, self.lease = study, evaluate, show, lease
        self.claims, self.around, self.sleep, self.monotonic = claims, around, sleep, monotonic
        # By its lease, a trial of this loop is known from those of others.
        self._own_lease = lease if lease is None or claims is None else lease + OWN * random.random()  # noqa: S311
        self.status = Status()
        self._looked = self._next_look = -math.inf
        # A remote study asks its service for the time, and for what was told: both may fail.
        self.clock: Clock = self._patiently(lambda: getattr(study, "clock", None)) or SystemClock()
        self.status = Status(before=self._patiently(lambda: getattr(study, "told", 0)))
        self._asked: int = self._patiently(lambda: getattr(study, "asked", 0))  # at least so many trials

    def one(self) -> Outcome:
        self._settle_lost()
        trial = self._ask()
        self.status = replace(self.status, trial=trial, outcome=None)
        outcome = self._tell(trial, self._evaluate(trial))
        self._release()
        self._count(trial, outcome)
        self._look()
        self.show(self.status)
        return outcome

    def _ask(self) -> Trial:
        lease = self._own_lease
        if self.claims is None or lease is None:
            return self._ask_in_context(lease)
        self.claims.hold(self._asked, None, lease)
        trial = self._ask_in_context(lease)
        number = int(trial.id)
        self.claims.hold(number, number, lease)
        self._asked = number + 1
        return trial

    def _ask_in_context(self, lease: float | None) -> Trial:
        """Where the context cannot be measured, its latest values are used, as long as they are not too old."""
        if self.around.read is None:
            return self._patiently(lambda: self.study.ask(lease=lease))
        pause = FIRST_PAUSE
        while True:
            reading = self.around.read()
            for context in (reading.context, None) if reading.context is not None else (None,):
                words: dict[str, Any] = {"lease": lease, "context": context}
                try:
                    trial = self._patiently(partial(self.study.ask, **words))
                except ObservationError as error:
                    reading = reading if context is None and reading.problem else Reading(None, one_line(str(error)))
                else:
                    missing = f"{', '.join(trial.filled)} not measured" if trial.filled else None
                    self.status = replace(self.status, context_problem=reading.problem or missing)
                    return trial
            trouble = f"the context cannot be measured: {reading.problem}; trying again in {pause:g} s"
            self.show(replace(self.status, trouble=trouble))
            self.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE)

    def settle_left_behind(self) -> None:
        """What was claimed by a loop on this machine that was killed."""
        for claim in self.claims.left_behind() if self.claims is not None else ():
            last = self._asked - 1 if claim.last is None else claim.last
            for number in range(claim.first, last + 1):
                with suppress(TrialError):  # it was told, or the study is another one by now
                    self._settle(claim, number)

    def _settle(self, claim: Claim, number: int) -> None:
        trial = self._patiently(lambda: self.study.trial(number))  # type: ignore[attr-defined]
        if claim.covers(trial):
            self._abandon(trial)

    def _settle_lost(self) -> None:
        """Trials of a loop like this one that was killed elsewhere: as long as their lease, no evaluation takes.

        Other trials, which somebody may still tell, have another lease or none.
        """
        if self.lease is None:
            return
        for trial in getattr(self.study, "pending_trials", ()):
            ours = trial.expires is not None and -1e-3 < trial.expires - trial.time - self.lease < OWN + 1e-3
            if ours and self.clock.now() > trial.expires and not self._is_measured(trial):
                with suppress(TrialError):  # it was told in the meantime
                    self._abandon(trial)

    def _is_measured(self, trial: Trial) -> bool:
        """By a loop that was suspended for longer than the lease, say."""
        return self.claims is not None and self.claims.is_measured(trial)

    def _abandon(self, trial: Trial) -> None:
        self._patiently(lambda: self.study.tell(trial, abandoned=True))

    def _release(self) -> None:
        if self.claims is not None:
            self.claims.release()

    def _count(self, trial: Trial, outcome: Outcome) -> None:
        before, failed = self.status, outcome.value is None
        self.status = replace(
            before,
            count=before.count + 1,
            failed=before.failed + failed,
            outcome=outcome,
            held=(trial.params, outcome.value) if trial.kind == "hold" and outcome.value is not None else before.held,
            problem=outcome.problem if failed else before.problem,
            beside=None if failed else outcome.problem,
        )

    def _evaluate(self, trial: Trial) -> Outcome:
        """A trial that is interrupted says nothing about its setting."""
        try:
            wait_until(self.clock, trial.time)
            return self.evaluate(dict(trial.params))
        except BaseException:
            with suppress(EbbtideError):
                self.study.tell(trial, abandoned=True)
                self._release()
            raise

    def _tell(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Tell the study; the outcome as it was recorded."""
        if (value := outcome.value) is not None:
            try:
                outcome = self._tell_value(trial, value, outcome)
            except ObservationError as error:
                outcome = replace(outcome, value=None, problem=one_line(str(error)))
            except TrialError as error:  # somebody else has told it
                return replace(outcome, value=None, problem=one_line(str(error)))
            else:
                return outcome
        with suppress(TrialError):
            self._patiently(lambda: self.study.tell(trial, failed=True))
        return outcome

    def _tell_value(self, trial: Trial, value: float, outcome: Outcome) -> Outcome:
        """With what was printed beside it; if that cannot be recorded, at least the value."""
        beside = {name: found for name in self.around.told if (found := getattr(outcome, name)) is not None}
        if beside:
            try:
                self._patiently(partial(self.study.tell, trial, value, **beside))
            except ObservationError as error:
                outcome = replace(outcome, problem=one_line(str(error)))
            else:
                return outcome
        self._patiently(lambda: self.study.tell(trial, value))
        return outcome

    def _patiently(self, action: Callable[[], T]) -> T:
        """Retry while the error may pass, so that no measurement is lost."""
        pause = FIRST_PAUSE
        while True:
            try:
                return action()
            except PASSING as error:
                self.show(replace(self.status, trouble=f"{one_line(str(error))}; trying again in {pause:g} s"))
            self.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE)

    def _look(self) -> None:
        """Look at the study now and then; in between, what was seen gets older."""
        started = self.monotonic()
        if started >= self._next_look:
            first = self._looked == -math.inf  # slow only because it imports
            self.status = looked(self.study, self.status)
            self._looked = self.monotonic()
            pause = LOOK_EVERY if first else max(LOOK_EVERY, (self._looked - started) / LOOK_SHARE)
            self._next_look = self._looked + pause
        self.status = replace(self.status, age=self.monotonic() - self._looked)


def looked(study: Study, status: Status) -> Status:
    """The status with what is best now, the gain and the warnings. Only for display, so no error ends the loop."""
    status = replace(status, best=None, age=0.0, nothing_known=False)
    asked = status.trial
    words: dict[str, Any] = {} if asked is None or asked.context is None else {"context": asked.context}
    try:
        status = replace(
            status,
            gain=getattr(study, "gain", None),
            violations=getattr(study, "violations", None),
            warnings=tuple(getattr(study, "warnings", ())),
        )
        return replace(status, best=study.recommend(**words))
    except NothingKnownError:
        return replace(status, nothing_known=True)
    except Exception:  # of any kind: it may be the model's, or a clock's
        return status


_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """A duration in seconds.

    >>> duration("500ms"), duration("2m"), duration("1.5")
    (0.5, 120.0, 1.5)
    """
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) *(ms|s|m|h|)", text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is not a duration: write 10s, 500ms, 2m, 1h, or seconds as a plain number")
    seconds = float(found[1]) * _UNITS[found[2]]
    if not 0.0 < seconds <= LONGEST_DURATION:
        raise ConfigurationError(f"{text!r} is {seconds:g} s: give more than 0 and at most a year")
    return seconds
