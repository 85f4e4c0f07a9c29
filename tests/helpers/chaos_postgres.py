"""Three services over one PostgreSQL, with clients that reach them through a TCP proxy. Services are killed (SIGKILL),
connections to the database are ended by the server or cut in the middle of a commit, and the server itself is killed
and started again, while a program tells into the same database.

Afterwards every tell that was confirmed must be stored once, with its value, and nothing else; no trial may have been
handed out twice; asks must go on everywhere; no lock and no connection may be left, and there was no deadlock.
"""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from helpers.chaos import CLIENTS, STUDIES, TELLER, Caller, Nursery, Teller
from helpers.counts import check_counts
from helpers.postgres import HELD_BY_OTHERS, Cluster, Proxy, cluster, free_port, proxy

import ebbtide as eb
from ebbtide.study.storage import Storage

REPLICAS = 3
CHECK_EVERY = 10  # faults
PATIENCE_S = 90.0
FAULTS = ("kill", "restart", "end", "cut", "cut commit")
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ebbtide'"


@dataclass(frozen=True)
class Scene:
    server: Cluster
    database: str
    between: Proxy  # services and database
    homes: Sequence[Nursery]
    ports: Sequence[int]
    callers: Sequence[Caller]
    other: Teller
    stopping: threading.Event

    @property
    def tellers(self) -> list[Caller | Teller]:
        return [*self.callers, self.other]

    def stored(self, study: str) -> list[tuple[str, float]]:
        query = "SELECT coalesce(key, ask::text), value FROM tells JOIN studies USING (study) WHERE name = '{}'"
        return [(str(key), float(value)) for key, value in self.server.run(query.format(study), self.database)]

    def check(self, finished: bool) -> None:
        """Every confirmed tell is stored once; when all have finished, nothing else is."""
        studies = {f"s{number}": list(self.callers[number::STUDIES]) for number in range(STUDIES)}
        for name, tellers in (studies | {TELLER: [self.other]}).items():
            confirmed = {key: value for each in tellers for key, value in dict(each.told).items()}
            found = self.stored(name)
            assert len(dict(found)) == len(found), f"stored twice in {name}"
            lost = [key for key, value in confirmed.items() if dict(found).get(key) != value]
            assert not lost, f"confirmed and not stored: {lost[:5]} of {len(confirmed)}"
            if finished:
                assert len(found) == len(confirmed), f"{len(found)} stored, {len(confirmed)} confirmed in {name}"
            asked = [trial for each in tellers if isinstance(each, Caller) for trial in list(each.asked)]
            assert len(set(asked)) == len(asked), f"a trial of {name} was handed out twice"

    def stop(self) -> None:
        self.stopping.set()
        for caller in self.callers:
            caller.join()
        self.other.close()
        errors = [repr(caller.error) for caller in self.callers if caller.error is not None]
        assert not errors, errors

    def wait_for_progress(self, asks: bool) -> None:
        """Until every client was confirmed something since now; with `asks`, until one was answered an ask."""
        told, asked = [len(each.told) for each in self.tellers], sum(len(caller.asked) for caller in self.callers)
        deadline = time.monotonic() + PATIENCE_S
        while any(len(each.told) == before for each, before in zip(self.tellers, told, strict=True)) or (
            asks and sum(len(caller.asked) for caller in self.callers) == asked
        ):
            assert all(each.is_alive() for each in self.tellers), [caller.error for caller in self.callers]
            assert time.monotonic() < deadline, "nothing was confirmed, or no ask was answered"
            time.sleep(0.02)

    def check_that_nothing_is_left(self) -> None:
        """Locks, before the services end; connections, afterwards; deadlocks at any time. All is counted right."""
        _wait_until(lambda: self.server.run(HELD_BY_OTHERS) == [(0,)], "a lock is left")
        for home in self.homes:
            home.kill()
        _wait_until(lambda: self.server.run(CONNECTED) == [(0,)], "a connection is left")
        assert "deadlock detected" not in self.server.log.read_text(errors="replace")
        with closing(Storage.of(self.server.url(self.database))) as storage:
            check_counts(storage)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    asking, stopping = threading.Event(), threading.Event()
    asking.set()
    with ExitStack() as stack:
        server = stack.enter_context(cluster())
        database = server.database()
        between = stack.enter_context(proxy(server.port))
        url, ports = server.url(database, between.port), [free_port() for _ in range(REPLICAS)]
        homes = [Nursery(url, port, folder / f"service{port}.log") for port in ports]
        for home in homes:
            stack.callback(home.close)
            home.start()
        front = stack.enter_context(proxy(*ports))
        address = f"http://127.0.0.1:{front.port}"
        with eb.Client(address, patience=PATIENCE_S) as client:
            for number in range(STUDIES):
                client.create(f"s{number}", {"x": eb.Float(0.0, 1.0)}, seed=number)
        callers = [Caller(address, number, stopping, asking) for number in range(CLIENTS)]
        made = Scene(server, database, between, homes, ports, callers, Teller(url), stopping)
        for each in made.tellers:
            each.start()
        try:
            yield made
        finally:
            stopping.set()


def unleash(folder: Path, counts: dict[str, int], seed: int = 0, progress: bool = False) -> dict[str, int]:
    """So many faults of each kind, in any order; what was seen."""
    rng = random.Random(seed)
    faults = [fault for fault in FAULTS for _ in range(counts.get(fault, 0))]
    rng.shuffle(faults)
    with scene(folder) as made:
        made.wait_for_progress(asks=True)
        for number, fault in enumerate(faults, 1):
            time.sleep(rng.uniform(0.0, 0.5))
            _do(fault, made, rng)
            if number % CHECK_EVERY == 0 or fault == "restart":
                made.wait_for_progress(asks=number % CHECK_EVERY == 0)
                made.check(finished=False)
                if progress:
                    told = sum(len(each.told) for each in made.tellers)
                    print(f"{number} faults, {told} tells confirmed", file=sys.stderr)
        made.stop()
        made.check(finished=True)
        for port in made.ports:
            with eb.Client(f"http://127.0.0.1:{port}", patience=PATIENCE_S) as client:
                study = client.study("s0")
                study.tell(study.ask(), 0.5)  # and it goes on
        made.check_that_nothing_is_left()
    tells, asks = sum(len(each.told) for each in made.tellers), sum(len(caller.asked) for caller in made.callers)
    return counts | {"cut connections": made.between.cuts, "tells": tells, "asks": asks, "refused": made.other.refused}


def _do(fault: str, made: Scene, rng: random.Random) -> None:
    if fault == "kill":
        home = rng.choice(made.homes)
        home.kill()
        home.start()
    elif fault == "restart":
        made.server.kill()
        time.sleep(rng.uniform(0.0, 1.0))
        made.server.start()
    elif fault == "end":
        made.server.end_backends()
    elif fault == "cut":
        made.between.cut()
    else:
        made.between.cut_at = b"COMMIT"  # the next one


def _wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
