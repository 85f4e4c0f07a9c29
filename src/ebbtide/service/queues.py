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
        self._since: dict[object, float] = {}  # the oldest comes first

    @property
    def oldest_wait(self) -> float:
        """Seconds since the oldest ask without an answer came; 0 if all are answered."""
        now = time.monotonic()
        return now - next(iter(self._since.values()), now)

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        waiting = self._waiting.get(name, 0)
        if waiting >= MAX_WAITING:
            raise BusyError(f"{waiting} asks of {name!r} are already waiting; try again in a moment")
        self._waiting[name], ask = waiting + 1, object()
        self._since[ask] = time.monotonic()
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                yield
        finally:
            del self._since[ask]
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

    def announce_all(self) -> None:
        for name in list(self._events):
            self.announce(name)

    async def wait(self, name: str, seconds: float) -> None:
        """Until there is news, but no longer than this."""
        event = self._events.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)
