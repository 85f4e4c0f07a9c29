"""Everything asked and told: the pending trials, the whole history, and the active rows among it."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from ebbtide.arrays import Rows
from ebbtide.dataset import Dataset, Table
from ebbtide.errors import TrialError
from ebbtide.records import Observation, Trial
from ebbtide.space import Space

RECENT = 128  # observations from which the sampling interval is estimated
PAUSES = 4  # and how many of the gaps between them may be pauses


class Ledger:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.pending: dict[str, Trial] = {}
        self.history: list[Observation] = []
        self._active = Table(space.width)
        self._lines: dict[str, int] = {}  # trial id → its line in the history
        self.values_told = 0
        self._recent_times: deque[float] = deque(maxlen=RECENT)
        self._first, self._last = np.inf, -np.inf

    @property
    def dataset(self) -> Dataset:
        """The active observations."""
        return self._active.dataset()

    @property
    def lines(self) -> Rows:
        """The line in the history of each active observation: the how-manieth told it was."""
        return self._active.lines

    def __len__(self) -> int:
        """How many observations are active."""
        return len(self._active)

    def open(self, trial: Trial) -> None:
        self.pending[trial.id] = trial

    def newest_pending(self) -> Iterator[Trial]:
        """Trials asked and neither told nor failed, the newest first."""
        return reversed(self.pending.values())

    def already_told(self, trial: Trial, value: float | None) -> bool:
        """Whether this very value was told before; an error if another was, or if the trial is not ours."""
        line = self._lines.get(trial.id)
        mine = self.pending.get(trial.id) if line is None else self.history[line]
        if mine is None or mine.params != trial.params:
            raise TrialError(
                f"trial {trial.id!r} with {trial.params} is not one that this optimizer asked for; for outside data, "
                "or for parameters that you have changed, tell them instead: tell(trial.params, value, time=...)"
            )
        if line is None:
            return False
        earlier = self.history[line].value
        if earlier != value:
            raise TrialError(
                f"trial {trial.id!r} was told {_shown(earlier)} before and {_shown(value)} now; a trial has one "
                "value: for another measurement of the same point, tell its parameters: tell(trial.params, value)"
            )
        return True

    def record(self, observation: Observation) -> None:
        """Append to the history, and to the active rows unless it failed."""
        line = len(self.history)
        x = self.space.encode(observation.params)  # before anything changes: it is what could fail
        self.history.append(observation)
        if observation.trial_id is not None:
            self._lines[observation.trial_id] = line
            self.pending.pop(observation.trial_id, None)
        if observation.value is not None:
            self.values_told += 1
            self._active.append(x, observation.time, observation.value, line)
            self._recent_times.append(observation.time)
            self._first = min(self._first, observation.time)
            self._last = max(self._last, observation.time)

    def remove(self, rows: Sequence[int], when: float, scores: Sequence[float | None]) -> tuple[Observation, ...]:
        """Take active rows out; the history remembers when and at what relevance."""
        lines = self._active.lines[list(rows)].tolist()
        for line, score in zip(lines, scores, strict=True):
            self.history[line] = replace(self.history[line], removed_at=when, relevance=score)
        self._active.keep(np.delete(np.arange(len(self)), list(rows)))
        return tuple(self.history[line] for line in lines)

    @property
    def span(self) -> float:
        """From the first observation to the last, of the whole history."""
        return max(0.0, self._last - self._first)

    @property
    def interval(self) -> float:
        """The usual time between two observations; 1 in the clock's unit until that can be told.

        The mean of the recent gaps but for the longest few: those may be pauses, while a median would take a batch
        of simultaneous queries for a fast sampler.
        """
        times = sorted(self._recent_times)
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        usual = gaps[: -min(PAUSES, len(gaps) // 4) or None]
        return fmean(usual) if usual and usual[-1] > 0.0 else 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "history": [list(astuple(observation)) for observation in self.history],
            "active": self._active.lines.tolist(),
            "pending": [asdict(trial) for trial in self.pending.values()],
        }

    @classmethod
    def from_json(cls, space: Space, data: Mapping[str, Any]) -> "Ledger":
        ledger = cls(space)
        for row in data["history"]:
            ledger.record(Observation(*row))
        position = {line: row for row, line in enumerate(ledger._active.lines.tolist())}
        ledger._active.keep(np.array([position[line] for line in data["active"]], dtype=np.intp))
        ledger.pending = {trial["id"]: Trial(**trial) for trial in data["pending"]}
        return ledger


def _shown(value: float | None) -> str:
    return "that it failed" if value is None else repr(value)
