"""A real `ebbtide serve` in a process of its own, and a socket to send it anything, also what no HTTP library would.

`Server` checks that no answer gives anything away, and `served` that the log holds no traceback.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Self

import pytest

import ebbtide

TOKEN = "correct-horse-battery-staple"
PATIENCE_S = 60.0  # for an answer; no test waits that long unless something is broken
POSTGRES = "POSTGRES_OF_THE_TESTS"  # the URL of a server
LAUNCHER = Path(__file__).with_name("launcher.py")
STARTED = re.compile(r"at http://\S+:(\d+)\s")
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} ([A-Z]+) ebbtide\.service (.*)$", re.MULTILINE)
PAIR = re.compile(r'([a-z_]+)=([^\s"=]+|"(?:[ !#-\[\]-~]|\\.)*")')
TRACEBACK = "Traceback (most recent call last)"
SOURCES = str(Path(ebbtide.__file__).parent)
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    folder: Path  # where s.db is
    log_path: Path
    token: str | None = None
    excused: int = 0  # characters of the log that may hold a traceback

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has written to its stderr so far."""
        return self.log_path.read_text(errors="backslashreplace")

    def lines(self, since: int = 0) -> list[tuple[str, dict[str, str]]]:
        """The lines of the log from a character on, each as its level and its pairs; health checks are left out."""
        assert self.alive()  # what was answered before this is in the log by now
        found = [(level, pairs(text)) for level, text in LINE.findall(self.log[since:])]
        return [(level, line) for level, line in found if line["verb"] not in ("livez", "readyz", "healthz")]

    def call(
        self, method: str, path: str, body: object = None, head_only: bool = False, **headers: str | None
    ) -> "Answer":
        """One honest request, but for the headers given (None leaves one out). Other bodies than bytes become JSON."""
        return self.say(self.request(method, path, body, **headers), head_only=head_only)

    def request(self, method: str, path: str, body: object = None, **headers: str | None) -> bytes:
        given: dict[str, str | None] = {"Host": self.host}
        given |= {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return request(method, path, [(k, v) for k, v in given.items() if v is not None], body)

    def say(self, *parts: bytes, half_close: bool = False, head_only: bool = False) -> "Answer":
        """The first answer to some bytes, sent as they are on a connection of their own."""
        with self.connect() as talk:
            return talk.say(*parts, half_close=half_close, head_only=head_only)

    def connect(self) -> "Talk":
        """A connection that stays open."""
        return Talk(self)

    def alive(self) -> bool:
        """Whether the process runs and answers."""
        return self.process.poll() is None and self.call("GET", "/livez").status == 200

    def workers(self) -> list[int]:
        """The ids of its worker processes, without multiprocessing's own helper."""
        if not Path("/proc/self/task").exists():
            pytest.skip("needs /proc")
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")  # any of them may have started a process
        children = [pid for started in threads for pid in started.read_text().split()]
        return [int(pid) for pid in children if b"spawn_main" in _command_line(pid)]

    def memory(self) -> int | None:
        """Resident bytes of the server's own process; None where /proc does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return None
        found = re.search(r"^VmRSS:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        assert found
        return int(found[1]) * 1024

    def check_discretion(self, answer: "Answer") -> None:
        """No answer shows the code, where its files are, or the token."""
        said = f"{answer.headers} {answer.body.decode('utf-8', 'backslashreplace')}"
        for secret in (TRACEBACK, 'File "', "site-packages", SOURCES, str(self.folder), self.token):
            assert secret is None or secret not in said, f"{secret!r} in {said[:2000]}"


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


@dataclass
class Answer:
    status: int | None  # None: the connection was closed without an answer
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The type of the error, once its shape is checked: ours, and nothing else."""
        assert self.headers["content-type"] == "application/json", self
        assert self.json.keys() == {"error"}, self
        assert self.json["error"].keys() == {"type", "message"}, self
        assert all(isinstance(said, str) and said for said in self.json["error"].values()), self
        return str(self.json["error"]["type"])


@contextmanager
def served(
    tmp_path: Path,
    *options: str,
    env: dict[str, str] | None = None,
    token: str | None = None,
    dashboard: bool = False,
    storage: str | None = None,
) -> Iterator[Server]:
    """A server of the studies in tmp_path/s.db, or in `storage`, which is always ended. Secrets go by the environment.

    With `dashboard`, it is an `ebbtide dashboard`.
    """
    arguments = ["dashboard", str(tmp_path / "s.db"), "--port", "0"]
    arguments = [sys.executable, str(LAUNCHER), *arguments] if dashboard else command(*options)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EBBTIDE_")}
    environment |= {"PYTHONWARNINGS": "error::ResourceWarning"} | (env or {})
    environment |= {"EBBTIDE_STORAGE": storage or storage_of(tmp_path)}
    environment |= {} if token is None else {"EBBTIDE_TOKEN": token}
    log_path = tmp_path / "log.txt"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=log, env=environment, text=True, start_new_session=True
        )
    assert process.stdout
    with process.stdout:
        try:
            line = _first_line(process)
            found = STARTED.search(line)
            assert found, f"it did not start: {line!r}\n{log_path.read_text()}"
            server = Server(process, int(found[1]), tmp_path, log_path, token)
            yield server
        finally:
            _end(process)
    assert TRACEBACK not in server.log[server.excused :], server.log
    assert token is None or token not in server.log


