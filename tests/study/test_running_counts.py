"""Opening a study does not read its history: each row says how much came before it, and a table says what is active."""

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.copying import studies_of_all_kinds
from helpers.counts import check_counts
from helpers.long_histories import lengthen
from helpers.studies import WINDOW, column, tiny, url

import ebbtide as eb
from ebbtide.dashboard.views import Views
from ebbtide.study.active import Checkpoint
from ebbtide.study.storage import Storage, StoredLog, schema

DATA = Path(__file__).with_name("data")
OLD = sorted(DATA.glob("v*.db"))


def test_every_row_says_how_much_came_before_it(tmp_path):
    with closing(Storage.of(url(tmp_path / "s.db"), create=True)) as storage:
        studies_of_all_kinds(storage)
        check_counts(storage)


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_upgrade_counts_what_is_there(old, tmp_path):
    shutil.copy(old, tmp_path)
    with pytest.warns(eb.EbbtideWarning, match="upgraded"):
        storage = Storage.of(url(tmp_path / old.name))
    with closing(storage):
        check_counts(storage)
        for name in storage.names():
            opt = eb.Optimizer.open(storage, name, clock=eb.ManualClock(1e6))
            opt.tell(opt.ask(), 1.0)
            opt.tell(opt.ask(), failed=True)
        check_counts(storage)


OLD_ROWS = """
    INSERT INTO studies (name, created, definition) VALUES ('edge', 0, '{}');
    INSERT INTO tells (study, line, asks, reading, params, time, value)
        WITH RECURSIVE lines (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM lines WHERE n + 1 < :told)
        SELECT 1, n, n / 10, n, '{}', n, n FROM lines;
    INSERT INTO asks (study, ask, told, now, landed, params, time, state)
        SELECT 1, line / 10, line, line, line, '{}', line, '{}' FROM tells WHERE line % 10 = 0;
    INSERT INTO removals (study, line, ask) SELECT 1, line, line / 10 + 1 FROM tells WHERE line < :told - 100
"""


def test_an_upgrade_reads_each_row_only_a_few_times():
    """Counted in SQLite's own steps: four times as many for a history that is four times as long."""

    def steps(told):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            *before, last = (step.read_text() for step in schema.steps(schema.MIGRATIONS)[:5])
            for script in before:
                connection.executescript(script)
            for statement in OLD_ROWS.replace(":told", str(told)).split(";"):
                connection.execute(statement)
            count = itertools.count()
            connection.set_progress_handler(lambda: next(count) < 0, 1)
            for statement in schema._statements(last):
                connection.execute(statement)
            connection.set_progress_handler(None, 1)
            assert connection.execute("SELECT max(valued) FROM tells").fetchone() == (told,)
            return next(count)

    assert steps(2000) < 5.0 * steps(500)


