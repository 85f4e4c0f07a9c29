"""A study's log as it grows, as server-sent events.

An event's id says how many asks and tells came before the next one ("12.11"), so that a reader who comes back with
`Last-Event-ID` misses nothing. Events are read from the log, not kept: a slow reader costs nothing but its socket.
"""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from ebbtide import wire
from ebbtide.errors import EbbtideError
from ebbtide.records import Observation
from ebbtide.service.reader import Reader
from ebbtide.study.log import Ask
from ebbtide.study.storage import Storage

PAGE = 200  # events read at a time
POLL_S = 1.0  # what another process has told is seen after that long
QUIET_POLLS = 15  # after which a comment shows that the line still stands

Cursor = tuple[int, int]  # asks and tells that were sent


def parse(cursor: str) -> Cursor | None:
    asks, _, tells = cursor.partition(".")
    plain = all(part.isascii() and part.isdecimal() and len(part) < 19 for part in (asks, tells))
    return (int(asks), int(tells)) if plain else None


async def stream(reader: Reader, name: str, cursor: Cursor) -> AsyncIterator[str]:
    quiet = 0
    yield "retry: 1000\n\n"
    while True:
        try:
            events, cursor = await reader.read(partial(_since, name=name, since=cursor))
        except EbbtideError:
            return  # it was deleted, or cannot be read now: who comes back hears which
        for event in events:
            yield event
        quiet = 0 if events else quiet + 1
        if quiet % QUIET_POLLS == QUIET_POLLS - 1:
            yield ": still here\n\n"
        if len(events) < PAGE:
            await reader.notifier.wait(name, POLL_S)


def _since(storage: Storage, name: str, since: Cursor) -> tuple[list[str], Cursor]:
    """The next events, in the order of the log, and where it goes on after them."""
    log = storage.log(name)
    asks, tells = since
    told = log.tells_since(tells, PAGE)
    asked = log.asks_since(asks, PAGE)
    events: list[str] = []
    while (asked or told) and len(events) < PAGE:
        # A tell knows how many asks came before it.
        if told and (not asked or told[0][2] <= asks):
            observation, _, _ = told.pop(0)
            body, kind = _told(tells, observation), "told"
            tells += 1
        else:
            body, kind = _asked(asked.pop(0)), "asked"
            asks += 1
        events.append(f"id: {asks}.{tells}\nevent: {kind}\ndata: {json.dumps(body)}\n\n")
    return events, (asks, tells)


def _told(line: int, observation: Observation) -> dict[str, Any]:
    return wire.observation(line, observation)


def _asked(ask: Ask) -> dict[str, Any]:
    return wire.trial(ask.trial) | {
        "response": ask.landed - ask.now,
        "removed": [line for line, _ in ask.removed],
        "timescale": None if ask.state.hyper is None else ask.state.hyper.timescale,
    }
