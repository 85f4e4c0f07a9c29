"""Studies in a file: what comes back, what is refused, and what several processes make of one."""

import json
import math
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.optimizer import RACES
from ebbtide.records import Observation, Trial
from ebbtide.study.active import REMEMBERED_ASKS
from ebbtide.study.definition import Definition
from ebbtide.study.engine import Engine
from ebbtide.study.state import State
from ebbtide.study.storage import Storage, database

MIXED = {
    "x": eb.Float(0.0, 1.0),
    "rate": eb.Float(1e-4, 1.0, log=True),
    "n": eb.Int(1, 32, log=True),
    "codec": eb.Categorical(["a", "b", None]),
}
TINY = {"x": eb.Float(0.0, 1.0)}
# Two that forget something in a short time
WINDOW = eb.Algorithm(staleness=eb.SlidingWindow(size=4))
HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=10.0, min_active=3))


def url(path):
    return f"sqlite:///{path}"


def tiny(path=None, **changes):
    """A study of one parameter that fills the space, and so costs little."""
    stored = {} if path is None else {"storage": url(path), "name": "edge"}
    return eb.Optimizer(TINY, **{"clock": eb.ManualClock(), "seed": 0, "n_initial": 10_000} | stored | changes)


def column(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(query)]


def python(code, *arguments, **options):
    """A process of its own."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


# --- a study goes on as if nothing had happened -----------------------------------------------------------------------


def value_of(params, t):
    return float(np.sin(3.0 * params["x"] + t / 7.0) + 0.1 * params["n"] * params["rate"] - (params["codec"] == "b"))


def happen(opt, event):
    """One thing that can happen to a study; what was asked."""
    kind, number, share = event
    pending = opt._log.pending()
    if kind == "ask":
        return [opt.ask(lease=None if share < 0.6 else 10.0 * share)]
    if kind == "ask many":
        return opt.ask(2)
    if kind == "time":
        opt.clock.advance(3.0 * share)
    elif kind == "outside":  # measured elsewhere, at some time before: out of order
        params = {"x": share, "rate": 10.0 ** (-4.0 * share), "n": 1 + number, "codec": [None, "a", "b"][number % 3]}
        moment = share * opt.clock.now()
        opt.tell(params, value_of(params, moment), time=moment, key=None if number % 2 else f"key {number} {share}")
    elif pending:
        trial = pending[number % len(pending)]
        wait_until(opt.clock, trial.time)
        if kind == "fail":
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, value_of(trial.params, trial.time))
    return []


KINDS = ["ask", "ask", "ask", "tell", "tell", "ask many", "time", "outside", "fail"]


def events(seed, n):
    rng = np.random.default_rng(seed)
    return [(KINDS[rng.integers(len(KINDS))], int(rng.integers(32)), float(rng.random())) for _ in range(n)]


def study(algorithm, path=None):
    stored = {} if path is None else {"storage": url(path), "name": "edge"}
    return eb.Optimizer(MIXED, algorithm=algorithm, clock=eb.ManualClock(), seed=11, n_initial=4, **stored)


def go_through(script, algorithm, path=None, reopen=()):
    """All that was asked, and the optimizer at the end."""
    opt, asked = study(algorithm, path), []
    for number, event in enumerate(script):
        if number in reopen:
            opt.close()
            opt = eb.Optimizer.open(url(path), "edge", clock=opt.clock)
        asked += happen(opt, event)
    return asked, opt


def same(one, other):
    """Whether two optimizers know the same, to the last bit."""
    assert one.history == other.history
    assert one.hyperparameters == other.hyperparameters
    assert one.guards == other.guards
    assert one.model == other.model
    assert list(one._active.pending.values()) == list(other._active.pending.values())
    assert (one._active.interval, one._active.span) == (other._active.interval, other._active.span)
    assert (one._active.told, one._active.values_told) == (other._active.told, other._active.values_told)
    for name in ("x", "t", "y"):
        assert (getattr(one.dataset, name) == getattr(other.dataset, name)).all()
    assert json.dumps(one._snapshot()) == json.dumps(other._snapshot())


@pytest.mark.parametrize("algorithm", ["w-dbo", "abo", "r-gp-ucb"])
def test_a_stored_study_is_the_one_in_memory(algorithm, tmp_path):
    settings = {"direction": "maximize", "algorithm": algorithm, "seed": 5}
    memory = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(), **settings)
    stored = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(), storage=url(tmp_path / "s.db"), name="edge", **settings)
    assert (drive(memory, moving_bump, 30) == drive(stored, moving_bump, 30)).all()
    same(memory, stored)
    stored.close()
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        same(memory, again)
        assert again.clock.now() == memory.clock.now() - 1.0  # it moved last when nobody looked
        again.clock.advance(1.0)
        assert again.ask() == memory.ask()


@pytest.mark.parametrize(
    "algorithm", [*eb.algorithms.names(), WINDOW, HASTY], ids=[*eb.algorithms.names(), "window", "hasty"]
)
def test_closed_and_reopened_all_the_time_it_asks_the_same(algorithm, tmp_path):
    script = events(seed=4, n=42)
    expected, memory = go_through(script, algorithm)
    asked, stored = go_through(script, algorithm, tmp_path / "s.db", reopen=range(len(script)))
    assert asked == expected
    assert len(asked) > 15
    same(memory, stored)
    assert {observation.failed for observation in stored.history} == {True, False}
    assert stored._log.pending() != []
    assert any(observation.removed_at is not None for observation in stored.history) or algorithm not in (WINDOW, HASTY)
    stored.close()


@given(
    script=st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 31), st.floats(0.0, 1.0)), min_size=4, max_size=25
    ),
    reopen=st.sets(st.integers(0, 24)),
    algorithm=st.sampled_from(["w-dbo", "abo", WINDOW, HASTY, "et-gp-ucb", "tv-gp-ucb"]),
)
@settings(max_examples=25)
def test_closed_and_reopened_at_any_moment_it_asks_the_same(script, reopen, algorithm):
    with tempfile.TemporaryDirectory() as folder:
        expected, memory = go_through(script, algorithm)
        asked, stored = go_through(script, algorithm, f"{folder}/s.db", reopen)
        assert asked == expected
        same(memory, stored)
        stored.close()


def test_a_study_can_be_saved_to_a_file_and_the_copy_goes_on_alone(tmp_path):
    _, stored = go_through(events(seed=4, n=30), "w-dbo", tmp_path / "s.db")
    stored.save(tmp_path / "s.json")
    copy = eb.Optimizer.load(tmp_path / "s.json")
    assert copy.ask() == stored.ask()
    copy.tell({"x": 0.5, "rate": 0.1, "n": 3, "codec": "a"}, 1.0)
    assert len(copy.history) == len(stored.history) + 1
    stored.close()


def test_trials_from_more_than_a_thousand_asks_ago_are_forgotten_alike(tmp_path):
    opt = tiny(tmp_path / "s.db")
    with opt._log.transaction():
        trials = opt.ask(REMEMBERED_ASKS + 10)
        opt.tell(trials[500], 1.0)
    assert list(opt._active.pending) == [t.id for t in trials[10:] if t.id != "500"]
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        same(opt, again)
        again.tell(trials[0], 2.0)  # it may still be told
        assert again.history[-1] == Observation(trials[0].params, 0.0, 2.0, "0")
    opt.close()


def test_the_system_clock_goes_on_from_the_last_reading(tmp_path):
    ahead = eb.SystemClock()
    ahead.never_before(ahead.now() + 3600.0)
    with closing(tiny(tmp_path / "s.db", clock=ahead)) as opt:
        opt.tell(opt.ask(), 1.0)
        told = opt.ask().time
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        assert again.ask().time >= told


def test_a_study_of_ten_thousand_comes_back_with_what_is_active_only(tmp_path):
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(max_active=200))
    opt = tiny(tmp_path / "s.db", algorithm=algorithm, n_initial=3)
    rng = np.random.default_rng(8)
    with opt._log.transaction():
        for x, y in rng.random((10_000, 2)).tolist():
            opt.clock.advance(1.0)
            opt.tell({"x": x}, y)
    opt.ask()
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        assert again.told == len(again.history) == 10_000
        assert len(again._active) == 200
        assert len(pickle.dumps(again._engine)) < 30_000  # all that it holds in memory
        assert again._active.lines.tolist() == opt._active.lines.tolist()
        assert again._state == opt._state
        assert opt._engine.step(opt.clock.now()).x == again._engine.step(opt.clock.now()).x
        opt.tell(again.ask(), 0.5)
    opt.close()


# --- the log is the whole truth ---------------------------------------------------------------------------------------


class Log:
    """The tables of a study, read without ebbtide."""

    def __init__(self, path, name="edge"):
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

    def recorded(self, k):
        ask = self.asks[k]
        removed = [(row["line"], row["relevance"]) for row in self.removals if row["ask"] == k]
        return json.loads(ask["params"]), ask["time"], removed, json.loads(ask["state"])

    def recomputed(self, k, algorithm=None):
        """The same, worked out from what was known when that ask began."""
        ask = self.asks[k]
        engine = Engine(Definition.from_json(self.definition, algorithm))
        engine.state = State() if k == 0 else State.from_json(json.loads(self.asks[k - 1]["state"]))
        seen = self.tells[: ask["told"]]
        for row in seen:
            engine.active.record(Observation(json.loads(row["params"]), row["time"], row["value"]))
        engine.active.remove([row["line"] for row in self.removals if row["ask"] < k])
        told = {row["ask"] for row in seen}
        for row in self.asks[:k]:
            if row["ask"] not in told:
                engine.active.open(Trial(str(row["ask"]), json.loads(row["params"]), row["time"], row["expires"]))
        step = engine.step(ask["now"], math.inf if ask["until"] is None else ask["until"])
        for row in self.tells:
            if row["asks"] <= k:
                engine.state = engine.state.noting(row["reading"])
        moment = ask["landed"] if step.wait is None else max(ask["landed"], step.wait)
        lines = engine.active.lines[step.rows].tolist()
        after = step.after(engine.state, ask["now"], ask["landed"]).to_json()
        return (
            engine.space.decode(step.x),
            moment,
            sorted(zip(lines, step.scores, strict=True)),
            json.loads(json.dumps(after)),
        )


@pytest.mark.parametrize(
    ("algorithm", "forgets"),
    [("w-dbo", False), (HASTY, True), (WINDOW, True), ("abo", False), ("tv-gp-ucb", False), ("et-gp-ucb", False)],
    ids=["w-dbo", "hasty", "window", "abo", "tv-gp-ucb", "et-gp-ucb"],
)
def test_every_ask_can_be_worked_out_again_from_the_log(algorithm, forgets, tmp_path):
    asked, opt = go_through(events(seed=7, n=45), algorithm, tmp_path / "s.db", reopen={10, 20, 40})
    opt.close()
    log = Log(tmp_path / "s.db")
    assert len(log.asks) == len(asked) > 15
    for k, trial in enumerate(asked):
        assert log.recomputed(k) == log.recorded(k)
        assert log.recorded(k)[:2] == (trial.params, trial.time)
    assert len(log.removals) >= (5 if forgets else 0)


def test_an_ask_with_a_last_moment_can_be_worked_out_again_from_the_log(tmp_path):
    with closing(study("abo", tmp_path / "s.db")) as opt:
        for _ in range(12):
            trial = opt.ask(until=opt.clock.now() + 0.5)
            wait_until(opt.clock, trial.time)
            opt.tell(trial, value_of(trial.params, trial.time))
            opt.clock.advance(1.0)
    log = Log(tmp_path / "s.db")
    for k in range(12):
        assert log.recomputed(k) == log.recorded(k)


def test_the_file_itself_refuses_what_is_there_already(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        trial = opt.ask()
        opt.tell(trial, 1.0)
        opt.tell({"x": 0.5}, 2.0, key="a")
        log, before = opt._log, opt.history
        plain = Observation({"x": 0.5}, 0.0, 3.0)
        for attempt in (
            lambda: log.record(Observation(trial.params, 0.0, 3.0, trial.id), 0.0, 2, 1),  # a trial that was told
            lambda: log.record(Observation({"x": 0.5}, 0.0, 3.0, key="a"), 0.0, 2, 1),  # a key that was used
            lambda: log.record(plain, 0.0, 1, 1),  # a line that was written
            lambda: log.asked(log.asks_since(0)[0]),  # an ask that was made
        ):
            with pytest.raises(eb.StorageError, match="UNIQUE"):
                attempt()
        assert opt.history == before
        log.record(plain, 0.0, 2, 1)


def test_there_is_nothing_in_the_file_but_numbers_and_json(tmp_path):
    _, opt = go_through(events(seed=4, n=40), WINDOW, tmp_path / "s.db")
    opt.close()
    seen = Counter()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [description[0] for description in cursor.description]
            for row in cursor:
                for name, value in zip(names, row, strict=True):
                    assert value is None or type(value) in (int, float, str)
                    if isinstance(value, str) and name not in ("name", "key"):
                        assert isinstance(json.loads(value), dict)
                        seen[table, name] += 1
    assert set(seen) == {("studies", "definition"), ("asks", "params"), ("asks", "state"), ("tells", "params")}


# --- names, definitions, URLs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("different", "says"),
    [
        ({"space": {"x": eb.Float(0.0, 2.0)}}, r"its space is .*'high': 1\.0.*, not .*'high': 2\.0"),
        ({"space": {"x": eb.Float(0.0, 1.0), "y": eb.Int(1, 2)}}, "its space is"),
        ({"direction": "maximize"}, "its direction is 'minimize', not 'maximize'"),
        ({"algorithm": "gp-ucb"}, "its algorithm is"),
        ({"algorithm": eb.Algorithm(staleness=eb.WassersteinBudget(alpha=0.5))}, "its algorithm is"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"n_initial": 3}, "its n_initial is 7, not 3"),
        ({"clock": eb.SystemClock()}, "its clock is 'ManualClock', not 'SystemClock'"),
        ({"clock": None}, "its clock is 'ManualClock', not 'SystemClock'"),
        ({"seed": 1, "direction": "maximize"}, "its direction is .*; its seed is"),
    ],
)
def test_a_study_that_is_defined_otherwise_says_how(different, says, tmp_path):
    usual = {"space": TINY, "clock": eb.ManualClock(), "seed": 0, "n_initial": 7}
    where = {"storage": url(tmp_path / "s.db"), "name": "edge"}
    with closing(eb.Optimizer(**usual, **where)) as opt:
        opt.ask()
        with pytest.raises(eb.StudyError, match=says):
            eb.Optimizer(**usual | different, **where)
        with closing(eb.Optimizer(**usual, **where)) as again:
            same(opt, again)


def test_what_is_left_out_is_as_the_study_has_it(tmp_path):
    with closing(tiny(tmp_path / "s.db", seed=77, n_initial=13)) as opt:
        again = eb.Optimizer(TINY, clock=eb.ManualClock(), storage=url(tmp_path / "s.db"), name="edge")
        assert (again.seed, again.n_initial) == (opt.seed, opt.n_initial) == (77, 13)
        again.close()
    with closing(tiny(tmp_path / "s.db", name="new", seed=None)) as new:
        assert new.seed != 77
        assert column(tmp_path / "s.db", "SELECT definition ->> 'seed' FROM studies WHERE name = 'new'") == [new.seed]


@dataclass(frozen=True)
class Mine(eb.UCB):
    """An acquisition of somebody's own."""


