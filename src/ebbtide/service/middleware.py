"""The checks that every request must pass before it reaches a route.

| check   | refuses                                                                  | status   |
|---------|--------------------------------------------------------------------------|----------|
| headers | a header that decides something, given twice                             | 400      |
| host    | a Host that is not ours: a site that points its name at us (DNS rebinding) | 421    |
| rate    | more requests per second from one address than the limit                 | 429      |
| token   | a missing or wrong bearer token, if the service has any                  | 401      |
| origin  | a write that a page of another site makes its visitor's browser send     | 403      |
| length  | a body that is too long, or that does not arrive                         | 413, 408 |
| content | a body that is not JSON                                                  | 415      |
| crowd   | a long answer, while too many are waiting for theirs                      | 503      |
"""

import asyncio
import ipaddress
import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from ebbtide.service.access import KEY, NOTHING, Access
from ebbtide.service.problems import Problem

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
# If a header is given twice, one server may use the first and another the last.
ONCE = (b"host", b"authorization", b"origin", b"sec-fetch-site", b"content-type", b"content-length")
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
MAX_ADDRESSES = 4096  # whose rates are remembered
MAX_ADDRESS = 64  # characters of one: behind a proxy it may be whatever a header says
BODY_S = 30.0  # for a body to arrive


@dataclass(frozen=True)
class Limits:
    """How much a service accepts."""

    body: int = 1 << 20  # bytes
    rate: float = 2000.0  # requests per second from one address; twice that in a burst
    connections: int = 1000
    connections_per_address: int = 500
    studies: int = 1000
    width: int = 200  # coordinates of a space
    trials: int = 64  # per ask
    active: int = 2000  # observations in a model of an algorithm that keeps everything
    streams: int = 100  # of events, at once


class Refusal(Exception):  # noqa: N818 - it is an answer
    def __init__(self, status: int, message: str, **headers: str) -> None:
        self.status, self.problem = status, Problem(HTTPStatus(status).phrase, message, early=True)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Middleware:
    def __init__(
        self,
        app: App,
        *,
        access: Callable[[str], Access],
        hosts: Iterable[str],
        any_address: bool,
        limits: Limits,
        is_public: Callable[[str, str], bool] = lambda method, path: False,
        refusal: Callable[[str], str | None] = lambda path: None,
    ) -> None:
        self.app = app
        self.access = access  # what a header allows; it raises a Refusal if that is nothing
        self.hosts = {name.lower() for name in hosts if name}
        self.any_address = any_address
        self.limits = limits
        self.is_public = is_public  # whether a method and a path need no token
        self.refusal = refusal  # why a path is not served at this moment
        self.rates = Rates(limits.rate)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answered = False

        async def answering(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            body = await self._checked(scope, receive)
            if reason := self.refusal(scope["path"]):  # a crowd is turned away before it costs much
                raise Refusal(503, reason, Retry_After="1")
            await self.app(scope, replayed(body, receive), answering)
        except Refusal as refusal:
            await _refuse(scope, send, refusal)
        except asyncio.CancelledError:  # the server is stopping, and waits no longer
            if answered:
                raise
            stopping = Refusal(503, "the service is stopping; try again in a moment", Retry_After="1")
            await _refuse(scope, send, stopping)

    async def _checked(self, scope: Message, receive: Receive) -> bytes:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        times = Counter(name for name, _ in scope["headers"])
        if repeated := [name for name in ONCE if times[name] > 1]:
            raise Refusal(400, f"the header {repeated[0].decode()} is given more than once")
        self._check_host(headers.get("host", ""))
        self._check_rate(scope)
        is_public = self.is_public(scope["method"], scope["path"])
        scope[KEY] = NOTHING if is_public else self.access(headers.get("authorization", ""))
        if scope["method"] in WRITES:
            _check_origin(headers)
        body = await self._body(headers, receive)
        if body and not _is_json(headers.get("content-type", "")):
            raise Refusal(415, 'the body must be JSON: send "Content-Type: application/json"')
        return body

    def _check_host(self, host: str) -> None:
        name = host_name(host)
        if name not in self.hosts and not (self.any_address and _is_address(name)):
            raise Refusal(421, f"this service is not known as {host!r}; add a name with --allow-host")

    def _check_rate(self, scope: Message) -> None:
        address = (scope.get("client") or ("unknown", 0))[0][:MAX_ADDRESS]
        if not self.rates.allow(address, time.monotonic()):
            raise Refusal(429, f"more than {self.limits.rate:g} requests per second; slow down", Retry_After="1")

    async def _body(self, headers: MutableMapping[str, str], receive: Receive) -> bytes:
        most = self.limits.body
        too_long = Refusal(413, f"the body is longer than {most} bytes", Connection="close")
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > most:
            raise too_long
        parts, length = [], 0
        try:
            async with asyncio.timeout(BODY_S):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refusal(400, "the connection ended before the body did")
                    part = message.get("body", b"")
                    length += len(part)
                    if length > most:
                        raise too_long
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {BODY_S:g} s", Connection="close") from None
        return b"".join(parts)


class Rates:
    """A bucket of tokens per address, which fills at the limit's rate."""

    def __init__(self, rate: float) -> None:
        self.rate, self.most = rate, 2.0 * rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, address: str, now: float) -> bool:
        left, since = self._buckets.pop(address, (self.most, now))
        left = min(self.most, left + (now - since) * self.rate)
        allowed = left >= 1.0
        self._buckets[address] = (left - allowed, now)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return allowed


def host_name(host: str) -> str:
    """The name in a Host header, without its port; "" if there is none."""
    found = HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


def _is_address(name: str) -> bool:
    """A site can point its own name at us, but not an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin(headers: MutableMapping[str, str]) -> None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    ours = origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()
    if not ours or site not in ("none", "same-origin"):
        raise Refusal(403, "a page of another site may not write here")


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body, once; then what follows, which is that the client has gone."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(scope: Message, send: Send, refusal: Refusal) -> None:
    refusal.problem.note(scope)
    body = json.dumps(refusal.problem.body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))} | refusal.headers
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
