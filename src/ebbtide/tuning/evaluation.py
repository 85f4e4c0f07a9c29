"""One evaluation: run a command or read an endpoint. Whatever happens, the result is an Outcome.

The value is the last line that is not blank: a finite number, or a JSON object with one under "value".
"""

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import FrameType
from typing import IO, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from ebbtide.checks import as_finite
from ebbtide.tuning.template import fill, fill_url

TAIL = 64 * 1024  # bytes kept of a command's output
CHUNK = 64 * 1024
LAST_READS = 32  # after the command's end: enough for a full pipe, but not for an orphan that keeps writing
GRACE = 1.0  # seconds between SIGTERM and SIGKILL
DEATH = 5.0  # seconds for SIGKILL to work; it fails on another user's process and while a process waits for a dead disk
LONGEST_ENDING = GRACE + DEATH  # seconds that an evaluation may take beyond its time
SHORTEST_NAP, LONGEST_NAP = 0.001, 0.05
LONGEST_BODY = 1024 * 1024
REDIRECTS = 10
LONGEST_SOCKET_WAIT = 24 * 3600.0  # sockets cannot wait much longer
LONGEST_QUOTE = 200


@dataclass(frozen=True)
class Outcome:
    """A value, or one line about what went wrong."""

    value: float | None
    problem: str | None
    seconds: float


def evaluator(
    argv: Sequence[str], url: str | None, timeout: float, settle: float = 0.0
) -> Callable[[Mapping[str, Any]], Outcome]:
    """The function that the loop calls. With both, the command applies the parameters and the URL gives the value,
    `settle` seconds later, which do not count against the time limit.
    """

    def evaluate(params: Mapping[str, Any]) -> Outcome:
        if url is None:
            return run_command(fill(argv, params), timeout)
        address = fill_url(url, params)
        if not argv:
            return read_metric(address, timeout)
        done = run_command(fill(argv, params), timeout, prints_value=False)
        if done.problem is not None:
            return done
        time.sleep(settle)
        read = read_metric(address, max(timeout - done.seconds, 0.0))
        return replace(read, seconds=done.seconds + settle + read.seconds)

    return evaluate


# --- a command ------------------------------------------------------------------------------------------------


def run_command(argv: Sequence[str], timeout: float, *, prints_value: bool = True) -> Outcome:
    """Run a command until it ends or its time is over. Nothing of its process group is left running."""
    started = time.monotonic()
    out, err = _Tail(), _Tail()
    value, complaint = None, None
    try:
        with _running(argv) as process:
            in_time = _listen(process, started + timeout, out, err)
    except _StartError as error:
        return Outcome(None, str(error), time.monotonic() - started)
    if not in_time:
        survived = "" if process.returncode is not None else ", and could not be killed"
        complaint = f"still running after {timeout:g} s{survived}"
    elif process.returncode != 0:
        complaint = _ending(process.returncode)
    elif prints_value:
        value, complaint = _value_of_last_line(out, "printed")
    if complaint is not None:
        complaint = one_line(": ".join(filter(None, [complaint, err.last_line()])))
    return Outcome(value, complaint, time.monotonic() - started)


class _StartError(Exception):
    """The command could not be started."""


