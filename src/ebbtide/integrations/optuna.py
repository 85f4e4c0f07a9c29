"""Optuna studies that never end: a sampler that follows a moving optimum and forgets stale observations.

    study = optuna.create_study(storage=..., sampler=EbbtideSampler())
    study.optimize(objective, timeout=...)          # for weeks
    recommend(study).params                         # the best now; study.best_trial is the best ever

Trials are never deleted. Each ask leaves a note on its trial, in Optuna's own storage: the parameters that it proposed,
the trials that it forgot, and the state from which the next ask starts. So after a restart a study continues from its
last note and the trials since then, several processes share one active set, and no fit is repeated.
"""

import hashlib
import json
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np
from optuna.samplers import BaseSampler, RandomSampler
from optuna.samplers._base import _process_constraints_after_trial
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ebbtide.algorithms import DEFAULT, Algorithm
from ebbtide.checks import as_finite
from ebbtide.clock import Clock, SystemClock
from ebbtide.errors import ConfigurationError, EbbtideWarning, ObservationError, ParameterError
from ebbtide.gp.arrays import Array
from ebbtide.integrations.distributions import Axis, SearchSpace, axes_of
from ebbtide.integrations.optuna_record import CONSTRAINTS, NOTE, TIME, Record
from ebbtide.records import Observation, Recommendation, Trial
from ebbtide.space import Parameter, Params
from ebbtide.study.conditions import Conditions
from ebbtide.study.contexts import Completed
from ebbtide.study.course import Turn
from ebbtide.study.definition import Definition, Direction, checked_algorithm, checked_count, define
from ebbtide.study.engine import Engine
from ebbtide.study.limits import AtMost
from ebbtide.study.live import WORDS
from ebbtide.study.state import State

ABANDONED = "ebbtide:abandoned"  # a user attribute of a trial that was called off: Optuna itself says that it failed
WORKED_OUT = {"_lock", "_record", "_read_for", "_belief"}  # what a copy of a sampler computes again
UNSIGNED = {"seed", "n_initial", *WORDS}  # of a definition: a sampler does not set the options of a live system
CONTEXT = "context"  # a user attribute of a study, or of a trial: what was measured of the context
SAYS_NOTHING = Observation({}, 0.0, None, abandoned=True)


