"""What the next ask depends on: the active observations, the newest pending trials, and a few counts.

Its size depends on the active set only, however long a study runs; everything ever told is in the log.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from statistics import fmean
from typing import Any

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.records import Observation, Trial
from ebbtide.space import Space
from ebbtide.study.conditions import Conditions
from ebbtide.study.course import Turn

RECENT = 128  # observations from which the sampling interval is estimated
PAUSES = 4  # how many of the gaps between them may be pauses
SHORTEST = 1e-100  # in the clock's unit: the square of a time far below this is 0, and its inverse infinite
REMEMBERED_FAILURES = 256  # older ones have long faded, or the system has other problems
REMEMBERED_ASKS = 1024  # a trial older than this many asks no longer counts as pending, but can still be told


@dataclass(frozen=True)
class Dataset:
    """Active observations, in the order told: x (unit cube), t (the clock's unit) and y (the objective's unit).

    `c` has the coordinates of their contexts, and `outcomes` the values that are under a constraint, NaN if not told;
    both have no columns in a study without.
    """

    x: Array
    t: Array
    y: Array
    c: Array
    outcomes: Array

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: Rows) -> "Dataset":
        # Of a matrix, `take` is faster than an index.
        return Dataset(*(column.take(rows, axis=0) for column in (self.x, self.t, self.y, self.c, self.outcomes)))


class Table:
    """The rows behind a dataset, each with its line in the history; rows are added and removed."""

    def __init__(self, width: int, context: int = 0, constraints: int = 0) -> None:
        self._n = 0
        numbers = (
            np.empty((16, width)),
            np.empty(16),
            np.empty(16),
            np.empty((16, context)),
            np.empty((16, constraints)),
        )
        self._columns: tuple[np.ndarray[Any, Any], ...] = (*numbers, np.empty(16, dtype=np.intp))
        self._copies: tuple[Dataset, Rows] | None = None  # until a row comes or goes

    def __len__(self) -> int:
        return self._n

    def append(self, *row: Array | float) -> None:
        """A row of the dataset, and its line."""
        if self._n == len(self._columns[1]):  # double, so that n appends cost O(n)
            self._columns = tuple(np.concatenate([c, np.empty_like(c)]) for c in self._columns)
        for column, value in zip(self._columns, row, strict=True):
            column[self._n] = value
        self._n += 1
        self._copies = None

    def keep(self, rows: Rows) -> None:
        for column in self._columns:
            column[: len(rows)] = column.take(rows, axis=0)
        self._n = len(rows)
        self._copies = None

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns)

    def copies(self) -> tuple[Dataset, Rows]:
        """The rows and their lines, read-only: later changes do not affect them, nor can they change the optimizer."""
        if self._copies is None:
            columns = [column[: self._n].copy() for column in self._columns]
            for column in columns:
                column.flags.writeable = False
            self._copies = Dataset(*columns[:-1]), columns[-1]
        return self._copies


@dataclass(frozen=True)
class Checkpoint:
    """What an active set is restored from; a log provides it without replaying the history."""

    told: int = 0
    values_told: int = 0
    recent_times: Sequence[float] = ()  # times of the newest values, in the order told
    first: float = np.inf  # time of the earliest value of the whole history
    last: float = -np.inf  # time of the latest value
    active: Mapping[int, Observation] = field(default_factory=dict)  # by line, in the order told
    failures: Sequence[Observation] = ()  # the newest failed evaluations, in the order told
    pending: Sequence[Trial] = ()
    in_force: Mapping[str, Any] | None = None  # the setting handed out or told last
    contexts: Mapping[int, Observation] = field(default_factory=dict)  # by line: told since the last ask, or before it
    broken: Mapping[int, int] = field(default_factory=dict)  # how often which constraints were (see Conditions.broken)
    turns: Sequence[Turn] = ()  # since the anchor of the model
    gone: Mapping[int, Observation] = field(default_factory=dict)  # by line: what these have removed

    @classmethod
    def of(
        cls,
        history: Sequence[Observation],
        pending: Iterable[Trial],
        in_force: Mapping[str, Any] | None = None,
        conditions: Conditions | None = None,
        turns: Sequence[Turn] = (),
    ) -> "Checkpoint":
        """The checkpoint of a whole history."""
        times = [observation.time for observation in history if observation.value is not None]
        return cls(
            told=len(history),
            values_told=len(times),
            recent_times=times[-RECENT:],
            first=min(times, default=np.inf),
            last=max(times, default=-np.inf),
            active={line: observation for line, observation in enumerate(history) if observation.active},
            failures=[observation for observation in history if observation.failed][-REMEMBERED_FAILURES:],
            pending=tuple(pending),
            in_force=in_force,
            contexts={line: told for line, told in enumerate(history) if told.context is not None},
            broken=Counter(bits for bits in map((conditions or Conditions()).broken, history) if bits is not None),
            turns=turns,
            gone={line: history[line] for turn in turns for line in turn.removed},
        )


class ActiveSet:
    """The active observations and the pending trials. Only the engine writes to it; other code just reads."""

    def __init__(
        self, space: Space, checkpoint: Checkpoint | None = None, conditions: Conditions | None = None
    ) -> None:
        start = checkpoint or Checkpoint()
        self.space, self.conditions = space, conditions or Conditions()
        self.told = start.told  # lines of the history
        self.values_told = start.values_told  # those of them that did not fail
        self.pending: dict[str, Trial] = {}
        self.in_force: Mapping[str, Any] | None = None  # the setting handed out or told last
        self.broken = Counter(start.broken)  # how often which constraints were broken (see Conditions.broken)
        self._active = Table(space.width, self.conditions.width, len(self.conditions.constraints))
        self._recent_times: deque[float] = deque(start.recent_times, maxlen=RECENT)
        self._interval: float | None = None  # until the next value
        self._first, self._last = start.first, start.last
        self._failures: deque[tuple[Array, float]] = deque(maxlen=REMEMBERED_FAILURES)
        for failure in start.failures:
            self._remember(failure)
        for line, observation in start.active.items():
            self._activate(line, observation)
        for trial in start.pending:
            self.open(trial)
        self.in_force = start.in_force  # after the pending trials, which may be older

    @property
    def dataset(self) -> Dataset:
        """The active observations."""
        return self._active.copies()[0]

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    @property
    def failures(self) -> tuple[Array, Array]:
        """Coordinates and times of the newest failed evaluations."""
        X = np.array([x for x, _ in self._failures]).reshape(-1, self.space.width)
        return X, np.array([time for _, time in self._failures])

    @property
    def lines(self) -> Rows:
        """The line in the history of each active observation: its position in the order told."""
        return self._active.copies()[1]

    @property
    def nbytes(self) -> int:
        """Of the active observations."""
        return self._active.nbytes

    def __len__(self) -> int:
        """How many observations are active."""
        return len(self._active)

    def open(self, trial: Trial) -> None:
        """Count a trial as pending; its setting is now in force."""
        self.pending[trial.id] = trial
        self.in_force = trial.params
        while int(trial.id) - int(oldest := next(iter(self.pending))) >= REMEMBERED_ASKS:
            del self.pending[oldest]

    def settle(self, trial_id: str) -> None:
        """Stop counting a trial as pending: it was told, or has failed."""
        self.pending.pop(trial_id, None)

    def newest_pending(self) -> Iterator[Trial]:
        """Pending trials, newest first."""
        return reversed(self.pending.values())

    def record(self, observation: Observation) -> None:
        """Add the next line of the history; as an active row if it has a value and has not been removed."""
        time = observation.time
        if observation.active:
            self._activate(self.told, observation)
        if observation.value is not None:
            self.values_told += 1
            self._recent_times.append(time)
            self._interval = None
            self._first, self._last = min(self._first, time), max(self._last, time)
        elif observation.failed:
            self._remember(observation)
        if observation.trial_id is not None:
            self.settle(observation.trial_id)
        elif observation.params:
            self.in_force = observation.params
        if (bits := self.conditions.broken(observation)) is not None:
            self.broken[bits] += 1
        self.told += 1

    def _remember(self, failure: Observation) -> None:
        self._failures.append((self.space.encode(failure.params), failure.time))

    def _activate(self, line: int, observation: Observation) -> None:
        if observation.value is not None:
            x = self.space.encode(observation.params)
            c = self.conditions.encode(observation.context or {})
            outcomes = self.conditions.row(observation.constraints)
            self._active.append(x, observation.time, observation.value, c, outcomes, line)

    def remove(self, lines: Sequence[int]) -> None:
        """Remove active rows, given by their lines."""
        if not lines:
            return
        kept = np.ones(len(self), dtype=bool)
        kept[self.lines.searchsorted(lines)] = False  # rows are in the order told
        self._active.keep(kept.nonzero()[0])

    @property
    def span(self) -> float:
        """The time from the earliest observation of the whole history to the latest."""
        return max(0.0, self._last - self._first)

    @property
    def recent_times(self) -> Array:
        """Times of the newest values, in the order told."""
        return np.array(self._recent_times, dtype=float)

    @property
    def interval(self) -> float:
        """The typical time between two observations; 1, in the clock's unit, until it can be estimated.

        The mean of the recent gaps without the longest few, which may be pauses. (A median would mistake batches of
        simultaneous queries for fast sampling.)
        """
        if self._interval is None:
            times = sorted(self._recent_times)
            gaps = sorted(map(sub, times[1:], times))
            usual = gaps[: -min(PAUSES, len(gaps) // 4) or None]
            mean = fmean(usual) if usual else 0.0
            self._interval = mean if mean > SHORTEST else 1.0
        return self._interval
