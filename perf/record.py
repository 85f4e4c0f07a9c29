"""Where measured figures go: with `--record` a script writes them to docs/data, which the documentation quotes.

    python perf/resume.py --record
    python docs/measured.py --write      # puts the new figures on the pages

docs/data/sources.csv says of each file which command wrote it, when, from which commit and on which machine.
"""

import argparse
import csv
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).parents[1] / "docs" / "data"
SOURCES = DATA / "sources.csv"
RECORD = "--record"


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(RECORD, action="store_true", help="write the figures to docs/data, for the documentation")


def record(name: str, rows: Sequence[Mapping[str, object]], make: str) -> None:
    """Write docs/data/NAME.csv, if `--record` was given. `make` is the script's target, its command without options."""
    if RECORD not in sys.argv:
        return
    commit = _commit()  # before anything is written, which would make the tree dirty
    _write(DATA / f"{name}.csv", rows)
    with SOURCES.open(encoding="utf-8", newline="") as file:
        sources = {row["file"]: row for row in csv.DictReader(file)}
    sources[name] = {
        "file": name,
        "command": _command(make),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "origin": "written",  # not copied from a page, as older files were
    }
    _write(SOURCES, [sources[name] for name in sorted(sources)])
    print(f"written: {DATA / name}.csv", file=sys.stderr)


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _command(make: str) -> str:
    options = ["…" if Path(word).is_absolute() else word for word in sys.argv[1:] if word != RECORD]
    return " ".join(["python", f"perf/{Path(sys.argv[0]).name}", *options]) if options else make


def _commit() -> str:
    """The commit; marked if the tree differs from it, except for the documentation that scripts like this one write."""
    head = subprocess.run(["git", "describe", "--always"], cwd=DATA, capture_output=True, text=True).stdout.strip()
    same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ":/", ":(exclude,top)docs"], cwd=DATA)
    return head if same.returncode == 0 else f"{head}-dirty"
