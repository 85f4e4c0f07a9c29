"""A fleet over one PostgreSQL: do two services ask twice as often as one, and what do 10,000 studies cost?

    make perf-fleet

Replicas: 8 studies with 400 active observations, 32 clients that ask, tell at once and ask again. One service has one
core, two have one each; a study's clients use the same service. Clients and database run on the same cores. One and two
take turns.

Studies: 16 clients ask and tell 200 studies of a service that has 200, and then of one that has 10,000.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from record import add_option, record
from service import Connection
from throughput import begun, value_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.postgres import Cluster, cluster

from ebbtide.study.storage import Storage

CLIENTS, STUDIES, ACTIVE = 32, 8, 400
FEW, MANY, SMALL, ASKING = 200, 10_000, 50, 16  # studies in use, and in all; observations of each; clients
PAGES = 30
COPY = "INSERT INTO studies (name, created, definition) SELECT ?, created, definition FROM studies WHERE study = ?"


class Service:
    """One process and its workers; on one core, if that is given."""

    def __init__(self, url: str, core: int | None = None) -> None:
        pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
        command = [*pinned, sys.executable, "-m", "ebbtide", "serve", "--port", "0", "--max-studies", str(2 * MANY)]
        environment = os.environ | {"EBBTIDE_STORAGE": url}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split(":")[-1].split()[0])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Client:
    """Asks, tells at once, and asks again: in turn for each of its studies."""

    def __init__(self, service: Service, studies: Sequence[str]) -> None:
        self.service, self.studies = service, studies
        self.times: list[float] = []

    async def run(self, seconds: float) -> None:
        connection, end = await Connection.open(self.service.port), time.perf_counter() + seconds
        while True:
            for study in self.studies:
                if (began := time.perf_counter()) > end:
                    connection.writer.close()
                    return
                status, trial = await connection.call("POST", f"/studies/{study}/ask", {})
                self.times.append(time.perf_counter() - began)
                if status != 200:
                    sys.exit(f"an ask was answered {status}: {trial}")
                told = {"id": trial["id"], "value": value_of(trial["params"], trial["time"])}
                status, answer = await connection.call("POST", f"/studies/{study}/tell", told)
                if status != 200:
                    sys.exit(f"a tell was answered {status}: {answer}")


def ask_times(clients: Sequence[Client], seconds: float) -> list[float]:
    async def together() -> None:
        await asyncio.gather(*(client.run(seconds) for client in clients))

    for client in clients:
        client.times.clear()
    asyncio.run(together())
    return [taken for client in clients for taken in client.times]


# --- replicas -------------------------------------------------------------------------------------------------------


def replicas(server: Cluster, seconds: float, rounds: int) -> dict[str, float]:
    with ExitStack() as stack:
        fleets = {}
        for size in (1, 2):
            url = server.url(server.database())
            for number in range(STUDIES):
                begun(number, ACTIVE, storage=url, name=f"s{number}").close()
            services = [stack.enter_context(closing(Service(url, core))) for core in range(size)]
            numbers = [client % STUDIES for client in range(CLIENTS)]
            fleets[size] = [Client(services[number % size], [f"s{number}"]) for number in numbers]
        for clients in fleets.values():
            ask_times(clients, seconds / 2.0)  # the first asks of a study fit its model
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(rounds):
            for size, clients in fleets.items():
                rates[size].append(len(ask_times(clients, seconds)) / seconds)
    one, two = statistics.median(rates[1]), statistics.median(rates[2])
    print(f"asks per second: one service {one:.0f}, two {two:.0f}: {two / one:.2f} times as many", flush=True)
    return {"one_per_second": one, "two_per_second": two, "ratio": two / one}


# --- many studies ---------------------------------------------------------------------------------------------------


def many_studies(server: Cluster, seconds: float, rounds: int) -> list[dict[str, float]]:
    url = server.url(server.database())
    names = [f"in use {number:03}" for number in range(FEW)]
    for number, name in enumerate(names):
        begun(number, SMALL, storage=url, name=name).close()
    rows = []
    for studies in (FEW, MANY):
        with closing(Storage.of(url)) as storage:
            first = storage.identify(names[0])
            new = [(f"idle {number:05}", first) for number in range(studies - storage.count())]
            if new:
                storage.database.run_many(COPY, new)
        with closing(Service(url)) as service:
            clients = [Client(service, [n.replace(" ", "%20") for n in names[k::ASKING]]) for k in range(ASKING)]
            ask_times(clients, seconds)  # the first asks of a study fit its model
            times = [taken for _ in range(rounds) for taken in ask_times(clients, seconds)]
            pages = asyncio.run(page_times(service))
        row = {"studies": studies, "ask_p50_ms": 1e3 * statistics.median(times)} | pages
        print(", ".join(f"{name} {value:,.4g}" for name, value in row.items()), flush=True)
        rows.append(row)
    return rows


async def page_times(service: Service) -> dict[str, float]:
    """Milliseconds (medians): the first page of the list, the last one, and what Prometheus reads."""
    connection, found = await Connection.open(service.port), {}
    for what, path in (("list", "/studies"), ("list_end", "/studies?after=in%20use%20099")):
        times = []
        for _ in range(PAGES):
            began = time.perf_counter()
            status, _ = await connection.call("GET", path)
            times.append(time.perf_counter() - began)
            if status != 200:
                sys.exit(f"a list was answered {status}")
        found[f"{what}_ms"] = 1e3 * statistics.median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["replicas", "studies"])
    add_option(parser)
    options = parser.parse_args()
    with cluster() as server:
        if options.only != "replicas":
            record("fleet-studies", many_studies(server, options.seconds, options.rounds), "make perf-fleet")
        if options.only != "studies":
            record("fleet-replicas", [replicas(server, options.seconds, options.rounds)], "make perf-fleet")


if __name__ == "__main__":
    main()
