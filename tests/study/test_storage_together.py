"""Several optimizers, threads and processes that share one stored study."""

import json
import sqlite3
import subprocess
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from helpers.drifting import drive
from helpers.studies import (
    MIXED,
    WINDOW,
    Tables,
    column,
    contents,
    events,
    happen,
    pending,
    python,
    same,
    study,
    tiny,
    url,
)

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.study.active import REMEMBERED_ASKS
from ebbtide.study.asks import RACES
from ebbtide.study.storage import Storage, sqlite

# --- several at once --------------------------------------------------------------------------------------------------


def test_two_optimizers_of_one_study_learn_from_each_other(tmp_path):
    clock, asked = eb.ManualClock(), []
    alone = study("tide")
    one, other = (
        eb.Optimizer(MIXED, clock=clock, seed=11, n_initial=4, storage=url(tmp_path / "s.db"), name="edge")
        for _ in range(2)
    )
    for number, event in enumerate(events(seed=4, n=60)):
        expected = happen(alone, event, asked)
        assert happen((one, other)[number % 3 == 0], event, asked) == expected
        asked += expected
        wait_until(clock, alone.clock.now())
    for opt in (one, other):
        opt.recommend()  # which reads what the other one has recorded
        same(opt, alone)
        opt.close()


def contiguous(path):
    """Check that asks and lines have no gaps, that each trial was told once, and that the file is intact."""
    log = Tables(path)
    assert [row["ask"] for row in log.asks] == list(range(len(log.asks)))
    assert [row["line"] for row in log.tells] == list(range(len(log.tells)))
    assert sorted(row["ask"] for row in log.tells) == list(range(len(log.asks)))
    assert [row["asks"] for row in log.tells] == sorted(row["asks"] for row in log.tells)
    assert column(path, "PRAGMA integrity_check") == ["ok"]
    return log


def test_two_threads_with_their_own_optimizers(tmp_path):
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
    input()  # all start at once, when there is no file yet
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
    opt.save(sys.argv[2])
    opt.close()
    print(json.dumps(asked))
"""


@pytest.mark.slow
def test_three_processes_that_ask_and_tell_at_once(tmp_path):
    with ExitStack() as stack:
        workers = [
            stack.enter_context(python(WORKER, url(tmp_path / "s.db"), tmp_path / f"{k}.json", stderr=subprocess.PIPE))
            for k in range(3)
        ]
        for word in ("ready", "done"):  # wait until all have come this far
            for worker in workers:
                assert worker.stdout.readline() == f"{word}\n", worker.communicate()[1]
            for worker in workers:
                worker.stdin.write("go on\n")
                worker.stdin.flush()
        results = [worker.communicate(timeout=60) for worker in workers]
    assert [errors for _, errors in results] == [""] * 3  # no one was locked out
    reports = [json.loads(out) for out, _ in results]
    log = contiguous(tmp_path / "s.db")
    assert len(log.asks) == 36
    asked = sorted(((int(trial), params) for trials in reports for trial, params in trials), key=lambda t: t[0])
    assert asked == [(row["ask"], json.loads(row["params"])) for row in log.asks]
    assert len(log.removals) > 20
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as opt:
        for k in range(3):
            assert contents(eb.Optimizer.load(tmp_path / f"{k}.json")) == contents(opt)
    for k in range(36):  # every ask knew exactly what the log says
        assert log.recomputed(k) == log.recorded(k)


class Contested(sqlite.SqliteDatabase):
    """A file to which another connection tries to write whenever this one does."""

    tried: tuple[str, ...] = ()

    def run(self, statement, values=()):
        super().run(statement, values)
        if statement.startswith("INSERT"):
            with closing(sqlite3.connect(self.path, timeout=0.0, isolation_level=None)) as other:
                try:
                    other.execute("BEGIN IMMEDIATE")
                    self.tried += ("got in",)
                except sqlite3.OperationalError as error:
                    self.tried += (error.sqlite_errorname,)


def test_no_other_process_can_write_while_something_is_recorded(tmp_path):
    with closing(Storage(Contested(tmp_path / "s.db", "rwc"))) as storage:
        opt = tiny(storage=storage, name="edge")
        opt.tell(opt.ask(), 1.0)
        assert isinstance(storage.database, Contested)
        assert storage.database.tried == ("SQLITE_BUSY",) * 3  # the study, the ask, the tell
        tiny(tmp_path / "s.db").close()  # afterwards anyone can


class Overtaken(sqlite.SqliteDatabase):
    """A file in which another process creates the tables just when this one checks whether there are any."""

    overtaking: tuple[eb.Optimizer, ...] = ()

    def rows(self, query, values=()):
        if "sqlite_schema" in query and not self.overtaking:
            self.overtaking = (tiny(self.path),)
        return super().rows(query, values)


def test_two_processes_that_create_the_same_file_at_once_share_it(tmp_path):
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as far as the other process has come
    with closing(Storage(Overtaken(tmp_path / "s.db", "rwc"))) as storage:
        assert isinstance(storage.database, Overtaken)
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
    """An acquisition during which something happens; that is not part of the study's definition."""

    meanwhile: object = nothing

    def __call__(self, mean, std, context):
        self.meanwhile()
        return super().__call__(mean, std, context)


