"""What the workers are to do, in a fair order: studies take turns, each has at most one worker, and those with slow
models leave one worker to the others.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ebbtide.errors import BusyError
from ebbtide.service.worker import TICK_S, Worker

T = TypeVar("T")
SLOW_S = 1.0  # of a core, for a model
LARGE = 500  # observations: a guess at which models will be slow, until one was computed
REMEMBERED = 1024  # studies whose last model's time is known


@dataclass(frozen=True)
class Job:
    study: str
    size: int  # of its active set
    use: Callable[[Worker], Any]
    future: "Future[Any]" = field(default_factory=Future)


class Jobs:
    def __init__(self, workers: int) -> None:
        self.room_for_slow = max(1, workers - 1)
        self.closed = threading.Event()
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()  # by study; the one to be served next comes first
        self._running: dict[str, Job] = {}
        self._seconds: OrderedDict[str, float] = OrderedDict()  # of a core, that the last model of a study took

    def put(self, study: str, size: int, use: Callable[[Worker], T]) -> "Future[T]":
        job = Job(study, size, use)
        with self._changed:
            if self.closed.is_set():
                raise BusyError("the service is stopping; try again in a moment")
            self._waiting.setdefault(study, deque()).append(job)
            self._changed.notify()
        return job.future

    def take(self, worker: Worker) -> Job | None:
        """The next job, as soon as there is one that may be done; None if the worker has died, or at the end."""
        with self._changed:
            while worker.alive and not self.closed.is_set():
                if (job := self._next()) is not None:
                    return job
                self._changed.wait(TICK_S)
        return None

    def do(self, job: Job, worker: Worker) -> None:
        worker.spent = 0.0
        try:
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(job.use(worker))
        except BaseException as error:
            job.future.set_exception(error)
        finally:
            self._done(job, worker.spent)

    def close(self) -> None:
        with self._changed:
            self.closed.set()
            for job in (job for jobs in self._waiting.values() for job in jobs):
                job.future.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def _next(self) -> Job | None:
        crowded = sum(map(self._is_slow, self._running.values())) >= self.room_for_slow
        for study, jobs in self._waiting.items():
            if study in self._running or (crowded and self._is_slow(jobs[0])):
                continue
            job = self._running[study] = jobs.popleft()
            self._waiting.move_to_end(study)
            if not jobs:
                del self._waiting[study]
            return job
        return None

    def _is_slow(self, job: Job) -> bool:
        seconds = self._seconds.get(job.study)
        return job.size > LARGE if seconds is None else seconds > SLOW_S

    def _done(self, job: Job, seconds: float) -> None:
        with self._changed:
            del self._running[job.study]
            self._seconds[job.study] = seconds
            self._seconds.move_to_end(job.study)
            while len(self._seconds) > REMEMBERED:
                self._seconds.popitem(last=False)
            self._changed.notify_all()