@contextmanager
def _running(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a session of its own, which is ended however this block is left."""
    process = None
    try:
        try:
            with _signals_held():
                process = subprocess.Popen(  # noqa: S603 - a list, no shell
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ValueError: a NUL, a lone surrogate
            raise _StartError(one_line(f"cannot start {argv[0]!r}: {_reason(error)}")) from error
        yield process
    finally:
        if process is not None:
            _end(process)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay Ctrl-C: between the fork and the moment we know the child's PID it would leave the child running."""
    held: list[tuple[int, FrameType | None]] = []
    handlers = _handlers()
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: held.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in held:
            handlers[number](number, frame)


def _handlers() -> dict[int, Callable[[int, FrameType | None], Any]]:
    """Handlers that may raise: that of Ctrl-C, and those that somebody installed for SIGTERM and SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    return {int(number): handler for number, handler in found.items() if callable(handler)}


def _listen(process: subprocess.Popen[bytes], deadline: float, out: "_Tail", err: "_Tail") -> bool:
    """Read output until the command ends (True) or the deadline passes (False).

    Not until the output ends: a process that the command started may hold it open forever.
    """
    with selectors.PollSelector() as pipes:
        for pipe, tail in zip(_pipes(process), (out, err), strict=True):
            pipes.register(pipe, selectors.EVENT_READ, tail)
        nap = SHORTEST_NAP
        while (running := process.poll() is None) and (left := deadline - time.monotonic()) > 0.0:
            heard = _hear(pipes, min(nap, left))
            nap = SHORTEST_NAP if heard else min(2.0 * nap, LONGEST_NAP)
        for _ in range(LAST_READS):
            if not _hear(pipes, 0.0):
                break
    return not running


def _pipes(process: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    return [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]


def _hear(pipes: selectors.BaseSelector, seconds: float) -> bool:
    ready = pipes.select(seconds)
    for key, _ in ready:
        chunk = os.read(key.fd, CHUNK)
        if chunk:
            key.data.add(chunk)
        else:
            pipes.unregister(key.fileobj)
    return bool(ready)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process group, then kill what is left of it. A second Ctrl-C cuts the grace short."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            _wait(process, GRACE)
    finally:
        _signal(process, signal.SIGKILL)
        _wait(process, DEATH)
        for pipe in _pipes(process):
            pipe.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # EPERM: on macOS only a zombie is left of the group; on Linux it belongs to another user.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"


class _Tail:
    """The last bytes of a stream of any length."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._cut = False

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk
        if len(self._bytes) > TAIL:
            del self._bytes[:-TAIL]
            self._cut = True

    def last_line(self) -> str | None:
        """The last line that is not blank, if there is one."""
        lines = bytes(self._bytes).strip().splitlines()
        return lines[-1].decode(errors="replace").strip() if lines else None

    @property
    def torn(self) -> bool:
        """Whether the last line began before what was kept."""
        return self._cut and len(bytes(self._bytes).rstrip().splitlines()) <= 1


# --- an endpoint ----------------------------------------------------------------------------------------------


def read_metric(url: str, timeout: float) -> Outcome:
    """Read a value from an HTTP endpoint, in at most `timeout` seconds however slowly it answers."""
    started = time.monotonic()
    fetch = _Fetch(url, timeout)
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
        return Outcome(None, fetch.too_slow, time.monotonic() - started)
    value, problem = None, fetch.problem
    if problem is None:
        value, problem = _value_of_body(fetch.body)
    return Outcome(value, problem and one_line(problem), time.monotonic() - started)


class _AnswerError(Exception):
    """An answer without a value."""


class _Fetch:
    """One GET with its redirects; another thread can abandon it."""

    def __init__(self, url: str, timeout: float) -> None:
        self.url = url
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
            self.problem = f"no HTTP answer: {_reason(error)}"
        except Exception as error:  # an endpoint can do anything; the loop continues
            self.problem = f"no answer: {_reason(error)}"

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
                body = response.read(LONGEST_BODY + 1)
        if len(body) > LONGEST_BODY:
            raise _AnswerError(f"the answer is longer than {LONGEST_BODY} bytes")
        return body

    def _watch(self, wire: socket.socket) -> None:
        self._sockets.append(wire)
        if self._given_up:
            raise TimeoutError("given up")


# --- values in output --------------------------------------------------------------------------------------------


def _value_of_last_line(tail: _Tail, said: str) -> tuple[float | None, str | None]:
    line = tail.last_line()
    if line is None:
        return None, f"{said} nothing"
    if tail.torn:
        return None, f"{said} a last line longer than {TAIL} bytes"
    value = _number(line)
    return value, None if value is not None else _no_number(line)


def _value_of_body(body: bytes) -> tuple[float | None, str | None]:
    """The same rule, but a JSON object may also span several lines."""
    text = body.decode(errors="replace").strip()
    if not text:
        return None, "the answer is empty"
    line = body.strip().splitlines()[-1].decode(errors="replace").strip()
    value = _number(line)
    if value is None:
        value = _number(text)
    return value, None if value is not None else _no_number(line)


def _no_number(line: str) -> str:
    return f'the last line is {one_line(line, 60)!r}, not a finite number or a JSON object with one as "value"'


def _number(text: str) -> float | None:
    try:
        if text.startswith("{"):
            return as_finite(json.loads(text)["value"])
        return None if "_" in text else as_finite(float(text))  # only Python takes 2024_01 for a number
    except (ValueError, KeyError, RecursionError):
        return None


_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours and other terminal commands


def one_line(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Text from elsewhere as one short line that is safe to print on a terminal."""
    plain = _ESCAPES.sub("", text[: 10 * longest])
    words = "".join(character if character.isprintable() else " " for character in plain).split()
    line = " ".join(words)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _reason(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said or type(error).__name__
