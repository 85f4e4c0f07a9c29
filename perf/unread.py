"""Clients that ask for much, do not read it, and come back when they are refused or their connection is ended: how are
others served?

    make perf-unread

All of them come from the same address as the others, and come back all at once. Others ask for `/healthz`, each on a
new connection, and tell. The memory is the most that the server has used, without its workers. Every attack meets a
server of its own.
"""

import argparse
import http
import http.client
import json
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from record import add_option, record

import ebbtide as eb

SPACE = {f"{i:02}{'x' * 50}": eb.Float(0.0, 1.0) for i in range(20)}
PARAMS = dict.fromkeys(SPACE, 0.5)
BACK_AFTER_S = 5.0
PATIENCE_S = 60.0
LINES = 10_000  # a page of 14 MB
BEGUN = b"HTTP/1.1 200"
PAGE = "/studies/long/observations?limit=10000"
ATTACKS = {
    "nothing": ("", 0),
    "static files": ("/static/plotly.min.js", 1000),
    "long pages": (PAGE, 80),
    "long pages, more clients": (PAGE, 1000),
    "event streams": ("/studies/long/events", 1000),
}


class Crowd(threading.Thread):
    """Connects, asks, reads the status at most, and connects again where it was refused or its connection ended."""

    def __init__(self, port: int, path: str, clients: int) -> None:
        super().__init__()
        self.port, self.clients, self.made = port, clients, 0
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0.0\r\n\r\n".encode()
        self.connected, self.stopping = threading.Event(), threading.Event()

    def run(self) -> None:
        poll = select.poll()
        waiting: dict[int, socket.socket] = {}
        while not self.stopping.is_set():
            while len(waiting) < self.clients:
                connection = socket.create_connection(("127.0.0.1", self.port))
                connection.sendall(self.request)
                waiting[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
                self.made += 1
            self.connected.set()
            self.stopping.wait(BACK_AFTER_S)
            for number, event in poll.poll(0):
                if event == select.POLLIN and waiting[number].recv(len(BEGUN)) == BEGUN:
                    poll.modify(number, 0)  # errors and hang-ups only
                else:
                    poll.unregister(number)
                    waiting.pop(number).close()
        for connection in waiting.values():
            connection.close()


@contextmanager
def served(database: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of a service."""
    command = [sys.executable, "-m", "ebbtide", "serve", "--storage", f"sqlite:///{database}", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline().split(":")[-1].split()[0]), server.pid
    finally:
        server.terminate()
        server.wait()


def fill(database: Path) -> None:
    with eb.Optimizer(SPACE, algorithm="random", seed=0, storage=f"sqlite:///{database}", name="long") as optimizer:
        for value in range(LINES):
            optimizer.tell(PARAMS, float(value))


class Other:
    """A client that reads, and connects again if it must, as `eb.Client` does."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def tell(self) -> float:
        return self.call("POST", "/studies/long/tell", {"params": PARAMS, "value": 1.0})

    def call(self, method: str, path: str, body: object = None) -> float:
        """How many seconds it took to be served."""
        began = time.perf_counter()
        while not self.is_served(method, path, None if body is None else json.dumps(body)):
            self.connection.close()
            if time.perf_counter() - began > PATIENCE_S:
                sys.exit(f"{method} {path}: not served within {PATIENCE_S:g} s")
            time.sleep(0.05)
        return time.perf_counter() - began

    def is_served(self, method: str, path: str, body: str | None) -> bool:
        try:
            self.connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            answer.read()
        except (http.client.HTTPException, ConnectionError):
            return False
        return answer.status == http.HTTPStatus.OK


def serve_others(port: int, seconds: float, crowd: Crowd) -> tuple[list[float], list[float]]:
    """Seconds per answer on a new connection, and per tell, from before the crowd comes until long after."""
    answers, tells, teller = [], [], Other(port)
    teller.tell()  # which opens the study
    crowd.start()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not crowd.connected.is_set():
        answers.append(Other(port).call("GET", "/healthz"))
        tells.append(teller.tell())
        time.sleep(0.02)
    teller.connection.close()
    return answers, tells


def most_memory(pid: int) -> float:
    """Megabytes."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each attack")
    add_option(parser)
    options = parser.parse_args()
    columns = (
        "unread",
        "clients",
        "connections made",
        "others, p50, ms",
        "longest",
        "tell p50, ms",
        "p99",
        "memory, MB",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "filled.db")
        for what, (path, clients) in ATTACKS.items():
            database = Path(shutil.copy(Path(folder) / "filled.db", Path(folder) / "served.db"))
            with served(database) as (port, pid):
                crowd = Crowd(port, path, clients)
                try:
                    answers, tells = serve_others(port, options.seconds, crowd)
                finally:
                    crowd.stopping.set()
                    crowd.join()
                figures = [
                    1e3 * float(np.percentile(*of)) for of in ((answers, 50), (answers, 100), (tells, 50), (tells, 99))
                ]
                figures.append(most_memory(pid))
            for path_left in Path(folder).glob("served.db*"):
                path_left.unlink()
            print(
                f"| {what} | {clients} | {crowd.made} | {' | '.join(f'{figure:.1f}' for figure in figures)} |",
                flush=True,
            )
            names = ("other_p50_ms", "other_longest_ms", "tell_p50_ms", "tell_p99_ms", "memory_mb")
            rows.append({"unread": what, "clients": clients} | dict(zip(names, figures, strict=True)))
    record("unread", rows, "make perf-unread")


if __name__ == "__main__":
    main()
