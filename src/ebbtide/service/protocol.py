"""One connection: the checks before there is a request, and a client that does not read."""

import asyncio
import json
import socket
import struct
import sys
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ebbtide.service.admission import Admission
from ebbtide.service.problems import Problem
from ebbtide.service.recorder import Recorder

HEAD_S = 30  # for the head of a request to arrive
MAX_HEAD = 1 << 16  # bytes of it
WRITE_S = 30.0  # for a client to take what was written: a chunk, or less (`service/chunks.py`)
STOP_S = 2.0  # the same, when the service stops: less than server.GRACE_S, after which requests are cancelled
RESET = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)  # linger, for no time
MAX_PIPELINED = 128  # requests that wait until those before them on the same connection are answered


class HttpProtocol(HttpToolsProtocol):
    """By itself, uvicorn's protocol waits for the head of a request forever, keeps all of it however long it is, lets
    a target name another host than the Host header, answers what is not HTTP with a text of its own, waits forever for
    a client that does not read, takes any number of connections and of requests in a row, and if there are several in a
    row, does not tell the first of them that the client has gone.

    uvicorn has no public way to change that, so its version is capped in pyproject.toml.
    """

    recorder: ClassVar[Recorder]
    admission: ClassVar[Admission]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that we hear of everything that is not taken at once
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._in_head, self._head = False, 0
        self._at_work: RequestResponseCycle | None = None  # the request that is carried out, or was last
        self.recorder.connected()
        if self.admission.admit(self, self.client[0] if self.client else "unknown"):
            self._expect_head()
        else:
            self._refuse(503, "too many connections; try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.leave(self)
        self.recorder.disconnected()
        self._have_head()
        self._have_written()
        super().connection_lost(exc)
        if self._at_work is not None:
            self._at_work.disconnected = not self._at_work.response_complete
            self._at_work.message_event.set()

    @property
    def is_answered(self) -> bool:
        return self._at_work is not None and self._at_work.response_started

    def give_way(self) -> None:
        """Another connection needs the room."""
        self._abort("displaced", "there were too many connections, and others were waited for")

    def _abort(self, why: str, reason: str) -> None:
        # With a reset: otherwise the system would keep what was not read, and try to send it, for minutes.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.recorder.ended(
            why, reason, self.client[0] if self.client else None
        )  # who notices the end finds it counted
        self.transport.abort()

    # --- reading ----------------------------------------------------------------------------------------------

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
        if len(self.pipeline) >= MAX_PIPELINED:
            self._abort("flooding", f"more than {MAX_PIPELINED} requests were sent before the first was answered")
            raise ValueError("too many requests in a row")  # so that the rest is not parsed
        super().on_message_begin()
        self._in_head = True
        if self.cycle is None or self.cycle.response_complete:
            self.admission.is_owed(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer, after the body, is not a header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            raise ValueError("the target names a host")  # answered like anything that is not HTTP
        self._in_head = False
        self._have_head()
        super().on_headers_complete()
        if not self.pipeline:
            self._at_work = self.cycle

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete and not self.flow.write_paused:
            self.admission.works(self)

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._refuse(400, "this is not an HTTP request that the service can answer")

    # --- writing ----------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._have_written()
        self._write_deadline = self.loop.call_later(WRITE_S, self._end_unread)
        self.admission.is_owed(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._have_written()
        self._settle()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(STOP_S, self._stop_answer)

    def _stop_answer(self) -> None:
        """A stream, or an answer that its client takes too slowly."""
        if self._at_work is not None and self._at_work.response_started and not self.transport.is_closing():
            self.transport.abort()

    def _have_written(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _end_unread(self) -> None:
        self._abort("unread", f"its client did not read for {WRITE_S:g} s")

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._at_work = self.pipeline[-1][0]
        super().on_response_complete()
        if not self.flow.write_paused:
            self._settle()

    def _settle(self) -> None:
        """What was written has been taken."""
        if self.cycle is None or self.cycle.response_complete:
            self.admission.idles(self)
        else:
            self.admission.works(self)

    def _refuse(self, status: int, message: str) -> None:
        phrase = HTTPStatus(status).phrase
        problem = Problem(phrase, message, early=True)
        body = json.dumps(problem.body)
        headers = {"content-type": "application/json", "content-length": len(body)}
        headers |= {"x-content-type-options": "nosniff", "connection": "close"}
        headers |= {"retry-after": 1} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
        head = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*head, "", body]).encode())
        self.transport.close()
        self.recorder.refused(status, problem, self.client[0] if self.client else None)


def protocol(recorder: Recorder, admission: Admission) -> type[HttpProtocol]:
    """The protocol of connections that are admitted here, and whose ends and refusals this recorder learns of."""
    return type("Protocol", (HttpProtocol,), {"recorder": recorder, "admission": admission})