class EbbtideSampler(BaseSampler):  # type: ignore[misc]
    """A sampler for objectives that drift.

    Parameters that the newest 50 completed trials have in common are sampled together, with the distributions of the
    newest trial; others, such as conditional ones, go to `independent_sampler` (random by default). A trial that
    failed, or whose value is not finite, counts against its parameters; a pruned one says nothing. New trials keep
    away from running ones.

    `context` and `cycles` are those of `eb.Optimizer`; what was measured of the context is the user attribute
    "context" of the study, or of the trial. `constraints_func` is as in Optuna's own samplers: what it returns for a
    trial should be at most 0, and at most a share `violation_rate` (0.05) of the trials should break that.
    """

    def __init__(
        self,
        algorithm: str | Algorithm = DEFAULT,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        independent_sampler: BaseSampler | None = None,
        context: Mapping[str, Parameter] | None = None,
        cycles: Mapping[str, float] | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        violation_rate: float | None = None,
    ) -> None:
        self.algorithm = checked_algorithm(algorithm)
        self.clock: Clock = SystemClock() if clock is None else clock
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else checked_count("seed", seed)
        self.n_initial = None if n_initial is None else checked_count("n_initial", n_initial)
        self.independent_sampler = independent_sampler
        self.constraints_func = constraints_func
        self.around = {"context": context, "cycles": cycles, "violation_rate": violation_rate}
        self._defined = Conditions.of(**self._conditions(0 if constraints_func is None else 1))
        self._forget_all()

    def _forget_all(self) -> None:
        self._lock = RLock()
        self._record: Record | None = None
        self._read_for: tuple[Any, int] | None = None  # storage and trial for which the record was last read
        self._belief: _Belief | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in WORKED_OUT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_all()  # everything is in the study's storage

    # --- what Optuna calls ----------------------------------------------------------------------------------------

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> SearchSpace:
        self._raise_error_if_multi_objective(study)
        with self._lock:
            return self._followed(study, trial).search_space()

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: SearchSpace) -> Params:
        self._raise_error_if_multi_objective(study)
        with self._lock:
            just_read = self._read_for == (study._storage, trial._trial_id)  # when Optuna inferred the space
            record = self._record if just_read and self._record is not None else self._followed(study, trial)
            believed = self._believed(study, record, search_space)
            now = self.clock.now()
            measured = self._measured(study, trial)
            if believed is None:
                context = {} if measured is None else {"context": self._defined.measured(measured)}
                _leave_note(study, trial, {"time": now} | context)
                return {}
            note = believed.ask(trial, now, self.clock, measured)
            _leave_note(study, trial, note)
            believed.learn(trial.number, note)
            params: Params = note["params"]
            return params

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        self._raise_error_if_multi_objective(study)
        sampler = self.independent_sampler or self._at_random(trial, param_name)
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def _at_random(self, trial: FrozenTrial, name: str) -> RandomSampler:
        """Random numbers keyed by the trial and the name, so a restart repeats none."""
        key = np.random.SeedSequence([self.seed, trial.number, zlib.crc32(name.encode())])
        return RandomSampler(seed=int(key.generate_state(1)[0]))

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        if self.independent_sampler is not None:
            self.independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """A trial that sampled nothing, because all its parameters were enqueued, is dated now."""
        if self.independent_sampler is not None:
            self.independent_sampler.after_trial(study, trial, state, values)
        if self.constraints_func is not None:
            _process_constraints_after_trial(self.constraints_func, study, trial, state)
        if state == TrialState.COMPLETE and NOTE not in trial.system_attrs and TIME not in trial.user_attrs:
            _leave_note(study, trial, {"time": self.clock.now()})

    def reseed_rng(self) -> None:
        """Our own random numbers are keyed by the trial, so no two trials share them."""
        if self.independent_sampler is not None:
            self.independent_sampler.reseed_rng()

    # --- what is known about a study ------------------------------------------------------------------------------

    def _measured(self, study: Study, trial: FrozenTrial | None = None) -> dict[str, Any] | None:
        """What was measured of the context: for the trial, or else for the study."""
        if self.around["context"] is None:
            return None
        found = study._storage.get_study_user_attrs(study._study_id).get(CONTEXT) or {}
        return {**found, **((None if trial is None else trial.user_attrs.get(CONTEXT)) or {})}

    def _conditions(self, constraints: int) -> dict[str, Any]:
        """The world around a study with so many constraints, as `eb.Optimizer` takes it."""
        limits = {f"constraint {k}": AtMost(0.0) for k in range(constraints)}
        rate = None if self.constraints_func is not None and not limits else self.around["violation_rate"]
        return {**self.around, "constraints": limits, "violation_rate": rate}

    def _recommend(
        self, study: Study, context: Mapping[str, Any] | None, current: Mapping[str, Any] | None
    ) -> Recommendation:
        self._raise_error_if_multi_objective(study)
        with self._lock:
            record = self._followed(study)
            believed = self._believed(study, record, record.search_space())
            if believed is None or not believed.engine.active.values_told:
                raise ConfigurationError(
                    f"study {study.study_name!r} has no completed trial with parameters to model: optimize it first"
                )
            measured = self._measured(study) if context is None else context
            return believed.recommend(self.clock.now(), measured, current)

    def _followed(self, study: Study, trial: FrozenTrial | None = None) -> Record:
        """The up-to-date record of the study. One is kept: a sampler rarely has more than one study."""
        self._read_for = None if trial is None else (study._storage, trial._trial_id)
        record = self._record
        if record is None or record.storage is not study._storage or record.study_id != study._study_id:
            record = self._record = Record(study, dated=isinstance(self.clock, SystemClock))
            self._belief = None
        record.catch_up()
        if isinstance(self.clock, SystemClock):
            self.clock.never_before(record.latest_time)
        return record

    def _believed(self, study: Study, record: Record, search_space: SearchSpace) -> "_Belief | None":
        """The belief about a search space, from the record; None if no parameter can be modelled."""
        axes = axes_of(search_space)
        if not axes:
            return None
        belief, constraints = self._belief, 0 if self.constraints_func is None else record.constraints
        same = belief is not None and len(belief.conditions.constraints) == constraints
        if belief is None or not same or belief.record is not record or belief.axes != axes:
            parameters = {name: axis.parameter for name, axis in axes.items()}
            direction: Direction = "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"
            definition = define(
                *(parameters, direction, self.algorithm, self.clock, self.seed, self.n_initial),
                **self._conditions(constraints),
            )
            belief = self._belief = _Belief(record, axes, definition)
        belief.catch_up()
        return belief


