"""Who waits for what: asks of a study for their turn, streams for news of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ebbtide.errors import BusyError

MAX_WAITING = 256  # asks of one study


class AskQueues:
    """The asks of a study, one after the other: each starts from the state that the one before left."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        waiting = self._waiting.get(name, 0)
        if waiting >= MAX_WAITING:
            raise BusyError(f"{waiting} asks of {name!r} are waiting already; try again in a moment")
        self._waiting[name] = waiting + 1
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._locks[name]


class Notifier:
    """Wakes those who wait for something to happen to a study."""

    def __init__(self) -> None:
        self._bells: dict[str, asyncio.Event] = {}

    def announce(self, name: str) -> None:
        if (bell := self._bells.pop(name, None)) is not None:
            bell.set()

    async def wait(self, name: str, seconds: float) -> None:
        """Until there is news, or so long."""
        bell = self._bells.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(bell.wait(), seconds)
