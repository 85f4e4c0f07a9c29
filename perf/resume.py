"""How long it takes to open a stored study of each size. Its next ask must be that of an uninterrupted run.

make perf-resume
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from record import add_option, record

import ebbtide as eb

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
EVERY = 10  # tells from outside for each ask
OPENS = 5  # the fastest counts: the others waited for something else on the machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_option(parser)
    parser.parse_args()
    print("| told | asked | active | file, MB | open, s | next ask |")
    print("|---|---|---|---|---|---|")
    rows = []
    for told in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(Path(folder) / "study.db", told))
    record("resume", rows, "make perf-resume")


def measured(path: Path, told: int) -> dict[str, object]:
    """Make a study, open it, and compare what it asks next."""
    clock, rng = eb.ManualClock(), np.random.default_rng(0)
    url = f"sqlite:///{path}"
    opt = eb.Optimizer(SPACE, clock=clock, seed=0, storage=url, name="s")
    while opt.told < told:
        with opt._log.transaction():  # one flush for a block of tells
            for x, y in rng.random((EVERY, 2)):
                clock.advance(1.0)
                best = 0.5 + 0.4 * np.sin(clock.now() / 50.0)
                opt.tell({"x": x, "y": y}, float((x - best) ** 2 + y**2 + 0.01 * rng.normal()))
        opt.ask()
    expected = _next_params(opt)
    opt.close()  # and with it the write-ahead log, so that everything is in the one file whose size counts
    size = path.stat().st_size / 1e6
    seconds, again = min((timed_open(url, clock) for _ in range(OPENS)), key=lambda timed: timed[0])
    asked, active = again.asked, len(again.dataset)
    same = "the same" if again.ask().params == expected else "ANOTHER"
    again.close()
    print(f"| {told:,} | {asked:,} | {active} | {size:.1f} | {seconds:.3f} | {same} |", flush=True)
    return {"told": told, "asked": asked, "active": active, "file_mb": size, "open_s": seconds, "next_ask": same}


def timed_open(url: str, clock: eb.ManualClock) -> tuple[float, eb.Optimizer]:
    began = time.perf_counter()
    opened = eb.Optimizer.open(url, "s", clock=clock)
    return time.perf_counter() - began, opened


def _next_params(opt: eb.Optimizer) -> dict[str, float]:
    """What the optimizer would ask next if it were not closed, without recording that ask."""
    params: dict[str, float] = opt.space.decode(opt._engine.step(opt.clock.now()).x)
    return params


if __name__ == "__main__":
    main()
