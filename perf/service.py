"""32 clients on 8 studies of one service on the loopback: tells per second, and how long a tell and an ask take.

    python perf/service.py --seconds 30
    python perf/service.py --seconds 30 --postgresql

Each client asks, measures for a while, tells, and tells one value measured elsewhere. In the same run, on the same file
system or in the same PostgreSQL, another process commits and flushes to the disk, for comparison. Everything told must
be stored once.
"""

import argparse
import asyncio
import json
import math
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from record import add_option, record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

CLIENTS, STUDIES = 32, 8
SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}, "y": {"type": "float", "low": 0.0, "high": 1.0}}


class Connection:
    """HTTP in a few lines, so that the server is what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        header = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(header.partition("content-length: ")[2].partition("\r\n")[0])
        answer = await self.reader.readexactly(length)
        return int(header.split()[1]), json.loads(answer)


class Load:
    def __init__(self, port: int, seconds: float, think: float) -> None:
        self.port, self.seconds, self.think = port, seconds, think
        self.asks: list[float] = []
        self.tells: list[float] = []
        self.told: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()

    async def run(self) -> None:
        setup = await Connection.open(self.port)
        for study in range(STUDIES):
            await setup.call("POST", "/studies", {"name": f"s{study}", "space": SPACE, "seed": study})
            await setup.call("POST", f"/studies/s{study}/ask", {})  # so that its workers have started
        await asyncio.gather(*(self.client(number) for number in range(CLIENTS)))
        for study in range(STUDIES):
            _, stored = await setup.call("GET", f"/studies/s{study}")
            if stored["told"] != self.told[f"s{study}"]:
                sys.exit(f"s{study}: {self.told[f's{study}']} tells were confirmed, and {stored['told']} are stored")

    async def client(self, number: int) -> None:
        rng, name = random.Random(number), f"s{number % STUDIES}"
        connection = await Connection.open(self.port)
        await asyncio.sleep(rng.uniform(0.0, 2.0 * self.think))
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            trial = await self.timed(self.asks, connection, f"/studies/{name}/ask", {})
            await asyncio.sleep(rng.uniform(0.0, 2.0 * self.think))
            if trial is not None:
                await self.tell(connection, name, {"id": trial["id"], "value": self.measure(trial["params"])})
            params = {"x": rng.random(), "y": rng.random()}
            await self.tell(connection, name, {"params": params, "value": self.measure(params)})

    @staticmethod
    def measure(params: dict[str, float]) -> float:
        best = 0.5 + 0.4 * math.sin(time.time() / 3.0)
        return (params["x"] - best) ** 2 + (params["y"] - 0.5) ** 2

    async def tell(self, connection: Connection, name: str, body: Any) -> None:
        if await self.timed(self.tells, connection, f"/studies/{name}/tell", body) is not None:
            self.told[name] += 1

    async def timed(self, times: list[float], connection: Connection, path: str, body: Any) -> Any:
        began = time.perf_counter()
        status, answer = await connection.call("POST", path, body)
        times.append(time.perf_counter() - began)
        if status != 200:
            self.refused[status] += 1
            return None
        return answer


def flushed_commits(path: Path, count: int, pause: float = 0.0) -> list[float]:
    """How many seconds commits like the service's take, to a file of their own."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS t (x)")
    times = []
    for i in range(count):
        began = time.perf_counter()
        database.execute("INSERT INTO t VALUES (?)", ("x" * 200 + str(i),))
        times.append(time.perf_counter() - began)
        time.sleep(pause)
    database.close()
    return times


def committed_inserts(url: str, count: int, pause: float = 0.0) -> list[float]:
    """The same in PostgreSQL, in a database of their own."""
    import psycopg

    times = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (x text)")
        for i in range(count):
            began = time.perf_counter()
            connection.execute("INSERT INTO t VALUES (%s)", ("x" * 200 + str(i),))
            times.append(time.perf_counter() - began)
            time.sleep(pause)
    return times


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--think", type=float, default=0.3, help="mean seconds that a measurement takes")
    parser.add_argument("--folder", type=Path, help="where the files go; a temporary folder by default")
    parser.add_argument("--postgresql", action="store_true", help="in PostgreSQL instead of SQLite")
    add_option(parser)
    options = parser.parse_args()
    if options.postgresql:
        from helpers.postgres import cluster

        with cluster() as server:
            url, other = server.url(server.database()), server.url(server.database())
            measure(url, partial(committed_inserts, other), options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(f"sqlite:///{folder}/load.db", partial(flushed_commits, Path(folder) / "beside.db"), options)


def measure(url: str, commits_of: Callable[[int, float], list[float]], options: argparse.Namespace) -> None:
    alone = statistics.median(commits_of(500, 0.0))
    command = [sys.executable, "-m", "ebbtide", "serve", "--port", "0"]
    environment = os.environ | {"EBBTIDE_STORAGE": url}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().split(":")[-1].split()[0])
        load = Load(port, options.seconds, options.think)
        with ProcessPoolExecutor(1) as beside:
            commits = beside.submit(commits_of, int(20 * options.seconds), 0.05)
            asyncio.run(load.run())
    finally:
        server.terminate()
        server.wait()
    print(f"a commit flushed to this disk, alone: {1e3 * alone:.2f} ms (median)")
    rows = []
    for name, times in (("tell", load.tells), ("ask", load.asks), ("commit, during the load", commits.result())):
        p50, p99, worst = (1e3 * percentile(times, share) for share in (0.5, 0.99, 1.0))
        rate = len(times) / options.seconds
        print(f"{name}: {rate:.0f} per second; p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {worst:.1f} ms")
        rows.append({"request": name, "number": len(times), "per_second": rate, "p50_ms": p50, "p99_ms": p99})
    tell, commit = percentile(load.tells, 0.99), percentile(commits.result(), 0.99)
    print(f"a tell's p99 is {tell / commit:.1f} times a commit's in the same run; {tell / alone:.0f} times one alone")
    rows.append({"request": "commit, alone", "p50_ms": 1e3 * alone})
    where = "postgresql-load" if options.postgresql else "load"
    record(f"{where}-{options.think:g}s", rows, "make perf-service")
    print(f"{sum(load.told.values())} told, each stored once; refused: {dict(load.refused) or 'none'}")


if __name__ == "__main__":
    main()
