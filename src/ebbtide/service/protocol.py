"""One connection: the checks before there is a request."""

import asyncio
import json
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ebbtide.service.problems import Problem
from ebbtide.service.recorder import Recorder

HEAD_S = 30  # for the head of a request to arrive
MAX_HEAD = 1 << 16  # bytes of it


class HttpProtocol(HttpToolsProtocol):
    """By itself, uvicorn's protocol waits for the head of a request forever, keeps all of it however long it is, lets
    a target name another host than the Host header, and answers what is not HTTP with a text of its own.

    uvicorn has no public way to change that, so its version is capped in pyproject.toml.
    """

    recorder: ClassVar[Recorder | None] = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head, self._head = False, 0
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_head()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self.transport.close)

    def _have_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def data_received(self, data: bytes) -> None:
        began = self._in_head
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
        if self._in_head:
            self._head = self._head + len(data) if began else 0
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self._refuse(431, f"the head of the request is longer than {MAX_HEAD} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer, after the body, is not a header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            raise ValueError("the target names a host")  # answered like anything that is not HTTP
        self._in_head = False
        self._have_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not an HTTP request that the service can answer")

    def _refuse(self, status: int, message: str) -> None:
        phrase = HTTPStatus(status).phrase
        problem = Problem(phrase, message, early=True)
        body = json.dumps(problem.body)
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(f"{head}{body}".encode())
        self.transport.close()
        if self.recorder is not None:
            self.recorder.refused(status, problem, self.client[0] if self.client else None)


def recorded_by(recorder: Recorder) -> type[HttpProtocol]:
    """The protocol; it tells this recorder about its refusals."""
    return type("RecordedHttpProtocol", (HttpProtocol,), {"recorder": recorder})
