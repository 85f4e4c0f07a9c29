"""The numbers behind the pictures, from a process of their own, at a lower priority than all others: who looks never
holds up who asks or tells. Many who look at the same see the same look.
"""

import asyncio
import gzip
import json
from typing import Any

from ebbtide.dashboard.views import Views
from ebbtide.errors import BusyError, StorageError
from ebbtide.service.workers import Workers
from ebbtide.study.storage import Storage

NICENESS = 15  # of the models that are asked for: 10
KEPT_S = {"study": 0.5, "trail": 0.0}  # for which a look is good enough for others
MAX_WAITING = 32  # looks

_views: dict[str, Views] = {}  # in the process of the viewer


def look(url: str, view: str, name: str, *choices: Any) -> bytes:
    """A view of a study, as packed JSON."""
    views = _views.get(url) or _views.setdefault(url, Views(Storage.of(url, read_only=True)))
    try:
        seen = getattr(views, view)(name, *choices)
    except StorageError:
        del _views[url]  # the file may be another one next time
        raise
    return gzip.compress(json.dumps(seen, allow_nan=False).encode(), 1)


class Viewer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._workers = Workers(1, NICENESS)
        self._looks: dict[tuple[Any, ...], asyncio.Task[bytes]] = {}

    def warm_up(self) -> None:
        self._workers.warm_up()

    def close(self) -> None:
        self._workers.close()

    async def look(self, view: str, name: str, *choices: Any) -> bytes:
        key = (view, name, *choices)
        task = self._looks.get(key)
        if task is None:
            if sum(not each.done() for each in self._looks.values()) >= MAX_WAITING:
                raise BusyError(f"{MAX_WAITING} views are being drawn already; try again in a moment")
            task = self._looks[key] = asyncio.create_task(self._workers.do(look, self.url, *key))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)  # others may be waiting for it, too

    def _forget(self, key: tuple[Any, ...], done: asyncio.Task[bytes]) -> None:
        if not done.cancelled():
            done.exception()  # all who asked may be gone: then nobody else takes notice of it
        asyncio.get_running_loop().call_later(KEPT_S[key[0]], self._looks.pop, key, None)
