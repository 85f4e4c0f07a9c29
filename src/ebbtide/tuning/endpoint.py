"""One evaluation by an HTTP endpoint. Whatever happens, the result is an Outcome."""

import socket
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urljoin, urlsplit, urlunsplit

from ebbtide.tuning.outcome import Outcome, one_line, outcome_of_body, reason

GRACE = 1.0  # seconds for an answer that is late to be given up
LONGEST_BODY = 1024 * 1024
REDIRECTS = 10
LONGEST_SOCKET_WAIT = 24 * 3600.0  # sockets cannot wait much longer


def read_metric(url: str, timeout: float) -> Outcome:
    """Read a value from an HTTP endpoint, in at most `timeout` seconds however slowly it answers."""
    started = time.monotonic()
    body, problem = fetched(url, timeout, LONGEST_BODY)
    seconds = time.monotonic() - started
    outcome = Outcome(None, problem, seconds) if body is None else outcome_of_body(body, seconds)
    return replace(outcome, problem=outcome.problem and one_line(outcome.problem))


def fetched(url: str, timeout: float, longest: int) -> tuple[bytes | None, str | None]:
    """What an endpoint answers, if that is at most `longest` bytes; or one line about what went wrong."""
    fetch = _Fetch(url, timeout, longest)
    # In a thread, because neither a deadline nor Ctrl-C ends a name lookup.
    thread = threading.Thread(target=fetch.run, name="ebbtide-metric", daemon=True)
    try:
        thread.start()
        thread.join(timeout)
        in_time = not thread.is_alive()
    finally:
        fetch.give_up()
    if not in_time:
        thread.join(GRACE)
        return None, fetch.too_slow
    return (fetch.body, None) if fetch.problem is None else (None, one_line(fetch.problem))


class _AnswerError(Exception):
    """An answer without a value."""


class _Fetch:
    """One GET with its redirects; another thread can abandon it."""

    def __init__(self, url: str, timeout: float, longest: int) -> None:
        self.url, self.longest = url, longest
        self.body = b""
        self.problem: str | None = None
        self.too_slow = f"no answer within {timeout:g} s"
        self._timeout = min(timeout, LONGEST_SOCKET_WAIT)
        self._sockets: list[socket.socket] = []
        self._given_up = False

    def run(self) -> None:
        try:
            self.body = self._get(self.url)
        except _AnswerError as error:
            self.problem = str(error)
        except TimeoutError:
            self.problem = self.too_slow
        except HTTPException as error:
            self.problem = f"no HTTP answer: {reason(error)}"
        except Exception as error:  # an endpoint can do anything; the loop continues
            self.problem = f"no answer: {reason(error)}"

    def give_up(self) -> None:
        self._given_up = True
        for wire in self._sockets:
            with suppress(OSError):
                # Not SSLSocket's own shutdown, which breaks a read in the other thread.
                socket.socket.shutdown(wire, socket.SHUT_RDWR)

    def _get(self, url: str) -> bytes:
        for _ in range(REDIRECTS + 1):
            answer = self._get_once(url)
            if isinstance(answer, bytes):
                return answer
            url = urljoin(url, answer)
        raise _AnswerError(f"more than {REDIRECTS} redirects, the last one to {url}")

    def _get_once(self, url: str) -> bytes | str:
        """The body, or the address of a redirect."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _AnswerError(f"{url!r} is not an http or https address")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        with closing(kind(parts.hostname, parts.port or kind.default_port, timeout=self._timeout)) as connection:
            connection.connect()
            self._watch(connection.sock)
            path = urlunsplit(("", "", parts.path or "/", parts.query, ""))
            connection.request("GET", path, headers={"Connection": "close", "User-Agent": "ebbtide"})
            with closing(connection.getresponse()) as response:
                target = response.getheader("Location")
                if target is not None and response.status in (301, 302, 303, 307, 308):
                    return target
                if not 200 <= response.status < 300:
                    raise _AnswerError(f"HTTP {response.status} {response.reason}")
                body = response.read(self.longest + 1)
        if len(body) > self.longest:
            raise _AnswerError(f"the answer is longer than {self.longest} bytes")
        return body

    def _watch(self, wire: socket.socket) -> None:
        self._sockets.append(wire)
        if self._given_up:
            raise TimeoutError("given up")
