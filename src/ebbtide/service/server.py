"""`ebbtide serve`: the application behind a socket."""

import asyncio
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Iterable
from http import HTTPStatus

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ebbtide.errors import ConfigurationError
from ebbtide.service.application import application
from ebbtide.service.gate import LOOPBACK, Limits, error_body

IDLE_S = 75  # for which a connection without a request stays open
HEAD_S = 30  # within which the head of a request must have come
MAX_HEAD = 1 << 16  # bytes of it
SWITCH_S = 0.0005  # after which a thread lets another one go: a flushed tell must not wait for a busy loop
GRACE_S = 3  # for answers under way and streams, when the service is to stop


def serve(
    storage: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8411,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    processes: int | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until told to stop (Ctrl-C, SIGTERM)."""
    local = is_loopback(host)
    if not local and not token:
        raise ConfigurationError(
            f"host={host!r} can be reached from other machines, and there is no token: set EBBTIDE_TOKEN to a long "
            "secret, or serve on 127.0.0.1"
        )
    listening = _socket(host, port)
    app = application(
        storage,
        token=token,
        hosts=[*LOOPBACK, host, *([] if local else [socket.gethostname()]), *allowed_hosts],
        any_address=not local,
        processes=processes or max(1, (os.cpu_count() or 2) - 1),
        limits=limits,
    )
    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=IDLE_S,
        lifespan="on",
        ws="none",
    )
    sys.setswitchinterval(SWITCH_S)
    shown = f"[{host}]" if ":" in host else host
    print(f"ebbtide serves {storage} at http://{shown}:{listening.getsockname()[1]}  (Ctrl-C stops it)", flush=True)
    uvicorn.Server(config).run([listening])


class Connection(HttpToolsProtocol):
    """uvicorn's, which by itself waits for the head of a request for ever, keeps all of it however long it is, lets a
    target name another host than the Host, and answers what is not HTTP in words of its own.
    """

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
        if self._in_head:  # what comes after a body is no header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            raise ValueError("the target names a host")  # answered as what is not HTTP
        self._in_head = False
        self._have_head()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is no HTTP request that can be answered here")

    def _refuse(self, status: int, message: str) -> None:
        phrase = HTTPStatus(status).phrase
        body = json.dumps(error_body(phrase, message))
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self.transport.write(f"{head}\r\nconnection: close\r\n\r\n{body}".encode())
        self.transport.close()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {host}, port {port}: {error}; choose another --port") from error
    return listening
