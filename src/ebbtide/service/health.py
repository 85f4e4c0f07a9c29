"""Whether the service can do its work: each part of it is tried."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ebbtide.errors import ServiceError

PATIENCE_S = 8.0  # for an answer; whoever runs the service wants to know within 10 s
KEPT_S = 1.0  # for which an outcome counts, so that many who ask cost no more than one


class Probe:
    """Something that must work. It is tried once at a time: if it hangs, nothing piles up behind it."""

    def __init__(self, part: str, attempt: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.part, self._attempt = part, attempt
        self._task: asyncio.Task[object] | None = None
        self._began = 0.0

    async def check(self) -> None:
        """An error if it does not work, or has not answered for too long."""
        now = time.monotonic()
        if self._task is None or (self._task.done() and now - self._began > KEPT_S):
            self._task, self._began = asyncio.create_task(self._attempt()), now
            self._task.add_done_callback(seen)
        task = self._task
        await asyncio.wait([task], timeout=max(0.0, self._began + PATIENCE_S - now))
        if not task.done():
            raise ServiceError(f"{self.part} did not answer within {PATIENCE_S:g} s; is the machine overloaded?")
        task.result()


def seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved here, because nobody may wait for it any more
