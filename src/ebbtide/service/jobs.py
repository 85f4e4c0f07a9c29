"""What the workers are to do, in a fair order: studies take turns, each has at most one worker, and those with slow
models leave one worker to the others.

A worker keeps what it knows about a study, so the study's next job waits for it. Another worker takes the study over,
and is told all about it, if the study's worker

- is gone,
- has been busy with another study for longer than a move would cost,
- or if the other one has nothing else to do, and the job has waited for so long, or the study's worker is busy and has
  two studies more than the other one.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, TypeVar

from ebbtide.errors import BusyError
from ebbtide.service.worker import TICK_S, Worker

T = TypeVar("T")
SLOW_S = 1.0  # of a core, for a model
LARGE = 500  # observations: a guess at which models will be slow, until one was computed
REMEMBERED = 1024  # studies whose last model's time and worker are known
MOVE = 20.0  # models that a move may cost: the other worker makes the anchor's again, and repeats the turns since
SHORTEST_S, LONGEST_S = 0.02, 2.0  # for which a study waits for its worker
LOOK_S = 0.02  # between two looks whether one has waited long enough
IN_USE_S = 5.0  # since its last job, for which a study counts as one of its worker's


@dataclass(frozen=True)
class Job:
    study: str
    size: int  # of its active set
    use: Callable[[Worker], Any]
    future: "Future[Any]" = field(default_factory=Future)
    since: float = field(default_factory=lambda: time.monotonic())


@dataclass(frozen=True)
class Last:
    """What is remembered of the last job of a study."""

    worker: Worker | None = None
    time: float = 0.0  # when it was done
    seconds: float | None = None  # of a core, that its model took
    elapsed: float = 0.0  # meanwhile: more, on a busy machine


NOTHING = Last()


class Jobs:
    def __init__(self, workers: int) -> None:
        self.room_for_slow = max(1, workers - 1)
        self.closed = threading.Event()
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()  # by study; the one to be served next comes first
        self._running: dict[str, Job] = {}
        self._busy: dict[Worker, float] = {}  # since when
        self._last: OrderedDict[str, Last] = OrderedDict()  # by study; the one used last at the end

    def put(self, study: str, size: int, use: Callable[[Worker], T]) -> "Future[T]":
        job = Job(study, size, use)
        with self._changed:
            if self.closed.is_set():
                raise BusyError("the service is stopping; try again in a moment")
            self._waiting.setdefault(study, deque()).append(job)
            self._changed.notify_all()
        return job.future

    def take(self, worker: Worker) -> Job | None:
        """The next job, as soon as there is one that may be done; None if the worker has died, or at the end."""
        with self._changed:
            while worker.alive and not self.closed.is_set():
                if (job := self._next(worker)) is not None:
                    return job
                self._changed.wait(LOOK_S if self._waiting else TICK_S)
        return None

    def do(self, job: Job, worker: Worker) -> None:
        worker.spent = 0.0
        try:
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(job.use(worker))
        except BaseException as error:
            job.future.set_exception(error)
        finally:
            self._done(job, worker, worker.spent)

    def forget(self, worker: Worker) -> None:
        """It is gone, and what it knew with it."""
        with self._changed:
            for study, last in self._last.items():
                if last.worker is worker:
                    self._last[study] = replace(last, worker=None)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.closed.set()
            for job in (job for jobs in self._waiting.values() for job in jobs):
                job.future.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def _next(self, worker: Worker) -> Job | None:
        crowded = sum(map(self._is_slow, self._running.values())) >= self.room_for_slow
        free = [
            jobs[0]
            for study, jobs in self._waiting.items()
            if study not in self._running and not (crowded and self._is_slow(jobs[0]))
        ]
        if not free:
            return None
        now = time.monotonic()
        found = next((job for job in free if self._is_for(worker, job, now)), None)
        if found is None:
            found = self._worth_a_move(worker, free, now)
        return None if found is None else self._begin(found, worker, now)

    def _is_for(self, worker: Worker, job: Job, now: float) -> bool:
        owner = self._of(job).worker
        return owner is None or owner is worker or now - self._busy.get(owner, now) > self._patience(job)

    def _worth_a_move(self, worker: Worker, free: Iterable[Job], now: float) -> Job | None:
        """The first job that a worker with nothing else to do takes over."""
        in_use = takewhile(lambda last: now - last.time < IN_USE_S, reversed(self._last.values()))
        studies = Counter(last.worker for last in in_use)
        crowded = {owner for owner in self._busy if studies[owner] > studies[worker] + 1}
        for job in free:
            if self._of(job).worker in crowded or now - job.since > self._patience(job):
                return job
        return None

    def _patience(self, job: Job) -> float:
        return min(max(SHORTEST_S, MOVE * self._of(job).elapsed), LONGEST_S)

    def _begin(self, job: Job, worker: Worker, now: float) -> Job:
        study, jobs = job.study, self._waiting[job.study]
        self._running[study] = jobs.popleft()
        self._busy[worker] = now
        self._remember(study, replace(self._of(job), worker=worker, time=now))
        self._waiting.move_to_end(study)
        if not jobs:
            del self._waiting[study]
        return job

    def _is_slow(self, job: Job) -> bool:
        seconds = self._of(job).seconds
        return job.size > LARGE if seconds is None else seconds > SLOW_S

    def _of(self, job: Job) -> Last:
        return self._last.get(job.study, NOTHING)

    def _remember(self, study: str, last: Last) -> None:
        self._last[study] = last
        self._last.move_to_end(study)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def _done(self, job: Job, worker: Worker, seconds: float) -> None:
        with self._changed:
            del self._running[job.study]
            now = time.monotonic()
            self._remember(job.study, Last(worker, now, seconds, now - self._busy.pop(worker)))
            self._changed.notify_all()
