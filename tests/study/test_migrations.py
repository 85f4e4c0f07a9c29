"""Files with an older schema are upgraded completely or not at all; newer ones are refused."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.studies import column, python, tiny, url

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.study.storage import Storage, schema

SECOND = """
-- A step that a later version might have: a column with a default, and an index.
ALTER TABLE tells ADD COLUMN weight REAL NOT NULL DEFAULT 1.0;
CREATE INDEX heavy ON tells (study, weight);
"""
TODAY = schema.version()
NEXT = TODAY + 1


@pytest.fixture
def file(tmp_path):
    """A study written by today's version."""
    path = tmp_path / "s.db"
    with tiny(path) as opt:
        for _ in range(3):
            opt.tell(opt.ask(), 1.0)
    return path


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """An ebbtide with one more step; returns the folder of steps."""
    steps = tmp_path / "steps"
    shutil.copytree(schema.MIGRATIONS, steps)
    (steps / f"{NEXT:04}_weights.sql").write_text(SECOND)
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    return steps


def tables(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def rows(path):
    return column(path, "SELECT json_array(ask, params, time, state) FROM asks ORDER BY ask"), column(
        path, "SELECT json_array(line, params, time, value) FROM tells ORDER BY line"
    )


def test_the_steps_are_numbered_without_a_gap():
    numbers = [int(step.name.partition("_")[0]) for step in schema.steps(schema.MIGRATIONS)]
    assert numbers == list(range(1, schema.version() + 1))


def test_an_older_file_is_upgraded_after_a_copy_and_continues(file, next_version):
    before = tables(file), rows(file)
    with pytest.warns(
        eb.EbbtideWarning, match=rf"from schema version {TODAY} to {NEXT}; the old file is kept as .*s\.db\.v{TODAY}"
    ):
        opt = eb.Optimizer.open(url(file), "edge")
    assert column(file, "PRAGMA user_version") == [NEXT]
    assert column(file, "SELECT weight FROM tells") == [1.0, 1.0, 1.0]
    assert rows(file) == before[1]
    assert opt.ask().id == "3"
    opt.close()
    kept = Path(f"{file}.v{TODAY}")
    assert (tables(kept), rows(kept)) == before
    assert column(kept, "PRAGMA user_version") == [TODAY]
    eb.Optimizer.open(url(file), "edge").close()  # once is enough
    assert sorted(path.name for path in file.parent.glob("s.db*")) == ["s.db", f"s.db.v{TODAY}"]


def test_an_existing_copy_is_kept(file, next_version):
    Path(f"{file}.v{TODAY}").write_text("mine")
    with pytest.warns(eb.EbbtideWarning, match=rf"s\.db\.v{TODAY}-2"):
        eb.Optimizer.open(url(file), "edge").close()
    assert Path(f"{file}.v{TODAY}").read_text() == "mine"
    assert column(f"{file}.v{TODAY}-2", "PRAGMA user_version") == [TODAY]


def test_an_upgrade_without_a_copy(file, next_version):
    assert Storage.upgrade(url(file), copy=False) == (TODAY, NEXT)
    assert Storage.upgrade(url(file), copy=False) == (NEXT, NEXT)
    assert [path.name for path in file.parent.glob("s.db*")] == ["s.db"]


@pytest.mark.parametrize("bad", ["CREATE TABLE asks (x);", "ALTER TABLE tells ADD COLUMN y;\nSELECT no_such();"])
def test_a_step_that_fails_leaves_the_file_as_it_was(bad, file, next_version):
    (next_version / f"{NEXT + 1:04}_bad.sql").write_text(bad)
    schema.steps.cache_clear()
    before = tables(file), rows(file)
    with pytest.warns(eb.EbbtideWarning), pytest.raises(eb.StorageError):
        eb.Optimizer.open(url(file), "edge")
    assert (tables(file), rows(file)) == before
    assert column(file, "PRAGMA user_version") == [TODAY]


def test_a_reader_upgrades_nothing_and_says_what_to_do(file, next_version):
    with pytest.raises(eb.StorageError, match=r"written by an older ebbtide.*`ebbtide upgrade`"):
        Storage.of(url(file), read_only=True)
    assert column(file, "PRAGMA user_version") == [TODAY]


def test_a_newer_file_is_refused_with_the_right_remedy(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 7")
    before = file.read_bytes()
    for attempt in (
        lambda: eb.Optimizer.open(url(file), "edge"),
        lambda: Storage.of(url(file), read_only=True),
        lambda: tiny(file),
    ):
        with pytest.raises(eb.StorageError, match=r"written by a newer ebbtide \(schema version 7.*upgrade ebbtide"):
            attempt()
    assert file.read_bytes() == before


UPGRADING = """
    import sys, warnings
    from pathlib import Path
    import ebbtide as eb
    from ebbtide.study.storage import schema
    schema.MIGRATIONS = Path(sys.argv[1])
    print("ready", flush=True)
    input()
    warnings.simplefilter("ignore", eb.EbbtideWarning)
    with eb.Optimizer.open(sys.argv[2], "edge", clock=eb.ManualClock(10.0)) as opt:
        opt.tell({"x": 0.5}, 2.0)
"""


@pytest.mark.slow
def test_two_processes_that_upgrade_at_once_upgrade_once(file, next_version):
    processes = [python(UPGRADING, next_version, url(file)) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    assert column(file, "PRAGMA user_version") == [NEXT]
    assert column(file, "SELECT count(*) FROM tells") == [5]
    assert len(list(file.parent.glob(f"s.db.v{TODAY}*"))) == 1


def test_the_command_says_what_it_did(file, next_version):
    runner = CliRunner()
    said = runner.invoke(ebbtide, ["upgrade", str(file)])
    assert said.exit_code == 0
    assert f"upgraded from schema version {TODAY} to {NEXT}; the old file is kept as {file}.v{TODAY}" in said.output
    again = runner.invoke(ebbtide, ["upgrade", url(file)])
    assert again.output == f"{url(file)} has schema version {NEXT}\n"
    missing = runner.invoke(ebbtide, ["upgrade", str(file.with_name("mistyped.db"))])
    assert missing.exit_code == 1
    assert "mistyped.db" in missing.output
    assert not file.with_name("mistyped.db").exists()


def test_the_command_keeps_no_copy_if_told_so(file, next_version):
    said = CliRunner().invoke(ebbtide, ["upgrade", str(file), "--no-copy"])
    assert said.output == f"{file} has schema version {NEXT} now; it had {TODAY}\n"
    assert [path.name for path in file.parent.glob("s.db*")] == ["s.db"]
