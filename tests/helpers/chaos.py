"""A service is killed at random moments (SIGKILL) and started again while clients ask and tell over HTTP, and its
database is deleted, moved away or replaced by a backup, and put back, while a second process tells into the same file.

    python tests/helpers/chaos.py --kills 1000 --losses 1000

Afterwards every tell that was confirmed must be stored once, with its value, and nothing else; the file must be
intact, and asks must go on. No tell may be confirmed that began and ended while the file was away. The clients are the
package's own: they try again until the service is back.

Imports take a second or two, so the services are forked from a process that has imported everything (the nursery);
each opens the database, its socket and its workers by itself.
"""

import argparse
import http.client
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
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import ebbtide as eb

STUDIES, CLIENTS, ASKERS = 2, 6, 2  # askers are those of the clients that also ask
LONG = 10  # every tenth service lives long enough for its workers to start and answer asks
CHECK_EVERY = 10  # rounds
HEALTH_EVERY = 10  # losses of the file: how long until the service says that it is not ready?
TELLER = "library"  # the study of the second process


class Nursery:
    """A process without threads, which forks the services."""

    def __init__(self, storage: str, port: int, log: Path) -> None:
        command = [sys.executable, "-W", "ignore", __file__, "--nursery", str(port), str(log)]
        environment = os.environ | {"EBBTIDE_STORAGE": storage}  # a URL may have a password
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

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


def nursery(storage: str, port: int, log: str) -> None:
    from ebbtide.service import app, serve, workers
    from ebbtide.study.storage.urls import is_postgresql

    if is_postgresql(storage):
        import ebbtide.study.storage.postgresql  # noqa: F401 - before the fork

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
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
                _supervised(lambda: serve(storage, port=port, processes=1))
        else:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "it had ended by itself"
        print("done", flush=True)


def _supervised(serve: Callable[[], None]) -> NoReturn:
    """As a service manager does it: one that starts while its database is away ends, and is started again."""
    while True:
        try:
            serve()
            os._exit(0)
        except eb.StorageError:
            time.sleep(0.1)


class Caller(threading.Thread):
    """A client that asks and tells until it is stopped, and remembers what was confirmed."""

    def __init__(self, url: str, number: int, stop: threading.Event, long: threading.Event) -> None:
        super().__init__()
        self.client = eb.Client(url, patience=math.inf)  # an ask may have to wait for a service that lives long enough
        self.study = eb.client.RemoteStudy(self.client, f"s{number % STUDIES}")
        self.random, self.stop = random.Random(number), stop
        self.asks, self.long = number < ASKERS, long
        self.told: dict[str, float] = {}
        self.spans: list[tuple[float, float]] = []  # from the beginning of each tell to its confirmation
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
        began = time.monotonic()
        self.study.tell({"x": self.random.random()}, value, key=key)
        self.spans.append((began, time.monotonic()))
        self.told[key] = value
        time.sleep(0.002)  # for the other clients

    def ask_and_tell(self) -> None:
        trial, value = self.study.ask(), self.random.random()
        self.asked.append(trial.id)
        self.study.tell(trial, value)
        self.told[trial.id] = value


class Teller(threading.Thread):
    """A process that tells into the same file, without the service; this thread hears what was confirmed to it."""

    def __init__(self, storage: str) -> None:
        super().__init__()
        command, environment = [sys.executable, __file__, "--teller"], os.environ | {"EBBTIDE_STORAGE": storage}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.told: dict[str, float] = {}
        self.spans: list[tuple[float, float]] = []
        self.refused = 0

    def run(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            key, value, began, ended, refused = json.loads(line)
            self.spans.append((began, ended))
            self.told[key] = value
            self.refused += refused

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # which ends it
        self.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert self.process.wait() == 0


def teller(storage: str) -> None:
    """Tell until the input ends; a tell that was refused is repeated."""
    end = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=listen, daemon=True).start()
    with closing(eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=storage, name=TELLER, seed=9)) as opt:
        number = 0
        while not end.is_set():
            number, refused, told = number + 1, 0, False
            while not told:
                began = time.monotonic()
                try:
                    opt.tell({"x": 0.5}, float(number), key=f"key {number}")
                    told = True
                except eb.StorageError:
                    refused += 1
                    time.sleep(0.005)
            print(json.dumps((f"key {number}", float(number), began, time.monotonic(), refused)), flush=True)
            time.sleep(0.005)


class Loss:
    """The file is away from its path, in one of three ways, until it is put back."""

    WAYS = ("deleted", "moved", "replaced")

    def __init__(self, path: Path, way: str) -> None:
        self.path, self.kept = path, path.with_name("kept.db")
        if way == "moved":
            path.rename(self.kept)
        else:
            backup = path.with_name("backup.db")
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
                source.backup(target)
            os.link(path, self.kept)  # another name, so that the same file can come back
            if way == "deleted":
                path.unlink()
            else:
                backup.replace(path)
        self.began = time.monotonic()

    def put_back(self) -> None:
        self.ended = time.monotonic()
        self.kept.replace(self.path)

    def confirmed(self, spans: Iterable[tuple[float, float]]) -> int:
        """How many tells began and were confirmed meanwhile."""
        return sum(self.began < began and ended < self.ended for began, ended in spans)


