"""Prints the goodput of PostgreSQL: transactions a second that take at most 30 ms, with a pool of connections.

    python measure_pool.py --pool 10 --work-mem 4096

The load is the time of day's: at noon customers, who hold their connections for long and need little computing; at
midnight reports, which compute. `start_postgresql.py` says where the server is (PGHOST, PGPORT, …).
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from running import DAY, fail, tide, unprivileged

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
    done = subprocess.run(
        pgbench(options.pool, customers(options.at, options.day)),
        env=os.environ | {"PGOPTIONS": f"-c work_mem={options.work_mem}kB", "LC_ALL": "C.UTF-8"},
        cwd=HERE,
        capture_output=True,
        text=True,
        **unprivileged(),
    )
    if done.returncode:
        fail(done.stderr.strip().splitlines()[-1])
    print(goodput(done.stdout))


def customers(at: float, day: float) -> int:
    """Which share of the transactions are customers', in percent."""
    return round(100 * tide(at, day))


def pgbench(pool: int, share: int) -> list[str]:
    load = ["--file", f"browse.sql@{share}", "--file", f"report.sql@{100 - share}"]
    how_long = ["--time", str(SECONDS), "--latency-limit", str(LIMIT_MS)]
    return ["pgbench", "--no-vacuum", "--client", str(pool), "--jobs", str(min(pool, 2)), *how_long, *load]


def goodput(report: str) -> float:
    """Transactions a second within the limit, from what pgbench prints."""
    counted, rate = COUNTED.search(report), RATE.search(report)
    if counted is None or rate is None:
        raise ValueError(f"this is not a report of pgbench with --latency-limit: {report!r}")
    late, all_of_them = int(counted[1]), int(counted[2])
    return float(rate[1]) * (1.0 - late / all_of_them) if all_of_them else 0.0


if __name__ == "__main__":
    main()
