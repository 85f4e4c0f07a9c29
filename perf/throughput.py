"""Asks per second of 32 clients on 8 studies through the service, as a share of what the bare engine does.

    python perf/throughput.py --seconds 10 --rounds 3

Both have the same studies, each with as many active observations as the first column says: every ask removes what a
tell has added. A client asks, tells at once, and asks again, so four trials of each study are pending. The bare engine
is the library without storage, in one process per core, each of which asks and tells for its share of the studies and
keeps as many trials pending. Service (with the clients, which need a core as well) and bare engine take turns.

On a quiet machine both keep all cores busy, so the share by time and the share by cores' time (how many seconds of a
core an ask takes) say the same. Beside other programs only the second one means anything: the service has more
processes than the bare engine, and so gets more of the cores.
"""

import argparse
import asyncio
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from record import add_option, record
from service import CLIENTS, STUDIES, Connection

import ebbtide as eb
from ebbtide import algorithms

SIZES = (30, 200, 400)
SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
PERIOD_S = 20.0  # of the optimum
INTERVAL_S = 0.02  # between the observations that a study begins with
PENDING = CLIENTS // STUDIES


def value_of(params: Mapping[str, float], moment: float) -> float:
    best = 0.5 + 0.4 * math.sin(2.0 * math.pi * moment / PERIOD_S)
    return (params["x"] - best) ** 2 + (params["y"] - 0.5) ** 2


def begun(number: int, size: int, storage: str | None = None, name: str | None = None) -> eb.Optimizer:
    """A study that keeps so many observations, and has them."""
    staleness = eb.WassersteinBudget(min_active=size, max_active=size)
    algorithm = replace(algorithms.get("tide"), staleness=staleness)
    opt, rng = eb.Optimizer(SPACE, algorithm=algorithm, seed=number, storage=storage, name=name), random.Random(number)
    now = time.time()
    for ago in range(size, 0, -1):
        moment, params = now - INTERVAL_S * ago, {"x": rng.random(), "y": rng.random()}
        opt.tell(params, value_of(params, moment), time=moment)
    return opt


# --- the bare engine, in processes of its own -----------------------------------------------------------------------

_studies: list[tuple[eb.Optimizer, deque[eb.Trial]]] = []


def begin(numbers: Sequence[int], size: int) -> None:
    _studies[:] = [(begun(number, size), deque()) for number in numbers]


def ask_and_tell(seconds: float) -> tuple[int, float]:
    """How many asks there were within so many seconds, in turn for each study; and how long a core was busy."""
    end, asks, before = time.perf_counter() + seconds, 0, time.process_time()
    while time.perf_counter() < end:
        for opt, pending in _studies:
            if len(pending) == PENDING:
                trial = pending.popleft()
                opt.tell(trial, value_of(trial.params, trial.time))
            pending.append(opt.ask())
            asks += 1
    return asks, time.process_time() - before


class Bare:
    def __init__(self, processes: int, size: int) -> None:
        self.pools = [ProcessPoolExecutor(1) for _ in range(processes)]
        for number, pool in enumerate(self.pools):
            pool.submit(begin, range(number, STUDIES, processes), size).result()

    def run(self, seconds: float) -> Counter[str]:
        running = [pool.submit(ask_and_tell, seconds) for pool in self.pools]
        asks, busy = (sum(column) for column in zip(*(each.result() for each in running), strict=True))
        return Counter({"asks": asks, "engine": busy})

    def close(self) -> None:
        for pool in self.pools:
            pool.shutdown()


# --- the service ----------------------------------------------------------------------------------------------------


class Service:
    def __init__(self, folder: Path, size: int) -> None:
        storage = f"sqlite:///{folder}/throughput-{size}.db"
        for number in range(STUDIES):
            begun(number, size, storage=storage, name=f"s{number}").close()
        command = [sys.executable, "-m", "ebbtide", "serve", "--storage", storage, "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split(":")[-1].split()[0])
        self.times: list[float] = []

    def run(self, seconds: float) -> Counter[str]:
        asked, before = len(self.times), self._busy()
        asyncio.run(self._all(seconds))
        found = self._busy()
        found.subtract(before)
        found["asks"] = len(self.times) - asked
        return found

    def _busy(self) -> Counter[str]:
        """Seconds of a core, of each part."""
        service = self.process.pid
        children = [
            int(pid) for task in Path(f"/proc/{service}/task").glob("*/children") for pid in task.read_text().split()
        ]
        workers = sum(map(_seconds, children))
        return Counter({"service": _seconds(service), "workers": workers, "clients": time.process_time()})

    async def _all(self, seconds: float) -> None:
        await asyncio.gather(*(self._client(number, seconds) for number in range(CLIENTS)))

    async def _client(self, number: int, seconds: float) -> None:
        connection, study = await Connection.open(self.port), f"/studies/s{number % STUDIES}"
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            status, trial = await connection.call("POST", f"{study}/ask", {})
            self.times.append(time.perf_counter() - began)
            if status != 200:
                sys.exit(f"an ask was answered {status}: {trial}")
            told = {"id": trial["id"], "value": value_of(trial["params"], trial["time"])}
            status, answer = await connection.call("POST", f"{study}/tell", told)
            if status != 200:
                sys.exit(f"a tell was answered {status}: {answer}")
        connection.writer.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def _seconds(pid: int) -> float:
    """How long a process has kept a core busy."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measured(size: int, seconds: float, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        service, bare = Service(Path(folder), size), Bare(os.cpu_count() or 1, size)
        try:
            for each in (service, bare):
                each.run(seconds / 2.0)  # the first asks of a study fit its model
            service.times.clear()
            rounds_of_both = [(service.run(seconds), bare.run(seconds)) for _ in range(rounds)]
        finally:
            service.close()
            bare.close()
    served, alone = (sum(column, Counter[str]()) for column in zip(*rounds_of_both, strict=True))
    parts = {part: 1e3 * served[part] / served["asks"] for part in ("clients", "service", "workers")}
    engine, times = 1e3 * alone["engine"] / alone["asks"], sorted(service.times)
    row = {
        "n": size,
        "service_per_second": served["asks"] / seconds / rounds,
        "bare_per_second": alone["asks"] / seconds / rounds,
        "share": served["asks"] / alone["asks"],
        "share_by_cores": engine / sum(parts.values()),
        **{f"{part}_ms": ms for part, ms in parts.items()},
        "engine_ms": engine,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
    }
    print(", ".join(f"{name} {value:.3g}" for name, value in row.items()), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each of the two in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    add_option(parser)
    options = parser.parse_args()
    rows = [measured(size, options.seconds, options.rounds) for size in options.sizes]
    record("throughput", rows, "make perf-throughput")


if __name__ == "__main__":
    main()
