"""Asks of one study on several replicas: who was overtaken too often is the next, and others wait for their turns.

A turn is a lock in the database beside the one for recording, so that tells never wait for a model. It ends with the
connection, however its replica ends.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager

from ebbtide.study.storage import Storage

MOST = 4  # at once; each takes a thread and a connection


class Turns:
    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(MOST, "turns")
        self._free: list[Storage] = []
        self._used = 0

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Without one, if too many are in use: an ask may then be overtaken once more."""
        if self._used >= MOST:
            yield
            return
        self._used += 1
        loop = asyncio.get_running_loop()
        begun = loop.run_in_executor(self._threads, self._begin, name)
        try:
            await asyncio.shield(begun)
            yield
        finally:  # even if nobody has waited for its beginning
            begun.add_done_callback(self._over)

    def _begin(self, name: str) -> tuple[Storage, AbstractContextManager[object]]:
        storage = self._free.pop() if self._free else Storage.of(self._url)
        turn = storage.database.turn(name)
        turn.__enter__()
        return storage, turn

    def _over(self, begun: "asyncio.Future[tuple[Storage, AbstractContextManager[object]]]") -> None:
        self._used -= 1
        if not begun.cancelled() and begun.exception() is None:
            self._threads.submit(self._end, *begun.result())

    def _end(self, storage: Storage, turn: AbstractContextManager[object]) -> None:
        turn.__exit__(None, None, None)
        self._free.append(storage)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for storage in self._free:
            storage.close()
