"""One ask in progress: planned from what is known, computed here or in another process, then recorded.

Of several asks at once all succeed, or all are called off.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.checks import as_finite
from ebbtide.clock import LARGEST_TIME, Clock, SystemClock
from ebbtide.errors import CallbackWarning, ClockWarning, EbbtideError
from ebbtide.gp.arrays import Array
from ebbtide.records import Asked, Event, Trial, copied
from ebbtide.study.contexts import Completed
from ebbtide.study.engine import Engine
from ebbtide.study.log import NOTHING, Ask, Log
from ebbtide.study.schedule import is_looking_at_siblings
from ebbtide.study.step import Step

RACES = 3  # how often other processes may overtake an ask before it insists on being the next
WARNS = 3  # functions up from where a warning is raised is who called `Optimizer.ask`


@dataclass(frozen=True)
class Plan:
    """An ask to be computed at the time `now`, from what is known after this many asks and tells."""

    engine: Engine
    now: float
    until: float
    asks: int
    told: int
    context: Completed = field(default_factory=Completed)
    siblings: Mapping[str, Any] | None = None  # what they are like, if this ask looks at them

    def step(self) -> Step:
        return self.engine.step(self.now, self.until, self.coordinates, self.siblings)

    @property
    def coordinates(self) -> Array | None:
        """Of its context; None if the study has none."""
        around = self.context.context
        return None if around is None else self.engine.definition.conditions.encode(around)

    def outcome(self, step: Step, engine: Engine, landed: float, lease: float | None) -> Ask:
        """The ask to record. Since the plan was made, `engine` may have been told more, but has not asked."""
        time = landed if step.wait is None else max(landed, step.wait)
        lines: list[int] = engine.active.lines[step.rows].tolist()
        params = engine.space.decode(step.x) if step.params is None else dict(step.params)
        expires = None if lease is None else time + lease
        context, filled = self.context.context, tuple(self.context.ages)
        state = step.after(engine.state, self.now, landed)
        return Ask(
            trial=Trial(str(self.asks), params, time, expires, step.kind, context, filled),
            told=self.told,
            now=self.now,
            until=None if self.until == math.inf else self.until,
            landed=landed,
            removed=tuple(zip(lines, step.scores, strict=True)),
            state=state if context is None else state.measured(context, filled, (self.now, 0, self.asks)),
        )


class Asking:
    """How an optimizer asks, and learns what other processes have recorded."""

    _engine: Engine
    _log: Log
    clock: Clock
    callbacks: tuple[Callable[[Event], object], ...]

    def _ask(self, until: float, lease: float | None, context: Mapping[str, Any] | None = None) -> Trial:
        lost = 0
        while True:
            with self._log.turn(insist=lost >= RACES):
                plan = self._plan(until, context)
                if lost == 0:
                    plan.context.warn(WARNS)
                ask = self._record(plan, plan.step(), lease)
            if ask is not None:
                return self._apply(ask)
            lost += 1

    def _plan(self, until: float = math.inf, context: Mapping[str, Any] | None = None) -> Plan:
        """Everything needed to compute an ask, here or in another process."""
        measured = self._engine.definition.conditions.measured(context)
        self._catch_up()
        now = self._read_clock()
        siblings = self._log.siblings() if is_looking_at_siblings(self._engine) else None
        return self._planned(now, until, self._engine.completed(measured, now), siblings)

    def _planned(self, now: float, until: float, context: Completed, siblings: Mapping[str, Any] | None = None) -> Plan:
        return Plan(self._engine, now, until, self._engine.state.asks, self._engine.active.told, context, siblings)

    def _commit(self, plan: Plan, step: Step, lease: float | None = None) -> Trial | None:
        """Record the result of a plan. None if another process has asked in the meantime: then plan again."""
        ask = self._record(plan, step, lease)
        return None if ask is None else self._apply(ask)

    def _record(self, plan: Plan, step: Step, lease: float | None) -> Ask | None:
        """Write the ask to the log; None if another process has asked since the plan was made."""
        landed = self._read_clock()
        with self._log.transaction():
            self._catch_up()
            if self._engine.state.asks != plan.asks:
                return None
            ask = plan.outcome(step, self._engine, landed, lease)
            self._log.record_ask(ask)
        return ask

    def _apply(self, ask: Ask) -> Trial:
        """The only place where an ask changes anything: a failure before this leaves no trace."""
        self._engine.apply(ask)
        handed_out = copied(ask.trial)
        if self.callbacks:
            gone = tuple(self._log.observations([line for line, _ in ask.removed]))
            self._emit(Asked(handed_out, max(0.0, ask.landed - ask.now), len(self._engine.active), gone))
        return handed_out

    def _catch_up(self) -> None:
        """Learn what other processes have recorded in the same log."""
        updates = self._log.updates(self._engine.state.asks, self._engine.active.told)
        if updates is NOTHING:
            return
        self._engine.learn(updates)
        if (updates.asks or updates.tells) and isinstance(self.clock, SystemClock):
            self.clock.never_before(self._engine.latest_reading)

    # --- small parts --------------------------------------------------------------------------------------

    def _read_clock(self) -> float:
        reading = self.clock.now()
        if (moment := as_finite(reading)) is None or abs(moment) > LARGEST_TIME:
            warnings.warn(f"the clock returned {reading!r}; its latest reading is used", ClockWarning, stacklevel=3)
            return self._engine.latest_reading if math.isfinite(self._engine.latest_reading) else 0.0
        return moment

    def _emit(self, event: Event) -> None:
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception as error:
                warnings.warn(f"callback {callback!r} raised {error!r}; continuing", CallbackWarning, stacklevel=4)


def all_or_none(n: int, ask: Callable[[], Trial], call_off: Callable[[Trial], object]) -> list[Trial]:
    """Several trials; after an error, those that were made before it are called off."""
    trials: list[Trial] = []
    try:
        while len(trials) < n:
            trials.append(ask())
    except BaseException as error:
        name_pending(error, [trial for trial in trials if not _succeeds(call_off, trial)])
        raise
    return trials


def _succeeds(act: Callable[[Trial], object], trial: Trial) -> bool:
    try:
        act(trial)
    except EbbtideError:
        return False
    return True


def name_pending(error: BaseException, trials: Sequence[Trial]) -> None:
    """Let an error say which of several trials were made before it, and could not be called off."""
    if not trials:
        return
    said = f"made before this error, and still pending: {', '.join(trial.id for trial in trials)}"
    if isinstance(error, EbbtideError):
        error.args = (f"{error} ({said})",)
    else:
        error.add_note(said)
