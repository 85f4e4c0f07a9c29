"""Optuna studies that never end: a sampler that follows a moving optimum and forgets stale observations.

    study = optuna.create_study(storage=..., sampler=EbbtideSampler())
    study.optimize(objective, timeout=...)          # for weeks
    recommend(study).params                         # the best now; study.best_trial is the best ever

Trials are never deleted. Each ask leaves a note on its trial, in Optuna's own storage: the parameters that it proposed,
the trials that it forgot, and the state from which the next ask starts. So after a restart a study continues from its
last note and the trials since then, several processes share one active set, and nothing is replayed.
"""

import hashlib
import json
import warnings
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from ebbtide.algorithms import DEFAULT, Algorithm
from ebbtide.checks import as_finite
from ebbtide.clock import Clock, SystemClock
from ebbtide.errors import ConfigurationError, EbbtideWarning, SpaceError
from ebbtide.records import Observation, Recommendation, Trial
from ebbtide.space import Categorical, Float, Int, Parameter, Params
from ebbtide.study.definition import Definition, Direction, checked_algorithm, checked_count, define
from ebbtide.study.engine import Engine
from ebbtide.study.live import WORDS
from ebbtide.study.state import State

NOTE = "ebbtide:ask"  # a system attribute of a trial: the note of its ask
TIME = "ebbtide:time"  # a user attribute that dates a trial measured elsewhere
ABANDONED = "ebbtide:abandoned"  # a user attribute of a trial that was called off: Optuna itself says that it failed
WORKED_OUT = {"_lock", "_record", "_read_for", "_belief"}  # what a copy of a sampler computes again
UNSIGNED = {"seed", "n_initial", *WORDS}  # of a definition: a sampler does not set the options of a live system
RECENT = 50  # completed trials whose common parameters are modelled

SearchSpace = dict[str, BaseDistribution]


