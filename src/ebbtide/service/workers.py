"""Worker processes, which do the model work: no tell waits for it, and a crash ends only the worker."""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import resource_tracker
from typing import TypeVar, TypeVarTuple

from ebbtide.errors import WorkerError
from ebbtide.service.jobs import Jobs
from ebbtide.service.logs import line, logger
from ebbtide.service.worker import JOIN_S, TICK_S, Bounds, LostWorkerError, Worker

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# Tells come first, but beside other programs that keep all cores busy, asks must not starve: two such programs per core
# leave a worker a seventh of it, and would leave one that is niced by 10 a twentieth.
NICENESS = 5
TRIES = 3  # each with another worker, if the one before died
PAUSE_S = 1.0  # after a worker that could not start
MASKS = hasattr(signal, "pthread_sigmask")  # POSIX


class Workers:
    """So many worker processes. Each has a thread that looks after it; one more thread watches all of them."""

    def __init__(self, processes: int, niceness: int, bounds: Bounds | None = None) -> None:
        self.processes, self.niceness, self.bounds = processes, niceness, bounds or Bounds()
        self._jobs = Jobs(processes)
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []

    @property
    def alive(self) -> int:
        """How many workers live and can begin at once, or are at work."""
        with self._lock:
            return sum(worker.warm and worker.alive for worker in self._workers)

    def start(self) -> None:
        """Let the workers import what they need before somebody waits for it."""
        if not self._threads:
            if MASKS:
                resource_tracker.ensure_running()  # here, because it would unblock signals in the thread that starts it
            targets = [*[self._keep] * self.processes, self._watch]
            self._threads = [threading.Thread(target=each, name="workers", daemon=True) for each in targets]
            for thread in self._threads:
                thread.start()

    async def do(self, study: str, size: int, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """`size` is that of the study's active set."""
        return await self.use(study, size, lambda worker: worker.do(work, *arguments))

    async def use(self, study: str, size: int, use: Callable[[Worker], T]) -> T:
        """Call `use` with a worker that has nothing else to do, in the thread that looks after it."""
        self.start()
        for _ in range(TRIES):
            with suppress(LostWorkerError):
                return await asyncio.wrap_future(self._jobs.put(study, size, use))
        raise WorkerError("the worker processes keep dying; is there enough memory?")

    def close(self) -> None:
        self._jobs.close()
        with self._lock:
            for worker in self._workers:
                worker.end("the service ends")
        for thread in self._threads:
            thread.join(2.0 * JOIN_S)

    def _keep(self) -> None:
        """One worker after the other, each until it dies."""
        if MASKS:  # Ctrl-C is for the service; what is started here inherits that
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._jobs.closed.is_set():
            try:
                worker = Worker(self.niceness, self.bounds)
            except (OSError, MemoryError) as error:  # or too many processes
                self._lost("cannot be started", repr(error))
                self._jobs.closed.wait(PAUSE_S)
                continue
            self._add(worker)
            try:
                worker.start()
                while (job := self._jobs.take(worker)) is not None:
                    self._jobs.do(job, worker)
            except (LostWorkerError, WorkerError):  # before it was warm
                self._jobs.closed.wait(PAUSE_S)
            finally:
                with self._lock:
                    self._workers.remove(worker)
                self._jobs.forget(worker)
                worker.close()
                self._lost("is replaced", worker.end_reason)

    def _add(self, worker: Worker) -> None:
        with self._lock:
            self._workers.append(worker)
            if self._jobs.closed.is_set():
                worker.end("the service ends")

    def _lost(self, what: str, why: str) -> None:
        if not self._jobs.closed.is_set():
            logger.warning(line({"verb": "worker", "reason": f"a worker {what}: {why}"}))

    def _watch(self) -> None:
        while not self._jobs.closed.wait(TICK_S):
            with self._lock:
                for worker in self._workers:
                    worker.check()
