"""Everything ever asked and told: in memory here, in a file with `storage=` (ebbtide.study.storage).

An optimizer writes to its log first and changes itself afterwards, so that what it knows is never more than what
is recorded. Others may write to the same log: `updates` tells what they did.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Protocol

from ebbtide.errors import TrialError
from ebbtide.records import Observation, Trial
from ebbtide.study.state import State


@dataclass(frozen=True)
class Ask:
    """One ask as it is recorded: with the state that it left behind, from which the next one starts."""

    trial: Trial
    told: int  # how many lines of the history it had seen
    now: float  # the clock when it began,
    until: float | None  # the latest moment that it might choose,
    landed: float  # and when it was answered
    removed: tuple[tuple[int, float | None], ...]  # lines of the history, and their relevance
    state: State


@dataclass(frozen=True)
class Updates:
    """What others have recorded: asks and tells (with the clock's reading), each in its order."""

    asks: Sequence[Ask] = ()
    tells: Sequence[tuple[Observation, float]] = ()


class Log(Protocol):
    def transaction(self) -> AbstractContextManager[object]:
        """All of what is recorded inside, or nothing; nobody else records meanwhile."""

    def updates(self, asks: int, told: int) -> Updates:
        """What was recorded after so many asks and lines."""

    def asked(self, ask: Ask) -> None: ...

    def record(self, observation: Observation, reading: float, line: int, asks: int) -> None:
        """A line of the history, after so many asks."""

    def trial(self, trial_id: str) -> Trial | None:
        """What was asked under this id, told or not."""

    def told(self, trial_id: str) -> Observation | None:
        """What was told of a trial."""

    def keyed(self, key: str) -> Observation | None:
        """What was told under an idempotency key."""

    def observations(self, lines: Sequence[int]) -> list[Observation]: ...

    def history(self) -> list[Observation]: ...

    def pending(self) -> list[Trial]:
        """Every trial neither told nor failed, however old."""

    def close(self) -> None: ...


class MemoryLog:
    """The log of an optimizer without storage."""

    def __init__(self) -> None:
        self._pending: dict[str, Trial] = {}
        self._history: list[Observation] = []
        self._lines: dict[str, int] = {}  # trial id → its line in the history
        self._keys: dict[str, int] = {}

    def transaction(self) -> AbstractContextManager[object]:
        return nullcontext()

    def updates(self, asks: int, told: int) -> Updates:
        return Updates()

    def asked(self, ask: Ask) -> None:
        self._pending[ask.trial.id] = ask.trial
        for line, score in ask.removed:
            self._history[line] = replace(self._history[line], removed_at=ask.now, relevance=score)

    def record(self, observation: Observation, reading: float, line: int, asks: int) -> None:
        self._history.append(observation)
        if observation.trial_id is not None:
            self._lines[observation.trial_id] = line
            self._pending.pop(observation.trial_id, None)
        if observation.key is not None:
            self._keys[observation.key] = line

    def trial(self, trial_id: str) -> Trial | None:
        if (observation := self.told(trial_id)) is not None:
            return Trial(trial_id, observation.params, observation.time)
        return self._pending.get(trial_id)

    def told(self, trial_id: str) -> Observation | None:
        line = self._lines.get(trial_id)
        return None if line is None else self._history[line]

    def keyed(self, key: str) -> Observation | None:
        line = self._keys.get(key)
        return None if line is None else self._history[line]

    def observations(self, lines: Sequence[int]) -> list[Observation]:
        return [self._history[line] for line in lines]

    def history(self) -> list[Observation]:
        return list(self._history)

    def pending(self) -> list[Trial]:
        return list(self._pending.values())

    def close(self) -> None:
        pass


def told_before(log: Log, trial: Trial, value: float | None) -> bool:
    """Whether this very value was told before; an error if another was, or if the trial is not ours."""
    asked, earlier = log.trial(trial.id), log.told(trial.id)
    if asked is None or asked.params != trial.params:
        raise TrialError(
            f"trial {trial.id!r} with {trial.params} is not one that this optimizer asked for; for outside data, "
            "or for parameters that you have changed, tell them instead: tell(trial.params, value, time=...)"
        )
    if earlier is None:
        return False
    if earlier.value != value:
        raise TrialError(
            f"trial {trial.id!r} was told {_shown(earlier.value)} before and {_shown(value)} now; a trial has one "
            "value: for another measurement of the same point, tell its parameters: tell(trial.params, value)"
        )
    return True


def told_under(log: Log, key: str, trial_id: str | None, params: Mapping[str, Any], value: float | None) -> bool:
    """Whether this was told before under the same idempotency key; an error if something else was."""
    earlier = log.keyed(key)
    if earlier is None:
        return False
    if (earlier.trial_id, earlier.params, earlier.value) != (trial_id, params, value):
        raise TrialError(
            f"under the key {key!r} {earlier.params} was told {_shown(earlier.value)} before, and {params} "
            f"{_shown(value)} now; a key belongs to one tell: make a new one for each"
        )
    return True


def _shown(value: float | None) -> str:
    return "that it failed" if value is None else repr(value)


# --- as JSON, in a snapshot ---------------------------------------------------------------------------------------


def to_json(log: Log) -> dict[str, Any]:
    return {
        "history": [list(astuple(observation)) for observation in log.history()],
        "pending": [asdict(trial) for trial in log.pending()],
    }


def from_json(data: Mapping[str, Any], record: Callable[[Observation], object]) -> MemoryLog:
    """The log of a snapshot; each line goes to `record` too, as if it were told now."""
    log = MemoryLog()
    for line, row in enumerate(data["history"]):
        observation = Observation(*row)
        record(observation)
        log.record(observation, observation.time, line, 0)
    log._pending = {trial["id"]: Trial(**trial) for trial in data["pending"]}
    return log
