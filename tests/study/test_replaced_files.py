"""A database that is deleted, moved or replaced while it is in use: what is acknowledged is in the file at its path."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from helpers.studies import column, python, tiny, url

import ebbtide as eb
from ebbtide.study.storage import Storage

VALUES = "SELECT value FROM tells ORDER BY line"


@pytest.fixture
def path(on_disk):
    return on_disk / "s.db"


@pytest.fixture
def opt(path):
    with closing(tiny(path, clock=eb.SystemClock())) as opt:
        opt.tell({"x": 0.5}, 0.0)
        yield opt


def backup(path):
    """A copy made with SQLite, as of now."""
    copy = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect(copy)) as target:
        connection.backup(target)
    return copy


def deleted(path):
    """A second name stays, so that the same file can come back."""
    os.link(path, path.with_name("kept.db"))
    path.unlink()


def moved(path):
    path.rename(path.with_name("kept.db"))


def replaced(path):
    copy = backup(path)
    os.link(path, path.with_name("kept.db"))
    copy.replace(path)


def put_back(path):
    path.with_name("kept.db").replace(path)


def recorded(path, value, opt):
    """Whether a tell was acknowledged."""
    try:
        opt.tell({"x": 0.5}, value, key=str(value))
    except eb.StorageError:
        return False
    return True


@pytest.mark.parametrize("away", [deleted, moved, replaced])
def test_nothing_is_acknowledged_while_the_file_is_away_and_everything_is_there_once_it_is_back(away, path, opt):
    assert recorded(path, 1.0, opt)
    away(path)
    assert not any(recorded(path, 2.0, opt) for _ in range(3))
    for attempt in (opt.ask, opt.recommend, lambda: opt.history):
        with pytest.raises(eb.StorageError, match="while it was in use"):
            attempt()
    put_back(path)
    assert recorded(path, 2.0, opt)
    opt.tell(opt.ask(), 3.0)
    assert [observation.value for observation in opt.history] == [0.0, 1.0, 2.0, 3.0]
    assert column(path, VALUES) == [0.0, 1.0, 2.0, 3.0]
    assert column(path, "PRAGMA integrity_check") == ["ok"]


@pytest.mark.parametrize("away", [deleted, moved, replaced])
def test_a_file_that_goes_away_during_a_commit_is_noticed_before_the_answer(away, path, opt, monkeypatch):
    database = opt._log.database
    run = database.run

    def interrupted(statement, values=()):
        if statement == "COMMIT":
            away(path)
        run(statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(database, "run", interrupted)
        assert not recorded(path, 1.0, opt)
    put_back(path)
    assert recorded(path, 1.0, opt)  # the same key: it is there once
    assert column(path, VALUES) == [0.0, 1.0]


@pytest.mark.parametrize(("away", "says"), [(deleted, "is gone"), (moved, "is gone"), (replaced, "by another file")])
def test_the_error_says_what_happened_and_what_to_do(away, says, path, opt):
    away(path)
    with pytest.raises(eb.StorageError, match=says) as error:
        opt.tell({"x": 0.5}, 1.0)
    assert str(error.value).startswith(str(path))
    assert "put the file back" in str(error.value)


def test_after_a_restart_the_file_that_is_there_now_is_used(path, opt):
    opt.tell({"x": 0.5}, 1.0)
    copy = backup(path)
    opt.tell({"x": 0.5}, 2.0)
    moved(path)
    copy.rename(path)
    assert not recorded(path, 3.0, opt)
    opt.close()
    with closing(eb.Optimizer.open(url(path), "edge")) as again:
        again.tell({"x": 0.5}, 4.0)
    assert column(path, VALUES) == [0.0, 1.0, 4.0]
    assert column(path, "PRAGMA integrity_check") == ["ok"]
    assert column(path.with_name("kept.db"), VALUES) == [0.0, 1.0, 2.0]  # everything acknowledged before


def test_a_process_that_ends_leaves_the_new_file_alone_and_the_old_one_complete(path, opt):
    """SQLite would apply the write-ahead log of the old file to the new one."""
    for k in range(1, 200):
        opt.tell({"x": 0.5}, float(k))
    other = path.with_name("other.db")
    tiny(other).close()
    moved(path)
    other.rename(path)
    opt.close()  # it has not noticed
    assert column(path, VALUES) == []
    assert column(path, "PRAGMA integrity_check") == ["ok"]
    assert len(column(path.with_name("kept.db"), VALUES)) == 200


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux keeps a deleted file at hand")
def test_a_deleted_file_can_be_saved_while_the_process_runs(path, opt):
    for k in range(1, 200):
        opt.tell({"x": 0.5}, float(k))
    path.unlink()
    with pytest.raises(eb.StorageError, match=f"cp /proc/{os.getpid()}/fd/") as error:
        opt.tell({"x": 0.5}, 200.0)
    source = str(error.value).partition("cp ")[2].split()[0]
    shutil.copy(source, path)
    assert not recorded(path, 200.0, opt)  # it is another file
    assert len(column(path, VALUES)) == 200
    assert column(path, "PRAGMA integrity_check") == ["ok"]


@pytest.mark.parametrize("part", ["-wal", "-shm"])
@pytest.mark.parametrize("gone", [os.unlink, lambda file: os.rename(file, f"{file}.away")])
def test_a_write_ahead_log_that_is_gone_is_replaced_and_nothing_is_lost(part, gone, path, opt):
    for k in range(1, 5):
        opt.tell({"x": 0.5}, float(k))
    gone(f"{path}{part}")
    while not recorded(path, 5.0, opt):
        pass
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)  # as after a crash
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    assert column(copy, VALUES) == [float(k) for k in range(6)]


def test_a_reader_notices_too(path, opt):
    with closing(Storage.of(url(path), read_only=True)) as storage:
        assert storage.names() == ["edge"]
        moved(path)
        with pytest.raises(eb.StorageError, match="is gone"):
            storage.names()
        put_back(path)
        assert storage.names() == ["edge"]
        opt.tell({"x": 0.5}, 1.0)
        assert storage.summary("edge").told == 2


def test_a_change_of_the_working_folder_does_not_matter(on_disk, monkeypatch):
    monkeypatch.chdir(on_disk)
    with closing(tiny("s.db")) as opt:
        (on_disk / "elsewhere").mkdir()
        monkeypatch.chdir(on_disk / "elsewhere")
        opt.tell({"x": 0.5}, 1.0)
    assert column(on_disk / "s.db", VALUES) == [1.0]


def test_a_link_that_leads_elsewhere_is_noticed(on_disk):
    link, first, second = (on_disk / name for name in ("s.db", "first.db", "second.db"))
    tiny(first).close()
    tiny(second).close()
    link.symlink_to(first)
    with closing(tiny(link)) as opt:
        opt.tell({"x": 0.5}, 1.0)
        link.unlink()
        link.symlink_to(second)
        assert not recorded(link, 2.0, opt)
    assert (column(first, VALUES), column(second, VALUES)) == ([1.0], [])


def test_a_log_that_went_back_is_noticed(path, opt):
    """As after `sqlite3 s.db '.restore backup.db'`, which does not replace the file."""
    copy = backup(path)
    opt.tell({"x": 0.5}, 1.0)
    opt.ask()
    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
    with pytest.raises(eb.StorageError, match="restored"):
        opt.tell({"x": 0.5}, 2.0)
    with closing(eb.Optimizer.open(url(path), "edge")) as again:
        again.tell({"x": 0.5}, 3.0)
    assert column(path, VALUES) == [0.0, 3.0]


def test_a_new_file_is_not_created_beside_the_log_of_one_that_is_missing(path, opt):
    """SQLite would delete the log, and with it what was recorded last."""
    for k in range(1, 5):
        opt.tell({"x": 0.5}, float(k))
    crashed = path.with_name("crashed.db")
    shutil.copy(f"{path}-wal", f"{crashed}-wal")
    with pytest.raises(eb.StorageError, match="its write-ahead log is there"):
        tiny(crashed)
    assert not crashed.exists()
    shutil.copy(path, crashed)
    with closing(tiny(crashed, clock=eb.SystemClock())) as again:
        assert len(again.history) == 5


@pytest.mark.slow
def test_a_log_is_not_applied_to_another_file_after_a_crash(path, on_disk):
    """SQLite itself would, and damage it."""
    code = """
        import os, sys
        import ebbtide as eb
        opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=sys.argv[1], name="edge", seed=0)
        for k in range(200):
            opt.tell({"x": 0.5}, float(k))
        os._exit(0)
    """
    process = python(code, url(path))
    process.communicate(timeout=120)
    assert process.returncode == 0  # the log is left behind
    other, kept = on_disk / "other.db", on_disk / "kept.db"
    tiny(other).close()
    path.rename(kept)
    other.rename(path)
    before = path.read_bytes()
    for attempt in (lambda: tiny(path), lambda: Storage.of(url(path), read_only=True)):
        with pytest.raises(eb.StorageError, match="put the old file back, or move the log away"):
            attempt()
    assert path.read_bytes() == before
    path.rename(other)
    kept.rename(path)
    with closing(eb.Optimizer.open(url(path), "edge")) as opt:
        assert opt.told == 200
    assert sorted(file.name for file in on_disk.iterdir()) == ["other.db", "s.db"]


def test_a_copy_with_its_log_can_be_opened(path, opt):
    for k in range(1, 5):
        opt.tell({"x": 0.5}, float(k))
    folder = path.with_name("copy")
    shutil.copytree(path.parent, folder)
    with closing(eb.Optimizer.open(url(folder / "s.db"), "edge")) as again:
        assert again.told == 5