def command(*options: str) -> list[str]:
    """The command line that serves EBBTIDE_STORAGE, at any port that is free."""
    return [sys.executable, str(LAUNCHER), "serve", "--port", "0", *options]


def storage_of(place: str | Path) -> str:
    """A file, or s.db in a folder; with helpers.on_postgres, it is a database instead."""
    path = Path(place) if str(place).endswith(".db") else Path(place) / "s.db"
    if POSTGRES not in os.environ:
        return f"sqlite:///{path}"
    import psycopg

    name = f"t{sha256(str(path).encode()).hexdigest()[:16]}"
    with psycopg.connect(os.environ[POSTGRES], autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{os.environ[POSTGRES].rpartition('/')[0]}/{name}"


def pairs(text: str) -> dict[str, str]:
    """The key=value pairs of a line of the log; AssertionError if it is anything else."""
    assert re.fullmatch(f"{PAIR.pattern}( {PAIR.pattern})*", text), text
    found = [(key, json.loads(value) if value.startswith('"') else value) for key, value in PAIR.findall(text)]
    assert len(dict(found)) == len(found), text
    return dict(found)


def _first_line(process: subprocess.Popen[str]) -> str:
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout
        return process.stdout.readline()
    finally:
        watchdog.cancel()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


# --- HTTP, byte by byte -----------------------------------------------------------------------------------------------


def request(method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None) -> bytes:
    """The bytes of a request. Headers are pairs, sent as they are; a body announces its length unless they do."""
    headers = list(headers)
    if body is not None and not {"content-length", "transfer-encoding"} & {name.lower() for name, _ in headers}:
        headers.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


def chunked(*parts: bytes) -> bytes:
    """A body that does not announce its length."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


class Talk:
    """A connection to a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self.stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stream.close()
        self.socket.close()

    def send(self, *parts: bytes, half_close: bool = False) -> None:
        """`half_close` says that no more will come."""
        try:
            for part in parts:
                self.socket.sendall(part)
            if half_close:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before all of it was sent; there may still be an answer

    def say(self, *parts: bytes, half_close: bool = False, head_only: bool = False) -> Answer:
        self.send(*parts, half_close=half_close)
        return self.hear(head_only)

    def hear(self, head_only: bool = False) -> Answer:
        """The next answer."""
        try:
            answer = _parse(self.stream, head_only)
        except ConnectionResetError:
            return Answer(None)
        self.server.check_discretion(answer)
        return answer


def _parse(stream: BinaryIO, head_only: bool = False) -> Answer:
    start = stream.readline()
    if not start:
        return Answer(None)
    found = re.fullmatch(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n", start)
    assert found, start
    status = int(found[1])
    headers: dict[str, str] = {}
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").rstrip("\r\n").partition(": ")
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value
    if status == 100:
        return _parse(stream, head_only)
    if head_only or status == 204:
        return Answer(status, headers)
    if "content-length" in headers:
        return Answer(status, headers, stream.read(int(headers["content-length"])))
    assert headers["transfer-encoding"] == "chunked", headers
    return Answer(status, headers, b"".join(iter(lambda: read_chunk(stream), b"")))


def read_chunk(stream: BinaryIO) -> bytes:
    """The next chunk of a body; b"" at its end."""
    part = stream.read(int(stream.readline(), 16))
    assert stream.readline() == b"\r\n"
    return part


# --- the service's own description of itself --------------------------------------------------------------------------


def operations(document: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """(method, path) of every route of an OpenAPI document, with the name of a study filled in."""
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", name, path))
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]
