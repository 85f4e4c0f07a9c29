"""Everything that only reads: lists and pages over connections of their own, views from a process of their own."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.records import Trial
from ebbtide.service.health import Probe
from ebbtide.service.queues import Notifier
from ebbtide.service.viewer import Viewer
from ebbtide.study.storage import Damaged, Storage, Summary
from ebbtide.study.tells import asked_under

T = TypeVar("T")
# Observations with long names and choices come fewer at a time.
PAGE_CHARACTERS = 1 << 24  # of a page
SLICE_CHARACTERS = 1 << 17  # of a slice: what is read, and kept until its client takes it


@dataclass(frozen=True)
class Slice:
    """Some lines of a page, as JSON; where the next ones begin, if there are more; how many of them the page holds."""

    lines: bytes
    next: int | None
    left: int


class Reader:
    def __init__(self, url: str) -> None:
        self._short = Thread(url, "reader")
        self._long = Thread(url, "pages")
        self.viewer = Viewer(url)
        self.notifier = Notifier()
        self.probes = [Probe("the reading thread", lambda: self.read(lambda storage: storage.names()))]

    def close(self) -> None:
        self.viewer.close()
        self._short.close()
        self._long.close()

    async def overview(self) -> tuple[list[Summary], list[Damaged]]:
        """All studies: those that can be read, and the others."""
        return await self.read(lambda storage: storage.overview())

    async def study(self, name: str) -> dict[str, Any]:
        return await self.read(lambda storage: wire.study(storage.summary(name)))

    async def trial(self, name: str, trial_id: str) -> Trial:
        return await self.read(lambda storage: asked_under(storage.log(name), trial_id))

    async def slice(self, name: str, start: int, limit: int, active: bool | None) -> Slice:
        """The beginning of a page: the whole page may be much longer than what can be kept for a slow client."""

        def read(storage: Storage) -> Slice:
            whole = lines_within(PAGE_CHARACTERS, storage, name, limit)
            page = storage.page(name, start, lines_within(SLICE_CHARACTERS, storage, name, whole), active)
            lines = ",".join(as_json(wire.observation(line, observation)) for line, observation in page.observations)
            return Slice(lines.encode(), page.next, whole - len(page.observations))

        return await self.read_much(read)

    @property
    def log_size(self) -> int:
        """Bytes of the write-ahead log."""
        return self._short.storage.database.log_size

    def tend(self) -> None:
        """Let go of files that were deleted, moved or replaced."""
        for thread in (self._short, self._long):
            thread.tend()

    async def check(self) -> None:
        """An error unless everything works that a request may need."""
        await asyncio.gather(*(probe.check() for probe in self.probes))

    async def read(self, query: Callable[[Storage], T]) -> T:
        return await self._short.do(query)

    async def read_much(self, query: Callable[[Storage], T]) -> T:
        """Whoever reads little does not wait for those who read much."""
        return await self._long.do(query)


class Thread:
    """A thread that reads, over a connection to the database of its own."""

    def __init__(self, url: str, name: str) -> None:
        self.storage = Storage.of(url, read_only=True)
        self._pool = ThreadPoolExecutor(1, name)

    async def do(self, query: Callable[[Storage], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, query, self.storage)

    def tend(self) -> None:
        self._pool.submit(self.storage.database.tend)

    def close(self) -> None:
        self._pool.shutdown()
        self.storage.close()


def lines_within(characters: int, storage: Storage, name: str, most: int) -> int:
    """How many observations of a study are about so many characters of JSON; one at least."""
    definition = storage.log(name).definition
    described = [definition[word] for word in ("space", "context", "constraints") if definition.get(word)]
    return max(1, min(most, characters // sum(len(json.dumps(part)) for part in described)))


def as_json(value: object) -> str:
    """As in every other answer of the service."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
