"""Kill processes that write to a study, hundreds of times, and check what they left behind. Run as a script:

    python tests/helpers/killing.py FOLDER --seed 0 --kills 100 --manner one

It imports ebbtide once and forks: a child opens the study, asks and tells, and reports on a pipe before and after each
step. The parent kills it (SIGKILL), checks the file, and continues with the same study. The moment of the kill is drawn
from the seed: some time after the start of a step, shorter or longer than the step usually takes. What it saw is
printed as JSON; `problems` is empty if nothing was lost, doubled or out of order.

    one     one child at a time, which sometimes closes the study and opens it again
    two     two children at once on the same study, killed independently
    birth   a new file each time: the child is killed while it creates the file
"""

import argparse
import json
import os
import select
import signal
import sqlite3
import statistics
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import ebbtide as eb

SPACE = {"x": eb.Float(0.0, 1.0), "codec": eb.Categorical(["a", "b"])}
# Asks that cost little but remove something each time: this tests the storage.
ALGORITHM = eb.Algorithm(temporal=None, acquisition=eb.Random(), staleness=eb.SlidingWindow(size=1))
WORDS = {"open": "opened", "ask": "asked", "tell": "told", "close": "closed"}  # what a child reports before and after
OFTEN = {"one": [0.1, 0.3, 0.5, 0.1], "two": [0.1, 0.4, 0.4, 0.1], "birth": [1.0, 0.0, 0.0, 0.0]}
REOPEN_EVERY = 2
LONGEST_S = 20.0  # until a child has reached the step in which it is to be killed


def study(url: str) -> eb.Optimizer:
    return eb.Optimizer(SPACE, algorithm=ALGORITHM, seed=1, n_initial=2, storage=url, name="edge")


def warm_up() -> None:
    """Do here what happens at the first use, so that no child has to repeat it."""
    opt = eb.Optimizer(SPACE, algorithm=ALGORITHM, seed=1, n_initial=2)
    for value in range(8):
        opt.tell(opt.ask(), float(value))


# --- the child ------------------------------------------------------------------------------------------------------


def work(url: str, pipe: int, first: int) -> None:
    """Ask and tell forever; no other child tells the same values."""

    def say(*what: Any) -> None:
        os.write(pipe, (json.dumps(what) + "\n").encode())  # shorter than PIPE_BUF: whole or not at all

    say("open")
    opt = study(url)
    say("opened")
    for value in range(first, first + 10_000, 2):
        say("ask")
        trial = opt.ask()
        say("asked", trial.id)
        say("tell", value)
        opt.tell(trial, float(value))
        say("told", value)
        say("tell", value + 1)
        opt.tell({"x": 0.5, "codec": "a"}, float(value + 1), key=f"key {value + 1}")
        say("told", value + 1)
        if value % (2 * REOPEN_EVERY) == 0:
            say("close")
            opt.close()
            say("closed")
            say("open")
            opt = study(url)
            say("opened")