class EbbtideSampler(BaseSampler):  # type: ignore[misc]
    """A sampler for objectives that drift.

    Parameters that the newest 50 completed trials have in common are sampled together, with the distributions of the
    newest trial; others, such as conditional ones, go to `independent_sampler` (random by default). A trial that
    failed, or whose value is not finite, counts against its parameters; a pruned one says nothing. New trials keep
    away from running ones.
    """

    def __init__(
        self,
        algorithm: str | Algorithm = DEFAULT,
        *,
        clock: Clock | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self.algorithm = checked_algorithm(algorithm)
        self.clock: Clock = SystemClock() if clock is None else clock
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else checked_count("seed", seed)
        self.n_initial = None if n_initial is None else checked_count("n_initial", n_initial)
        self.independent_sampler = independent_sampler
        self._forget_all()

    def _forget_all(self) -> None:
        self._lock = RLock()
        self._record: _Record | None = None
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
            if believed is None:
                _leave_note(study, trial, {"time": now})
                return {}
            note = believed.ask(trial, now, self.clock)
            _leave_note(study, trial, note)
            believed.learn(note)
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
        if state == TrialState.COMPLETE and NOTE not in trial.system_attrs and TIME not in trial.user_attrs:
            _leave_note(study, trial, {"time": self.clock.now()})

    def reseed_rng(self) -> None:
        """Our own random numbers are keyed by the trial, so no two trials share them."""
        if self.independent_sampler is not None:
            self.independent_sampler.reseed_rng()

    # --- what is known about a study ------------------------------------------------------------------------------

    def _recommend(self, study: Study) -> Recommendation:
        self._raise_error_if_multi_objective(study)
        with self._lock:
            record = self._followed(study)
            believed = self._believed(study, record, record.search_space())
            if believed is None or not believed.engine.active.values_told:
                raise ConfigurationError(
                    f"study {study.study_name!r} has no completed trial with parameters to model: optimize it first"
                )
            return believed.recommend(self.clock.now())

    def _followed(self, study: Study, trial: FrozenTrial | None = None) -> "_Record":
        """The up-to-date record of the study. One is kept: a sampler rarely has more than one study."""
        self._read_for = None if trial is None else (study._storage, trial._trial_id)
        record = self._record
        if record is None or record.storage is not study._storage or record.study_id != study._study_id:
            record = self._record = _Record(study, dated=isinstance(self.clock, SystemClock))
            self._belief = None
        record.catch_up()
        if isinstance(self.clock, SystemClock):
            self.clock.never_before(record.latest_time)
        return record

    def _believed(self, study: Study, record: "_Record", search_space: SearchSpace) -> "_Belief | None":
        """The belief about a search space, from the record; None if no parameter can be modelled."""
        axes = _axes(search_space)
        if not axes:
            return None
        belief = self._belief
        if belief is None or belief.record is not record or belief.axes != axes:
            parameters = {name: axis.parameter for name, axis in axes.items()}
            direction: Direction = "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"
            definition = define(parameters, direction, self.algorithm, self.clock, self.seed, self.n_initial)
            belief = self._belief = _Belief(record, axes, definition)
        belief.catch_up()
        return belief


def recommend(study: Study) -> Recommendation:
    """The best parameters *now*, according to the model of the study's `EbbtideSampler`, without exploration.

    `study.best_trial` has the best value ever seen, which says little once the objective has moved.
    """
    if not isinstance(study.sampler, EbbtideSampler):
        raise ConfigurationError(
            f"the study's sampler is a {type(study.sampler).__name__}, which has no model of time; "
            "set study.sampler = EbbtideSampler()"
        )
    return study.sampler._recommend(study)


def _leave_note(study: Study, trial: FrozenTrial, note: Mapping[str, Any]) -> None:
    study._storage.set_trial_system_attr(trial._trial_id, NOTE, note)


class _Record:
    """A study's trials: the finished ones in the order told, the running ones, the forgotten ones."""

    def __init__(self, study: Study, *, dated: bool) -> None:
        self.storage, self.study_id = study._storage, study._study_id
        self.dated = dated  # whether Optuna's own dates come from the same clock
        self.finished: list[FrozenTrial] = []
        self.running: list[FrozenTrial] = []
        self.forgotten: set[int] = set()  # numbers of trials
        self.latest_note: tuple[int, Mapping[str, Any]] | None = None  # trial number, and the latest note with a state
        self.latest_time = -np.inf
        self._recent: deque[SearchSpace] = deque(maxlen=RECENT)
        self._open: list[int] = []
        self._next = 0

    def catch_up(self) -> None:
        trials = self.storage.get_all_trials(self.study_id, deepcopy=False)
        news = [trials[number] for number in self._open] + trials[self._next :]  # Optuna numbers trials without gaps
        self._next = len(trials)
        self._open = [trial.number for trial in news if not trial.state.is_finished()]
        self.running = [trial for trial in news if trial.state == TrialState.RUNNING]
        for trial in news:
            self._read_note(trial)
        done = [trial for trial in news if trial.state.is_finished()]
        done.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        self.finished += done
        self._recent.extend(trial.distributions for trial in done if trial.state == TrialState.COMPLETE)

    def _read_note(self, trial: FrozenTrial) -> None:
        note = trial.system_attrs.get(NOTE, {})
        self.latest_time = max(self.latest_time, note.get("time", -np.inf))
        if "state" not in note:
            return
        self.forgotten.update(note["forgot"])
        if self.latest_note is None or trial.number > self.latest_note[0]:
            self.latest_note = trial.number, note

    def search_space(self) -> SearchSpace:
        """The parameters that the newest completed trials have in common, with the newest trial's distributions."""
        if not self._recent:
            return {}
        common = set[str].intersection(*(set(distributions) for distributions in self._recent))
        newest = self._recent[-1]
        return {name: d for name, d in newest.items() if name in common and _axis(d) is not None}

    def time(self, trial: FrozenTrial) -> float | None:
        """The time of a trial's measurement by the sampler's clock, if it is known."""
        if NOTE in trial.system_attrs:
            noted: float = trial.system_attrs[NOTE]["time"]
            return noted
        given = as_finite(trial.user_attrs.get(TIME))
        if given is None and self.dated and trial.datetime_start is not None:
            return float(trial.datetime_start.timestamp())
        return given


class _Belief:
    """An engine for one search space, fed from the record. An observation's line is its position in the record."""

    def __init__(self, record: _Record, axes: "dict[str, _Axis]", definition: Definition) -> None:
        self.record, self.axes = record, axes
        self.engine = Engine(definition)
        described = {key: part for key, part in definition.to_json().items() if key not in UNSIGNED}
        self.signature = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    def catch_up(self) -> None:
        active, record = self.engine.active, self.record
        undated = [trial for trial in record.finished[active.told :] if not self._hear(trial)]
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

    def _hear(self, trial: FrozenTrial) -> bool:
        """Record a finished trial; False if it should have been modelled but has no time."""
        time, complete = self.record.time(trial), trial.state == TrialState.COMPLETE
        if time is not None and trial.number in self.record.forgotten:
            self.engine.record(Observation({}, time, 0.0, removed_at=time))
            return True
        params = self._ours(trial.params)
        value = as_finite(trial.value) if complete else None
        told = Observation({}, 0.0, None, abandoned=True)  # says nothing
        called_off = trial.state == TrialState.PRUNED or bool(trial.user_attrs.get(ABANDONED))
        if time is not None and params is not None and not called_off:
            told = Observation(params, time, value)
        self.engine.record(told)
        return time is not None or not complete

    def _ours(self, params: Params) -> Params | None:
        """Parameters in the engine's space; None if they do not fit it."""
        ours = {name: axis.ours(params[name]) for name, axis in self.axes.items() if name in params}
        return None if len(ours) < len(self.axes) or None in ours.values() else ours

    def _theirs(self, params: Params) -> Params:
        return {name: axis.theirs(params[name]) for name, axis in self.axes.items()}

    def ask(self, trial: FrozenTrial, now: float, clock: Clock) -> dict[str, Any]:
        """The next trial, as a note to leave in the storage before `learn` applies it."""
        engine = self.engine
        others = [each for each in self.record.running if each.number != trial.number]
        engine.expect(trial.number, [p for p in map(self._pending, others) if p is not None])
        step = engine.step(now, until=now)  # Optuna measures at once
        landed = clock.now()
        lines = engine.active.lines[step.rows].tolist()
        return {
            "time": landed,
            "params": self._theirs(engine.space.decode(step.x)),
            "forgot": [self.record.finished[line].number for line in lines],
            "state": step.after(engine.state, now, landed).to_json(),
            "of": self.signature,
        }

    def learn(self, note: Mapping[str, Any]) -> None:
        self.record.forgotten.update(note["forgot"])
        self.engine.advance(State.from_json(note["state"]), ())

    def _pending(self, trial: FrozenTrial) -> Trial | None:
        note = trial.system_attrs.get(NOTE, {})
        params, time = self._ours({**note.get("params", {}), **trial.params}), self.record.time(trial)
        return None if params is None or time is None else Trial(str(trial.number), params, time)

    def recommend(self, now: float) -> Recommendation:
        best = self.engine.recommend(now)
        return replace(best, params=self._theirs(best.params))


# --- Optuna's distributions as parameters -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """A distribution, and the parameter that represents it: steps are counted, and choices are numbered."""

    distribution: BaseDistribution
    parameter: Parameter

    @property
    def _counted(self) -> bool:
        return isinstance(self.parameter, Int) and self.distribution.step is not None and not self.distribution.log

    def ours(self, value: Any) -> Any:
        """None if the value does not belong to the distribution."""
        try:
            internal = self.distribution.to_internal_repr(value)
        except ValueError:
            return None
        if not self.distribution._contains(internal):
            return None
        if self._counted:
            return round((internal - self.distribution.low) / self.distribution.step)
        return internal if isinstance(self.parameter, Float) else int(internal)

    def theirs(self, value: Any) -> Any:
        if isinstance(self.parameter, Categorical):
            return self.distribution.choices[value]
        if not self._counted:
            return value
        placed = self.distribution.low + value * self.distribution.step
        return min(placed, self.distribution.high)


def _axes(search_space: SearchSpace) -> dict[str, _Axis]:
    found = {name: _axis(distribution) for name, distribution in search_space.items()}
    return {name: axis for name, axis in found.items() if axis is not None}


def _axis(distribution: BaseDistribution) -> _Axis | None:
    """None if there is only one value, or more than an `Int` can count."""
    if distribution.single():
        return None
    try:
        return _Axis(distribution, _parameter(distribution))
    except SpaceError:
        return None


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(range(len(distribution.choices)))
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        return Float(distribution.low, distribution.high, distribution.log)
    if isinstance(distribution, IntDistribution) and distribution.log:
        return Int(distribution.low, distribution.high, log=True)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        return Int(0, round((distribution.high - distribution.low) / distribution.step))
    raise SpaceError(f"{distribution!r} is not a known kind of distribution")
