"""Everything ever asked and told: in memory here, in a database with `storage=` (ebbtide.study.storage).

An optimizer writes to its log first and changes itself afterwards, so that it never knows more than what is
recorded. Other processes may write to the same log: `updates` returns what they recorded.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Protocol

from ebbtide.records import Observation, Trial, changed
from ebbtide.study.active import Checkpoint
from ebbtide.study.conditions import Conditions
from ebbtide.study.course import Turn
from ebbtide.study.state import State


@dataclass(frozen=True)
class Ask:
    """One ask as recorded, with the state that it left behind, from which the next ask starts."""

    trial: Trial
    told: int  # how many lines of the history it had seen
    now: float  # the clock when it began
    until: float | None  # the latest time that it could choose
    landed: float  # the clock when it was answered
    removed: tuple[tuple[int, float | None], ...]  # lines of the history, and their relevance
    state: State


@dataclass(frozen=True)
class Updates:
    """What other processes have recorded: asks, and tells with the clock's readings, each in order."""

    asks: Sequence[Ask] = ()
    tells: Sequence[tuple[Observation, float]] = ()
    in_force: Mapping[str, Any] | None = None  # the setting handed out or told last


NOTHING = Updates()  # what a log returns that no other process can write to


class Log(Protocol):
    def transaction(self) -> AbstractContextManager[object]:
        """Record everything inside, or nothing; no other process records anything meanwhile."""

    def turn(self, insist: bool) -> AbstractContextManager[object]:
        """Around an ask from its plan to its record: no other process overtakes it, if `insist`."""

    def record_ask(self, ask: Ask) -> None: ...

    def record_tell(self, observation: Observation, reading: float, line: int, asks: int) -> None:
        """Record this line of the history, told after this many asks, when the clock showed `reading`."""

    def checkpoint(self) -> tuple[State, Checkpoint]:
        """Where the next ask starts: the state that the last one left, and what is active and pending."""

    def updates(self, asks: int, told: int) -> Updates:
        """What was recorded after this many asks and lines."""

    def trial(self, trial_id: str) -> Trial | None:
        """The trial with this id, as it was asked, whether or not it was told since."""

    def observation_of(self, trial_id: str) -> Observation | None:
        """What was told for a trial."""

    def observation_under(self, key: str) -> Observation | None:
        """What was told with an idempotency key."""

    def observations(self, lines: Sequence[int]) -> list[Observation]: ...

    def history(self) -> list[Observation]: ...

    def trials(self) -> list[Trial]:
        """Every trial asked for, in the order asked."""

    def pending(self) -> list[Trial]:
        """The trials that are neither told nor failed, however old."""

    def baseline_and_holds(self, newest: int, around: int) -> list[Observation]:
        """The newest values of the baseline, and at least so many holds before and after each: to compare them."""

    def in_force(self) -> Mapping[str, Any] | None:
        """The setting handed out or told last: that of the last ask, unless another was told from outside since."""

    def siblings(self) -> Mapping[str, Any] | None:
        """What the fits of the study's siblings are like (`Family.to_json`), empty if there are none; None if this log
        cannot know.
        """

    def close(self) -> None: ...


