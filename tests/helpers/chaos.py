"""Kill -9, through HTTP: a service is killed at random moments and started again while clients ask and tell.

    python tests/helpers/chaos.py --kills 1000

Afterwards every tell that was confirmed must be stored once, with its value, and nothing else; the file must be
whole, and asks must go on. The clients are the package's own: they try again until the service is back.

Importing takes a second or two and serving begins at once, so the serving processes are forked off a nursery that has
imported everything; each opens the database, its sockets and its workers anew.
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

STUDIES, CLIENTS, ASKERS = 2, 6, 2  # of the clients, so many wait for answers to asks
LONG = 10  # every tenth life is long enough for its workers to wake up and answer asks
CHECK_EVERY = 10  # kills


class Nursery:
    """A process that forks services, so that this one may have threads."""

    def __init__(self, storage: str, port: int) -> None:
        command = [sys.executable, __file__, "--nursery", storage, str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _order(self, what: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def start(self) -> None:
        self._order("start")

    def kill(self) -> None:
        """It is dead when this returns, and its port is free."""
        self._order("kill")

    def close(self) -> None:
        self.process.communicate()  # closes its input, which ends it


def nursery(storage: str, port: int) -> None:
    from ebbtide.service import serve

    child = 0
    for order in sys.stdin:
        if order == "start\n":
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                serve(storage, port=port)
                os._exit(0)
        else:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "it had ended by itself"
        print("done", flush=True)


class Caller(threading.Thread):
    """A client that asks and tells until it is told to stop, and remembers what was confirmed."""

    def __init__(self, url: str, number: int, stop: threading.Event, long: threading.Event) -> None:
        super().__init__()
        self.client = eb.Client(url, patience=math.inf)  # an ask may have to wait for a long life
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
        time.sleep(0.002)  # for others to have a turn

    def ask_and_tell(self) -> None:
        trial, value = self.study.ask(), self.random.random()
        self.asked.append(trial.id)
        self.study.tell(trial, value)
        self.told[trial.id] = value


def stored(path: Path, study: str) -> dict[str, list[float]]:
    """key or trial → values, of one study."""
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
    for what, value in rows:
        found.setdefault(str(what), []).append(value)
    return found


def check(path: Path, callers: list[Caller], finished: bool) -> None:
    """Every confirmed tell is there, once; when all have finished, nothing else is."""
    for number in range(STUDIES):
        confirmed: dict[str, float] = {}
        for caller in callers[number::STUDIES]:
            confirmed |= dict(caller.told)  # a copy first: what is confirmed later may not be in the file yet
        found = stored(path, f"s{number}")
        lost = [what for what, value in confirmed.items() if found.get(what) != [value]]
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
    with_patience = eb.Client(url, patience=120.0)
    for number in range(STUDIES):
        with_patience.create(f"s{number}", {"x": eb.Float(0.0, 1.0)}, seed=number)
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
            study = with_patience.study(f"s{number}")
            study.tell(study.ask(), 0.5)  # and life goes on
    finally:
        with_patience.close()
        home.kill()
        home.close()
    return {
        "kills": kills,
        "tells": sum(len(caller.told) for caller in callers),
        "asks": sum(len(caller.asked) for caller in callers),
    }


def _wait_for_an_answer(callers: list[Caller], most: float = 60.0) -> None:
    """Until an ask has been answered: the workers are awake."""
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
