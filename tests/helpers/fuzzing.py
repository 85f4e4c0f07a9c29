"""Requests that nobody would send on purpose, as many as you like.

The service may answer or refuse them, but must neither fail nor grow.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from helpers.serving import Server

SPACE = {
    "power": {"type": "float", "low": 1.26, "high": 316.0, "log": True},
    "width": {"type": "int", "low": 1, "high": 8},
    "codec": {"type": "categorical", "choices": ["a", "b"]},
}
PARAMS = {"power": 10.0, "width": 3, "codec": "b"}
AROUND = {
    "context": {"load": {"type": "float", "low": 0.0, "high": 2000.0}, "host": {"type": "ordinal", "choices": [1, 2]}},
    "cycles": {"day": 86400.0},
    "family": "edge",
    "constraints": {"p99": {"at_most": 50.0}, "hits": {"at_least": 0.9}},
}
CONTEXT = {"load": 312.0, "host": 2}
NEW = {
    "name": "new",
    "space": SPACE,
    "direction": "maximize",
    "algorithm": "random",
    "seed": 1,
    "n_initial": 4,
} | AROUND
TELL = {"params": PARAMS, "value": 1.5, "failed": False, "time": 1.7e9, "idempotency_key": "k"}
TELL |= {"context": CONTEXT, "constraints": {"p99": 41.0, "hits": 0.95}}
ASK = {"n": 2, "lease": 10.0, "context": CONTEXT}
RECOMMEND = {"context": CONTEXT, "current": PARAMS}
BODIES: dict[str, dict[str, Any]] = {
    "/studies": NEW,
    "/studies/edge-0/tell": TELL,
    "/studies/edge-0/ask": ASK,
    "/studies/edge-0/recommend": RECOMMEND,
}
NAMES = ("edge-0", "edge-1", "edge-2")

AT_ONCE = 16  # connections
IN_A_ROW = 20  # requests on one connection
FRESH_EVERY = 5000  # requests: then the studies are made anew, so that what is stored stays small
WAIT_S = 0.3  # for an answer to a request that may be incomplete
PATIENCE_S = 120.0  # for an answer to one that is complete


def prepare(server: Server, name: str) -> None:
    """A study with a few asks and tells."""
    new = {"name": name, "space": SPACE, "algorithm": "random", "seed": 1} | (AROUND if name == NAMES[0] else {})
    made = server.call("POST", "/studies", new)
    assert made.status in (201, 409)
    for value in (1.0, 2.0, None):
        body = {"context": CONTEXT} if name == NAMES[0] else {}
        trial = server.call("POST", f"/studies/{name}/ask", body).json
        told = {"id": trial["id"], "value": value, "failed": value is None}
        assert server.call("POST", f"/studies/{name}/tell", told).status == 200


def start_afresh(server: Server) -> None:
    for study in server.call("GET", "/studies").json["studies"]:
        assert server.call("DELETE", f"/studies/{quote(study['name'], safe='')}").status == 204
    for name in NAMES:
        prepare(server, name)


# --- damaged requests -------------------------------------------------------------------------------------------------


def samples(server: Server) -> list[bytes]:
    """Valid requests."""
    return [
        server.request("GET", "/healthz"),
        server.request("GET", "/studies/edge-2/observations?start=0&limit=2"),
        server.request("POST", "/studies/edge-2/ask", {"n": 1}),
        server.request("POST", "/studies/edge-2/tell", {"params": PARAMS, "value": 1.0}, Idempotency_Key="again"),
        server.request("POST", "/studies", NEW | {"name": "mutant"}),
        server.request("DELETE", "/studies/mutant"),
    ]


def truncated(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(rng.choice([32, 128, 256]))
    return bytes(changed)


def inserted(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    odd = [b"\0", b"\r", b"\n", b"\r\n\r\n", b"\xff" * 9, b" " * 99, b":", b"%", b"Host: evil\r\n", rng.randbytes(20)]
    return data[:at] + rng.choice(odd) + data[at:]


def reordered(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    rng.shuffle(lines)
    return b"\r\n".join(lines)


def duplicated(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return b"\r\n".join(lines)


def spliced(rng: random.Random, data: bytes) -> bytes:
    return truncated(rng, data) + data[rng.randrange(len(data)) :]


MUTATIONS = [truncated, flipped, inserted, reordered, duplicated, spliced]

# --- odd values in well-formed requests -------------------------------------------------------------------------------

ODD = ["", "\0", "\ud800", "edge-0", "x" * 300, "NaN", "../..", "%00", "1e999", -1, 0, 1, 2**31, 2**63, 2**64, -(2**70)]
ODD += [1e308, -1e308, 5e-324, float("nan"), float("inf"), 0.1, True, False, None, [], {}, [[]], {"": None}]


def junk(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth < 3 else 4)
    if kind == 4:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {str(rng.choice(ODD)): junk(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind == 3:
        return rng.choice([rng.randrange(-100, 100), rng.uniform(-1e3, 1e3), f"{rng.getrandbits(40):x}"])
    return rng.choice(ODD)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a body."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


PLACES = [(path, place) for path, body in BODIES.items() for place in places(body)]
PATHS = ["/studies/{}", "/studies/{}/ask", "/studies/edge-1/observations?{}", "/studies/edge-1/trials/{}", "/{}"]
PATHS += ["/studies/{}/recommend", "/studies/edge-1/state?{}", "/studies/edge-1/view?{}", "/static/{}", "/metrics?{}"]


def well_formed(server: Server, rng: random.Random) -> bytes:
    """HTTP that can be read, with anything in it."""
    if rng.random() < 0.3:
        words = [f"{rng.choice(['start', 'limit', 'active', 'last', 'x'])}={rng.choice(ODD)}", str(rng.choice(ODD))]
        target = rng.choice(PATHS).format(quote(rng.choice(words).encode("utf-8", "replace"), safe="=&"))
        return server.request(rng.choice(["GET", "GET", "GET", "DELETE", "PUT"]), target)
    path, body = rng.choice(list(BODIES.items()))
    for _ in range(rng.choice([0, 1, 1, 2])):
        place = rng.choice(list(places(body)))
        body = replaced(body, place, junk(rng))
    return server.request("POST", path, body)


# --- sending them -----------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What was answered: how often each status, and what must not be, with the request."""

    statuses: Counter[int | None] = field(default_factory=Counter)
    wrong: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.statuses.total()

    def note(self, sent: bytes, answer: bytes) -> None:
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
        status = int(found[1]) if found else None
        self.statuses[status] += 1
        body = answer.partition(b"\r\n\r\n")[2]
        refused = status is not None and status >= 400
        if (status is not None and status >= 500 and status != 503) or (refused and not _is_an_error(body)):
            self.wrong.append((sent, answer))


