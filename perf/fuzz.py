"""A million generated requests: does the service answer each, with no 5xx but 503, and does its memory stay level?

    make fuzz

In batches, each with a seed and a service of its own: raw requests (tests/helpers/fuzzing.py) and those of Schemathesis
(tests/helpers/schemas.py). out/fuzz.csv has a line per batch. Whoever starts it again goes on after the last of them,
unless the commit is another one. The memory is that of the service's own process.
"""

import argparse
import csv
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from record import add_option, record

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.fuzzing import Seen, send_raw
from helpers.schemas import make_up
from helpers.serving import Server, served

DONE = ROOT / "out" / "fuzz.csv"
BATCH = 50_000
EXAMPLES = 15  # of Schemathesis: about a thousand requests
WARM_UP = 10_000  # raw requests, after which memory is to stay level
MOST_GROWTH = 8.0  # MB per batch: what each request leaves behind would be more


def batch(number: int, requests: int) -> dict[str, Any]:
    began, seen = time.perf_counter(), Seen()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:  # no traceback in its log
        made_up = make_up(server.url, seed=number, examples=EXAMPLES)
        made_up.check()
        raw = requests - made_up.requests
        send_raw(server, random.Random(number), min(WARM_UP, raw // 2), seen)
        before = _memory(server)
        send_raw(server, random.Random(-number - 1), raw - seen.requests, seen)
        after = _memory(server)
        assert server.alive()
    for sent, answer in seen.wrong[:3]:
        print(f"\n{sent[:2000]!r}\n was answered with\n{answer[:2000]!r}", file=sys.stderr)
    return {
        "batch": number,
        "requests": seen.requests + made_up.requests,
        "schemathesis": made_up.requests,
        "wrong": len(seen.wrong),
        "busy": seen.statuses[503] + sum(statuses[503] for statuses in made_up.answered.values()),
        "unanswered": seen.statuses[None],
        "before_mb": round(before, 1),
        "after_mb": round(after, 1),
        "seconds": round(time.perf_counter() - began),
    }


def _memory(server: Server) -> float:
    found = server.memory()
    if found is None:
        sys.exit("there is no /proc to read the memory from")
    return found / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    add_option(parser)
    options = parser.parse_args()
    rows, commit = done(), head()
    while (left := options.requests - sum(int(row["requests"]) for row in rows)) > 0:
        row = batch(len(rows), min(BATCH, left)) | {"commit": commit}
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        growth = row["after_mb"] - row["before_mb"]
        if row["wrong"] or growth > MOST_GROWTH:
            sys.exit(f"{row['wrong']} wrong answers; memory grew by {growth:.1f} MB")
        rows.append(row)
        keep(rows)
    total = {name: sum(int(row[name]) for row in rows) for name in ("requests", "schemathesis", "wrong", "busy")}
    growth = max(float(row["after_mb"]) - float(row["before_mb"]) for row in rows)
    print(f"{total['requests']:,} requests, no 5xx but 503 ({total['busy']}); memory grew by {growth:.1f} MB at most")
    record("fuzz", [total | {"most_growth_mb": growth}], "make fuzz")


def head() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def done() -> list[dict[str, Any]]:
    """The batches of this commit, from earlier runs."""
    if not DONE.exists():
        return []
    with DONE.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["commit"] == head()]


def keep(rows: list[dict[str, Any]]) -> None:
    DONE.parent.mkdir(exist_ok=True)
    with DONE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
