"""Steps one after the other, so that models made afresh now and then count: processor time of one thread.

    python perf/steps.py                         (or: --steps 50 --only inverses small)
    python perf/steps.py --only small --before ../ebbtide-before/src
    python perf/steps.py --only tide             (apart from the others: tide's steps beside W-DBO's)

A step is: ask, and tell a value of an objective that drifts (d = 3). A policy keeps the number of observations. Times
are divided by that of a LAPACK inverse of the same size, taken in turn with the steps. With `--before`, the median
ask at n = 30 is compared with that of another checkout, block by block in turn.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import add_option, record
from scipy.linalg import lapack

import ebbtide as eb
from ebbtide.gp.linalg import one_blas_thread

INTERVAL = 3.0  # between two observations
SETTLING = 10  # steps that do not count
BLOCKS, SMALL = 20, 60  # of steps at n = 30, in turn with those of another checkout
ENGINE = ["inverses", "exact", "small"]
SPACE = {f"x{k}": eb.Float(0.0, 1.0) for k in range(3)}


class Study:
    """An optimizer that always has n observations, or as many more as are told."""

    def __init__(self, n: int, *, name: str = "w-dbo", **policy: Any) -> None:
        self.clock, self.rng = eb.ManualClock(), np.random.default_rng(0)
        known = eb.algorithms.get(name)
        if isinstance(known.staleness, eb.WassersteinBudget):
            known = replace(known, staleness=replace(known.staleness, min_active=n, max_active=n, **policy))
        self.opt = eb.Optimizer(SPACE, direction="maximize", clock=self.clock, seed=0, n_initial=0, algorithm=known)
        for x in self.rng.random((n, 3)):
            self._tell(dict(zip(SPACE, map(float, x), strict=True)))
        for _ in range(SETTLING):
            self.step()

    def _tell(self, tried: Any) -> None:
        x = np.array(list((tried if isinstance(tried, dict) else tried.params).values()))
        best = 0.5 + 0.3 * np.sin(self.clock.now() / 600.0 + np.arange(3))
        value = float(np.exp(-((x - best) ** 2).sum() / 0.2)) + 0.05 * float(self.rng.normal())
        self.opt.tell(tried, value)
        self.clock.advance(INTERVAL)

    def step(self) -> float:
        """Seconds of one step."""
        return seconds(lambda: self._tell(self.opt.ask()))

    def ask(self) -> float:
        """Seconds of the ask of one step."""
        asked: list[eb.Trial] = []
        taken = seconds(lambda: asked.append(self.opt.ask()))
        self._tell(asked[0])
        return taken


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def inverse(n: int) -> Callable[[], object]:
    root = np.random.default_rng(0).normal(size=(n, n))
    matrix = np.asfortranarray(root @ root.T + n * np.eye(n))
    return lambda: lapack.dpotri(lapack.dpotrf(matrix, lower=1)[0], lower=1)


def inverse_seconds(invert: Callable[[], object]) -> float:
    """By one thread, as in an ask. Processor time adds up all threads, and those that wait for each other spin."""
    with one_blas_thread():
        return seconds(invert)


def compared(n: int, steps: int, **kind: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of steps and of inverses, taken in turn."""
    study, invert = Study(n, **kind), inverse(n)
    pairs = [(study.step(), inverse_seconds(invert) if k % 4 == 0 else np.nan) for k in range(steps)]
    taken, inverses = np.array(pairs).T
    return taken, inverses[np.isfinite(inverses)]


def inverses(steps: int) -> list[dict[str, object]]:
    rows, means = [], {}
    cases: list[tuple[str, int, dict[str, Any], float, float]] = [
        ("n = 800", 800, {}, 1.0, 0.6),
        ("n = 1600", 1600, {}, 0.6, 0.3),
        ("keep all, n = 2000", 2000, {"name": "keep-all"}, 0.5, 0.5),
    ]
    for label, n, kind, must, aim in cases:
        taken, unit = compared(n, steps, **kind)
        means[n] = float(taken.mean())
        found = float(taken.mean() / np.median(unit))
        rows.append(line(f"mean step in LAPACK inverses, {label}", found, must, aim))
        rows.append(line(f"median step in LAPACK inverses, {label}", float(np.median(taken) / np.median(unit))))
    rows.append(line("mean step at n = 1600 / at n = 800", means[1600] / means[800], 4.5, 4.0))
    return rows


def exact(steps: int) -> list[dict[str, object]]:
    rows = []
    for n in (200, 800):
        bound, true = Study(n), Study(n, method="exact")
        taken = np.array([(true.step(), bound.step()) for _ in range(steps)])
        ratio = float(taken[:, 0].mean() / taken[:, 1].mean())
        rows.append(line(f"mean step with the exact criterion / with the bound, n = {n}", ratio, 1.2, 1.0))
    return rows


def default(steps: int) -> list[dict[str, object]]:
    rows = []
    for n, must, aim in ((30, None, None), (200, 3.0, 1.5), (800, None, None)):
        tide, wdbo = Study(n, name="tide"), Study(n)
        taken = np.array([(tide.step(), wdbo.step()) for _ in range(steps)])
        ratio = float(taken[:, 0].mean() / taken[:, 1].mean())
        rows.append(line(f"mean step of tide / of W-DBO, n = {n}", ratio, must, aim))
    return rows


def small(before: Path | None) -> list[dict[str, object]]:
    here = Path(eb.__file__).parents[1]
    medians = [[_median_at_30(source) for source in (here, before) if source is not None] for _ in range(BLOCKS)]
    found = np.median(np.array(medians), axis=0)
    rows = [line("median ask at n = 30, ms", 1e3 * float(found[0]))]
    if before is not None:
        rows.append(line("median ask at n = 30 / before", float(found[0] / found[1]), 0.5, 0.33))
    return rows


def _median_at_30(source: Path) -> float:
    """By a process of its own, which imports ebbtide from there."""
    code = f"import steps; import numpy as np; s = steps.Study(30); print(np.median([s.ask() for _ in range({SMALL})]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(Path(__file__).parent)])}
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, check=True
    )
    return float(found.stdout)


def line(figure: str, measured: float, must: float | None = None, aim: float | None = None) -> dict[str, object]:
    row: dict[str, object] = {"figure": figure, "measured": round(measured, 3), "must": must, "aim": aim}
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=["inverses", "exact", "small", "tide"], default=ENGINE)
    parser.add_argument("--before", type=Path, help="src of another checkout, for the comparison at n = 30")
    add_option(parser)
    chosen = parser.parse_args()
    if chosen.only == ["tide"]:
        record("steps-tide", default(chosen.steps), "python perf/steps.py --only tide")
        return
    rows = inverses(chosen.steps) if "inverses" in chosen.only else []
    rows += exact(chosen.steps) if "exact" in chosen.only else []
    rows += small(chosen.before) if "small" in chosen.only else []
    record("consecutive", rows, "python perf/steps.py")


if __name__ == "__main__":
    main()
