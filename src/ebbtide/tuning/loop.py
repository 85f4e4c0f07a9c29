"""The loop: ask, evaluate, tell, at a given pace and through failures, until Ctrl-C."""

import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from ebbtide.clock import Clock, SystemClock, wait_until
from ebbtide.errors import ConfigurationError, EbbtideError, ObservationError, ServiceError, StorageError
from ebbtide.records import Recommendation, Trial
from ebbtide.tuning.evaluation import Outcome, one_line
from ebbtide.tuning.template import written

# Errors that may pass: a full disk, a lock, a server that restarts.
PASSING = (StorageError, ServiceError)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before the study is tried again
FAILURE_PACE = 1.0  # seconds between starts after a failure without a pace: failures must not fill the log
LOOK_EVERY = 1.0  # seconds between two recommendations
LOOK_SHARE = 0.1  # of the time at most, where a recommendation takes long
LONGEST_DURATION = 366 * 24 * 3600.0

T = TypeVar("T")


class Study(Protocol):
    """What the loop needs of eb.Optimizer. If the study has a `clock`, a trial is evaluated at its time."""

    def ask(self) -> Trial: ...
    def tell(self, trial: Trial, value: float | None = None, *, failed: bool = False) -> object: ...
    def recommend(self) -> Recommendation: ...


@dataclass(frozen=True)
class Status:
    """The loop's state after an evaluation, or while the study cannot be reached."""

    count: int = 0  # evaluations told since the start of the loop
    failed: int = 0
    trial: Trial | None = None
    outcome: Outcome | None = None
    best: Recommendation | None = None
    problem: str | None = None  # of the latest failure
    trouble: str | None = None  # why nothing can be asked or told at present


def tune(
    study: Study,
    evaluate: Callable[[dict[str, Any]], Outcome],
    *,
    every: float | None,
    show: Callable[[Status], object],
    stop_after: int | None = None,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Evaluate what the study asks for, again and again, until `stop_after` evaluations or a KeyboardInterrupt.

    Evaluations start every `every` seconds; after one that takes longer, the next starts at once.
    """
    rounds = _Rounds(study, evaluate, show, sleep, monotonic)
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
        sleep: Callable[[float], object],
        monotonic: Callable[[], float],
    ) -> None:
        self.study, self.evaluate, self.show = study, evaluate, show
        self.sleep, self.monotonic = sleep, monotonic
        self.status = Status()
        self._next_look = -math.inf
        # A remote study asks its service for the time, which may fail.
        self.clock: Clock = self._patiently(lambda: getattr(study, "clock", None)) or SystemClock()

    def one(self) -> Outcome:
        trial = self._patiently(self.study.ask)
        self.status = replace(self.status, trial=trial, outcome=None)
        outcome = self._tell(trial, self._evaluate(trial))
        self._count(outcome)
        self.status = replace(self.status, best=self._best_now())
        self.show(self.status)
        return outcome

    def _count(self, outcome: Outcome) -> None:
        before, failed = self.status, outcome.value is None
        self.status = replace(
            before,
            count=before.count + 1,
            failed=before.failed + failed,
            outcome=outcome,
            problem=outcome.problem if failed else before.problem,
        )

    def _evaluate(self, trial: Trial) -> Outcome:
        """A trial that is interrupted is told as failed."""
        try:
            wait_until(self.clock, trial.time)
            return self.evaluate(dict(trial.params))
        except BaseException:
            with suppress(EbbtideError):
                self.study.tell(trial, failed=True)
            raise

    def _tell(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Tell the study; the outcome as it was recorded."""
        if (value := outcome.value) is not None:
            try:
                self._patiently(lambda: self.study.tell(trial, value))
            except ObservationError as error:
                outcome = replace(outcome, value=None, problem=one_line(str(error)))
            else:
                return outcome
        self._patiently(lambda: self.study.tell(trial, failed=True))
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

    def _best_now(self) -> Recommendation | None:
        """Only for display, so only now and then: it must neither delay the loop nor end it."""
        started = self.monotonic()
        nothing_known = self.status.count == self.status.failed
        if nothing_known or started < self._next_look:
            return self.status.best
        try:
            return self.study.recommend()
        except EbbtideError:
            return None
        finally:
            ended = self.monotonic()
            self._next_look = ended + max(LOOK_EVERY, (ended - started) / LOOK_SHARE)


# --- for people -----------------------------------------------------------------------------------------------


def line(status: Status, width: int) -> str:
    """A status in one line of at most `width` characters."""
    parts = ["  ".join(filter(None, [f"#{status.count}", _now(status)]))]
    if status.best is not None:
        best = status.best
        parts.append(f"best now: {_listed(best.params)}, {_uncertain(best.mean, best.std)}")
    if status.failed:
        parts.append(": ".join(filter(None, [f"{status.failed} failed", status.problem])))
    text = "   ".join(parts)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _now(status: Status) -> str:
    if status.trouble is not None:
        return status.trouble
    if status.trial is None or status.outcome is None:
        return ""
    value = status.outcome.value
    return f"{_listed(status.trial.params)} → {'failed' if value is None else _compact(value)}"


def _listed(params: Mapping[str, Any]) -> str:
    return " ".join(f"{one_line(name)}={_compact(value)}" for name, value in params.items())


def _compact(value: Any) -> str:
    if not isinstance(value, float):
        return one_line(written(value))
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _uncertain(mean: float, std: float) -> str:
    """Two digits of the deviation, and the mean to the same place."""
    if not (0.0 < std < math.inf and math.isfinite(mean)):
        return f"{_compact(mean)} ± {_compact(std)}"
    decimals = max(1 - math.floor(math.log10(std)), 0)
    if decimals > 6 or max(abs(mean), std) >= 1e7:
        return f"{mean:.4g} ± {std:.2g}"
    return f"{mean:.{decimals}f} ± {std:.{decimals}f}"


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