def test_there_is_a_file_of_each_older_version():
    assert [path.stem for path in OLD] == [f"v{number}" for number in range(1, schema.version())]


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "v4.db"
    shutil.copy(DATA / "v4.db", file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE active (somebody_elses)")

    def everything():
        with closing(sqlite3.connect(file)) as connection:
            return list(connection.iterdump()), connection.execute("PRAGMA user_version").fetchone()

    before = everything()
    with pytest.warns(eb.EbbtideWarning, match="kept as"), pytest.raises(eb.StorageError, match="active"):
        Storage.of(url(file))
    assert everything() == before


def test_what_is_opened_is_what_the_whole_history_says(tmp_path):
    """With failures, abandoned lines, values of the past, lines since the last ask, and several asks at once."""
    clock = eb.ManualClock()
    with tiny(tmp_path / "s.db", algorithm=WINDOW, n_initial=3, clock=clock) as opt:
        for number in range(12):
            clock.advance(1.0)
            trials = opt.ask(2)
            opt.tell(trials[0], 1.0, time=clock.now() - 20.0 if number == 6 else None)
            opt.tell(trials[1], failed=number % 3 > 0, abandoned=number % 3 == 0)
        for value in (1.0, None, 2.0):
            opt.tell({"x": 0.5}, value, failed=value is None)
        pending = opt.pending_trials
        found = opt._log.checkpoint()[1]
        whole = Checkpoint.of(opt.history, pending, {"x": 0.5})
        for part in ("told", "values_told", "recent_times", "first", "last", "active", "failures", "in_force"):
            assert getattr(found, part) == getattr(whole, part)
        assert (whole.first, 0 < len(whole.active) < whole.values_told) == (-13.0, True)


def test_a_transaction_that_is_undone_undoes_its_counts(tmp_path, monkeypatch):
    clock = eb.ManualClock()
    with closing(Storage.of(url(tmp_path / "s.db"), create=True)) as storage:
        opt = tiny(storage=storage, name="edge", algorithm=WINDOW, n_initial=1, clock=clock)
        for _ in range(8):
            clock.advance(1.0)
            opt.tell(opt.ask(), 1.0)
        before = column(tmp_path / "s.db", "SELECT line FROM active")

        def lose(log, ask):
            record(log, ask)
            raise KeyboardInterrupt

        record = StoredLog.record_ask
        with monkeypatch.context() as patch:
            patch.setattr(StoredLog, "record_ask", lose)
            with pytest.raises(KeyboardInterrupt):
                opt.ask()
        assert column(tmp_path / "s.db", "SELECT line FROM active") == before
        opt.tell(opt.ask(), 1.0)
        assert column(tmp_path / "s.db", "SELECT line FROM active") != before
        check_counts(storage)


def test_a_deleted_study_leaves_nothing_active(tmp_path):
    with closing(Storage.of(url(tmp_path / "s.db"), create=True)) as storage:
        studies_of_all_kinds(storage)
        assert column(tmp_path / "s.db", "SELECT count(*) FROM active") != [0]
        for name in storage.names():
            storage.delete(name)
        assert column(tmp_path / "s.db", "SELECT count(*) FROM active") == [0]


READS = {
    "to open it": lambda storage, name: storage.log(name).checkpoint(),
    "a summary": lambda storage, name: storage.summary(name),
    "a list": lambda storage, name: storage.listed(name, limit=1),
    "the newest studies": lambda storage, name: storage.overview(1, name),
    "the active lines": lambda storage, name: storage.page(name, 0, 1000, active=True),
    "the first lines": lambda storage, name: storage.page(name, 0, 10),
    "news": lambda storage, name: storage.log(name).updates(*storage.log(name)._check_that_it_has(0, 0)),
    "the page of a study": lambda storage, name: Views(storage).study(name, 50, None),
    "the page of a study, all of it": lambda storage, name: Views(storage).study(name, None, None),
    "the trail": lambda storage, name: Views(storage).trail(name, 50),
    "the trail, all of it": lambda storage, name: Views(storage).trail(name, None),
}


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    """Two long ones, in which there is more of everything than anybody looks at; one is four times as long."""
    clock = eb.ManualClock()
    options: dict[str, Any] = {
        "constraints": {"heat": eb.AtMost(0.5), "load": eb.AtMost(0.5)},
        "baseline": {"x": 0.5},
        "baseline_every": 4,
        "explore": 0.5,
    }
    with closing(Storage.of(url(tmp_path_factory.mktemp("long") / "s.db"), create=True)) as storage:
        opt = tiny(storage=storage, name="template", algorithm=WINDOW, clock=clock, n_initial=2, **options)
        for number in range(100):
            clock.advance(1.0)
            around = {"heat": number % 3 / 2.0, "load": number % 5 / 4.0}
            trial = opt.ask()
            if number % 5 in (0, 1):
                opt.tell(trial, failed=number % 5 == 0, abandoned=number % 5 == 1)
            else:
                opt.tell(trial, float(number), constraints=around)
            opt.tell({"x": 0.5}, 1.0, constraints=around)
        for name, times in (("short", 20), ("long", 80)):
            lengthen(storage, "template", times, name)
        check_counts(storage)
        yield storage


@pytest.mark.parametrize("what", READS)
def test_a_long_history_is_not_read(histories, what):
    """Counted in SQLite's own steps, which are the same on every machine."""

    def steps(name):
        count = itertools.count()
        histories.database._connection.set_progress_handler(lambda: next(count) < 0, 1)
        READS[what](histories, name)
        histories.database._connection.set_progress_handler(None, 1)
        return next(count)

    assert steps("long") < 1.2 * steps("short")
