"""The numbers behind the pictures, from a process of their own, at a lower priority than all others: who looks never
holds up who asks or tells. Many who look at the same see the same look.
"""

import asyncio
import gzip
import json
from typing import Any

from ebbtide.dashboard.views import Lookout
from ebbtide.errors import StorageError
from ebbtide.service.turns import BusyError
from ebbtide.service.workshop import Workshop
from ebbtide.storage import Storage

NICENESS = 15  # of the models that are asked for: 10
KEPT_S = {"study": 0.5, "trail": 0.0}  # for which a look is good enough for others
MAX_WAITING = 32  # looks

_lookouts: dict[str, Lookout] = {}  # in the process of the viewer


def look(url: str, view: str, name: str, *choices: Any) -> bytes:
    """A view of a study, as packed JSON."""
    lookout = _lookouts.get(url) or _lookouts.setdefault(url, Lookout(Storage.of(url, read_only=True)))
    try:
        seen = getattr(lookout, view)(name, *choices)
    except StorageError:
        del _lookouts[url]  # the file may be another one next time
        raise
    return gzip.compress(json.dumps(seen, allow_nan=False).encode(), 1)


class Viewer:
    def __init__(self, url: str) -> None:
        self.url = url
        self._workshop = Workshop(1, NICENESS)
        self._looks: dict[tuple[Any, ...], asyncio.Task[bytes]] = {}

    def warm_up(self) -> None:
        self._workshop.warm_up()

    def close(self) -> None:
        self._workshop.close()

    async def look(self, view: str, name: str, *choices: Any) -> bytes:
        key = (view, name, *choices)
        task = self._looks.get(key)
        if task is None:
            if sum(not each.done() for each in self._looks.values()) >= MAX_WAITING:
                raise BusyError(f"{MAX_WAITING} views are being drawn already; try again in a moment")
            task = self._looks[key] = asyncio.create_task(self._workshop.do(look, self.url, *key))
            task.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(task)  # others may be waiting for it, too

    def _forget(self, key: tuple[Any, ...], done: asyncio.Task[bytes]) -> None:
        if not done.cancelled():
            done.exception()  # all who asked may be gone: then nobody else takes notice of it
        asyncio.get_running_loop().call_later(KEPT_S[key[0]], self._looks.pop, key, None)
