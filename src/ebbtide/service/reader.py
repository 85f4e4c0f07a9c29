"""What can be read of the studies: lists and pages over a connection of their own, pictures from an own process."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.service.queues import Notifier
from ebbtide.service.viewer import Viewer
from ebbtide.study.storage import Page, Storage, Summary

T = TypeVar("T")
PAGE_CHARACTERS = 1 << 24  # of a page: of those with long words, fewer go on one


class Reader:
    def __init__(self, url: str) -> None:
        self._storage_to_read = Storage.of(url, read_only=True)
        self._reader = ThreadPoolExecutor(1, "reader")
        self.viewer = Viewer(url)
        self.notifier = Notifier()

    def close(self) -> None:
        self.viewer.close()
        self._reader.shutdown()
        self._storage_to_read.close()

    async def studies(self) -> list[dict[str, Any]]:
        return await self.read(lambda at: [wire.study(at.summary(name)) for name in at.names()])

    async def summaries(self) -> list[Summary]:
        return await self.read(lambda at: [at.summary(name) for name in at.names()])

    async def study(self, name: str) -> dict[str, Any]:
        return await self.read(lambda at: wire.study(at.summary(name)))

    async def page(self, name: str, start: int, limit: int, active: bool | None) -> Page:
        def turn(at: Storage) -> Page:
            room = PAGE_CHARACTERS // len(json.dumps(at.log(name).definition["space"]))
            return at.page(name, start, max(1, min(limit, room)), active)

        return await self.read(turn)

    async def check(self) -> None:
        """An error unless the studies can be read."""
        await self.read(lambda at: at.names())

    async def read(self, query: Callable[[Storage], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, query, self._storage_to_read)