def recommend(
    study: Study, context: Mapping[str, Any] | None = None, current: Mapping[str, Any] | None = None
) -> Recommendation:
    """The best parameters *now*, according to the model of the study's `EbbtideSampler`, without exploration.

    `study.best_trial` has the best value ever seen, which says little once the objective has moved. `context` (by
    default the study's user attribute) and `current` are as in `Optimizer.recommend`.
    """
    if not isinstance(study.sampler, EbbtideSampler):
        raise ConfigurationError(
            f"the study's sampler is a {type(study.sampler).__name__}, which has no model of time; "
            "set study.sampler = EbbtideSampler()"
        )
    return study.sampler._recommend(study, context, current)


def _leave_note(study: Study, trial: FrozenTrial, note: Mapping[str, Any]) -> None:
    study._storage.set_trial_system_attr(trial._trial_id, NOTE, note)


class _Belief:
    """An engine for one search space, fed from the record. An observation's line is its position in the record."""

    def __init__(self, record: Record, axes: dict[str, Axis], definition: Definition) -> None:
        self.record, self.axes = record, axes
        self.engine, self.conditions = Engine(definition), definition.conditions
        described = {key: part for key, part in definition.to_json().items() if key not in UNSIGNED}
        self.signature = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    def catch_up(self) -> None:
        active, record = self.engine.active, self.record
        first, self._unknown = active.told, 0
        undated = [trial for trial in record.finished[first:] if not self._hear(trial)]
        if self._unknown:
            warnings.warn(
                f"{self._unknown} trials without a known context are not modelled; set it when you add them: "
                f'create_trial(..., user_attrs={{"{CONTEXT}": ...}})',
                EbbtideWarning,
                stacklevel=2,
            )
        if undated:
            warnings.warn(
                f"trials with no time by this clock are not modelled ({len(undated)}, first number "
                f"{undated[0].number}); set it when you add them: "
                f'create_trial(..., user_attrs={{"{TIME}": ...}})',
                EbbtideWarning,
                stacklevel=2,
            )
        gone = [line for line in active.lines.tolist() if record.finished[line].number in record.forgotten]
        state = self.engine.state
        if record.latest_note is not None:
            number, note = record.latest_note
            if number >= state.asks and note["of"] == self.signature:
                state = State.from_json(note["state"])
        self.engine.advance(state, gone)
        for line, trial in enumerate(record.finished[first:] if self.conditions.variables else (), first):
            self.engine.note_context(line, self._told(trial))  # again: the state is the one that the last ask left

    def _hear(self, trial: FrozenTrial) -> bool:
        """Record a finished trial; False if it should have been modelled but has no time."""
        time, complete = self.record.time(trial), trial.state == TrialState.COMPLETE
        told = self._told(trial)
        if time is not None and trial.number in self.record.forgotten:
            gone = Observation({}, time, 0.0, removed_at=time)
            self.engine.record(replace(gone, trial_id=told.trial_id, constraints=told.constraints))  # still counted
            return True
        if told.value is not None and self.conditions.variables and told.context is None:
            self._unknown += 1
            told = SAYS_NOTHING
        self.engine.record(told)
        return time is not None or not complete

    def _told(self, trial: FrozenTrial) -> Observation:
        """A finished trial as an observation."""
        time, params = self.record.time(trial), self._ours(trial.params)
        value = as_finite(trial.value) if trial.state == TrialState.COMPLETE else None
        called_off = trial.state == TrialState.PRUNED or bool(trial.user_attrs.get(ABANDONED))
        if time is None or params is None or called_off:
            return SAYS_NOTHING
        told, note = Observation(params, time, value), trial.system_attrs.get(NOTE, {})
        if not self.conditions.given:
            return told
        context, filled = self._context(trial, note)
        number = str(trial.number) if "state" in note else None  # what was asked for counts as a violation
        return replace(told, trial_id=number, context=context, filled=filled, constraints=self._outcomes(trial))

    def _context(self, trial: FrozenTrial, note: Mapping[str, Any]) -> tuple[Params | None, tuple[str, ...]]:
        """The context of a trial, as it was asked for and then measured, if it is complete."""
        try:
            measured = self.conditions.measured(trial.user_attrs.get(CONTEXT) if self.conditions.variables else None)
        except ObservationError:
            measured = {}
        context = (note.get("context") or {}) | measured
        if not self.conditions.variables or set(context) != set(self.conditions.variables):
            return None, ()
        return context, tuple(name for name in note.get("filled", ()) if name not in measured)

    def _outcomes(self, trial: FrozenTrial) -> dict[str, float] | None:
        """The values of the constraints; none if there are not as many as expected, or not all are finite."""
        values = [as_finite(value) for value in trial.system_attrs.get(CONSTRAINTS) or ()]
        if not values or len(values) != len(self.conditions.constraints) or None in values:
            return None
        return self.conditions.outcomes(dict(zip(self.conditions.constraints, values, strict=True)))

    def _ours(self, params: Params) -> Params | None:
        """Parameters in the engine's space; None if they do not fit it."""
        ours = {name: axis.ours(params[name]) for name, axis in self.axes.items() if name in params}
        return None if len(ours) < len(self.axes) or None in ours.values() else ours

    def _theirs(self, params: Params) -> Params:
        return {name: axis.theirs(params[name]) for name, axis in self.axes.items()}

    def ask(self, trial: FrozenTrial, now: float, clock: Clock, measured: Mapping[str, Any] | None) -> dict[str, Any]:
        """The next trial, as a note to leave in the storage before `learn` applies it."""
        engine = self.engine
        others = [each for each in self.record.running if each.number != trial.number]
        engine.expect(trial.number, [p for p in map(self._pending, others) if p is not None])
        engine.follow(*self._turns())
        completed = self._completed(measured, now)
        step = engine.step(now, until=now, context=self._coordinates(completed))  # Optuna measures at once
        landed = clock.now()
        lines = engine.active.lines[step.rows].tolist()
        state = step.after(engine.state, now, landed)
        note = {
            "time": landed,
            "params": self._theirs(engine.space.decode(step.x)),
            "forgot": [self.record.finished[line].number for line in lines],
            "told": engine.active.told,
            "state": state.to_json(),
            "of": self.signature,
        }
        if completed.context is None:
            return note
        filled = list(completed.ages)
        known = state.measured(completed.context, filled, (now, 0, trial.number))
        return note | {"state": known.to_json(), "context": completed.context, "filled": filled}

    def _completed(self, measured: Mapping[str, Any] | None, now: float) -> Completed:
        completed = self.engine.completed(self.conditions.measured(measured), now)
        completed.warn(stacklevel=3)
        return completed

    def _coordinates(self, completed: Completed) -> Array | None:
        return None if completed.context is None else self.conditions.encode(completed.context)

    def _turns(self) -> tuple[list[Turn], dict[int, Observation]]:
        """The turns since the model's anchor, and what they removed: from the notes in the storage alone."""
        anchor, lines = self.engine.state.anchor, self.record.lines
        asks = [] if anchor is None else self.record.asks_since(anchor, self.signature)
        if not all(number in lines for ask in asks for number in ask.forgot):
            return [], {}
        turns = [Turn.of(ask.told, [lines[number] for number in ask.forgot]) for ask in asks]
        gone = {line: self._told(self.record.finished[line]) for turn in turns for line in turn.removed}
        return turns, gone

    def learn(self, number: int, note: Mapping[str, Any]) -> None:
        self.record.note_ask(number, note)
        self.engine.advance(State.from_json(note["state"]), ())

    def _pending(self, trial: FrozenTrial) -> Trial | None:
        note = trial.system_attrs.get(NOTE, {})
        params, time = self._ours({**note.get("params", {}), **trial.params}), self.record.time(trial)
        if params is None or time is None:
            return None
        return Trial(str(trial.number), params, time, context=note.get("context"))

    def recommend(
        self, now: float, measured: Mapping[str, Any] | None, current: Mapping[str, Any] | None
    ) -> Recommendation:
        in_force = None if current is None else self._ours(dict(current))
        if current is not None and in_force is None:
            raise ParameterError(
                f"current={current!r} does not fit the parameters that are modelled: {list(self.axes)}"
            )
        best = self.engine.recommend(now, self._coordinates(self._completed(measured, now)), in_force)
        return replace(best, params=self._theirs(best.params))
