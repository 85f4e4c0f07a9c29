"""Prints the goodput of PostgreSQL: transactions a second that take at most 30 ms, with a pool of connections.

    python measure_pool.py --pool 10 --work-mem 4096

With it come p99, the latency that 99 % of the transactions keep, and the load under which both were measured:
{"value": 1210.5, "constraints": {"p99_ms": 18.2}, "context": {"customers": 50}}.

The load is the time of day's: at noon customers, who hold their connections for long and need little computing; at
midnight reports, which compute. `start_postgresql.py` says where the server is (PGHOST, PGPORT, …).
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from measure_load import load
from running import DAY, fail, scratch, unprivileged

LIMIT_MS = 30
SECONDS = 1
COUNTED = re.compile(r"^number of transactions above the [\d.]+ ms latency limit: (\d+)/(\d+)", flags=re.MULTILINE)
RATE = re.compile(r"^tps = ([\d.]+)", flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=int, required=True, help="connections")
    parser.add_argument("--work-mem", type=int, required=True, help="kB for each sort and hash table")
    parser.add_argument("--at", type=float, default=time.time(), help="seconds, of which the load depends on; now")
    parser.add_argument("--day", type=float, default=DAY, help="seconds after which the load repeats")
    options = parser.parse_args()
    context = load(options.at, options.day)
    with scratch() as folder:
        done = subprocess.run(
            pgbench(options.pool, context["customers"], folder),
            env=os.environ | {"PGOPTIONS": f"-c work_mem={options.work_mem}kB", "LC_ALL": "C.UTF-8"},
            cwd=HERE,
            capture_output=True,
            text=True,
            **unprivileged(),
        )
        if done.returncode:
            fail(done.stderr.strip().splitlines()[-1])
        latencies = latencies_ms(folder)
    constraints = {"p99_ms": p99(latencies)} if latencies else {}
    print(json.dumps({"value": goodput(done.stdout), "constraints": constraints, "context": context}))


def pgbench(pool: int, customers: float, folder: Path) -> list[str]:
    """The command; each of its threads writes a log of its transactions to the folder."""
    load = ["--file", f"browse.sql@{customers:.0f}", "--file", f"report.sql@{100 - customers:.0f}"]
    how_long = ["--time", str(SECONDS), "--latency-limit", str(LIMIT_MS)]
    log = ["--log", "--log-prefix", str(folder / "transactions")]
    return ["pgbench", "--no-vacuum", "--client", str(pool), "--jobs", str(min(pool, 2)), *how_long, *log, *load]


def goodput(report: str) -> float:
    """Transactions a second within the limit, from what pgbench prints."""
    counted, rate = COUNTED.search(report), RATE.search(report)
    if counted is None or rate is None:
        raise ValueError(f"this is not a report of pgbench with --latency-limit: {report!r}")
    late, all_of_them = int(counted[1]), int(counted[2])
    return float(rate[1]) * (1.0 - late / all_of_them) if all_of_them else 0.0


def latencies_ms(folder: Path) -> list[float]:
    """How long each transaction took: the third column of pgbench's logs, in microseconds there."""
    lines = (line for log in folder.iterdir() for line in log.read_text().splitlines())
    return [int(line.split()[2]) / 1000.0 for line in lines]


def p99(latencies: list[float]) -> float:
    """The smallest latency that 99 % of the transactions do not exceed.

    >>> p99([float(ms) for ms in range(1, 201)])
    198.0
    """
    return sorted(latencies)[math.ceil(0.99 * len(latencies)) - 1]


if __name__ == "__main__":
    main()
