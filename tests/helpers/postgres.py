"""A real PostgreSQL in a temporary folder, not as root, that can be killed and started again; and a TCP proxy in front
of it that cuts connections.
"""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, create_connection, create_server, socket
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "postgresql")]

import psycopg
from running import PATIENCE, free_port, scratch, unprivileged
from start_postgresql import BINARIES, quietly

__all__ = [
    "BINARIES",
    "HELD_BY_OTHERS",
    "PASSWORD",
    "USER",
    "Cluster",
    "Proxy",
    "cluster",
    "free_port",
    "proxy",
    "scratch",
    "unprivileged",
]

USER, PASSWORD = "ebbtide", "s3cret/w0rd@home"
ENCODED = "s3cret%2Fw0rd%40home"  # as it is in a URL
HELD_BY_OTHERS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"


class Cluster:
    """A server on a port of its own. Whoever connects needs a password. A folder that has data already keeps it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.port, self.options = folder, free_port(), options
        self.log = folder / "log"
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        if not self.data.exists():
            self._make()
        self.start()

    def _make(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        quietly(
            *(str(BINARIES[-1] / "initdb"), f"--pgdata={self.data}", "--no-sync", "--encoding=UTF8", "--locale=C"),
            *("--auth=scram-sha-256", f"--username={USER}", f"--pwfile={secret}"),
        )

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", port: int | None = None) -> str:
        return f"postgresql://{USER}:{ENCODED}@127.0.0.1:{port or self.port}/{database}"

    def database(self) -> str:
        """The name of a new, empty one."""
        name = f"test{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return name

    def run(self, statement: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """When this returns, it answers. One that was killed may have to wait for what it has left behind."""
        argv = [str(BINARIES[-1] / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        argv += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"]
        argv += [word for option in self.options for word in ("-c", option)]
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._process is None or self._process.poll() is not None:
                with self.log.open("ab") as output:
                    last_will = ["setpriv", "--pdeathsig", "INT", "--"]  # if we are killed
                    self._process = subprocess.Popen(
                        [*last_will, *argv], stdout=output, stderr=output, start_new_session=True, **unprivileged()
                    )
            with suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=5):
                return
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """As if the power had gone, but for the disk."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def end_backends(self) -> int:
        """End every connection but this one; how many there were."""
        ended = self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ebbtide'")
        return len(ended)


@contextmanager
def cluster(*options: str) -> Iterator[Cluster]:
    with scratch() as folder:
        made = Cluster(folder, *options)
        try:
            yield made
        finally:
            made.stop()


class Proxy:
    """A TCP proxy in front of one server or several. `cut` ends what is open now; `cut_at` cuts whoever sends this."""

    def __init__(self, *targets: int) -> None:
        self._targets, self._open = itertools.cycle(targets), list[socket]()
        self._most = len(targets)
        self.cut_at: bytes | None = None  # once: the server gets it, the client no answer
        self.cuts = 0
        self._lock = threading.Lock()
        self._listener = create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            sockets, self._open = self._open, []
        for each in sockets:
            _end(each)
        self.cuts += len(sockets) // 2

    def close(self) -> None:
        _end(self._listener)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if (server := self._connected()) is None:
                    _end(client)
                    continue
                with self._lock:
                    self._open += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink, source is client), daemon=True).start()

    def _connected(self) -> socket | None:
        """To the next of the servers that is there."""
        for target in itertools.islice(self._targets, self._most):
            with suppress(OSError):
                server = create_connection(("127.0.0.1", target), 5.0)
                server.settimeout(None)
                return server
        return None

    def _pass_on(self, source: socket, sink: socket, sent_by_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                wanted = self.cut_at
                if sent_by_client and wanted is not None and wanted in data:
                    self.cut_at = None
                    self.cuts += 1
                    _end(source)  # nobody hears the answer
                    sink.sendall(data)
                    time.sleep(0.05)
                    break
                sink.sendall(data)
        _end(source)
        _end(sink)
        with self._lock:
            self._open = [each for each in self._open if each not in (source, sink)]


def _end(connection: socket) -> None:
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)
    connection.close()


@contextmanager
def proxy(*targets: int) -> Iterator[Proxy]:
    made = Proxy(*targets)
    try:
        yield made
    finally:
        made.close()
