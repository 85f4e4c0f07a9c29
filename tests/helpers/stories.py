"""Stored studies to look at: `Story`, made once with all that may happen to a study, and small ones."""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import ebbtide as eb
from ebbtide.dashboard.views import Views
from ebbtide.space import Parameter
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 6)}

N_INITIAL = 30

NEWEST = 7  # observations in the page's table of what was told last


def url(path: str | Path) -> str:
    return f"sqlite:///{path}"


def drifting(params: Mapping[str, Any], t: float) -> float:
    return float(np.sin(3.0 * params["x"] + t / 7.0) + 0.1 * params.get("k", 0))


@dataclass
class Story:
    """What the optimizer reported while the study was made."""

    path: Path
    asked: list[eb.Asked] = field(default_factory=list)
    told_before: list[int] = field(default_factory=list)  # lines, by ask
    asked_before: list[int] = field(default_factory=list)  # asks, by line
    recommended: dict[int, eb.Recommendation] = field(default_factory=dict)  # right after an ask
    history: list[eb.Observation] = field(default_factory=list)

    @property
    def active(self) -> list[int]:
        return [line for line, told in enumerate(self.history) if told.active]

    @property
    def removals(self) -> list[tuple[int, int]]:
        """(ask, line), from the file itself."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute("SELECT ask, line FROM removals ORDER BY ask, line").fetchall()

    def copy(self, folder: Path) -> Path:
        """The study in a file of its own."""
        return Path(shutil.copy(self.path, folder / "s.db"))


@contextmanager
def looking_at(path: str | Path) -> Iterator[Views]:
    with closing(Storage.of(url(path), read_only=True)) as storage:
        yield Views(storage)


def made(
    path: str | Path,
    steps: int = 8,
    algorithm: str | eb.Algorithm = "w-dbo",
    space: Mapping[str, Parameter] | None = None,
    name: str = "edge",
    close: bool = True,
    **changes: Any,
) -> eb.Optimizer:
    """A small study of a few asks and tells."""
    options: dict[str, Any] = {"clock": eb.ManualClock(), "seed": 3, "n_initial": 3} | changes
    opt = eb.Optimizer(space or {"x": eb.Float(0.0, 1.0)}, algorithm=algorithm, storage=url(path), name=name, **options)
    go_on(opt, steps)
    if close:
        opt.close()
    return opt


def go_on(opt: eb.Optimizer, steps: int) -> list[eb.Trial]:
    trials = []
    for _ in range(steps):
        trial = opt.ask()
        if isinstance(opt.clock, eb.ManualClock):
            opt.clock.advance(max(0.0, trial.time - opt.clock.now()))
        opt.tell(trial, drifting(trial.params, trial.time % 1000.0))
        if isinstance(opt.clock, eb.ManualClock):
            opt.clock.advance(0.7)
        trials.append(trial)
    return trials


def trail_of(views: Views, last: int | None = None, name: str = "edge") -> tuple[dict[str, Any], list[int]]:
    """All of a trail, and how much was missing after each call."""
    trail, missing = views.trail(name, last), []
    while trail["missing"]:
        missing.append(trail["missing"])
        trail = views.trail(name, last)
    json.dumps(trail, allow_nan=False)
    return trail, [*missing, 0]
