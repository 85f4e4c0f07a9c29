"""The one thread that writes. Operations that arrive during a commit are committed together, so that one flush of the
disk serves many tells; no operation is confirmed before the flush.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ebbtide.errors import DamagedError, StorageError
from ebbtide.study.storage import Database

T = TypeVar("T")
MAX_BATCH = 256
IDLE_S = 1.0  # without work, after which `idle` is called, and again
RECENT_S = 10.0  # for which a batch that was not committed is remembered, unless a later one is

Operation = Callable[[], Any]


class Entry(NamedTuple):
    operation: Operation
    future: "Future[Any]"
    study: str | None  # the one that it may change, by name


class Writer:
    def __init__(
        self, database: Database, undone: Callable[[], object], idle: Callable[[], object] = lambda: None
    ) -> None:
        self.database = database
        self._undone = undone  # called when a batch was not committed: what it changed in memory is wrong
        self._idle = idle
        self._failure: tuple[float, Exception] | None = None
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[], T], study: str | None = None) -> "Future[T]":
        """Run an operation in the writing thread; done when its transaction is on the disk.

        It may change no other study than this one, which no other process changes meanwhile.
        """
        future: Future[T] = Future()
        self._queue.put(Entry(operation, future, study))
        return future

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def recent_failure(self) -> Exception | None:
        """Why a batch was not committed, if that was a moment ago, and nothing but a probe was written since."""
        failed, error = self._failure or (0.0, None)
        return error if time.monotonic() - failed < RECENT_S else None

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._next()) is not None:
            batch = [first]
            last = False
            while len(batch) < MAX_BATCH and not self._queue.empty() and not last:
                following = self._queue.get()
                last = following is None
                batch += [] if following is None else [following]
            self._commit(batch)
            if last:
                return

    def _next(self) -> Entry | None:
        while True:
            try:
                return self._queue.get(timeout=IDLE_S)
            except queue.Empty:
                with suppress(StorageError):  # a request that comes now is told
                    self._idle()

    def _commit(self, batch: list[Entry]) -> None:
        batch = [entry for entry in batch if entry.future.set_running_or_notify_cancel()]  # unless it was cancelled
        outcomes: list[Callable[[Future[Any]], None]] = []
        try:
            with self.database.transaction({entry.study for entry in batch if entry.study is not None}):
                outcomes = [_outcome(entry.operation) for entry in batch]
            if any(entry.operation != self.database.touch for entry in batch):
                self._failure = None
        except Exception as error:
            self._failure = time.monotonic(), error
            self._undone()
            outcomes = [_failing(error)] * len(batch)
        for entry, settle in zip(batch, outcomes, strict=True):
            settle(entry.future)


def _outcome(operation: Operation) -> Callable[["Future[Any]"], None]:
    """Run an operation. A failing disk fails the whole batch; any other error is only its own."""
    try:
        result = operation()
    except DamagedError as error:
        return _failing(error)  # of one study
    except StorageError:
        raise
    except Exception as error:
        return _failing(error)
    return lambda future: future.set_result(result)


def _failing(error: Exception) -> Callable[["Future[Any]"], None]:
    return lambda future: future.set_exception(error)