class Child:
    def __init__(self, url: str, first: int, word: str, times: int) -> None:
        """To be killed in the step that it reports with this word, at this repetition."""
        self.word, self.times = word, times
        self.due: float | None = None
        self.said: list[list[Any]] = []
        self.heard_at: list[float] = []
        self._rest = b""
        self.pipe, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.pipe)
                work(url, end, first)
            finally:
                os._exit(1)  # only reached after an error
        os.close(end)

    def read(self) -> bool:
        received = os.read(self.pipe, 65536)
        *lines, self._rest = (self._rest + received).split(b"\n")
        self.said += map(json.loads, lines)
        self.heard_at += [time.monotonic()] * len(lines)
        return bool(received)

    def kill(self) -> bool:
        """Kill the child; returns whether that is what ended it."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        while self.read():
            pass
        os.close(self.pipe)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def values(self, word: str) -> list[Any]:
        return [what[1] for what in self.said if what[0] == word]

    @property
    def ready(self) -> bool:
        return [what[0] for what in self.said].count(self.word) >= self.times

    @property
    def doing(self) -> Any:
        """The step that had begun and not returned when it was killed."""
        last = self.said[-1][0] if self.said else "nothing"
        return last if last in WORDS else "nothing"


# --- what is in the file ----------------------------------------------------------------------------------------------


class Log:
    """Everything in the file, read without ebbtide."""

    def __init__(self, path: Path, check: bool) -> None:
        with closing(sqlite3.connect(path)) as connection:
            self.whole = not check or connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
            self.tells: list[Any] = []
            self.asks: list[Any] = []
            self.removals: list[Any] = []
            self.active: list[Any] = []
            if "tells" in tables:
                self.tells = connection.execute("SELECT line, value, ask, asks FROM tells ORDER BY line").fetchall()
                self.asks = connection.execute("SELECT ask, told FROM asks ORDER BY ask").fetchall()
                self.removals = connection.execute("SELECT line, ask FROM removals").fetchall()
                self.active = connection.execute("SELECT line FROM active ORDER BY line").fetchall()

    @property
    def values(self) -> list[int]:
        return [int(value) for _, value, *_ in self.tells]

    def problems(self) -> list[str]:
        lines, numbers = [line for line, *_ in self.tells], [ask for ask, _ in self.asks]
        trials = [ask for _, _, ask, _ in self.tells if ask is not None]
        befores = [asks for *_, asks in self.tells]
        removed, seen = {line for line, _ in self.removals}, max((told for _, told in self.asks), default=0)
        return [
            problem
            for problem, found in {
                "the file is damaged": not self.whole,
                "lines are missing": lines != list(range(len(lines))),
                "asks are missing": numbers != list(range(len(numbers))),
                "a trial was told twice": len(set(trials)) < len(trials),
                "a trial was told that was not asked for": not set(trials) <= set(numbers),
                "lines and asks are out of order": befores != sorted(befores) or max(befores, default=0) > len(numbers),
                "an ask saw what was not told": any(told > len(lines) for _, told in self.asks),
                "a line was removed twice, or never told": len(removed) < len(self.removals)
                or not removed <= set(lines),
                "other lines are active": [line for (line,) in self.active] != sorted(set(range(seen)) - removed),
            }.items()
            if found
        ]


# --- the rounds -------------------------------------------------------------------------------------------------------


class Harness:
    def __init__(self, folder: str, seed: int, manner: str) -> None:
        self.folder, self.manner = Path(folder), manner
        self.rng = np.random.default_rng([seed, list(OFTEN).index(manner)])
        self.durations: dict[str, list[float]] = {word: [] for word in WORDS}
        self.seen = Counter[str]()
        self.problems: list[str] = []
        self.told: list[int] = []
        self.asked = 0

    def go(self, kills: int) -> dict[str, Any]:
        path = self.folder / "study.db"
        while self.seen["kills"] < kills:
            number = self.seen["kills"]
            if self.manner == "birth":
                path = self.folder / f"study {number}.db"
                self.told, self.asked = [], 0
            children = self.disturb(f"sqlite:///{path}", number)
            self.check(path, children, number)
        return {"seen": self.seen, "problems": self.problems}

    def disturb(self, url: str, number: int) -> list[Child]:
        """Start children and kill them, each in the middle of something."""
        children = []
        for i in range(2 if self.manner == "two" else 1):
            word, times = str(self.rng.choice(list(WORDS), p=OFTEN[self.manner])), int(self.rng.integers(1, 4))
            times = 1 if self.manner == "birth" or word == "close" else times
            children.append(Child(url, 100_000 * (1 + number) + 10_000 * i, word, times))
        alive, deadline = list(children), time.monotonic() + LONGEST_S
        while alive:
            due = min((child.due for child in alive if child.due is not None), default=deadline)
            pipes = [child.pipe for child in alive]
            speaking = select.select(pipes, [], [], max(0.0, due - time.monotonic()))[0]
            for child in [child for child in alive if child.pipe in speaking]:
                if not child.read():
                    child.due = 0.0  # it has ended
                elif child.due is None and child.ready:
                    child.due = time.monotonic() + self.rng.uniform(0.0, 1.5) * self.usual(child.word)
            now = time.monotonic()
            for child in [child for child in alive if now > (deadline if child.due is None else child.due)]:
                alive.remove(child)
                self.end(child, number)
        return children

    def usual(self, word: str) -> float:
        """How long this step usually takes, according to the reports so far."""
        return statistics.median(self.durations[word][-20:] or [0.002])

    def end(self, child: Child, number: int) -> None:
        self.seen["kills"] += 1
        if not child.kill():
            self.problems.append(f"{number}: a child ended by itself after saying {child.said[-2:]}")
        self.seen[f"killed in: {child.doing}"] += 1
        for i in range(1, len(child.said)):
            before, after = child.said[i - 1][0], child.said[i][0]
            if WORDS.get(before) == after:
                self.durations[before].append(child.heard_at[i] - child.heard_at[i - 1])

    def check(self, path: Path, children: list[Child], number: int) -> None:
        """Check that everything acknowledged is there, and beyond that at most what each child was doing."""
        if not path.exists():
            self.seen["no file yet"] += 1
            path.touch()
        self.seen["a log was left behind"] += path.with_name(f"{path.name}-wal").exists()
        log = Log(path, check=number % 5 == 0)
        found = log.problems()
        told = Counter(value for child in children for value in child.values("told"))
        being_told = {child.values("tell")[-1] for child in children if child.doing == "tell"}
        extra = Counter(log.values) - Counter(self.told) - told
        if Counter(self.told) + told - Counter(log.values):
            found.append("an acknowledged tell is lost")
        if any(value not in being_told or times > 1 for value, times in extra.items()):
            found.append(f"there is more than was being told: {dict(extra)}")
        asked = {int(trial) for child in children for trial in child.values("asked")}
        asking = sum(child.doing == "ask" for child in children)
        more_asks = len(log.asks) - self.asked - len(asked)
        if not asked <= set(range(self.asked, len(log.asks))) or not 0 <= more_asks <= asking:
            found.append(f"asks: {self.asked} before, {sorted(asked)} acknowledged, {len(log.asks)} there")
        self.seen["tells acknowledged"] += told.total()
        self.seen["tells recorded but not acknowledged"] += len(extra)
        self.seen["tells begun and not recorded"] += len(being_told) - len(extra)
        self.seen["asks acknowledged"] += len(asked)
        self.seen["asks recorded but not acknowledged"] += more_asks
        self.seen["asks begun and not recorded"] += asking - more_asks
        self.seen["lines removed"] = max(self.seen["lines removed"], len(log.removals))
        self.problems += [f"{number}: {problem}" for problem in found]
        self.go_on(path, log.values, number)

    def go_on(self, path: Path, values: list[int], number: int) -> None:
        """Check that the next process can use the study, and that a tell can be repeated."""
        began = time.monotonic()
        with closing(study(f"sqlite:///{path}")) as opt:
            self.durations["open"].append(time.monotonic() - began)
            if [observation.value for observation in opt.history] != values:
                self.problems.append(f"{number}: the study is not what is in the file")
            trial, value = opt.ask(), 100_000 * (1 + number) + 99_000
            opt.tell(trial, float(value))
            opt.tell(trial, float(value))
            self.told, self.asked = [*values, value], int(trial.id) + 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--manner", choices=list(OFTEN), default="one")
    options = parser.parse_args()
    warm_up()
    print(json.dumps(Harness(options.folder, options.seed, options.manner).go(options.kills)))
