"""Ten thousand hostile histories of asks and tells: is every ask finite, feasible, and the same after load and resume?

    make hostile

tests/helpers/hostile.py makes one of each seed; the tests live through a few. What is done is noted in
out/hostile.csv, a line per hundred histories, so the same command continues where it was stopped.
"""

import argparse
import csv
import os
import sys
from collections import Counter
from pathlib import Path

from record import add_option, record

BLOCK = 100
FIELDS = ("first", "histories", "asks", "restarts", "most_parameters", "failures")
HELPERS = Path(__file__).parents[1] / "tests"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=Path("out/hostile.csv"))
    add_option(parser)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = noted(options.out)
    blocks = range(options.first, options.first + options.histories, BLOCK)
    for first in blocks:
        if first not in done:
            done[first] = lived_through(first, min(BLOCK, blocks.stop - first))
            note(options.out, done[first])
        print(f"\r{first + done[first]['histories']:,} histories", end="", file=sys.stderr, flush=True)
    rows = [done[first] for first in blocks]
    total = {name: sum(row[name] for row in rows) for name in ("histories", "asks", "restarts", "failures")}
    total["most_parameters"] = max(row["most_parameters"] for row in rows)
    print(
        f"\n{total['histories']:,} histories with up to {total['most_parameters']} parameters, {total['asks']:,} asks "
        f"and {total['restarts']:,} restarts: {total['failures']} failures"
    )
    record("hostile", [total], "make hostile")
    if total["failures"]:
        sys.exit(1)


def lived_through(first: int, histories: int) -> dict[str, int]:
    sys.path.insert(0, str(HELPERS))
    from helpers.hostile import live_through

    counts: Counter[str] = Counter(dict.fromkeys(FIELDS, 0))
    for seed in range(first, first + histories):
        try:
            seen = live_through(seed)
        except Exception as error:
            counts["failures"] += 1
            print(f"\nseed {seed}: {error!r}", file=sys.stderr)
            continue
        counts["asks"] += seen.asks
        counts["restarts"] += seen.restarts
        counts["most_parameters"] = max(counts["most_parameters"], seen.parameters)
    return dict(counts) | {"first": first, "histories": histories}


def noted(path: Path) -> dict[int, dict[str, int]]:
    """The blocks that were lived through before; those with failures are tried again."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {row["first"]: row for row in rows if not row["failures"]}


def note(path: Path, row: dict[str, int]) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not os.fstat(file.fileno()).st_size:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
