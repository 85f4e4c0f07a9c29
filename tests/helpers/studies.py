"""Small stored studies, and what a user can see of them."""

import json
import math
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.records import Observation, Trial
from ebbtide.study.active import Checkpoint
from ebbtide.study.course import Turn
from ebbtide.study.definition import Definition
from ebbtide.study.engine import Engine
from ebbtide.study.schedule import is_looking_at_siblings
from ebbtide.study.state import State

MIXED = {
    "x": eb.Float(0.0, 1.0),
    "rate": eb.Float(1e-4, 1.0, log=True),
    "n": eb.Int(1, 32, log=True),
    "codec": eb.Categorical(["a", "b", None]),
}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a folder in memory, if there is one
TINY = {"x": eb.Float(0.0, 1.0)}
# Two algorithms that soon forget something
WINDOW = eb.Algorithm(staleness=eb.SlidingWindow(size=4))
HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=10.0, min_active=3))

Event = tuple[str, int, float]
KINDS = ["ask", "ask", "ask", "tell", "tell", "ask many", "time", "outside", "fail"]


def url(path: str | Path) -> str:
    return f"sqlite:///{path}"


def tiny(path: str | Path | None = None, **changes: Any) -> eb.Optimizer:
    """A study of one parameter whose asks only fill the space, so that they cost little."""
    options: dict[str, Any] = {"clock": eb.ManualClock(), "seed": 0, "n_initial": 10_000}
    options |= {} if path is None else {"storage": url(path), "name": "edge"}
    return eb.Optimizer(TINY, **options | changes)


def column(path: str | Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(query)]


def python(code: str, *arguments: object, **options: Any) -> "subprocess.Popen[str]":
    """Run the code in a separate process."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def named(quick: Sequence[str]) -> list[Any]:
    """Every algorithm by its name, as parameters of a test; all but a few are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in eb.algorithms.names()]


