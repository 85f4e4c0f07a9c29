"""50,000 asks and tells of one drifting study through the service: do memory and response time stay level?

python perf/soak.py --tells 50000
"""

import argparse
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import add_option, record

import ebbtide as eb

PERIOD = 5.0  # seconds in which the optimum goes round once
SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def objective(params: dict[str, float], t: float, noise: float) -> float:
    x = 0.5 + 0.35 * math.cos(2.0 * math.pi * t / PERIOD)
    y = 0.5 + 0.35 * math.sin(2.0 * math.pi * t / PERIOD)
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08) + noise


def memory(pid: int) -> list[float]:
    """Megabytes of a process and of its workers."""
    listed = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True)
    workers = [int(line.split()[0]) for line in listed.stdout.splitlines() if "spawn_main" in line]
    return [_resident(process) for process in (pid, *workers)]


def _resident(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tells", type=int, default=50_000)
    parser.add_argument("--outside", type=int, default=0, help="tells of other measurements per ask")
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ebbtide", "serve", "--storage", f"sqlite:///{folder}/soak.db"]
        server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().split(":")[-1].split()[0])
            soak(f"http://127.0.0.1:{port}", server.pid, options.tells, options.outside)
        finally:
            server.terminate()
            server.wait()


def soak(url: str, pid: int, tells: int, outside: int) -> None:
    study = eb.Client(url).create("soak", SPACE, direction="maximize", seed=0)
    rng = np.random.default_rng(0)
    block, began = max(1, tells // 10), time.perf_counter()
    columns = ("told", "minutes", "server, MB", "worker, MB", "active", "ask p50, ms", "p99", "tell p50, ms", "p99")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    rows = []
    for done in range(block, tells + 1, block):
        asks: list[float] = []
        answers: list[float] = []
        while len(answers) < block:
            start = time.perf_counter()
            trial = study.ask()
            asks.append(time.perf_counter() - start)
            queries: list[Any] = [trial, *({"x": rng.random(), "y": rng.random()} for _ in range(outside))]
            for query in queries:
                params = query.params if query is trial else query
                value = objective(params, time.time(), 0.05 * rng.normal())
                start = time.perf_counter()
                study.tell(query, value)
                answers.append(time.perf_counter() - start)
        server, *workers = memory(pid)
        figures = [1e3 * np.percentile(times, share) for times in (asks, answers) for share in (50, 99)]
        row = [f"{done:,}", f"{(time.perf_counter() - began) / 60:.1f}", f"{server:.0f}", f"{sum(workers):.0f}"]
        row += [str(study.state()["active"]), *(f"{figure:.1f}" for figure in figures)]
        print("| " + " | ".join(row) + " |", flush=True)
        names = ("ask_p50_ms", "ask_p99_ms", "tell_p50_ms", "tell_p99_ms")
        known = {"told": done, "minutes": row[1], "server_mb": server, "workers_mb": sum(workers), "active": row[4]}
        rows.append(known | dict(zip(names, figures, strict=True)))
    stored = study.describe()
    if stored["told"] != tells:
        sys.exit(f"{tells} tells were confirmed, and {stored['told']} are stored")
    record(f"soak-outside-{outside}", rows, "make soak")


if __name__ == "__main__":
    main()
