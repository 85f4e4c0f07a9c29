"""Everything that only reads: lists and pages over connections of their own, views from a process of their own."""

import asyncio
import json
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.errors import BusyError
from ebbtide.records import Trial
from ebbtide.service.health import Probe, seen
from ebbtide.service.queues import Notifier
from ebbtide.service.viewer import Viewer
from ebbtide.study.storage import Storage
from ebbtide.study.tells import asked_under

T = TypeVar("T")
# Observations with long names and choices come fewer at a time.
PAGE_CHARACTERS = 1 << 24  # of a page
SLICE_CHARACTERS = 1 << 17  # of a slice: what is read, and kept until its client takes it
MAX_WAITING = 16  # long answers whose next part is to be read, before one more is refused
CROWDED = f"{MAX_WAITING} long answers are already waiting; try again in a moment"
LONG = ("/observations", "/events")  # ends of the paths of long answers


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
        self._waiting = 0  # long answers whose next part is to be read
        self._shared: dict[Hashable, asyncio.Task[bytes]] = {}  # by query, before they begin
        self.viewer = Viewer(url)
        self.notifier = Notifier()
        self.probes = [Probe("the reading thread", lambda: self.read(lambda storage: storage.names()))]

    def close(self) -> None:
        self.viewer.close()
        self._short.close()
        self._long.close()

    async def study(self, name: str) -> dict[str, Any]:
        return await self.read(lambda storage: wire.study(storage.summary(name)))

    async def end(self, name: str) -> tuple[int, int]:
        """How many asks and tells a study has, for a stream of what follows."""
        summary = await self.read_much(lambda storage: storage.summary(name))
        return summary.asked, summary.told

    async def trial(self, name: str, trial_id: str) -> Trial:
        return await self.read(lambda storage: asked_under(storage.log(name), trial_id))

    async def first_slice(self, name: str, start: int, limit: int, active: bool | None) -> Slice:
        """The beginning of a page: the whole page may be much longer than what can be kept for a slow client."""
        return await self.read_much(_slice(name, start, limit, active))

    async def next_slice(self, name: str, start: int, limit: int, active: bool | None) -> Slice:
        return await self.read_on(_slice(name, start, limit, active))

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
        """For a long answer. Whoever reads little does not wait for those who read much, nor for the connections that
        these would use up while they wait for each other: beyond some, they are refused.
        """
        if self.is_crowded:
            raise BusyError(CROWDED)
        return await self.read_on(query)

    @property
    def is_crowded(self) -> bool:
        """Whether one more long answer is refused."""
        return self._waiting >= MAX_WAITING

    def refusal(self, path: str) -> str | None:
        """Why a request for a long answer need not be looked at now; None if it need."""
        return CROWDED if self.is_crowded and path.endswith(LONG) else None

    async def read_on(self, query: Callable[[Storage], T]) -> T:
        """For a long answer that has begun, which is not refused any more."""
        self._waiting += 1
        try:
            return await self._long.do(query)
        finally:
            self._waiting -= 1

    async def read_shared(self, query: Callable[[Storage], bytes]) -> bytes:
        """For what is long and the same for everybody: those who want it before it is read share it."""

        def read(storage: Storage) -> bytes:
            del self._shared[query]  # whoever comes from now on may know of something newer
            return query(storage)

        task = self._shared.get(query)
        if task is None:
            task = self._shared[query] = asyncio.create_task(self._long.do(read))
            task.add_done_callback(seen)
        return await asyncio.shield(task)

    async def read_news(self, query: Callable[[Storage], T]) -> T:
        """For streams that have caught up: each new event makes all of them read a little, at the same moment."""
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


def _slice(name: str, start: int, limit: int, active: bool | None) -> Callable[[Storage], Slice]:
    def read(storage: Storage) -> Slice:
        whole = lines_within(PAGE_CHARACTERS, storage, name, limit)
        page = storage.page(name, start, lines_within(SLICE_CHARACTERS, storage, name, whole), active)
        lines = ",".join(as_json(wire.observation(line, observation)) for line, observation in page.observations)
        return Slice(lines.encode(), page.next, whole - len(page.observations))

    return read


def lines_within(characters: int, storage: Storage, name: str, most: int) -> int:
    """How many observations of a study are about so many characters of JSON; one at least."""
    definition = storage.log(name).definition
    described = [definition[word] for word in ("space", "context", "constraints") if definition.get(word)]
    return max(1, min(most, characters // sum(len(json.dumps(part)) for part in described)))


def as_json(value: object) -> str:
    """As in every other answer of the service."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