def contents(opt: eb.Optimizer) -> dict[str, Any]:
    """Everything that an optimizer would save, except for the time at which it was saved."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        opt.save(f"{folder}/s.json")
        payload: dict[str, Any] = json.loads(Path(folder, "s.json").read_text(encoding="utf-8"))["payload"]
    del payload["state"]["latest_reading"]
    return payload


def pending(opt: eb.Optimizer) -> list[Trial]:
    """Trials neither told nor failed."""
    return [Trial(**trial) for trial in contents(opt)["pending"]]


def same(one: eb.Optimizer, other: eb.Optimizer) -> None:
    """Check that two optimizers know the same, to the last bit."""
    assert one.history == other.history
    assert one.hyperparameters == other.hyperparameters
    assert one.guards == other.guards
    assert one.model == other.model
    assert one.pending == other.pending
    assert (one.told, one.asked) == (other.told, other.asked)
    for name in ("x", "t", "y"):
        assert (getattr(one.dataset, name) == getattr(other.dataset, name)).all()
    assert json.dumps(contents(one)) == json.dumps(contents(other))


# --- a script of events -------------------------------------------------------------------------------------------


def value_of(params: Mapping[str, Any], t: float) -> float:
    return float(np.sin(3.0 * params["x"] + t / 7.0) + 0.1 * params["n"] * params["rate"] - (params["codec"] == "b"))


def happen(opt: eb.Optimizer, event: Event, asked: Sequence[Trial]) -> list[Trial]:
    """Let one thing happen to a study in which these trials were asked; returns the trials asked now."""
    kind, number, share = event
    told = {observation.trial_id for observation in opt.history}
    waiting = [trial for trial in asked if trial.id not in told]
    if kind == "ask":
        return [opt.ask(lease=None if share < 0.6 else 10.0 * share)]
    if kind == "ask many":
        return opt.ask(2)
    if kind == "time":
        assert isinstance(opt.clock, eb.ManualClock)
        opt.clock.advance(3.0 * share)
    elif kind == "outside":  # measured elsewhere at an earlier time, so out of order
        params = {"x": share, "rate": 10.0 ** (-4.0 * share), "n": 1 + number, "codec": [None, "a", "b"][number % 3]}
        moment = share * opt.clock.now()
        opt.tell(params, value_of(params, moment), time=moment, key=None if number % 2 else f"key {number} {share}")
    elif waiting:
        trial = waiting[number % len(waiting)]
        wait_until(opt.clock, trial.time)
        if kind == "fail":
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, value_of(trial.params, trial.time))
    return []


def events(seed: int, n: int) -> list[Event]:
    rng = np.random.default_rng(seed)
    return [(KINDS[rng.integers(len(KINDS))], int(rng.integers(32)), float(rng.random())) for _ in range(n)]


def study(algorithm: str | eb.Algorithm, path: str | Path | None = None) -> eb.Optimizer:
    stored = {} if path is None else {"storage": url(path), "name": "edge"}
    return eb.Optimizer(MIXED, algorithm=algorithm, clock=eb.ManualClock(), seed=11, n_initial=4, **stored)  # type: ignore[arg-type]


# --- the tables of a study, read without ebbtide ------------------------------------------------------------------


class Tables:
    """What is recorded for each ask, and the same recomputed from the tables."""

    def __init__(self, path: str | Path, name: str = "edge") -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            self.definition = json.loads(
                connection.execute("SELECT definition FROM studies WHERE name = ?", (name,)).fetchone()[0]
            )
            tables = {"asks": "ask", "tells": "line", "removals": "line"}
            self.asks, self.tells, self.removals = (
                connection.execute(
                    f"SELECT * FROM {table} JOIN studies USING (study) WHERE name = ? ORDER BY {order}", (name,)
                ).fetchall()
                for table, order in tables.items()
            )

    def recorded(self, k: int) -> tuple[Any, ...]:
        ask = self.asks[k]
        removed = [(row["line"], row["relevance"]) for row in self.removals if row["ask"] == k]
        return json.loads(ask["params"]), ask["time"], removed, json.loads(ask["state"])

    def recomputed(self, k: int, algorithm: eb.Algorithm | None = None) -> tuple[Any, ...]:
        """The same, computed from what was known when that ask began."""
        ask = self.asks[k]
        gone = {row["line"]: row["ask"] for row in self.removals if row["ask"] < k}
        seen = self.tells[: ask["told"]]
        history = [
            Observation(json.loads(row["params"]), row["time"], row["value"], removed_at=gone.get(row["line"]))
            for row in seen
        ]
        told = {row["ask"] for row in seen}
        open_trials = [
            Trial(str(row["ask"]), json.loads(row["params"]), row["time"], row["expires"])
            for row in self.asks[:k]
            if row["ask"] not in told
        ]
        engine = Engine(Definition.from_json(self.definition, algorithm))
        state = State() if k == 0 else State.from_json(json.loads(self.asks[k - 1]["state"]))
        since = range(k if state.anchor is None else state.anchor, k)
        removed = {number: [line for line, remover in gone.items() if remover == number] for number in since}
        turns = [Turn.of(self.asks[number]["told"], removed[number]) for number in since]
        engine.restore(state, Checkpoint.of(history, open_trials, turns=turns))
        looked = is_looking_at_siblings(engine)
        siblings = json.loads(ask["state"]).get("family", {}) if looked else None  # what it saw then
        step = engine.step(ask["now"], math.inf if ask["until"] is None else ask["until"], siblings=siblings)
        for row in self.tells:
            if row["asks"] <= k:
                engine.note(row["reading"])
        moment = ask["landed"] if step.wait is None else max(ask["landed"], step.wait)
        lines = engine.active.lines[step.rows].tolist()
        after = step.after(engine.state, ask["now"], ask["landed"]).to_json()
        return (
            engine.space.decode(step.x),
            moment,
            sorted(zip(lines, step.scores, strict=True)),
            json.loads(json.dumps(after)),
        )
