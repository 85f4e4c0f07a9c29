"""Histories of asks and tells that no reasonable user would produce: one of a kind for every seed.

Values reach from −1.8e308 to 1.8e308 and down to denormal numbers, the clock moves on by 1e-12 to 1e12 in one step, the
space has up to 50 parameters of all types, and any of the algorithms asks. Two optimizers live through the same
history: one in memory, from beginning to end; the other in a file, or saved and loaded, again and again. Every ask
must be finite and feasible, and the same from both.
"""

import json
import math
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.records import Trial

MOST_PARAMETERS = 50
LARGEST = float(np.finfo(float).max)
EVENTS = 16
Rng = np.random.Generator


@dataclass
class Seen:
    """What a history consisted of."""

    algorithm: str
    parameters: int
    asks: int = 0
    restarts: int = 0


def live_through(seed: int, folder: str | None = None) -> Seen:
    """One history; an AssertionError, or whatever else is raised, if something is not as it must be."""
    rng = np.random.default_rng([16, seed])
    names = eb.algorithms.names()
    seen = Seen(names[seed % len(names)], _number_of_parameters(rng))
    space = {f"p{k}": _parameter(rng) for k in range(seen.parameters)}
    with tempfile.TemporaryDirectory(dir=folder) as own, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", eb.EbbtideWarning)
        _Pair(space, seen, rng, Path(own)).live()
    return seen


class _Pair:
    def __init__(self, space: dict[str, Any], seen: Seen, rng: Rng, folder: Path) -> None:
        self.seen, self.rng, self.folder = seen, rng, folder
        self.url = f"sqlite:///{folder}/s.db"
        self.clock = eb.ManualClock(float(rng.choice([0.0, 1.7e9, -1e6, 1e12])))
        options: dict[str, Any] = {
            "direction": str(rng.choice(["minimize", "maximize"])),
            "algorithm": seen.algorithm,
            "seed": int(rng.integers(2**32)),
            "n_initial": int(rng.integers(5)),
            "explore": float(rng.choice([1.0, 0.5])),
        }
        self.whole = eb.Optimizer(space, clock=self.clock, **options)
        self.broken = eb.Optimizer(space, clock=self.clock, storage=self.url, name="edge", **options)
        self.in_file = True
        self.scale = _magnitude(rng)
        self.waiting: list[Trial] = []

    def live(self) -> None:
        for _ in range(EVENTS):
            act = [self.ask, self.ask, self.tell, self.tell, self.tell_outside, self.pass_time, self.restart]
            act[self.rng.integers(len(act))]()
        for _ in range(2):
            self.ask()
            self.restart()
        self.ask()
        self.read()
        self.broken.close()

    def ask(self) -> None:
        trial, other = self.whole.ask(), self.broken.ask()
        assert trial == other, f"{trial} and {other} differ"
        self.whole.space.check(trial.params)
        assert math.isfinite(trial.time)
        self.waiting.append(trial)
        self.seen.asks += 1

    def tell(self) -> None:
        if not self.waiting:
            return
        trial = self.waiting.pop(self.rng.integers(len(self.waiting)))
        wait_until(self.clock, trial.time)
        failed = bool(self.rng.random() < 0.1)
        value = None if failed else _value(self.rng, self.scale)
        for opt in (self.whole, self.broken):
            opt.tell(trial, value, failed=failed)

    def tell_outside(self) -> None:
        space, count = self.whole.space, int(self.rng.integers(1, 6))
        for row in space.spread(self.rng.random((count, space.dim))):
            params, value = space.decode(row), _value(self.rng, self.scale)
            time = self.clock.now() - float(self.rng.choice([0.0, 0.0, _step(self.rng)]))
            for opt in (self.whole, self.broken):
                opt.tell(params, value, time=time)

    def pass_time(self) -> None:
        self.clock.advance(_step(self.rng))

    def restart(self) -> None:
        """The other optimizer is opened anew from its file; in the end it is saved and loaded instead."""
        self.seen.restarts += 1
        if self.in_file and self.rng.random() < 0.7:
            self.broken.close()
            self.broken = eb.Optimizer.open(self.url, "edge", clock=self.clock)
            return
        self.broken.save(self.folder / "s.json")
        self.broken.close()
        self.broken, self.in_file = eb.Optimizer.load(self.folder / "s.json", clock=self.clock), False

    def read(self) -> None:
        """What can be read is finite, and the same from both."""
        one, other = ([opt.guards, opt.hyperparameters, opt.model.scale] for opt in (self.whole, self.broken))
        assert json.dumps(one, allow_nan=False) == json.dumps(other, allow_nan=False)
        if not len(self.whole.dataset):
            return
        best, same = self.whole.recommend(), self.broken.recommend()
        assert best == same
        self.whole.space.check(best.params)
        assert np.isfinite([best.mean, best.std, best.support, best.failure]).all(), best
        if self.whole.algorithm.temporal is not None:
            assert np.isfinite(self.whole.relevance()).all()


def _number_of_parameters(rng: Rng) -> int:
    """Mostly few: many are slow."""
    return int(min(MOST_PARAMETERS, max(1, round(MOST_PARAMETERS ** rng.random() ** 1.5))))


def _parameter(rng: Rng) -> Any:
    match rng.integers(8):
        case 0:
            return eb.Int(int(rng.integers(-5, 5)), int(rng.integers(6, 2**30)))
        case 1:
            return eb.Float(0.0, 1.0, step=float(rng.choice([0.5, 0.1, 1e-3])))
        case 2:
            return eb.Float(float(10.0 ** rng.uniform(-300, -1)), 1.0, log=True)
        case 3:
            return eb.Categorical(["a", None, 3][: int(rng.integers(2, 4))])
        case 4:
            return eb.Ordinal([1, 2, "many"])
        case 5:
            return eb.Float(-1e307, 1e307)
    low = float(rng.normal())
    return eb.Float(low, low + float(10.0 ** rng.uniform(-6, 6)))


def _step(rng: Rng) -> float:
    return float(10.0 ** rng.uniform(-12, 12))


def _magnitude(rng: Rng) -> float:
    return float(rng.choice([1e-320, 1e-300, 1e-10, 1.0, 1.0, 1e10, 1e150, 1e300, 1e307]))


def _value(rng: Rng, scale: float) -> float:
    """Usually around the history's own magnitude; sometimes anything that a float can hold."""
    if rng.random() < 0.3:
        return float(rng.choice([LARGEST, -LARGEST, 1.7e308, -1e308, 5e-324, -5e-324, 1e-310, 0.0, -0.0, 1.0, 1e154]))
    return float(scale * rng.choice([1.0, rng.normal(), rng.exponential()]))
