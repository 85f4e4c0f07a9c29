"""How long an ask takes with two context variables, a cycle and two constraints, beside a plain one: `world.py`."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

import ebbtide as eb
from ebbtide.gp.arrays import Array

ACTIVE, STEP = 200, 3.0
SPACE = {"x0": eb.Float(0.0, 1.0), "x1": eb.Float(0.0, 1.0)}
RUN = 2000.0


def times_of_asks(repetitions: int) -> tuple[Array, Array]:
    """Seconds of a plain ask and of one with everything, taken in turn."""
    plain, full = Study({}), Study(everything())
    for _ in range(ACTIVE):
        plain.tell_one()
        full.tell_one()
    pairs = [(plain.timed_ask(), full.timed_ask()) for _ in range(repetitions + 2)]
    seconds = np.array(pairs[2:])  # the first asks fit from nothing
    return seconds[:, 0], seconds[:, 1]


def everything() -> dict[str, Any]:
    return {
        "context": dict(eb.benchmarks.get("driver").context_space),
        "cycles": {"day": RUN / 10.0},
        "constraints": {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.5)},
    }


class Study:
    """An optimizer of `tide` that always has 200 active observations."""

    def __init__(self, words: dict[str, Any]) -> None:
        self.words, self.clock, self.rng = words, eb.ManualClock(), np.random.default_rng(0)
        always = eb.WassersteinBudget(min_active=ACTIVE, max_active=ACTIVE)
        algorithm = replace(eb.algorithms.get("tide"), staleness=always)
        self.opt = eb.Optimizer(
            SPACE, direction="maximize", algorithm=algorithm, clock=self.clock, seed=0, n_initial=0, **words
        )

    def tell_one(self) -> None:
        """A random setting, as if measured elsewhere."""
        x = self.rng.random(2)
        self._tell(dict(zip(SPACE, map(float, x), strict=True)), x, **self._context())

    def timed_ask(self) -> float:
        context = self._context()
        began = time.perf_counter()
        trial = self.opt.ask(**context)
        seconds = time.perf_counter() - began
        self._tell(trial, np.array(list(trial.params.values())))
        return seconds

    def _tell(self, trial: Any, x: Array, **context: Any) -> None:
        t = self.clock.now() / RUN
        value = eb.benchmarks.get("driver")(x, t) + 0.1 * self.rng.normal()
        p99 = eb.benchmarks.get("latency").outcomes(x, t)["p99_ms"] + 2.0 * self.rng.normal()
        outcomes: dict[str, Any] = {"constraints": {"p99_ms": p99, "hits": 1.0 - p99 / 200.0}} if self.words else {}
        self.opt.tell(trial, value, **outcomes, **context)
        self.clock.advance(STEP)

    def _context(self) -> dict[str, Any]:
        return {"context": eb.benchmarks.get("driver").context(self.clock.now() / RUN)} if self.words else {}