def test_an_ask_that_is_always_overtaken_gets_its_turn(tmp_path):
    def slow(meanwhile):
        return {"algorithm": eb.Algorithm(acquisition=Slow(meanwhile=meanwhile)), "n_initial": 0}

    rivals, outcomes = [], []

    def another_asks_first():
        if opt.asked == len(rivals) < RACES:
            rivals.append(rival.ask())
        elif opt.asked == RACES and not outcomes:  # now it has locked the others out
            with closing(sqlite3.connect(tmp_path / "s.db", timeout=0.0, isolation_level=None)) as third:
                try:
                    third.execute("BEGIN IMMEDIATE")
                    outcomes.append("no one is locked out")
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


def test_a_writer_that_waits_too_long_gets_an_error_and_readers_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_S", 0.05)
    storage = Storage.of(url(tmp_path / "s.db"), create=True)
    with closing(tiny(storage=storage, name="edge")) as one, closing(tiny(tmp_path / "s.db")) as other:
        one.tell({"x": 0.5}, 1.0)
        with storage.database.transaction():
            one.tell({"x": 0.6}, 2.0)
            for attempt in (other.ask, lambda: other.tell({"x": 0.7}, 3.0)):
                with pytest.raises(eb.StorageError, match="kept it locked"):
                    attempt()
            assert other.recommend().time == 0.0
            assert [observation.value for observation in other.history] == [1.0]
        other.tell({"x": 0.7}, 3.0)
        assert [observation.value for observation in one.history] == [1.0, 2.0, 3.0]


@pytest.mark.slow
def test_an_optimizer_that_learns_late_of_many_asks_forgets_the_same_trials(tmp_path):
    storage = Storage.of(url(tmp_path / "s.db"), create=True)
    with closing(tiny(tmp_path / "s.db")) as one, closing(tiny(storage=storage, name="edge")) as other:
        one.ask()
        with storage.database.transaction():
            for _ in range(REMEMBERED_ASKS):
                other.tell(other.ask(), 1.0)
        one.recommend()
        same(one, other)


def ask_during_which(opt, monkeypatch, happens):
    """Ask; something happens while the ask is computed, which is between the first two readings of the clock."""
    plain, readings = opt.clock.now, []

    def now():
        readings.append(plain())
        if len(readings) == 2:
            happens()
        return readings[-1]

    monkeypatch.setattr(opt.clock, "now", now)
    trial = opt.ask()
    assert len(readings) >= 2
    return trial


def test_an_ask_that_was_overtaken_is_computed_again(tmp_path, monkeypatch):
    asked = []
    with closing(tiny(tmp_path / "s.db")) as one, closing(tiny(tmp_path / "s.db")) as other:

        def overtake():
            other.tell({"x": 0.5}, 1.0)
            asked.append(other.ask())

        asked.append(ask_during_which(one, monkeypatch, overtake))
        assert [trial.id for trial in asked] == ["0", "1"]
        assert asked[0].params != asked[1].params
        assert [ask["told"] for ask in Tables(tmp_path / "s.db").asks] == [
            1,
            1,
        ]  # the second is not from before the tell
        assert pending(one) == asked


def test_a_tell_by_another_process_during_an_ask_counts_for_the_next_ask(tmp_path, monkeypatch):
    with closing(tiny(tmp_path / "s.db", n_initial=2, algorithm=WINDOW)) as one:
        drive(one, lambda params, t: (params["x"] - 0.5) ** 2, 8)
        with closing(tiny(tmp_path / "s.db", n_initial=2, algorithm=WINDOW)) as other:
            assert isinstance(other.clock, eb.ManualClock)
            other.clock.advance(30.0)
            trial = ask_during_which(one, monkeypatch, lambda: other.tell({"x": 0.9}, 5.0))
        assert trial.id == "8"
        assert (one.told, one.history[-1].value, one.dataset.y[-1]) == (9, 5.0, 5.0)
        log = Tables(tmp_path / "s.db")
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
    new = tiny(tmp_path / "s.db")  # another study with the same name
    with pytest.raises(eb.UnknownStudyError, match="deleted"):
        opt.tell({"x": 0.5}, 2.0)
    assert new.history == []
    assert new.ask().id == "0"
    assert [column(tmp_path / "s.db", f"SELECT count(*) FROM {table}") for table in ("asks", "tells")] == [[1], [0]]
    new.close()
    opt.close()
