"""Waiting: asks of a study for their turn, event streams for news of it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ebbtide.errors import BusyError

MAX_WAITING = 256  # asks of one study


class AskQueues:
    """The asks of a study run one after the other: each starts from the state that the one before left."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._began: dict[object, float] = {}  # the asks that were not answered yet, oldest first

    @property
    def oldest(self) -> float:
        """For how many seconds the oldest ask has been waiting for its answer; 0 if none is."""
        return time.monotonic() - next(iter(self._began.values()), time.monotonic())

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        waiting = self._waiting.get(name, 0)
        if waiting >= MAX_WAITING:
            raise BusyError(f"{waiting} asks of {name!r} are already waiting; try again in a moment")
        self._waiting[name] = waiting + 1
        ask = object()
        self._began[ask] = time.monotonic()
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                yield
        finally:
            del self._began[ask]
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._locks[name]


class Notifier:
    """Wakes whoever waits for news of a study."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def announce(self, name: str) -> None:
        if (event := self._events.pop(name, None)) is not None:
            event.set()

    async def wait(self, name: str, seconds: float) -> None:
        """Until there is news, but no longer than this."""
        event = self._events.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)
