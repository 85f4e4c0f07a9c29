"""Ask, tell, forget: Algorithm 1 of the paper as a library.

    ask():  clock → fit → staleness policy → condition → acquisition → record → Trial
    tell(): validate → record                                  (no model work)

Only `ask` changes the model. `recommend`, `predict`, `relevance` and `hyperparameters` are pure reads: they
condition on everything told with the hyperparameters fitted last, and leave no trace. What is worked out is worked
out by `reasoning`; what happened is recorded in the log first (a file, with `storage=`) and then made known to
the engine, so that nothing is ever known that is not recorded.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Self, overload

import numpy as np

from ebbtide.algorithms import Algorithm
from ebbtide.checks import as_finite, is_text
from ebbtide.clock import Clock, SystemClock, wait_until
from ebbtide.errors import (
    CallbackWarning,
    ClockWarning,
    ConfigurationError,
    EbbtideWarning,
    ObservationError,
    SnapshotError,
    TrialError,
)
from ebbtide.gp.arrays import Array
from ebbtide.records import Asked, Event, Model, Observation, Recommendation, Told, Trial
from ebbtide.space import Parameter, Params, Space
from ebbtide.study import codec, log, snapshot
from ebbtide.study.active import ActiveSet, Dataset
from ebbtide.study.definition import Definition, Direction, checked_algorithm, checked_count, define
from ebbtide.study.engine import Engine, Step
from ebbtide.study.log import Ask, Log, MemoryLog, told_before, told_under
from ebbtide.study.progress import Progress
from ebbtide.study.state import State
from ebbtide.study.storage import SqliteLog, Storage

GRACE = 5.0  # seconds by which a time told may be ahead of the system clock
YEAR_2000 = 946_684_800.0
STALLED = 100  # evaluations without the clock moving, before `optimize` gives up
RACES = 3  # asks of other processes that an ask may lose against, before it locks them out
MAX_KEY = 200  # characters of an idempotency key


@dataclass(frozen=True)
class Plan:
    """An ask that is being worked out: from what is known after so many asks and tells, at a time."""

    engine: Engine
    now: float
    until: float
    asks: int
    told: int

    def step(self) -> Step:
        return self.engine.step(self.now, self.until)


class Optimizer:
    """Optimizes an objective that drifts: ask for a query, tell its value, for ever.

    >>> import ebbtide as eb
    >>> clock = eb.ManualClock()
    >>> opt = eb.Optimizer({"x": eb.Float(-1.0, 1.0)}, clock=clock, seed=0)
    >>> for _ in range(20):
    ...     trial = opt.ask()
    ...     opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
    ...     clock.advance(1.0)
    >>> round(opt.recommend().params["x"], 1)
    0.3

    With `storage="sqlite:///tuner.db"` and a `name` it is a study that outlives the process: the next one that is made
    with the same name goes on where this one was, whatever happened to it.
    """

    def __init__(
        self,
        space: Mapping[str, Parameter] | Space,
        *,
        direction: Direction = "minimize",
        algorithm: str | Algorithm = "w-dbo",
        clock: Clock | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
        storage: str | Storage | None = None,
        name: str | None = None,
    ) -> None:
        definition = define(space, direction, algorithm, clock, seed, n_initial)
        if (storage is None) != (name is None):
            raise ConfigurationError(f"storage={storage!r}, name={name!r}: a stored study needs both, another neither")
        if storage is None or name is None:
            self._begin(Engine(definition), MemoryLog(), SystemClock() if clock is None else clock, callbacks)
            return
        unsaid = [key for key, value in (("seed", seed), ("n_initial", n_initial)) if value is None]
        log = Storage.of(storage).create_or_open(name, definition, unsaid)
        self._resume(log, clock, definition.algorithm, callbacks)

    @classmethod
    def open(
        cls,
        storage: str | Storage,
        name: str,
        *,
        clock: Clock | None = None,
        algorithm: str | Algorithm | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
    ) -> Self:
        """A stored study that is there. A clock or an algorithm of your own classes is passed again."""
        optimizer = cls.__new__(cls)
        given = None if algorithm is None else checked_algorithm(algorithm)
        optimizer._resume(Storage.of(storage).log(name), clock, given, callbacks)
        return optimizer

    def _resume(
        self,
        log: SqliteLog,
        clock: Clock | None,
        algorithm: Algorithm | None,
        callbacks: Iterable[Callable[[Event], object]],
    ) -> None:
        engine = Engine(Definition.from_json(log.definition, algorithm))
        engine.state = log.restore(engine.active)
        restored = codec.restore_clock(engine.definition.clock, clock, engine.state.latest_reading)
        self._begin(engine, log, restored, callbacks)

    def _begin(self, engine: Engine, log: Log, clock: Clock, callbacks: Iterable[Callable[[Event], object]]) -> None:
        if not callable(getattr(clock, "now", None)):
            raise ConfigurationError(f"clock={clock!r}: give an object with a method now(), such as eb.ManualClock()")
        if not isinstance(callbacks, Iterable):
            raise ConfigurationError(f"callbacks={callbacks!r}: give a list of functions")
        self._engine, self._log = engine, log
        self.clock: Clock = clock
        self.callbacks = tuple(callbacks)
        self.definition = defined = engine.definition
        self.space, self.direction, self.algorithm = defined.space, defined.direction, defined.algorithm
        self.seed, self.n_initial = defined.seed, defined.n_initial

    # --- ask: the only thing that changes the model -------------------------------------------------------

    @overload
    def ask(self, *, until: float | None = None, lease: float | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, until: float | None = None, lease: float | None = None) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, until: float | None = None, lease: float | None = None
    ) -> Trial | list[Trial]:
        """What to measure next. `n` queries at once take each other into account.

        Measure at `trial.time`: now, for all algorithms but those that may choose a later moment (ABO), which is
        at most `until`. A trial that is not told counts as pending for its `lease`, by default one l_T.
        """
        end = math.inf if until is None else as_finite(until)
        if end is None:
            raise ConfigurationError(f"until={until!r}: give a finite time by the clock, or None")
        span = None if lease is None else as_finite(lease)
        if lease is not None and (span is None or span < 0.0):
            raise ConfigurationError(f"lease={lease!r}: give a time ≥ 0 in the clock's unit, or None")
        if n is None:
            return self._ask(end, span)
        return [self._ask(end, span) for _ in range(checked_count("n", n, least=1))]

    def _ask(self, until: float, lease: float | None) -> Trial:
        lost = 0
        while True:
            with nullcontext() if lost < RACES else self._log.transaction():
                plan = self.plan(until)
                ask = self._record(plan, plan.step(), lease)
            if ask is not None:
                return self._learn(ask)
            lost += 1

    def plan(self, until: float = math.inf) -> Plan:
        """What an ask needs to be worked out, here or in another process."""
        self._catch_up()
        return Plan(self._engine, self._read_clock(), until, self._state.asks, self._active.told)

    def commit(self, plan: Plan, step: Step, lease: float | None = None) -> Trial | None:
        """Record what a plan came to. None if somebody else has asked meanwhile: then it is to be planned anew."""
        ask = self._record(plan, step, lease)
        return None if ask is None else self._learn(ask)

    def _record(self, plan: Plan, step: Step, lease: float | None) -> Ask | None:
        params = self.space.decode(step.x)
        landed = self._read_clock()
        with self._log.transaction():
            self._catch_up()
            if self._state.asks != plan.asks:
                return None
            time = landed if step.wait is None else max(landed, step.wait)
            trial = Trial(str(plan.asks), params, time, None if lease is None else time + lease)
            lines: list[int] = self._active.lines[step.rows].tolist()
            removed = tuple(zip(lines, step.scores, strict=True))
            after = step.after(self._state, plan.now, landed)
            until = None if plan.until == math.inf else plan.until
            ask = Ask(trial, plan.told, plan.now, until, landed, removed, after)
            self._log.asked(ask)
        return ask

    def _learn(self, ask: Ask) -> Trial:
        """Only here does anything change: whatever failed before has left no trace."""
        lines = [line for line, _ in ask.removed]
        self._engine.state = ask.state
        self._active.remove(lines)
        self._active.open(ask.trial)
        handed_out = replace(ask.trial, params=dict(ask.trial.params))
        if self.callbacks:
            gone = tuple(self._log.observations(lines))
            self._emit(Asked(handed_out, max(0.0, ask.landed - ask.now), len(self._active), gone))
        return handed_out

    def _catch_up(self) -> None:
        """Learn what others have recorded in the same log."""
        updates = self._log.updates(self._state.asks, self._active.told)
        self._engine.learn(updates)
        if (updates.asks or updates.tells) and isinstance(self.clock, SystemClock):
            self.clock.never_before(self._latest_reading)

    # --- tell: only records -------------------------------------------------------------------------------

    def tell(
        self,
        trial: Trial | Mapping[str, Any],
        value: float | None = None,
        *,
        time: float | None = None,
        failed: bool = False,
        key: str | None = None,
    ) -> None:
        """Record a value for a trial, or for parameters measured elsewhere, at `time` (default: the trial's, or now).

        Telling a trial the same value again changes nothing. `failed=True` records that there is no value. A `key`
        makes it safe to tell parameters again after a failure: what was told under the same key is not told twice.
        """
        outcome, key = self._checked_value(value, failed), _checked_key(key)
        with self._log.transaction():
            self._catch_up()
            now = self._read_clock()
            observation = self._observation(trial, outcome, time, now, key)
            if observation is None:
                return
            self._log.record(observation, now, self._active.told, self._state.asks)
        self._active.record(observation)
        self._note_reading(now)
        self._emit(Told(replace(observation, params=dict(observation.params))))

    def _observation(
        self, trial: Trial | Mapping[str, Any], outcome: float | None, time: float | None, now: float, key: str | None
    ) -> Observation | None:
        """What is told, checked; None if it was told before."""
        moment = now if time is None else self._checked_time(time, now)
        trial_id = trial.id if isinstance(trial, Trial) else None
        params = trial.params if isinstance(trial, Trial) else self.space.check(trial)
        if key is not None and told_under(self._log, key, trial_id, params, outcome):
            return None
        if isinstance(trial, Trial):
            asked = self._active.pending.get(trial.id)  # nearly always: without a look into the log
            if asked is None or asked.params != trial.params:
                if told_before(self._log, trial, outcome):
                    return None
                asked = self.trial(trial.id)
            params = asked.params
            if time is None:
                # A trial's own moment was read off this clock, which may have gone back since: it is not in question.
                latest = max(now, self._latest_reading)
                # A query that is called off before its moment (ABO waits) has failed now.
                moment = min(asked.time, latest) if outcome is None else self._checked_time(asked.time, latest)
        return Observation(params, moment, outcome, trial_id, key=key)

    def trial(self, trial_id: str) -> Trial:
        """A trial that was asked for, by its id."""
        asked = self._log.trial(trial_id)
        if asked is None:
            raise TrialError(f"trial {trial_id!r} was never asked for; ids are those that ask() gave")
        return asked

    def _checked_value(self, value: Any, failed: bool) -> float | None:
        if failed:
            if value is not None:
                raise ObservationError(f"value={value!r} and failed=True: a failed evaluation has no value")
            return None
        outcome = as_finite(value)
        if outcome is None:
            raise ObservationError(f"value={value!r}: tell a finite number, or failed=True if there is none")
        return outcome

    def _checked_time(self, time: Any, now: float) -> float:
        moment = as_finite(time)
        if moment is None:
            raise ObservationError(f"time={time!r}: give a finite number, in the clock's unit")
        system = isinstance(self.clock, SystemClock)
        if moment > now + (GRACE if system else 0.0):
            raise ObservationError(
                f"time={time!r} is {moment - now:g} after now ({now!r}): nothing is observed in the future; "
                "wait until then, or check the clock's unit"
            )
        if system and moment < YEAR_2000:
            raise ObservationError(
                f"time={time!r} is before the year 2000 by the system's clock, which counts seconds since 1970; "
                "for time of your own, pass clock=eb.ManualClock()"
            )
        return min(moment, now)

    # --- pure reads ---------------------------------------------------------------------------------------

    def recommend(self) -> Recommendation:
        """The best parameters now, by the model: no exploration."""
        self._catch_up()
        return self._engine.recommend(self._read_clock())

    @overload
    def predict(self, params: Mapping[str, Any], time: float | None = None) -> tuple[float, float]: ...
    @overload
    def predict(self, params: Sequence[Mapping[str, Any]], time: float | None = None) -> tuple[Array, Array]: ...
    def predict(
        self, params: Mapping[str, Any] | Sequence[Mapping[str, Any]], time: float | None = None
    ) -> tuple[float, float] | tuple[Array, Array]:
        """Mean and deviation of the objective (without noise) at some parameters, now or at any other time."""
        now = self._read_clock()
        moment = now if time is None else as_finite(time)
        if moment is None:
            raise ObservationError(f"time={time!r}: give a finite number, in the clock's unit")
        single = isinstance(params, Mapping)
        points = [self.space.check(p) for p in ([params] if single else params)]
        self._catch_up()
        mean, std = self._engine.predict(points, moment, now)
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    def relevance(self) -> Array:
        """How much each active observation still matters to predictions from now on, in the dataset's order."""
        self._catch_up()
        return self._engine.relevance(self._read_clock())

    @property
    def dataset(self) -> Dataset:
        """The active observations: `.x` (unit cube), `.t`, `.y`."""
        return self._active.dataset

    @property
    def history(self) -> list[Observation]:
        """Every observation ever told, in the order told, with when it was removed and at what relevance."""
        return self._log.history()

    @property
    def asked(self) -> int:
        """How many trials were ever asked for."""
        return self._state.asks

    @property
    def told(self) -> int:
        """How many observations were ever told: the history's length, at no cost."""
        return self._active.told

    @property
    def pending(self) -> int:
        """How many of the last thousand trials are neither told nor failed."""
        return len(self._active.pending)

    @property
    def response(self) -> float | None:
        """The usual time from an ask to its answer, in the clock's unit."""
        return median(self._state.responses) if self._state.responses else None

    @property
    def model(self) -> Model:
        """Kernel, noise, and the mean and scale that standardise y, as last fitted."""
        return self._engine.model

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """scale, lengthscale, timescale (in the clock's unit) and noise (a variance), of the standardised values."""
        hyper = self._engine.hyper
        timescale = {} if hyper.timescale is None else {"timescale": hyper.timescale}
        return {"scale": hyper.scale, "lengthscale": hyper.lengthscale} | timescale | {"noise": hyper.noise}

    @property
    def guards(self) -> dict[str, int]:
        """How often each safeguard stepped in (docs: Troubleshooting)."""
        return dict(self._state.guards)

    # --- the loop, for those who do not need their own ----------------------------------------------------

    def optimize(
        self,
        objective: Callable[[Params, float], float],
        duration: float,
        *,
        progress: bool = False,
        catch: tuple[type[Exception], ...] = (),
    ) -> Recommendation:
        """Ask, evaluate `objective(params, time)` and tell until `duration` has passed on the clock.

        An exception of the objective is recorded as a failed evaluation and raised, unless `catch` lists it.
        """
        if (as_finite(duration) or 0.0) <= 0.0:
            raise ConfigurationError(f"duration={duration!r}: give a positive time, in the clock's unit")
        start = self._read_clock()
        shown = Progress(duration, progress)
        stalled = 0
        while (elapsed := self._read_clock() - start) < duration:
            trial = self.ask(until=start + duration)
            if trial.time > self._latest_reading:  # a later moment was chosen; a clock that went back is not waited for
                wait_until(self.clock, trial.time)
            try:
                value = objective(dict(trial.params), trial.time)
            except BaseException as error:
                self.tell(trial, failed=True)
                if not isinstance(error, catch):
                    raise
            else:
                self._tell_or_fail(trial, value)
            stalled = stalled + 1 if self._read_clock() - start == elapsed else 0
            if stalled >= STALLED:
                raise ConfigurationError(
                    f"the clock stands still at {start + elapsed!r}: {duration!r} never passes; "
                    "with a ManualClock, let the objective advance it"
                )
            shown.update(elapsed, self)
        shown.close()
        return self.recommend()

    def _tell_or_fail(self, trial: Trial, value: Any) -> None:
        try:
            self.tell(trial, value)
        except ObservationError as error:
            warnings.warn(f"recorded as a failed evaluation: {error}", EbbtideWarning, stacklevel=3)
            self.tell(trial, failed=True)

    # --- durability ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, atomically. `load` goes on as if nothing had happened."""
        self._note_reading(self._read_clock())
        snapshot.write(path, self._snapshot())

    def _snapshot(self) -> dict[str, Any]:
        recorded = {"state": self._state.to_json(), "active": self._active.lines.tolist()}
        return self.definition.to_json() | recorded | log.to_json(self._log)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        algorithm: str | Algorithm | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
    ) -> Self:
        """The optimizer that `save` wrote. A clock or an algorithm of your own classes is passed again."""
        payload = snapshot.read(path)
        given = None if algorithm is None else checked_algorithm(algorithm)
        optimizer = cls.__new__(cls)
        try:
            engine = Engine(Definition.from_json(payload, given))
            engine.state = State.from_json(payload["state"])
            active = engine.active
            memory = log.from_json(payload, active.record)
            active.remove(np.setdiff1d(active.lines, payload["active"]).tolist())
            for trial in memory.pending():
                active.open(trial)
            restored = codec.restore_clock(payload["clock"], clock, engine.state.latest_reading)
            optimizer._begin(engine, memory, restored, callbacks)
        except (KeyError, TypeError, IndexError) as error:
            raise SnapshotError(f"{path} lacks a part of its state ({error!r}); use an earlier copy") from error
        return optimizer

    def close(self) -> None:
        """Close the storage, if there is one. What was told is there already: nothing is lost without it."""
        self._log.close()

    # --- small parts --------------------------------------------------------------------------------------

    @property
    def _state(self) -> State:
        return self._engine.state

    @property
    def _active(self) -> ActiveSet:
        return self._engine.active

    def _read_clock(self) -> float:
        reading = self.clock.now()
        if (moment := as_finite(reading)) is None:
            warnings.warn(f"the clock shows {reading!r}; its latest reading is used", ClockWarning, stacklevel=3)
            return self._latest_reading if math.isfinite(self._latest_reading) else 0.0
        return moment

    def _note_reading(self, reading: float) -> None:
        """Only what changes the state may note the time: a read, or a refused tell, leaves no trace."""
        self._engine.state = self._state.noting(reading)

    @property
    def _latest_reading(self) -> float:
        latest = self._state.latest_reading
        return -math.inf if latest is None else latest

    def _emit(self, event: Event) -> None:
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception as error:
                warnings.warn(f"callback {callback!r} raised {error!r}; going on", CallbackWarning, stacklevel=4)


def _checked_key(key: Any) -> str | None:
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY and is_text(key)):
        raise ObservationError(f"key={key!r}: give a text of 1 to {MAX_KEY} characters, another for each tell")
    return key