def test_parts_of_ones_own_are_given_again(tmp_path):
    class MyClock(eb.ManualClock):
        pass

    algorithm = eb.Algorithm(acquisition=Mine())
    with closing(tiny(tmp_path / "s.db", algorithm=algorithm, clock=MyClock())) as opt:
        opt.tell(opt.ask(), 1.0)
        with pytest.raises(eb.EbbtideError, match="algorithm=") as error:
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=MyClock())
        assert "class of your own" in str(error.value)
        with pytest.raises(eb.EbbtideError, match="clock="):
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm=algorithm)
        with pytest.raises(eb.EbbtideError, match="another algorithm"):
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm="w-dbo", clock=MyClock())
        again = eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm=algorithm, clock=MyClock())
        same(opt, again)
        again.close()


@pytest.mark.parametrize("given_one", [{"storage": "sqlite:///s.db"}, {"name": "edge"}, {"name": ""}])
def test_a_storage_needs_a_name_and_a_name_a_storage(given_one, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(eb.ConfigurationError, match="a stored study needs both"):
        eb.Optimizer(TINY, **given_one)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", " ", "..", " . ", "a/b", "a\nb", "a\0b", "\ud800", "x" * 101, 7, b"edge"])
def test_a_bad_name_is_refused(name, tmp_path):
    with pytest.raises(eb.EbbtideError, match="printable characters"):
        tiny(tmp_path / "s.db", name=name)
    assert column(tmp_path / "s.db", "SELECT name FROM studies") == []
    with pytest.raises(eb.StudyError, match="no study"):
        eb.Optimizer.open(url(tmp_path / "s.db"), name)


@pytest.mark.parametrize("name", ["edge-7", "x" * 100, "größe 1", ".hidden", "a'b\"c;--", "%_?#"])
def test_an_unusual_name_is_kept(name, tmp_path):
    with closing(tiny(tmp_path / "s.db", name=name)) as opt:
        opt.tell(opt.ask(), 1.0)
        with closing(tiny(tmp_path / "s.db", name="another")) as other:
            assert other.told == 0
        with closing(eb.Optimizer.open(url(tmp_path / "s.db"), name)) as again:
            same(opt, again)


def test_an_unknown_study_is_an_error_that_lists_the_others(tmp_path):
    tiny(tmp_path / "s.db", name="one").close()
    tiny(tmp_path / "s.db", name="two").close()
    with pytest.raises(eb.StudyError, match=r"no study 'three'.*'one'.*'two'"):
        eb.Optimizer.open(url(tmp_path / "s.db"), "three")


BAD_URLS = ["", "s.db", "sqlite://s.db", "sqlite:/s.db", "postgresql:///s", "SQLITE:///s.db", "sqlite:///"]


@pytest.mark.parametrize(
    "bad", [*BAD_URLS, "sqlite:///:memory:", "sqlite:///a\0b", "sqlite:///\ud800", 7, Path("s.db")]
)
def test_a_bad_url_is_refused(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for attempt in (lambda: eb.Optimizer(TINY, storage=bad, name="edge"), lambda: eb.Optimizer.open(bad, "edge")):
        with pytest.raises(eb.ConfigurationError, match="storage="):
            attempt()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["plain.db", "with space.db", "100%?mode=ro#1.db", "größe.db", "none", ":memory:x"])
def test_a_path_is_taken_as_it_is(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(eb.Optimizer(TINY, seed=0, storage=f"sqlite:///{file}", name="edge")) as opt:
        opt.tell(opt.ask(), 1.0)
        assert (tmp_path / file).is_file()
        with closing(eb.Optimizer.open(url(tmp_path / file), "edge")) as absolute:
            same(opt, absolute)
    assert [path.name for path in tmp_path.iterdir()] == [file]  # closed, it is one file


# --- files that cannot be used ----------------------------------------------------------------------------------------


def refused(path, says, name="edge"):
    """Opened or made, it is an error in words, and the file is as it was."""
    before = path.read_bytes() if path.is_file() else None
    for attempt in (lambda: tiny(path, name=name), lambda: eb.Optimizer.open(url(path), name)):
        with pytest.raises(eb.StorageError, match=says) as error:
            attempt()
        assert str(path) in str(error.value)
        assert before == (path.read_bytes() if path.is_file() else None)


@pytest.fixture
def file(tmp_path):
    """A study with something in it, closed."""
    path = tmp_path / "s.db"
    with closing(study(WINDOW, path)) as opt:
        for event in events(seed=4, n=80):
            happen(opt, event)
    return path


def test_a_newer_schema_is_not_touched(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 2")
    refused(file, "schema version 2.*upgrade ebbtide")


def test_a_database_of_something_else_is_not_touched(tmp_path):
    for number, statement in enumerate(
        ["CREATE TABLE studies (name TEXT)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"]
    ):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
        refused(path, "something else; nothing was changed")


@pytest.mark.parametrize("content", [b"x: 1\n", b"SQLite format 3", b"\0" * 5000, bytes(range(256)) * 40])
def test_a_file_that_is_no_database_is_not_touched(content, tmp_path):
    path = tmp_path / "s.db"
    path.write_bytes(content)
    refused(path, "no SQLite database, or damaged; nothing was changed")


def test_an_empty_file_is_a_new_one(tmp_path):
    (tmp_path / "s.db").touch()
    with closing(tiny(tmp_path / "s.db")) as opt:
        opt.tell(opt.ask(), 1.0)
        assert column(tmp_path / "s.db", "PRAGMA integrity_check") == ["ok"]
        assert column(tmp_path / "s.db", "PRAGMA journal_mode") == ["wal"]


def used(path):
    """What is wrong with a file; None if the study in it can be used."""
    try:
        with closing(eb.Optimizer.open(url(path), "edge", clock=eb.ManualClock(200.0))) as opt:
            assert len(opt.history) == opt.told
            opt.tell(opt.ask(), 1.0)
    except eb.StorageError as error:
        return str(error)


def test_a_truncated_file_is_an_error_that_says_so(file):
    content = file.read_bytes()
    for size in (100, 1000, 4096, 5000, len(content) // 2, len(content) - 4096):
        short = file.with_name(f"{size}.db")
        short.write_bytes(content[:size])
        refused(short, "damaged")
    for missing in (1, 10, 100, 1000, 4000):  # of the last page, which SQLite fills up with zeros
        short = file.with_name(f"-{missing}.db")
        short.write_bytes(content[:-missing])
        assert "damaged" in (used(short) or "damaged")


def test_garbage_in_a_page_is_an_error_or_does_not_matter(file):
    content, rng = file.read_bytes(), np.random.default_rng(3)
    pages, complaints = len(content) // 4096, []
    for page in range(pages):
        for garbage in (rng.bytes(4096), bytes(4096), content[4096 * page : 4096 * page + 2000] + rng.bytes(2096)):
            damaged = file.with_name("damaged.db")
            damaged.write_bytes(content[: 4096 * page] + garbage + content[4096 * (page + 1) :])
            complaints.append(used(damaged))
    assert all("damaged" in complaint for complaint in complaints if complaint is not None)
    assert sum(complaint is not None for complaint in complaints) > 1.5 * pages


@pytest.mark.parametrize(
    ("table", "text", "garbage"),
    [
        ("tells", "params", "{"),
        ("tells", "params", ""),
        ("asks", "params", '{"x"'),
        ("asks", "state", '{"asks": 1'),
        ("asks", "state", '{"asks": 1}'),
        ("asks", "state", "7"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_that_says_so(table, text, garbage, tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        opt.tell({"x": 0.5}, 1.0)
        opt.ask()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {text} = ?", (garbage,))
    assert "damaged" in used(tmp_path / "s.db")


def test_a_file_that_was_copied_by_sqlite_gets_its_log_back(file):
    copy = file.with_name("copy.db")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    assert column(copy, "PRAGMA journal_mode") == ["delete"]
    with closing(eb.Optimizer.open(url(file), "edge")) as opt, closing(eb.Optimizer.open(url(copy), "edge")) as again:
        same(opt, again)
        assert column(copy, "PRAGMA journal_mode") == ["wal"]


def test_a_folder_is_no_file(tmp_path):
    refused(tmp_path, "cannot be opened; check that the folder is there")


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    refused(tmp_path / "none" / "s.db", "cannot be opened; check that the folder is there")
    assert not (tmp_path / "none").exists()


UNPRIVILEGED = """
    import json, os, sys
    import ebbtide as eb
    warm = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=0)
    warm.tell(warm.ask(), 1.0)  # everything is imported, before nothing can be
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    for path in sys.argv[1:]:
        try:
            opt = eb.Optimizer(warm.space, clock=eb.ManualClock(), seed=0, storage=f"sqlite:///{path}", name="edge")
            opt.tell({"x": 0.5}, 1.0)
        except eb.EbbtideError as error:
            print(type(error).__name__, error)
        else:
            print("it worked")
"""


def test_what_may_not_be_written_is_an_error_that_says_so():
    with tempfile.TemporaryDirectory() as root:  # which everybody may enter, as pytest's folders are not
        Path(root).chmod(0o755)
        plain, read_only_file, read_only_folder, nothing_there = paths = [
            Path(root) / str(k) / "s.db" for k in range(4)
        ]
        for path in paths:
            path.parent.mkdir()
            if path != nothing_there:
                tiny(path, n_initial=None).close()
            path.parent.chmod(0o777 if path in (plain, read_only_file) else 0o555)
        plain.chmod(0o666)
        read_only_file.chmod(0o444)
        read_only_folder.chmod(0o666)
        before = {path: path.read_bytes() for path in (read_only_file, read_only_folder)}
        process = python(UNPRIVILEGED, *paths)
        said = process.communicate(timeout=60)[0].splitlines()
        assert process.returncode == 0
        for path in paths:
            path.parent.chmod(0o755)
        assert said[0] == "it worked"  # the child can do all else
        for path, words in zip(paths[1:], said[1:], strict=True):
            assert words.startswith(f"StorageError {path}: it cannot be")
            assert "permissions of" in words
        assert before == {path: path.read_bytes() for path in before}
        assert list(nothing_there.parent.iterdir()) == []


def test_a_reader_makes_no_file_and_writes_nothing(file):
    with pytest.raises(eb.StorageError, match="cannot be opened"):
        Storage.of(url(file.with_name("none.db")), read_only=True)
    empty = file.with_name("empty.db")
    empty.touch()
    with pytest.raises(eb.StorageError, match="holds no studies"):
        Storage.of(url(empty), read_only=True)
    assert empty.read_bytes() == b""
    with closing(Storage.of(url(file), read_only=True)) as storage:
        assert storage.names() == ["edge"]
        with pytest.raises(eb.StorageError, match="cannot be written to"):
            storage.delete("edge")


def test_a_closed_study_says_so(tmp_path):
    opt = tiny(tmp_path / "s.db")
    trial = opt.ask()
    opt.close()
    opt.close()
    for attempt in (opt.ask, lambda: opt.tell(trial, 1.0), opt.recommend, lambda: opt.history):
        with pytest.raises(eb.StorageError, match="closed"):
            attempt()


# --- idempotency keys -------------------------------------------------------------------------------------------------


def as_it_is(opt, folder):
    return opt


def saved_and_loaded(opt, folder):
    opt.save(folder / "s.json")
    return eb.Optimizer.load(folder / "s.json")


def reopened(opt, folder):
    opt.close()
    return eb.Optimizer.open(url(folder / "s.db"), "edge")


@pytest.mark.parametrize(
    ("stored", "again"), [(False, as_it_is), (False, saved_and_loaded), (True, as_it_is), (True, reopened)]
)
def test_what_was_told_under_a_key_is_told_once(stored, again, tmp_path):
    opt = tiny(tmp_path / "s.db" if stored else None)
    opt.clock.advance(5.0)
    trial = opt.ask()
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="a")
    opt.tell({"x": 0.25}, failed=True, key="b")
    opt.tell(trial, 2.5, key="c")
    before = opt.history
    assert [observation.key for observation in before] == ["a", "b", "c"]
    opt = again(opt, tmp_path)
    opt.clock.advance(1.0)
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="a")
    opt.tell({"x": 0.25}, 1.5, key="a")  # when it was measured need not be known any more
    opt.tell({"x": 0.25}, failed=True, key="b")
    opt.tell(trial, 2.5, key="c")
    opt.tell(trial, 2.5)
    assert opt.history == before
    for params, value, key in (
        ({"x": 0.25}, 1.6, "a"),
        ({"x": 0.35}, 1.5, "a"),
        (trial, 1.5, "a"),
        ({"x": 0.25}, 1.5, "b"),
        (dict(trial.params), 2.5, "c"),
        (trial, 2.6, "c"),
    ):
        with pytest.raises(eb.TrialError, match=f"under the key '{key}'.*make a new one for each"):
            opt.tell(params, value, key=key)
    with pytest.raises(eb.TrialError, match="under the key 'a'"):
        opt.tell({"x": 0.25}, failed=True, key="a")
    assert opt.history == before
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="d")
    opt.tell({"x": 0.25}, 1.5, time=3.0)
    assert len(opt.history) == len(before) + 2
    opt.close()


@pytest.mark.parametrize("key", ["", "x" * 201, 7, b"a", "\ud800"])
def test_a_bad_key_is_refused(key, tmp_path):
    for opt in (tiny(), tiny(tmp_path / "s.db")):
        with pytest.raises(eb.ObservationError, match="key="):
            opt.tell({"x": 0.5}, 1.0, key=key)
        assert opt.told == 0
        opt.close()


def test_keys_belong_to_a_study(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt, closing(tiny(tmp_path / "s.db", name="other")) as other:
        opt.tell({"x": 0.5}, 1.0, key="a")
        other.tell({"x": 0.5}, 2.0, key="a")
        assert (opt.history[0].value, other.history[0].value) == (1.0, 2.0)


# --- leases -----------------------------------------------------------------------------------------------------------


def believed(opt):
    """The pending trials that the next ask will keep away from."""
    posterior = opt._engine.posterior(opt.clock.now())
    return len(opt._engine._believing_pending(posterior, opt.clock.now())) - len(posterior)


@pytest.mark.parametrize("again", [as_it_is, reopened])
def test_a_trial_counts_as_pending_until_its_lease_ends(again, tmp_path):
    opt = tiny(tmp_path / "s.db", n_initial=3)
    drive(opt, lambda params, t: (params["x"] - 0.5) ** 2, 8)
    leased, other = opt.ask(lease=2.0), opt.ask(lease=0.5)
    assert (leased.expires, other.expires) == (leased.time + 2.0, other.time + 0.5)
    opt = again(opt, tmp_path)
    assert believed(opt) == 2
    opt.clock.advance(1.0)
    assert believed(opt) == 1
    opt.clock.advance(1.0)
    assert believed(opt) == 1  # to the end of it
    opt.clock.advance(0.5)
    assert believed(opt) == 0
    assert opt.trial(leased.id) == leased
    opt = again(opt, tmp_path)
    opt.tell(leased, 1.0)  # late, and accepted
    assert opt.history[-1] == Observation(leased.params, leased.time, 1.0, leased.id)
    assert [trial.id for trial in opt._log.pending()] == [other.id]
    opt.close()


def test_what_is_pending_moves_the_next_ask_and_what_has_expired_does_not(tmp_path):
    asked = {}
    for lease in (0.5, 50.0):
        with closing(tiny(tmp_path / f"{lease}.db", n_initial=3)) as opt:
            drive(opt, lambda params, t: (params["x"] - 0.5) ** 2, 8)
            opt.ask(lease=lease)
            opt.clock.advance(1.0)
            asked[lease] = opt.ask()
    assert asked[50.0].params != asked[0.5].params


def test_a_lease_may_be_a_number_of_numpy(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        opt.ask(lease=np.float32(2.0))
    assert column(tmp_path / "s.db", "SELECT expires FROM asks") == [2.0]


@pytest.mark.parametrize("lease", [-1.0, float("nan"), float("inf"), "1", True])
def test_a_bad_lease_is_refused(lease, tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        with pytest.raises(eb.ConfigurationError, match="lease="):
            opt.ask(lease=lease)
        assert opt._log.pending() == []


# --- several at once --------------------------------------------------------------------------------------------------


def test_two_optimizers_of_one_study_learn_from_each_other(tmp_path):
    clock = eb.ManualClock()
    alone = study("w-dbo")
    one, other = (
        eb.Optimizer(MIXED, clock=clock, seed=11, n_initial=4, storage=url(tmp_path / "s.db"), name="edge")
        for _ in range(2)
    )
    for number, event in enumerate(events(seed=4, n=60)):
        moment = clock.now()
        expected = happen(alone, event)
        clock._now = moment
        assert happen((one, other)[number % 3 == 0], event) == expected
        clock._now = alone.clock.now()
    for opt in (one, other):
        opt.recommend()  # which looks what there is
        same(opt, alone)
        opt.close()


def contiguous(path):
    """Asks and lines without a gap, each trial told once, and the file in order."""
    log = Log(path)
    assert [row["ask"] for row in log.asks] == list(range(len(log.asks)))
    assert [row["line"] for row in log.tells] == list(range(len(log.tells)))
    assert sorted(row["ask"] for row in log.tells) == list(range(len(log.asks)))
    assert [row["asks"] for row in log.tells] == sorted(row["asks"] for row in log.tells)
    assert column(path, "PRAGMA integrity_check") == ["ok"]
    return log


def test_two_threads_with_an_optimizer_each(tmp_path):
    path, errors, asked = tmp_path / "s.db", [], []
    start = threading.Barrier(2, timeout=60.0)

    def work():
        try:
            with closing(tiny(path)) as opt:
                start.wait()
                for _ in range(60):
                    trial = opt.ask()
                    asked.append(trial.id)
                    opt.tell(trial, trial.params["x"])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(map(int, asked)) == list(range(120))
    contiguous(path)


WORKER = """
    import json, sys
    import ebbtide as eb
    print("ready", flush=True)
    input()  # all begin at once, with no file yet
    opt = eb.Optimizer(
        {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)},
        algorithm=eb.Algorithm(staleness=eb.SlidingWindow(size=6)),
        seed=2, n_initial=4, storage=sys.argv[1], name="edge",
    )
    asked = []
    for _ in range(12):
        trial = opt.ask()
        asked.append([trial.id, trial.params])
        opt.tell(trial, trial.params["x"])
    print("done", flush=True)
    input()
    opt.recommend()
    snapshot = opt._snapshot()
    opt.close()
    print(json.dumps([asked, snapshot]))
"""


def test_three_processes_that_ask_and_tell_at_once(tmp_path):
    with ExitStack() as stack:
        workers = [
            stack.enter_context(python(WORKER, url(tmp_path / "s.db"), stderr=subprocess.PIPE)) for _ in range(3)
        ]
        for word in ("ready", "done"):  # and not on before all are
            for worker in workers:
                assert worker.stdout.readline() == f"{word}\n", worker.communicate()[1]
            for worker in workers:
                worker.stdin.write("go on\n")
                worker.stdin.flush()
        results = [worker.communicate(timeout=60) for worker in workers]
    assert [errors for _, errors in results] == [""] * 3  # nothing is locked, nothing is lost
    reports = [json.loads(out) for out, _ in results]
    log = contiguous(tmp_path / "s.db")
    assert len(log.asks) == 36
    asked = sorted(((int(trial), params) for trials, _ in reports for trial, params in trials), key=lambda t: t[0])
    assert asked == [(row["ask"], json.loads(row["params"])) for row in log.asks]
    assert len(log.removals) > 20
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as opt:
        assert [snapshot for _, snapshot in reports] == [json.loads(json.dumps(opt._snapshot()))] * 3
    for k in range(36):  # whoever asked, knew what the log says
        assert log.recomputed(k) == log.recorded(k)


class FollowedStudy(database.Database):
    """A file that others try to write to whenever this one writes."""

    tried = ()

    def run(self, statement, values=()):
        super().run(statement, values)
        if statement.startswith("INSERT"):
            with closing(sqlite3.connect(self.path, timeout=0.0, isolation_level=None)) as other:
                try:
                    other.execute("BEGIN IMMEDIATE")
                    self.tried += ("got in",)
                except sqlite3.OperationalError as error:
                    self.tried += (error.sqlite_errorname,)


def test_nobody_gets_in_while_something_is_recorded(tmp_path):
    with closing(Storage(FollowedStudy(tmp_path / "s.db"))) as storage:
        opt = tiny(storage=storage, name="edge")
        opt.tell(opt.ask(), 1.0)
        assert storage.database.tried == ("SQLITE_BUSY",) * 3  # the study, the ask, the tell
        tiny(tmp_path / "s.db").close()  # and afterwards anybody does


class Overtaken(database.Database):
    """A file in which another process makes its tables, just when this one looks whether there are any."""

    overtaking = ()

    def rows(self, query, values=()):
        if "sqlite_schema" in query and not self.overtaking:
            self.overtaking = (tiny(self.path),)
        return super().rows(query, values)


def test_two_that_make_the_same_file_at_once_share_it(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as far as the other one has come
    with closing(Storage(Overtaken(tmp_path / "s.db"))) as storage:
        (other,) = storage.database.overtaking
        opt = tiny(storage=storage, name="edge")
        other.tell(other.ask(), 1.0)
        assert opt.ask().id == "1"
        assert opt.told == 1
        other.close()


def nothing():
    pass


@dataclass(frozen=True)
class Slow(eb.UCB):
    """An acquisition during which something happens; to the definition of a study that makes no difference."""

    meanwhile: object = nothing

    def __call__(self, mean, std, context):
        self.meanwhile()
        return super().__call__(mean, std, context)


def test_an_ask_that_always_comes_too_late_gets_its_turn(tmp_path):
    def slow(meanwhile):
        return {"algorithm": eb.Algorithm(acquisition=Slow(meanwhile=meanwhile)), "n_initial": 0}

    rivals, outcomes = [], []

    def another_asks_first():
        if opt._state.asks == len(rivals) < RACES:
            rivals.append(rival.ask())
        elif opt._state.asks == RACES and not outcomes:  # now it has to itself what it plans for
            with closing(sqlite3.connect(tmp_path / "s.db", timeout=0.0, isolation_level=None)) as third:
                try:
                    third.execute("BEGIN IMMEDIATE")
                    outcomes.append("nobody is locked out")
                except sqlite3.OperationalError as error:
                    outcomes.append(error.sqlite_errorname)

    with (
        closing(tiny(tmp_path / "s.db", **slow(nothing))) as rival,
        closing(tiny(tmp_path / "s.db", **slow(another_asks_first))) as opt,
    ):
        trial = opt.ask()
        assert [t.id for t in rivals] == ["0", "1", "2"]
        assert trial.id == "3"
        assert outcomes == ["SQLITE_BUSY"]
        assert rival.ask().id == "4"


def test_who_waits_too_long_for_others_is_told_so_and_readers_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    with closing(tiny(tmp_path / "s.db")) as one, closing(tiny(tmp_path / "s.db")) as other:
        one.tell({"x": 0.5}, 1.0)
        with one._log.transaction():
            one.tell({"x": 0.6}, 2.0)
            for attempt in (other.ask, lambda: other.tell({"x": 0.7}, 3.0)):
                with pytest.raises(eb.StorageError, match="kept it locked"):
                    attempt()
            assert other.recommend().time == 0.0
            assert [observation.value for observation in other.history] == [1.0]
        other.tell({"x": 0.7}, 3.0)
        assert [observation.value for observation in one.history] == [1.0, 2.0, 3.0]


def test_whoever_learns_late_of_many_asks_forgets_the_same_trials(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as one, closing(tiny(tmp_path / "s.db")) as other:
        one.ask()
        with other._log.transaction():
            for _ in range(REMEMBERED_ASKS):
                other.tell(other.ask(), 1.0)
        one.recommend()
        same(one, other)


def test_a_plan_that_was_overtaken_comes_to_nothing(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as one, closing(tiny(tmp_path / "s.db")) as other:
        plan = one.plan()
        step = plan.step()
        other.tell({"x": 0.5}, 1.0)  # a tell does not matter
        ask = other.ask()
        before = Log(tmp_path / "s.db")
        assert one.commit(plan, step) is None
        assert len(Log(tmp_path / "s.db").asks) == len(before.asks) == 1
        assert one._log.pending() == [ask]
        assert one.ask().id == "1"


def test_what_others_tell_while_an_ask_is_worked_out_counts_for_the_next_one(tmp_path):
    with closing(tiny(tmp_path / "s.db", n_initial=2, algorithm=WINDOW)) as one:
        drive(one, lambda params, t: (params["x"] - 0.5) ** 2, 8)
        with closing(tiny(tmp_path / "s.db", n_initial=2, algorithm=WINDOW)) as other:
            plan = one.plan()
            step = plan.step()
            other.clock.advance(30.0)
            other.tell({"x": 0.9}, 5.0)
            trial = one.commit(plan, step)
        assert trial.id == "8"
        assert (one.told, one.history[-1].value, one.dataset.y[-1]) == (9, 5.0, 5.0)
        log = Log(tmp_path / "s.db")
        assert log.asks[8]["told"] == 8
        assert log.recomputed(8) == log.recorded(8)
        with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
            same(one, again)


def test_a_study_that_another_process_deleted_is_gone_for_good(tmp_path):
    opt = tiny(tmp_path / "s.db")
    trial = opt.ask()
    opt.tell({"x": 0.1}, 1.0, key="a")
    code = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM studies WHERE name = 'edge'")
        connection.close()
    """
    process = python(code, tmp_path / "s.db")
    process.communicate(timeout=60)
    assert process.returncode == 0
    for attempt in (
        opt.ask,
        lambda: opt.tell({"x": 0.5}, 2.0),
        lambda: opt.tell({"x": 0.1}, 1.0, key="a"),
        lambda: opt.tell(trial, 2.0),
        opt.recommend,
        lambda: opt.history,
        lambda: opt.save(tmp_path / "s.json"),
    ):
        with pytest.raises(eb.UnknownStudyError, match="deleted"):
            attempt()
    new = tiny(tmp_path / "s.db")  # of the same name, and yet another
    with pytest.raises(eb.UnknownStudyError, match="deleted"):
        opt.tell({"x": 0.5}, 2.0)
    assert new.history == []
    assert new.ask().id == "0"
    assert [column(tmp_path / "s.db", f"SELECT count(*) FROM {table}") for table in ("asks", "tells")] == [[1], [0]]
    new.close()
    opt.close()
