"""A worker process and the service's end of it. It computes one thing at a time, within a bound of time and memory; a
worker that is late, frozen or out of memory is ended, and nothing is lost with it.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from ebbtide.clock import ManualClock
from ebbtide.errors import WorkerError
from ebbtide.optimizer import Optimizer
from ebbtide.records import Recommendation
from ebbtide.service.followed import News
from ebbtide.service.warm_studies import WarmStudies
from ebbtide.space import Float
from ebbtide.study.asks import Plan
from ebbtide.study.engine import Engine
from ebbtide.study.step import Step

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK_S = 0.5  # between two looks at a worker
FROZEN_TICKS = 2  # for which a worker may be stopped
START_S = 120.0  # for its imports
WARM_SHARE = 4  # of a worker's memory, one part is for studies that are kept between two asks
JOIN_S = 2.0  # for it to be gone
REMEDY = 'choose an algorithm that forgets, such as "tide", or one that keeps fewer observations'
CONTEXT = multiprocessing.get_context("spawn")
PR_SET_PDEATHSIG = 1  # of Linux's prctl


@dataclass(frozen=True)
class Bounds:
    """How much one piece of work may take."""

    seconds: float = 20.0
    memory: int = 1 << 30  # bytes, beyond what a worker needs by itself


class LostWorkerError(Exception):
    """The worker ended before its work was done; another one can do it again."""


# --- in a worker: from bytes, pickled by the one thread that may change what they describe ------------------------


_studies = WarmStudies(most_bytes=1 << 26)


def packed(news: News, plan: Plan, *more: Any) -> bytes:
    """What `compute_step` takes; `compute_recommendation` takes the setting in force as well."""
    return pickle.dumps((news, plan.now, plan.until, plan.coordinates, plan.siblings, *more), pickle.HIGHEST_PROTOCOL)


def compute_step(work: bytes) -> Step | None:
    """None if this worker does not know what has changed since, and must be told everything."""
    news, now, until, context, siblings = pickle.loads(work)  # noqa: S301 - from our own process, made a moment ago
    with _known(news) as engine:
        return None if engine is None else engine.step(now, until, context, siblings)


def compute_recommendation(work: bytes) -> Recommendation | None:
    """None as above."""
    news, now, _, context, _, current = pickle.loads(work)  # noqa: S301 - the same
    with _known(news) as engine:
        return None if engine is None else engine.recommend(now, context, current)


@contextmanager
def _known(news: News) -> Iterator[Engine | None]:
    engine = _studies.take(news)
    try:
        yield engine
    finally:
        if engine is not None:
            engine.forget_posterior()
            _studies.keep(news, engine)


def _main(connection: "Connection[Any, Any]", niceness: int, memory: int) -> None:
    """Answer until the service has gone. The niceness comes last: whoever starts a service waits for its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_the_service()
    _warm_up()
    if hasattr(os, "nice"):
        os.nice(niceness)
    _bound_memory(memory)
    _studies.most_bytes = memory // WARM_SHARE
    connection.send(None)
    with suppress(EOFError, OSError):
        while True:
            work, arguments = connection.recv()
            began = time.process_time()
            connection.send((*_outcome(work, arguments), time.process_time() - began))


def _outcome(work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """The result, or the error with its traceback as a note."""
    try:
        return work(*arguments), None
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return None, error


def _warm_up() -> None:
    """Import everything, and compute a small model: otherwise the first ask would have to wait for that."""
    optimizer = Optimizer({"x": Float(0.0, 1.0)}, clock=(clock := ManualClock()), seed=0)
    optimizer.ask()  # a start, which fills the space
    for told in range(2 * optimizer.n_initial):
        clock.advance(1.0)
        optimizer.tell({"x": told / (2 * optimizer.n_initial)}, float(told % 3))
    optimizer.ask()
    optimizer.recommend()


def _bound_memory(memory: int) -> None:
    """Beyond this, numpy raises a MemoryError. Of the address space: nothing else is bounded on every Linux."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _end_with_the_service() -> None:
    """A service that is killed cannot end its workers: Linux ends them, also stopped ones; elsewhere they notice."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        if (service := multiprocessing.parent_process()) is not None:
            service.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# --- in the service -----------------------------------------------------------------------------------------------


class Worker:
    """A process; `do` is called by one thread at a time, and somebody must call `check` every TICK_S."""

    def __init__(self, niceness: int, bounds: Bounds) -> None:
        self.bounds = bounds
        self.warm = False
        self.end_reason = "it died"
        self.spent = 0.0  # seconds of a core, for what it did last
        self._lock = threading.Lock()
        self._ended = self._late = False
        self._left: float | None = None  # ticks, while it has something to do
        self._stopped = 0  # ticks
        self._connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_main, args=(theirs, niceness, bounds.memory), daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()

    @property
    def alive(self) -> bool:
        return not self._ended and not wait([self._process.sentinel], 0)

    def start(self) -> None:
        """Wait until it is warm."""
        self._exchange(START_S, None)
        self.warm = True

    def do(self, work: Callable[[*Ts], T], *arguments: *Ts, seconds: float | None = None) -> T:
        """The result of the work, or its error. A LostWorkerError if the worker died of something else."""
        limit = self.bounds.seconds if seconds is None else seconds
        self.spent = limit  # unless there is an outcome
        result, error, self.spent = self._exchange(limit, (work, arguments))
        if isinstance(error, MemoryError):
            self.end("it needed too much memory")
            raise WorkerError(
                f"the model needs more than {self.bounds.memory >> 20} MB of memory, the most that this service "
                f"allows for one; {REMEDY}"
            )
        if error is not None:
            raise error
        done: T = result
        return done

    def _exchange(self, seconds: float, message: Any) -> Any:
        with self._lock:
            if self._ended:
                raise LostWorkerError
            self._left = seconds / TICK_S
        try:
            if message is not None:
                self._connection.send(message)
            return self._connection.recv()
        except (EOFError, OSError) as error:
            if self._late:
                raise WorkerError(
                    f"the model took longer than {seconds:g} s, the most that this service allows for one; {REMEDY}"
                ) from None
            self._ended = True  # its end may be seen a moment later; it must not be given the same work again meanwhile
            raise LostWorkerError from error
        finally:
            with self._lock:
                self._left = None

    def check(self) -> None:
        """End it if it is late or frozen. Its time is counted in our own ticks: if the whole machine stands still, or
        has no time for us either, that is not the worker's fault.
        """
        with self._lock:
            if self._left is not None:
                self._left -= 1.0
                self._late = self._left < 0.0
            self._stopped = self._stopped + 1 if self._is_stopped() else 0
            if self._late:
                self._end("it took too long")
            elif self._stopped > FROZEN_TICKS:
                self._end("it was stopped")

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped it (SIGSTOP), where /proc tells; elsewhere it is ended when it is late."""
        with suppress(OSError):
            return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def end(self, reason: str) -> None:
        """At once: there is nothing in it that is not in the log."""
        with self._lock:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if self.alive:
            self.end_reason = reason
        self._ended = True
        self._process.kill()

    def close(self) -> None:
        """End it, and forget it; only for the thread that uses it."""
        self.end("it is no longer needed")
        self._process.join(JOIN_S)
        if self._process.exitcode is not None:  # otherwise it waits for a disk, and ends when that answers
            self._process.close()
        self._connection.close()
