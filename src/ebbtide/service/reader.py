"""Everything that only reads: lists and pages over a connection of its own, views from a process of their own."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.records import Trial
from ebbtide.service.health import Probe
from ebbtide.service.queues import Notifier
from ebbtide.service.viewer import Viewer
from ebbtide.study.storage import Damaged, Page, Storage, Summary
from ebbtide.study.tells import asked_under

T = TypeVar("T")
PAGE_CHARACTERS = 1 << 24  # of a page: observations with long names and choices come fewer at a time


class Reader:
    def __init__(self, url: str) -> None:
        self._read_only = Storage.of(url, read_only=True)
        self._thread = ThreadPoolExecutor(1, "reader")
        self.viewer = Viewer(url)
        self.notifier = Notifier()
        self.probes = [Probe("the reading thread", lambda: self.read(lambda storage: storage.names()))]

    def close(self) -> None:
        self.viewer.close()
        self._thread.shutdown()
        self._read_only.close()

    async def overview(self) -> tuple[list[Summary], list[Damaged]]:
        """All studies: those that can be read, and the others."""
        return await self.read(lambda storage: storage.overview())

    async def study(self, name: str) -> dict[str, Any]:
        return await self.read(lambda storage: wire.study(storage.summary(name)))

    async def trial(self, name: str, trial_id: str) -> Trial:
        return await self.read(lambda storage: asked_under(storage.log(name), trial_id))

    async def page(self, name: str, start: int, limit: int, active: bool | None) -> Page:
        def page(storage: Storage) -> Page:
            room = PAGE_CHARACTERS // len(json.dumps(storage.log(name).definition["space"]))
            return storage.page(name, start, max(1, min(limit, room)), active)

        return await self.read(page)

    @property
    def log_size(self) -> int:
        """Bytes of the write-ahead log."""
        return self._read_only.database.log_size

    async def check(self) -> None:
        """An error unless everything works that a request may need."""
        await asyncio.gather(*(probe.check() for probe in self.probes))

    async def read(self, query: Callable[[Storage], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, query, self._read_only)
