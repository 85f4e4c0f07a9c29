"""What a long history costs: to open a stored study with 10,000 to 1,000,000 tells, to ask, to tell, and to look at it.

    make perf-resume
    python perf/resume.py --postgresql

The first 10,000 tells are real, with an ask for every ten; a longer history is made of copies of them
(tests/helpers/long_histories.py). The next ask after opening must be that of an uninterrupted run. Studies of all sizes
take turns, and the medians count, because the machine may have something else to do.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from record import add_option, record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.long_histories import lengthen

import ebbtide as eb
from ebbtide.dashboard.views import Views
from ebbtide.study.storage import Storage, copying

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
REAL = 10_000  # tells
EVERY = 10  # tells from outside for each ask
ROUNDS, TELLS, ASKS = 15, 20, 3  # of a round
SHOWN = 250  # observations on a page, unless one wants more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", action="store_true", help="in PostgreSQL instead of SQLite")
    parser.add_argument("--told", type=int, nargs="+", default=[REAL, 10 * REAL, 100 * REAL])
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = f"sqlite:///{folder}/study.db"
        now = make(file)
        with in_postgresql(file) if options.postgresql else in_a_file(file) as url:
            rows = measured(url, options.told, now)
    record("resume-postgresql" if options.postgresql else "resume", rows, "make perf-resume")


@contextmanager
def in_a_file(file: str) -> Iterator[str]:
    yield file


@contextmanager
def in_postgresql(file: str) -> Iterator[str]:
    """The URL of a database to which the study was copied."""
    from helpers.postgres import cluster

    with cluster() as server:
        url = server.url(server.database())
        with closing(Storage.of(file)) as source, closing(Storage.of(url, create=True)) as target:
            list(copying.copy(source, target))
        yield url


def make(url: str) -> float:
    """A study with an ask for every ten tells. Opened again, it must ask the same. The time at its end."""
    clock, rng = eb.ManualClock(), np.random.default_rng(0)
    opt = eb.Optimizer(SPACE, clock=clock, seed=0, storage=url, name="real")
    while opt.told < REAL:
        with opt._log.transaction():  # one flush for a block of tells
            for _ in range(EVERY):
                clock.advance(1.0)
                opt.tell(*outside(clock.now(), rng))
        opt.ask()
    uninterrupted = opt.space.decode(opt._engine.step(clock.now()).x)
    opt.close()
    with eb.Optimizer.open(url, "real", clock=clock) as opened:
        resumed = opened.space.decode(opened._engine.step(clock.now()).x)
    if resumed != uninterrupted:
        sys.exit(f"the next ask is {resumed}, and without an interruption it would be {uninterrupted}")
    return clock.now()


def outside(now: float, rng: np.random.Generator) -> tuple[dict[str, float], float]:
    """Parameters, and what was measured with them."""
    x, y = rng.random(2)
    best = 0.5 + 0.4 * np.sin(now / 50.0)
    return {"x": x, "y": y}, float((x - best) ** 2 + y**2 + 0.01 * rng.normal())


def measured(url: str, sizes: Sequence[int], now: float) -> list[dict[str, float]]:
    with closing(Storage.of(url)) as storage:
        for told in sizes:
            lengthen(storage, "real", told // REAL, str(told))
        times = {told: defaultdict[str, list[float]](list) for told in sizes}
        for number in range(ROUNDS):
            for told in sizes:
                a_round(url, told, now + 10.0 * number, times[told])
        rows = []
        for told in sizes:
            seen = storage.summary(str(told))
            medians = {f"{what}_ms": 1e3 * statistics.median(each) for what, each in times[told].items()}
            rows.append({"told": told, "asked": seen.asked, "active": seen.active} | medians)
    show(rows)
    return rows


def a_round(url: str, told: int, now: float, times: dict[str, list[float]]) -> None:
    def timed(what: str, call: Callable[[], object]) -> None:
        began = time.perf_counter()
        call()
        times[what].append(time.perf_counter() - began)

    clock, rng = eb.ManualClock(start=now), np.random.default_rng(int(now))
    began = time.perf_counter()
    opt = eb.Optimizer.open(url, str(told), clock=clock)
    times["open"].append(time.perf_counter() - began)
    opt.ask()  # the first one makes the model again
    for _ in range(ASKS):
        clock.advance(1.0)
        timed("ask", opt.ask)
    for _ in range(TELLS):
        params, value = outside(clock.now(), rng)
        timed("tell", lambda params=params, value=value: opt.tell(params, value))  # type: ignore[misc]
    opt.close()
    with closing(Storage.of(url, read_only=True)) as storage:
        timed("page", lambda: Views(storage).study(str(told), SHOWN, None))
        timed("page_of_all", lambda: Views(storage).study(str(told), None, None))


def show(rows: Sequence[dict[str, float]]) -> None:
    print(f"| {' | '.join(rows[0])} |")
    print("|---" * len(rows[0]) + "|")
    for row in rows:
        print(f"| {' | '.join(f'{v:.2f}' if isinstance(v, float) else f'{v:,}' for v in row.values())} |")
    for row in rows[1:]:
        ratios = {key: row[key] / rows[0][key] for key in row if key.endswith("_ms")}
        print(f"{row['told']:,} against {rows[0]['told']:,}: " + ", ".join(f"{k} {r:.2f}" for k, r in ratios.items()))


if __name__ == "__main__":
    main()
