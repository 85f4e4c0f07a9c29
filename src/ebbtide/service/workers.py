"""Worker processes, which do the model work: no tell waits for it, and a crash ends only the worker."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import TypeVar, TypeVarTuple

from ebbtide.errors import WorkerError
from ebbtide.records import Recommendation
from ebbtide.study.asks import Plan
from ebbtide.study.engine import Engine
from ebbtide.study.step import Step

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
NICENESS = 10  # lower priority than the service, so that a tell is faster than a model
TRIES = 3  # each with a new worker, if the one before died


# --- in a worker: from bytes, pickled by the one thread that may change what they describe ------------------------


def step(plan: bytes) -> Step:
    work: Plan = pickle.loads(plan)  # noqa: S301 - from our own process, made a moment ago
    return work.step()


def recommend(engine: bytes, now: float) -> Recommendation:
    work: Engine = pickle.loads(engine)  # noqa: S301 - the same
    return work.recommend(now)


def _warm_up() -> None:
    import scipy.stats  # noqa: F401 - the first ask would have to wait for it


def _begin(niceness: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(niceness)
    threading.Thread(target=_end_with_the_server, daemon=True).start()


def _end_with_the_server() -> None:
    """A server that is killed cannot end its workers, so they notice by themselves."""
    if (server := multiprocessing.parent_process()) is not None:
        server.join()
        os._exit(1)


# --- in the service -----------------------------------------------------------------------------------------------


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Ctrl-C is for the server, which ends its workers. A process started here inherits that, from its imports on."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers:
    def __init__(self, processes: int, niceness: int) -> None:
        self.processes, self.niceness = processes, niceness
        self._pool = self._open()

    def _open(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.processes, context, initializer=_begin, initargs=(self.niceness,))

    def warm_up(self) -> None:
        """Let the workers import what they need before somebody waits for it."""
        with suppress(BrokenProcessPool):  # the next piece of work will notice
            for _ in range(self.processes):
                with _sigint_blocked():
                    self._pool.submit(_warm_up)

    async def do(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        for _ in range(TRIES):
            pool = self._pool
            try:
                with _sigint_blocked():
                    future = asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
                return await future
            except BrokenProcessPool:
                if self._pool is pool:  # the first to notice
                    pool.shutdown(wait=False)
                    self._pool = self._open()
        raise WorkerError("the worker processes keep dying; is there enough memory?")

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
