"""The facts of a study: its definition, the state that the last ask left behind, and the active set; and how what
happens changes them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ebbtide.records import Observation, Trial, changed
from ebbtide.study.active import ActiveSet, Checkpoint
from ebbtide.study.axis import TimeAxis
from ebbtide.study.course import Course, Input, Turn
from ebbtide.study.definition import Definition
from ebbtide.study.log import Ask, Updates
from ebbtide.study.state import State


class Facts:
    """Only these methods change what is known; other code just reads `state` and `active`:

    | method    | what happened                                                     |
    |-----------|-------------------------------------------------------------------|
    | `restore` | a log was opened                                                  |
    | `apply`   | an ask was recorded                                               |
    | `record`  | a tell was recorded                                               |
    | `learn`   | other processes have recorded asks and tells                      |
    | `note`    | the clock was read                                                |

    A host that keeps the trials itself (Optuna) uses `advance` for an ask's outcome, `note_context` for what was told
    before it, and `expect` and `follow` before it asks.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.space, self.algorithm, self.seed = definition.space, definition.algorithm, definition.seed
        self._state = State()
        self._active = ActiveSet(self.space, conditions=definition.conditions)
        self._axis = TimeAxis(self.algorithm.temporal, self._active)
        self._course: Course | None = None

    @property
    def state(self) -> State:
        """The state that the last ask left behind, with the clock's readings since."""
        return self._state

    @property
    def active(self) -> ActiveSet:
        """The active observations and the pending trials."""
        return self._active

    @property
    def course(self) -> Course | None:
        """What became of the active set since the model's anchor; None if the next ask makes the model afresh."""
        return self._course

    @property
    def axis(self) -> TimeAxis:
        return self._axis

    @property
    def by_system_clock(self) -> bool:
        """Whether times are in seconds since 1970."""
        return self.definition.clock == "SystemClock"

    @property
    def latest_reading(self) -> float:
        """The latest time that the clock ever showed; −∞ before the first reading."""
        latest = self._state.latest_reading
        return -math.inf if latest is None else latest

    def restore(self, state: State, checkpoint: Checkpoint) -> None:
        """Start from where a log ends: `engine.restore(*log.checkpoint())`."""
        self._state, self._active = state, ActiveSet(self.space, checkpoint, self.definition.conditions)
        self._axis = TimeAxis(self.algorithm.temporal, self._active)
        for line, observation in checkpoint.contexts.items():
            self.note_context(line, observation)
        self.follow(checkpoint.turns, checkpoint.gone)

    def follow(self, turns: Sequence[Turn], gone: Mapping[int, Observation]) -> None:
        """Set the turns since the model's anchor, and the observations, by line, that they removed."""
        known = self._state.anchor is not None and bool(turns)
        gone_inputs = {line: self._input(observation) for line, observation in gone.items()}
        self._course = Course(tuple(turns), gone_inputs) if known else None

    def _input(self, told: Observation) -> Input:
        x = self.space.encode(told.params)
        if self.definition.conditions.context is not None:
            x = np.append(x, self.definition.conditions.encode(told.context or {}))
        return Input(x, told.time, np.isfinite(self.definition.conditions.row(told.constraints)))

    def apply(self, ask: Ask) -> None:
        """Apply an ask that was recorded."""
        self.advance(ask.state, [line for line, _ in ask.removed], ask.told)
        self._active.open(ask.trial)

    def advance(self, state: State, removed: Sequence[int], told: int | None = None) -> None:
        """Go to the state that an ask left behind, and remove these lines; `told` is how many it had seen, if known."""
        self._course = None if told is None else self._course_after(state, Turn.of(told, removed))
        latest = None if _went_back(self._state, state) else self._state.latest_reading
        self._state = state if latest is None else state.noting(latest)
        self._active.remove(removed)

    def _course_after(self, state: State, turn: Turn) -> Course | None:
        before = Course() if state.anchor == state.asks - 1 else self._course
        if state.anchor is None or before is None:
            return None
        rows = self._active.lines.searchsorted(turn.removed).tolist()
        return before.after(turn, dict(zip(turn.removed, map(self._input_at, rows), strict=True)))

    def _input_at(self, row: int) -> Input:
        """That of an active observation."""
        data = self._active.dataset
        x = data.x[row].copy() if self.definition.conditions.context is None else np.append(data.x[row], data.c[row])
        return Input(x, float(data.t[row]), np.isfinite(data.outcomes[row]))

    def record(self, observation: Observation, reading: float | None = None) -> None:
        """Apply a tell that was recorded, and the clock's reading at that time, if it is known."""
        self.note_context(self._active.told, observation)
        self._active.record(observation)
        if reading is not None:
            self.note(reading)

    def note_context(self, line: int, told: Observation) -> None:
        """Note the context that was told with a line; doing it again changes nothing."""
        if told.context is not None:
            known = self._state.measured(told.context, told.filled, (told.time, 1, line))
            self._state = known.sampling(line, self.definition.conditions.encode(told.context), self.seed)

    def note(self, reading: float) -> None:
        """Note a reading of the clock, which may be the latest."""
        self._state = self._state.noting(reading)

    def learn(self, updates: Updates) -> None:
        """Apply what other processes have recorded."""
        line = self._active.told
        for observation, reading in updates.tells:
            self.record(changed(observation, removed_at=None), reading)  # the ask that removed it comes below
        told = {observation.trial_id for observation, _ in updates.tells}
        for ask in updates.asks:
            self.apply(ask)
            if ask.trial.id in told:
                self._active.settle(ask.trial.id)
        for number, (observation, _) in enumerate(updates.tells, line):
            self.note_context(number, observation)  # again: the state is now the one that the last ask left behind
        if updates.in_force is not None:
            self._active.in_force = updates.in_force

    def expect(self, number: int, pending: Iterable[Trial]) -> None:
        """Set the number of the next ask, and the pending trials."""
        self._state = changed(self._state, asks=number)
        self._active.pending = {trial.id: trial for trial in pending}


def _went_back(before: State, after: State) -> bool:
    """Whether an ask found that the clock had gone back for good, and set aside what is dated after it."""
    return after.guards.get("clock_went_back", 0) > before.guards.get("clock_went_back", 0)
