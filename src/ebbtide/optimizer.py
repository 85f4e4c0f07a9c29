"""Ask, tell, forget: Algorithm 1 of the paper as a library.

    ask():  clock → fit → staleness policy → condition → acquisition → record → Trial
    tell(): validate → record                                  (no model work)

Only `ask` changes the model. `recommend`, `predict`, `relevance` and `hyperparameters` are pure reads: they
condition on everything told, with the hyperparameters fitted last, and change nothing. The engine does the
computing. An ask or a tell is first recorded in the log (a database, with `storage=`) and then passed to the engine,
which therefore never knows anything that is not recorded.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, overload

from ebbtide.algorithms import Algorithm
from ebbtide.checks import as_finite
from ebbtide.clock import Clock, SystemClock
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.records import Event, Recommendation, Told, Trial, copied
from ebbtide.space import Parameter, Params, Space
from ebbtide.study import codec, loop, snapshot, tells
from ebbtide.study.asks import Asking, all_or_none
from ebbtide.study.contexts import Completed
from ebbtide.study.definition import Definition, Direction, checked_algorithm, checked_count, define
from ebbtide.study.engine import Engine
from ebbtide.study.limits import AtLeast, AtMost
from ebbtide.study.live import OnFailure
from ebbtide.study.log import Log, MemoryLog
from ebbtide.study.movement import Movement
from ebbtide.study.reads import StudyReads
from ebbtide.study.storage import Storage, StoredLog, check_place


class Optimizer(StudyReads, Asking):
    """Optimizes an objective that drifts: ask what to try, tell what you measured, for as long as you like.

    >>> import ebbtide as eb
    >>> clock = eb.ManualClock()
    >>> opt = eb.Optimizer({"x": eb.Float(-1.0, 1.0)}, clock=clock, seed=0)
    >>> for _ in range(20):
    ...     trial = opt.ask()
    ...     opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
    ...     clock.advance(1.0)
    >>> round(opt.recommend().params["x"], 1)
    0.3

    With `storage="sqlite:///tuner.db"` and a `name`, the study outlives the process: the next optimizer with the same
    name continues where this one stopped, even after a crash.
    """

    _engine_type: ClassVar[type[Engine]] = Engine

    def __init__(
        self,
        space: Mapping[str, Parameter] | Space,
        *,
        direction: Direction = "minimize",
        algorithm: str | Algorithm | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
        explore: float | None = None,
        start: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        movement: Movement | None = None,
        baseline: Mapping[str, Any] | None = None,
        baseline_every: int | None = None,
        on_failure: OnFailure | None = None,
        context: Mapping[str, Parameter] | Space | None = None,
        cycles: Mapping[str, float] | None = None,
        constraints: Mapping[str, AtMost | AtLeast] | None = None,
        violation_rate: float | None = None,
        failures_violate: bool | None = None,
        family: str | None = None,
        storage: str | Storage | None = None,
        name: str | None = None,
    ) -> None:
        """What is left out (None) gets its default; for a study that is stored already, its stored value.

        `algorithm`: a name of `eb.algorithms.names()`, or an `eb.Algorithm`; by default "tide". `explore`: the share
        of the asks that probe (by default all); the others hold the recommended setting. `start`: a setting to ask
        first, or several. `movement`: how far a setting may move in one step, and what moving costs. `baseline`: the
        setting that you would use otherwise, measured once in `baseline_every` (20) asks for comparison. `on_failure`:
        what a failed evaluation counts as: "worst" (the default) of the active values, a value, or "ignore".

        `context`: variables that are measured, not chosen, with the ranges that they usually have. `cycles`: names and
        periods of what comes back, in the clock's unit. `constraints`: limits of other values that are told with the
        objective's, such as `eb.AtMost(50.0)`; `violation_rate` (0.05) is the share of the asks that may break one, and
        `failures_violate` says whether a failed evaluation counts as one that did.

        `family`: studies of a family, in the same storage, share what their hyperparameters are like, and no data.
        """
        more = {
            "explore": explore,
            "start": start,
            "movement": movement,
            "baseline": baseline,
            "baseline_every": baseline_every,
            "on_failure": on_failure,
            "context": context,
            "cycles": cycles,
            "constraints": constraints,
            "violation_rate": violation_rate,
            "failures_violate": failures_violate,
            "family": family,
        }
        definition = define(space, direction, algorithm, clock, seed, n_initial, **more)
        check_place(storage, name, family)
        if storage is None or name is None:
            log = MemoryLog(definition.conditions)
            self._begin(Engine(definition), log, SystemClock() if clock is None else clock, callbacks)
            return
        options = {"algorithm": algorithm, "seed": seed, "n_initial": n_initial, **more}
        unsaid = [key for key, value in options.items() if value is None]
        stored = Storage.of(storage, create=True).create_or_open(name, definition, unsaid)
        self._resume(stored, clock, None if algorithm is None else definition.algorithm, callbacks)

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
        """Open an existing stored study. If its clock or algorithm uses your own classes, pass it again."""
        optimizer = cls.__new__(cls)
        given = None if algorithm is None else checked_algorithm(algorithm)
        optimizer._resume(Storage.of(storage).log(name), clock, given, callbacks)
        return optimizer

    def _resume(
        self,
        log: StoredLog,
        clock: Clock | None,
        algorithm: Algorithm | None,
        callbacks: Iterable[Callable[[Event], object]],
    ) -> None:
        engine = self._engine_type(Definition.from_json(log.definition, algorithm))
        log.restore(engine)
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
    def ask(
        self, *, until: float | None = None, lease: float | None = None, context: Mapping[str, Any] | None = None
    ) -> Trial: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        until: float | None = None,
        lease: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> list[Trial]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        until: float | None = None,
        lease: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Trial | list[Trial]:
        """What to measure next. With `n`, a list of queries that take each other into account.

        Measure at `trial.time`. That is now, except for algorithms that may choose a later time (ABO), `until` at the
        latest. A trial counts as pending until it is told, or until its `lease` (by default one l_T) is over. After an
        error, those of `n` trials that were made before it are called off (told as abandoned).

        `context` is what you have measured of it just now; what is missing is taken from the latest measurement, with
        an `eb.ContextWarning`, if that is not older than one l_T.
        """
        end = math.inf if until is None else as_finite(until)
        if end is None:
            raise ConfigurationError(f"until={until!r}: give a finite time in the clock's unit, or None")
        span = None if lease is None else as_finite(lease)
        if lease is not None and (span is None or span < 0.0):
            raise ConfigurationError(f"lease={lease!r}: give a time ≥ 0 in the clock's unit, or None")
        if n is None:
            return self._ask(end, span, context)
        count = checked_count("n", n, least=1)
        return all_or_none(count, lambda: self._ask(end, span, context), lambda trial: self.tell(trial, abandoned=True))

    # --- tell: only records -------------------------------------------------------------------------------

    def tell(
        self,
        trial: Trial | Mapping[str, Any],
        value: float | None = None,
        *,
        time: float | None = None,
        failed: bool = False,
        abandoned: bool = False,
        key: str | None = None,
        context: Mapping[str, Any] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Record a value for a trial, or for parameters measured elsewhere, at `time` (default: the trial's, or now).

        Telling a trial the same value again changes nothing. `failed=True` records that the evaluation failed, which
        counts against the setting; `abandoned=True` that it was called off, which does not. A `key` makes it safe to
        repeat a tell of parameters after an error: each key is recorded only once.

        `context` is what was measured of it; the rest is as it was for the trial. `constraints` has the measured values
        that are under a constraint; some may be missing, and an evaluation that failed may have some.
        """
        outcome, key = tells.checked_value(value, failed, abandoned), tells.checked_key(key)
        measured = self.definition.conditions.measured(context)
        outcomes = self.definition.conditions.outcomes(constraints)
        with self._log.transaction():
            self._catch_up()
            now = self._read_clock()
            by_system = isinstance(self.clock, SystemClock)
            told = tells.Tell(trial, outcome, abandoned, time, key, by_system, measured, outcomes)
            observation = told.observation(self._engine, self._log, now)
            if observation is None:
                return
            self._log.record_tell(observation, now, self._engine.active.told, self._engine.state.asks)
        self._engine.record(observation, now)
        if self.callbacks:
            self._emit(Told(copied(observation)))

    def forget_future(self) -> int:
        """Set aside every active observation that is dated after now, and return their number.

        The way back after the system's clock was ahead: time continues from what it shows now. The log keeps
        everything, and records this as an ask that was called off. Start other processes of the study again.
        """
        if not isinstance(self.clock, SystemClock):
            raise ConfigurationError(f"{self.clock!r} is your own clock, and not the system's: set it back yourself")
        self._catch_up()
        self.clock = SystemClock()  # which does not continue from what was recorded
        while True:
            plan = self._planned(self._read_clock(), math.inf, Completed())
            if (step := self._engine.without_future(plan.now)) is None:
                return 0
            if (trial := self._commit(plan, step)) is not None:  # otherwise another process has asked meanwhile
                self.tell(trial, abandoned=True)
                return len(step.rows)

    def trial(self, trial_id: str | int) -> Trial:
        """A trial that was asked for, by its id."""
        number = tells.as_id(trial_id)
        pending = self._engine.active.pending.get(number) if isinstance(number, str) else None
        return tells.asked_under(self._log, trial_id) if pending is None else copied(pending)

    # --- pure reads ---------------------------------------------------------------------------------------

    def recommend(
        self, context: Mapping[str, Any] | None = None, current: Mapping[str, Any] | None = None
    ) -> Recommendation:
        """A setting that is good now, beyond reasonable doubt: near what was measured, and not where it fails.

        An error (`eb.NothingKnownError`) as long as no value was told. In a study with a context, `context` is the one
        that it is for, completed as for an ask. `current` is the setting in force, which is recommended unless another
        one is better beyond doubt.
        """
        at_present = None if current is None else self.space.check(current)
        measured = self.definition.conditions.measured(context)
        self._catch_up()
        now = self._read_clock()
        return self._engine.recommend(now, self._coordinates(measured, now), at_present)

    @overload
    def predict(
        self, params: Mapping[str, Any], time: float | None = None, context: Mapping[str, Any] | None = None
    ) -> tuple[float, float]: ...
    @overload
    def predict(
        self, params: Sequence[Mapping[str, Any]], time: float | None = None, context: Mapping[str, Any] | None = None
    ) -> tuple[Array, Array]: ...
    def predict(
        self,
        params: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        time: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> tuple[float, float] | tuple[Array, Array]:
        """Mean and standard deviation of the objective (without noise) at the given parameters, now or at `time`.

        In a study with a context, `context` is completed as for an ask.
        """
        measured = self.definition.conditions.measured(context)
        now = self._read_clock()
        moment = now if time is None else tells.finite_time(time)
        single = isinstance(params, Mapping)
        points = [self.space.check(p) for p in ([params] if single else params)]
        self._catch_up()
        mean, std = self._engine.predict(points, moment, now, self._coordinates(measured, now))
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    def _coordinates(self, measured: Params, now: float) -> Array | None:
        completed = self._engine.completed(measured, now)
        completed.warn(stacklevel=3)
        return None if completed.context is None else self.definition.conditions.encode(completed.context)

    def relevance(self, time: float | None = None) -> Array:
        """How much each active observation matters to predictions from now on, in the dataset's order.

        With a later `time`: how much it will matter then, if nothing is measured meanwhile.
        """
        moment = None if time is None else tells.finite_time(time)
        self._catch_up()
        return self._engine.relevance(self._read_clock(), moment)

    def departures(self) -> Array | None:
        """When each active observation is expected to be removed, if nothing is measured meanwhile.

        Times by the clock, in the dataset's order; infinite if it stays for longer than one l_T. None if the algorithm
        does not remove observations by a budget that grows with time; with `method="exact"`, also if the kernel in
        time is no Matérn or has cycles, or if there is a context.
        """
        self._catch_up()
        return self._engine.departures(self._read_clock())

    # --- a ready-made loop --------------------------------------------------------------------------------

    def optimize(
        self,
        objective: Callable[[Params, float], float | Mapping[str, Any]],
        duration: float,
        *,
        context: Callable[[float], Mapping[str, Any]] | None = None,
        progress: bool = False,
        catch: tuple[type[Exception], ...] = (),
    ) -> Recommendation:
        """Ask, evaluate `objective(params, time)` and tell until `duration` has passed on the clock.

        The objective returns a value, or `{"value": ..., "constraints": {...}, "context": {...}}`, of which the last
        two may be missing. In a study with a context, `context(time)` measures it before each ask. An exception in the
        objective is recorded as a failed evaluation, then raised again unless `catch` lists it.
        """
        return loop.optimize(
            self,
            objective,
            duration,
            context=context,
            now=self._read_clock,
            latest=lambda: self._engine.latest_reading,
            progress=progress,
            catch=catch,
        )

    # --- durability ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, atomically. `load` continues as if nothing had happened."""
        self._engine.note(self._read_clock())
        snapshot.write(path, snapshot.payload_of(self._engine, self._log))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        algorithm: str | Algorithm | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
    ) -> Self:
        """The optimizer that `save` wrote. If its clock or algorithm uses your own classes, pass it again."""
        engine, log = snapshot.load(path, None if algorithm is None else checked_algorithm(algorithm))
        optimizer = cls.__new__(cls)
        restored = codec.restore_clock(engine.definition.clock, clock, engine.state.latest_reading)
        optimizer._begin(engine, log, restored, callbacks)
        return optimizer

    def close(self) -> None:
        """Close the storage, if there is one: a stored study must then be opened again.

        Without storage this does nothing, and the optimizer can still be used. Nothing is lost if you never call it:
        every tell is already on the disk.
        """
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        algorithm = codec.name_of(self.algorithm) or "a custom algorithm"
        names = ", ".join(self.space.parameters)
        return (
            f"<{type(self).__name__}: {self.direction} over {names} by {algorithm}; "
            f"{self.asked} asked, {self.told} told, {len(self._engine.active)} active>"
        )
