"""Studies copied from one storage to another are the same, to the last bit, and go on in the same way."""

import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner
from helpers.copying import expect_the_same, studies_of_all_kinds
from helpers.studies import tiny, url

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.study.storage import Storage, copying


@pytest.fixture
def source(tmp_path):
    with closing(Storage.of(url(tmp_path / "from.db"), create=True)) as storage:
        studies_of_all_kinds(storage)
        yield storage


def test_a_file_to_a_file(source, tmp_path):
    with closing(Storage.of(url(tmp_path / "to.db"), create=True)) as target:
        seen = list(copying.copy(source, target))
        assert [study.name for study in seen] == source.names()
        expect_the_same(source, target)


def test_every_column_is_copied(source, tmp_path):
    with closing(sqlite3.connect(tmp_path / "from.db")) as file:
        for table, columns in copying.TABLES.items():
            assert {row[1] for row in file.execute(f"PRAGMA table_info({table})")} == {"study", *columns}
        names = {row[1] for row in file.execute("PRAGMA table_info(studies)")}
        assert names == {"study", "name", *copying.STUDY}


def test_a_study_that_is_there_already_is_not_overwritten(source, tmp_path):
    with closing(Storage.of(url(tmp_path / "to.db"), create=True)) as target:
        tiny(storage=target, name="window")
        with pytest.raises(eb.StudyError, match="has 'window' already; nothing was copied"):
            list(copying.copy(source, target))
        assert target.names() == ["window"]


def test_a_row_that_becomes_another_is_noticed_and_nothing_is_left(source, tmp_path):
    with closing(Storage.of(url(tmp_path / "to.db"), create=True)) as target:
        lossy = (
            "CREATE TRIGGER lossy AFTER INSERT ON tells WHEN new.line = 3 BEGIN "
            "UPDATE tells SET value = 9.0 WHERE study = new.study AND line = 3; END"
        )
        target.database.run(lossy)
        with pytest.raises(eb.StorageError, match="'window' was not copied: a row of tells became another one"):
            list(copying.copy(source, target, ["window"]))
        assert target.names() == []


def test_the_command(source, tmp_path):
    ends = [url(tmp_path / "from.db"), url(tmp_path / "to.db")]
    done = CliRunner().invoke(ebbtide, ["copy", *ends, "--name", "window"])
    assert done.exit_code == 0, done.output
    assert done.output == "window: 12 asks and 11 tells, copied and compared\n"
    done = CliRunner().invoke(ebbtide, ["copy", ends[0], "http://127.0.0.1:1"])
    assert "not the address of a service" in done.output
    done = CliRunner().invoke(ebbtide, ["copy", *ends, "--name", "nobody"])
    assert "there is no study 'nobody'" in done.output