def seconds_until_not_ready(port: int, most: float = 60.0) -> float:
    began = time.monotonic()
    while time.monotonic() < began + most:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=most)) as connection:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 503:
                break
        time.sleep(0.05)
    return time.monotonic() - began


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


def check(path: Path, callers: list[Caller], finished: bool, other: Teller) -> None:
    """Every confirmed tell is stored once; when all clients have finished, nothing else is."""
    studies = {f"s{number}": callers[number::STUDIES] for number in range(STUDIES)} | {TELLER: [other]}
    for name, tellers in studies.items():
        confirmed: dict[str, float] = {}
        for each in tellers:
            confirmed |= dict(each.told)  # a copy, made before the file is read
        found = stored(path, name)
        lost = [key for key, value in confirmed.items() if found.get(key) != [value]]
        assert not lost, f"confirmed and not stored once: {lost[:5]} of {len(confirmed)}"
        if finished:
            assert len(found) == len(confirmed), f"{len(found)} stored, {len(confirmed)} confirmed"
    for caller in callers:
        assert len(set(caller.asked)) == len(caller.asked), "an id was given twice"


def unleash(folder: Path, kills: int, losses: int = 0, seed: int = 0, progress: bool = False) -> dict[str, int | float]:
    """So many kills of the service and losses of its file, in any order; what was seen."""
    path = folder / "chaos.db"
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    rng, stop, long = random.Random(seed), threading.Event(), threading.Event()
    home = Nursery(f"sqlite:///{path}", port, folder / "chaos.db.log")
    home.start()
    client = eb.Client(url, patience=120.0)
    for number in range(STUDIES):
        client.create(f"s{number}", {"x": eb.Float(0.0, 1.0)}, seed=number)
    callers = [Caller(url, number, stop, long) for number in range(CLIENTS)]
    other = Teller(f"sqlite:///{path}")
    tellers: list[Caller | Teller] = [*callers, other]
    for each in tellers:
        each.start()
    while not other.told:  # before it has opened the file, it would take a replacement for the database itself
        assert other.process.poll() is None, "the second process has ended"
        time.sleep(0.01)
    away: list[Loss] = []
    health: list[float] = []
    faults = ["kill"] * kills + ["loss"] * losses
    rng.shuffle(faults)
    try:
        for number, fault in enumerate(faults, 1):
            if number % LONG == 0:
                long.set()
                _wait_for_an_answer(callers)
            time.sleep(rng.uniform(0.0, 0.5))
            killed = fault == "kill" or rng.random() < 0.2
            if fault == "loss":
                _wait_until_it_runs(port)  # one that starts without its file ends, or makes a new one
                loss = Loss(path, rng.choice(Loss.WAYS))
                if len(away) % HEALTH_EVERY == 0:
                    health.append(seconds_until_not_ready(port))
                else:
                    time.sleep(rng.uniform(0.0, 0.5))
            if killed:
                home.kill()
            if fault == "loss":
                loss.put_back()
                away.append(loss)
            long.clear()
            if number % CHECK_EVERY == 0:
                assert all(each.is_alive() for each in tellers), [caller.error for caller in callers]
                check(path, callers, False, other)
                if progress:
                    print(f"{number} faults, {sum(len(c.told) for c in callers)} tells confirmed", file=sys.stderr)
            if killed:
                home.start()
    finally:
        stop.set()
        for caller in callers:
            caller.join()
        other.close()
    try:
        errors = [repr(caller.error) for caller in callers if caller.error is not None]
        assert not errors, errors
        check(path, callers, True, other)
        spans = [span for each in tellers for span in each.spans]
        confirmed = sum(loss.confirmed(spans) for loss in away)
        assert confirmed == 0, f"{confirmed} tells were confirmed while the file was away"
        for number in range(STUDIES):
            study = client.study(f"s{number}")
            study.tell(study.ask(), 0.5)  # and it goes on
    finally:
        client.close()
        home.kill()
        home.close()
    return {
        "kills": kills,
        "losses": losses,
        "not_ready_s": round(max(health, default=0.0), 1),
        "refused": other.refused,
        "tells": sum(len(each.told) for each in tellers),
        "asks": sum(len(caller.asked) for caller in callers),
    }


def _wait_until_it_runs(port: int, most: float = 60.0) -> None:
    deadline = time.monotonic() + most
    while time.monotonic() < deadline:
        with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port, timeout=most)) as connection:
            connection.request("GET", "/livez")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.01)
    raise AssertionError(f"the service did not start within {most:g} s")


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
    parser.add_argument("--losses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--teller", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--nursery", nargs=2, metavar=("PORT", "LOG"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nursery:
        nursery(os.environ["EBBTIDE_STORAGE"], int(options.nursery[0]), options.nursery[1])
        return
    if options.teller:
        teller(os.environ["EBBTIDE_STORAGE"])
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(unleash(Path(folder), options.kills, options.losses, options.seed, progress=True)))


if __name__ == "__main__":
    main()
