"""A study's log as it grows, as server-sent events.

An event's id says how many asks and tells have been sent with it ("12.11"), so that a client which comes back with
`Last-Event-ID` misses nothing. Events are read from the log, not kept: a slow client costs little more than its socket.
"""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from ebbtide import wire
from ebbtide.errors import EbbtideError
from ebbtide.service.reader import SLICE_CHARACTERS, Reader, lines_within
from ebbtide.study.log import Ask
from ebbtide.study.storage import Storage

PAGE = 200  # events read at a time
POLL_S = 1.0  # the tells of other processes are seen after that long
QUIET_POLLS = 15  # after which a comment shows that the connection is alive

Cursor = tuple[int, int]  # asks and tells sent so far


def parse(cursor: str) -> Cursor | None:
    asks, _, tells = cursor.partition(".")
    plain = all(part.isascii() and part.isdecimal() and len(part) < 19 for part in (asks, tells))
    return (int(asks), int(tells)) if plain else None


class Streams:
    """At most so many at once. One more ends the oldest, since a client that does not read looks like one that waits;
    a client that is still there comes back and misses nothing.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[object, None] = {}  # the oldest first

    async def follow(
        self, reader: Reader, name: str, cursor: Cursor, is_allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[str]:
        own = object()
        self._open[own] = None
        while len(self._open) > self.most:
            del self._open[next(iter(self._open))]
        quiet, more = 0, True
        try:
            yield "retry: 1000\n\n"
            while own in self._open and is_allowed():
                read = reader.read_on if more else reader.read_news
                try:
                    events, cursor, more = await read(partial(self._next, own, name, cursor))
                except EbbtideError:
                    return  # it was deleted, or cannot be read now: a client that comes back is told which
                if events and is_allowed():
                    yield "".join(events)
                quiet = 0 if events else quiet + 1
                if quiet % QUIET_POLLS == QUIET_POLLS - 1:
                    yield ": still here\n\n"
                if not more:
                    await reader.notifier.wait(name, POLL_S)
        finally:
            self._open.pop(own, None)

    def _next(self, own: object, name: str, since: Cursor, storage: Storage) -> tuple[list[str], Cursor, bool]:
        """A stream that was ended while it waited is not read: others wait, too."""
        return _since(storage, name, since) if own in self._open else ([], since, True)


def _since(storage: Storage, name: str, since: Cursor) -> tuple[list[str], Cursor, bool]:
    """The next events, in the order of the log; the cursor after them; and whether there may be more."""
    log = storage.log(name)
    asks, tells = since
    page = lines_within(SLICE_CHARACTERS, storage, name, PAGE)
    next_tells = log.tells_since(tells, page)
    next_asks = log.asks_since(asks, page)
    events: list[str] = []
    while (next_asks or next_tells) and len(events) < page:
        # A tell knows how many asks came before it.
        if next_tells and (not next_asks or next_tells[0][2] <= asks):
            observation, _, _ = next_tells.pop(0)
            body, kind = wire.observation(tells, observation), "told"
            tells += 1
        else:
            body, kind = _asked(next_asks.pop(0)), "asked"
            asks += 1
        events.append(f"id: {asks}.{tells}\nevent: {kind}\ndata: {json.dumps(body)}\n\n")
    return events, (asks, tells), len(events) == page


def _asked(ask: Ask) -> dict[str, Any]:
    return wire.trial(ask.trial) | {
        "response": ask.landed - ask.now,
        "removed": [line for line, _ in ask.removed],
        "timescale": None if ask.state.hyper is None else ask.state.hyper.timescale,
    }