class MemoryLog:
    """The log of an optimizer without storage."""

    def __init__(self, conditions: Conditions | None = None) -> None:
        self._conditions = conditions or Conditions()
        self._state = State()
        self._trials: dict[str, Trial] = {}  # every trial asked for
        self._pending: dict[str, Trial] = {}
        self._history: list[Observation] = []
        self._lines: dict[str, int] = {}  # trial id → its line in the history
        self._keys: dict[str, int] = {}
        self._in_force: Mapping[str, Any] | None = None
        self.turns: tuple[Turn, ...] = ()  # since the anchor of the model

    def transaction(self) -> AbstractContextManager[object]:
        return nullcontext()

    def turn(self, insist: bool) -> AbstractContextManager[object]:
        return nullcontext()

    def record_ask(self, ask: Ask) -> None:
        self._state = ask.state
        before = () if ask.state.anchor == int(ask.trial.id) else self.turns
        turn = Turn.of(ask.told, [line for line, _ in ask.removed])
        self.turns = () if ask.state.anchor is None else (*before, turn)
        self._in_force = ask.trial.params
        self._trials[ask.trial.id] = self._pending[ask.trial.id] = ask.trial
        for line, score in ask.removed:
            self._history[line] = changed(self._history[line], removed_at=ask.now, relevance=score)

    def record_tell(self, observation: Observation, reading: float, line: int, asks: int) -> None:
        self._state = self._state.noting(reading)
        if observation.trial_id is None:
            self._in_force = observation.params
        self._append(observation)

    def _append(self, observation: Observation) -> None:
        line = len(self._history)
        self._history.append(observation)
        if observation.trial_id is not None:
            self._lines[observation.trial_id] = line
            self._pending.pop(observation.trial_id, None)
        if observation.key is not None:
            self._keys[observation.key] = line

    def checkpoint(self) -> tuple[State, Checkpoint]:
        pending = self._pending.values()
        return self._state, Checkpoint.of(self._history, pending, self._in_force, self._conditions, self.turns)

    def updates(self, asks: int, told: int) -> Updates:
        return NOTHING

    def trial(self, trial_id: str) -> Trial | None:
        return self._trials.get(trial_id)

    def observation_of(self, trial_id: str) -> Observation | None:
        line = self._lines.get(trial_id)
        return None if line is None else self._history[line]

    def observation_under(self, key: str) -> Observation | None:
        line = self._keys.get(key)
        return None if line is None else self._history[line]

    def observations(self, lines: Sequence[int]) -> list[Observation]:
        return [self._history[line] for line in lines]

    def history(self) -> list[Observation]:
        return list(self._history)

    def trials(self) -> list[Trial]:
        return list(self._trials.values())

    def pending(self) -> list[Trial]:
        return list(self._pending.values())

    def baseline_and_holds(self, newest: int, around: int) -> list[Observation]:
        baseline = [told for told in self._history if told.kind == "baseline" and told.value is not None]
        return baseline[-newest:] + [told for told in self._history if told.kind == "hold"]

    def in_force(self) -> Mapping[str, Any] | None:
        return self._in_force

    def siblings(self) -> Mapping[str, Any] | None:
        return None

    def close(self) -> None:
        pass

    @classmethod
    def from_json(cls, data: Mapping[str, Any], conditions: Conditions | None = None) -> "MemoryLog":
        """The log in a snapshot."""
        log = cls(conditions)
        log._state = State.from_json(data["state"])
        trials = data.get("trials", {})  # missing in the oldest snapshots
        for row in data["history"]:
            observation = _observation(row)
            log._append(observation)
            if (number := observation.trial_id) is not None:
                time, expires, *around = trials.get(number, (observation.time, None))
                kind = observation.kind or "explore"
                log._trials[number] = _trial(number, observation.params, time, expires, kind, *around)
        log._pending = {trial["id"]: _trial(**trial) for trial in data["pending"]}
        trials_by_id = log._trials | log._pending
        log._trials = {number: trials_by_id[number] for number in sorted(trials_by_id, key=lambda n: (len(n), n))}
        log._in_force = data.get("in_force")
        log.turns = tuple(Turn.of(told, removed) for told, removed in data.get("turns", ()))
        return log


def to_json(log: Log) -> dict[str, Any]:
    """A log as a snapshot holds it."""
    history = log.history()
    times = {observation.trial_id: observation.time for observation in history}
    return {
        "history": [_row(observation) for observation in history],
        "pending": [_fields(trial) for trial in log.pending()],
        "in_force": log.in_force(),
        # Only what the history does not hold: trials told for another time than their own, or asked with a lease or a
        # context.
        "trials": {
            trial.id: [trial.time, trial.expires] + ([] if trial.context is None else [trial.context, trial.filled])
            for trial in log.trials()
            if trial.id in times and (trial.time, trial.expires, trial.context) != (times[trial.id], None, None)
        },
    }


# Studies without conditions are saved as they were before there were any: without the last fields.


def _row(told: Observation) -> list[Any]:
    row = list(astuple(told))
    return row[:-3] if told.context is None and told.constraints is None else row


def _observation(row: Sequence[Any]) -> Observation:
    told = Observation(*row)
    return replace(told, filled=tuple(told.filled))


def _fields(trial: Trial) -> dict[str, Any]:
    fields = asdict(trial)
    return {key: fields[key] for key in fields if trial.context is not None or key not in ("context", "filled")}


def _trial(*fields: Any, **named: Any) -> Trial:
    trial = Trial(*fields, **named)
    return replace(trial, filled=tuple(trial.filled))