def _is_an_error(body: bytes) -> bool:
    try:
        return set(json.loads(body)["error"]) == {"type", "message"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def send_raw(server: Server, rng: random.Random, count: int, seen: Seen) -> None:
    """So many raw requests: half of them well-formed, many on a connection; half of them damaged, one on each."""
    while count > 0:
        start_afresh(server)
        asyncio.run(_send_some(server, rng, min(count, FRESH_EVERY), seen))
        count -= FRESH_EVERY


async def _send_some(server: Server, rng: random.Random, count: int, seen: Seen) -> None:
    valid, room, tasks = samples(server), asyncio.Semaphore(AT_ONCE), set()
    left = count
    while left > 0:
        await room.acquire()
        if rng.random() < 2 / (2 + IN_A_ROW):
            some = [well_formed(server, rng) for _ in range(min(IN_A_ROW, left))]
        else:
            some = [rng.choice(MUTATIONS)(rng, rng.choice(valid))]
        left -= len(some)
        task = asyncio.create_task(_converse(server, some, seen))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: room.release())
    await asyncio.gather(*tasks)


async def _converse(server: Server, some: list[bytes], seen: Seen) -> None:
    """One after the other on one connection, or on another if it is closed."""
    writer = None
    for each in some:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)
        writer.write(each)
        answer = await _hear(reader, WAIT_S if len(some) == 1 else PATIENCE_S)
        seen.note(each, answer)
        if not answer:
            writer.transport.abort()
            writer = None
    if writer is not None:
        writer.transport.abort()


async def _hear(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """The next answer; b"" if there is none."""
    try:
        async with asyncio.timeout(seconds):
            head = await reader.readuntil(b"\r\n\r\n")
            if (found := re.search(rb"\r\ncontent-length: (\d+)", head)) is not None:
                return head + await reader.readexactly(int(found[1]))
            if b"\r\ntransfer-encoding: chunked" in head:
                return head + await reader.readuntil(b"0\r\n\r\n")
            return head
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        return b""
