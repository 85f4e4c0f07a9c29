"""Kill -9: a service is killed at random moments and started again while clients ask and tell over HTTP.

    python tests/helpers/chaos.py --kills 1000

Afterwards every tell that was confirmed must be stored once, with its value, and nothing else; the file must be
intact, and asks must go on. The clients are the package's own: they try again until the service is back.

Imports take a second or two, so the services are forked from a process that has imported everything (the nursery);
each opens the database, its socket and its workers by itself.
"""

import argparse
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import ebbtide as eb

STUDIES, CLIENTS, ASKERS = 2, 6, 2  # askers are those of the clients that also ask
LONG = 10  # every tenth service lives long enough for its workers to start and answer asks
CHECK_EVERY = 10  # kills


class Nursery:
    """A process without threads, which forks the services."""

    def __init__(self, storage: str, port: int) -> None:
        command = [sys.executable, __file__, "--nursery", storage, str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _order(self, order: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def start(self) -> None:
        self._order("start")

    def kill(self) -> None:
        """When this returns, the service is dead and its port is free."""
        self._order("kill")

    def close(self) -> None:
        self.process.communicate()  # closes its input, which ends it


def nursery(storage: str, port: int) -> None:
    from ebbtide.service import app, serve, workers

    workers.NICENESS = 0  # a worker that yields to the clients would make them wait forever
    app.WORKERS_AFTER_S = 0.5  # most services do not live that long, and starting processes takes time
    app.VIEWER_AFTER_S = 3600.0  # nobody looks at the dashboard
    child = 0
    for order in sys.stdin:
        if order == "start\n":
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                serve(storage, port=port, processes=1)
                os._exit(0)
        else:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "it had ended by itself"
        print("done", flush=True)


class Caller(threading.Thread):
    """A client that asks and tells until it is stopped, and remembers what was confirmed."""

    def __init__(self, url: str, number: int, stop: threading.Event, long: threading.Event) -> None:
        super().__init__()
        self.client = eb.Client(url, patience=math.inf)  # an ask may have to wait for a service that lives long enough
        self.study = eb.client.RemoteStudy(self.client, f"s{number % STUDIES}")
        self.random, self.stop = random.Random(number), stop
        self.asks, self.long = number < ASKERS, long
        self.told: dict[str, float] = {}
        self.asked: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.tell_something()
                if self.asks and self.long.is_set():
                    self.ask_and_tell()
        except Exception as error:
            self.error = error
        finally:
            self.client.close()

    def tell_something(self) -> None:
        key, value = str(uuid.UUID(int=self.random.getrandbits(128))), self.random.random()
        self.study.tell({"x": self.random.random()}, value, key=key)
        self.told[key] = value
        time.sleep(0.002)  # for the other clients

    def ask_and_tell(self) -> None:
        trial, value = self.study.ask(), self.random.random()
        self.asked.append(trial.id)
        self.study.tell(trial, value)
        self.told[trial.id] = value


def stored(path: Path, study: str) -> dict[str, list[float]]:
    """The values of one study by key or trial."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
        rows = database.execute(
            "SELECT coalesce(key, ask), value FROM tells JOIN studies USING (study) WHERE name = ?", (study,)
        ).fetchall()
    finally:
        database.close()
    assert verdict == "ok", verdict
    found: dict[str, list[float]] = {}
    for key, value in rows:
        found.setdefault(str(key), []).append(value)
    return found


def check(path: Path, callers: list[Caller], finished: bool) -> None:
    """Every confirmed tell is stored once; when all clients have finished, nothing else is."""
    for number in range(STUDIES):
        confirmed: dict[str, float] = {}
        for caller in callers[number::STUDIES]:
            confirmed |= dict(caller.told)  # a copy, made before the file is read
        found = stored(path, f"s{number}")
        lost = [key for key, value in confirmed.items() if found.get(key) != [value]]
        assert not lost, f"confirmed and not stored once: {lost[:5]} of {len(confirmed)}"
        if finished:
            assert len(found) == len(confirmed), f"{len(found)} stored, {len(confirmed)} confirmed"
        for caller in callers[number::STUDIES]:
            assert len(set(caller.asked)) == len(caller.asked), "an id was given twice"


def unleash(folder: Path, kills: int, seed: int = 0, progress: bool = False) -> dict[str, int]:
    path = folder / "chaos.db"
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    rng, stop, long = random.Random(seed), threading.Event(), threading.Event()
    home = Nursery(f"sqlite:///{path}", port)
    home.start()
    client = eb.Client(url, patience=120.0)
    for number in range(STUDIES):
        client.create(f"s{number}", {"x": eb.Float(0.0, 1.0)}, seed=number)
    callers = [Caller(url, number, stop, long) for number in range(CLIENTS)]
    for caller in callers:
        caller.start()
    try:
        for kill in range(1, kills + 1):
            if kill % LONG == 0:
                long.set()
                _wait_for_an_answer(callers)
                time.sleep(rng.uniform(0.0, 0.5))
            else:
                time.sleep(rng.uniform(0.0, 0.5))
            home.kill()
            long.clear()
            if kill % CHECK_EVERY == 0:
                assert all(caller.is_alive() for caller in callers), [caller.error for caller in callers]
                check(path, callers, finished=False)
                if progress:
                    print(f"{kill} kills, {sum(len(c.told) for c in callers)} tells confirmed", file=sys.stderr)
            home.start()
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    try:
        errors = [repr(caller.error) for caller in callers if caller.error is not None]
        assert not errors, errors
        check(path, callers, finished=True)
        for number in range(STUDIES):
            study = client.study(f"s{number}")
            study.tell(study.ask(), 0.5)  # and it goes on
    finally:
        client.close()
        home.kill()
        home.close()
    return {
        "kills": kills,
        "tells": sum(len(caller.told) for caller in callers),
        "asks": sum(len(caller.asked) for caller in callers),
    }


def _wait_for_an_answer(callers: list[Caller], most: float = 60.0) -> None:
    """Until an ask has been answered."""
    answered, deadline = sum(len(caller.asked) for caller in callers), time.monotonic() + most
    while sum(len(caller.asked) for caller in callers) == answered and time.monotonic() < deadline:
        time.sleep(0.01)


def _free_port() -> Any:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nursery", nargs=2, metavar=("STORAGE", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nursery:
        nursery(options.nursery[0], int(options.nursery[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(unleash(Path(folder), options.kills, options.seed, progress=True)))


if __name__ == "__main__":
    main()
