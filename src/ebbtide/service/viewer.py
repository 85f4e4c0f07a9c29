"""The dashboard's views, from a process of their own at the lowest priority: viewers never slow an ask or a tell.
Viewers of the same thing share one view.
"""

import asyncio
import gzip
import json
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVarTuple

from ebbtide.dashboard.views import Views
from ebbtide.errors import BusyError, ConfigurationError, DamagedError, StorageError
from ebbtide.service.workers import Workers
from ebbtide.study.storage import Storage

Ts = TypeVarTuple("Ts")
NICENESS = 10  # the models of asks have 5
STUDY_KEPT_S = 0.5  # for viewers who come a moment later
TRAIL_KEPT_S = 0.0  # each call computes a little more of it
MAX_WAITING = 32  # views

# --- in the viewer's process --------------------------------------------------------------------------------------

_opened: dict[str, Views] = {}


def study_view(
    url: str, name: str, last: int | None, parameter: str | None, across: str | None = None, context: str | None = None
) -> bytes:
    around = None if context is None else _parsed(context)
    with _views(url) as views:
        return _packed(views.study(name, last, parameter, across, around))


def trail_view(url: str, name: str, last: int | None) -> bytes:
    with _views(url) as views:
        return _packed(views.trail(name, last))


def _parsed(context: str) -> Any:
    """A context that came as JSON."""
    try:
        return json.loads(context)
    except (ValueError, RecursionError):
        raise ConfigurationError(f'context={context[:100]!r}: give JSON, such as {{"load": 900}}') from None


@contextmanager
def _views(url: str) -> Iterator[Views]:
    views = _opened.get(url) or _opened.setdefault(url, Views(Storage.of(url, read_only=True)))
    try:
        yield views
    except DamagedError:
        raise  # of one study; the others are followed as before
    except StorageError:
        del _opened[url]  # the next view opens the file again: it may be another one by then
        raise


def _packed(view: dict[str, Any]) -> bytes:
    """As gzipped JSON."""
    return gzip.compress(json.dumps(view, allow_nan=False).encode(), 1)


# --- in the service -----------------------------------------------------------------------------------------------


class Viewer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._workers = Workers(1, NICENESS)
        self._tasks: dict[Hashable, asyncio.Task[bytes]] = {}

    def start(self) -> None:
        self._workers.start()

    def close(self) -> None:
        self._workers.close()

    async def study(
        self, name: str, last: int | None, parameter: str | None, across: str | None = None, context: str | None = None
    ) -> bytes:
        """A context comes as JSON, because equal texts are equal views."""
        return await self._shared(STUDY_KEPT_S, study_view, self.url, name, last, parameter, across, context)

    async def trail(self, name: str, last: int | None) -> bytes:
        return await self._shared(TRAIL_KEPT_S, trail_view, self.url, name, last)

    async def _shared(self, kept_s: float, view: Callable[[*Ts], bytes], *arguments: *Ts) -> bytes:
        """The same view is computed once for all viewers who want it, and kept for `kept_s` seconds after that."""
        key = (view, arguments)
        task = self._tasks.get(key)
        if task is None:
            if sum(not each.done() for each in self._tasks.values()) >= MAX_WAITING:
                raise BusyError(f"{MAX_WAITING} views are already being drawn; try again in a moment")
            task = self._tasks[key] = asyncio.create_task(self._workers.do("views", 0, view, *arguments))
            task.add_done_callback(lambda done: self._done(key, done, kept_s))
        return await asyncio.shield(task)  # others may be waiting for it, too

    def _done(self, key: Hashable, task: asyncio.Task[bytes], kept_s: float) -> None:
        if not task.cancelled():
            task.exception()  # retrieved here, because every viewer may have left
        asyncio.get_running_loop().call_later(kept_s, self._tasks.pop, key, None)
