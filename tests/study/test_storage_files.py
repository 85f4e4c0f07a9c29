"""Names, definitions and files of stored studies: what is accepted, what is refused."""

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.studies import TINY, WINDOW, column, events, happen, python, same, study, tiny, url

import ebbtide as eb
from ebbtide.study.storage import Storage

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
def test_another_definition_of_a_study_is_an_error_that_says_what_differs(different, says, tmp_path):
    usual: dict[str, Any] = {"space": TINY, "clock": eb.ManualClock(), "seed": 0, "n_initial": 7}
    where: dict[str, Any] = {"storage": url(tmp_path / "s.db"), "name": "edge"}
    with closing(eb.Optimizer(**usual, **where)) as opt:
        opt.ask()
        with pytest.raises(eb.StudyError, match=says):
            eb.Optimizer(**usual | different, **where)
        with closing(eb.Optimizer(**usual, **where)) as again:
            same(opt, again)


def test_omitted_options_are_taken_from_the_study(tmp_path):
    with closing(tiny(tmp_path / "s.db", seed=77, n_initial=13)) as opt:
        again = eb.Optimizer(TINY, clock=eb.ManualClock(), storage=url(tmp_path / "s.db"), name="edge")
        assert (again.seed, again.n_initial) == (opt.seed, opt.n_initial) == (77, 13)
        again.close()
    with closing(tiny(tmp_path / "s.db", name="new", seed=None)) as new:
        assert new.seed != 77
        assert column(tmp_path / "s.db", "SELECT definition ->> 'seed' FROM studies WHERE name = 'new'") == [new.seed]


@dataclass(frozen=True)
class Mine(eb.UCB):
    """A user's own acquisition."""


def test_the_users_own_parts_are_passed_again(tmp_path):
    class MyClock(eb.ManualClock):
        pass

    algorithm = eb.Algorithm(acquisition=Mine())
    with closing(tiny(tmp_path / "s.db", algorithm=algorithm, clock=MyClock())) as opt:
        opt.tell(opt.ask(), 1.0)
        with pytest.raises(eb.EbbtideError, match="algorithm=") as error:
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=MyClock())
        assert "your own class" in str(error.value)
        with pytest.raises(eb.EbbtideError, match="clock="):
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm=algorithm)
        with pytest.raises(eb.EbbtideError, match="another algorithm"):
            eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm="w-dbo", clock=MyClock())
        again = eb.Optimizer.open(url(tmp_path / "s.db"), "edge", algorithm=algorithm, clock=MyClock())
        same(opt, again)
        again.close()


@pytest.mark.parametrize("given_one", [{"storage": "sqlite:///s.db"}, {"name": "edge"}, {"name": ""}])
def test_a_storage_needs_a_name_and_vice_versa(given_one, tmp_path, monkeypatch):
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


BAD_URLS = ["", "s.db", "sqlite://s.db", "sqlite:/s.db", "mysql:///s", "SQLITE:///s.db", "sqlite:///"]


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
    assert [path.name for path in tmp_path.iterdir()] == [file]  # once closed, it is a single file


# --- files that cannot be used ----------------------------------------------------------------------------------------


def refused(path, says, name="edge"):
    """Opening a study there and creating one are errors that explain themselves, and the file does not change."""
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
    asked = []
    with closing(study(WINDOW, path)) as opt:
        for event in events(seed=4, n=80):
            asked += happen(opt, event, asked)
    return path


def test_a_newer_schema_is_not_touched(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 7")
    refused(file, "schema version 7.*upgrade ebbtide")


def test_a_database_of_another_program_is_not_touched(tmp_path):
    for number, statement in enumerate(
        ["CREATE TABLE studies (name TEXT)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"]
    ):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
        refused(path, "another program; nothing was changed")


@pytest.mark.parametrize("content", [b"x: 1\n", b"SQLite format 3", b"\0" * 5000, bytes(range(256)) * 40])
def test_a_file_that_is_not_a_database_is_not_touched(content, tmp_path):
    path = tmp_path / "s.db"
    path.write_bytes(content)
    refused(path, "not a SQLite database, or damaged; nothing was changed")


def test_an_empty_file_counts_as_new(tmp_path):
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
    for missing in (1, 10, 100, 1000, 4000):  # bytes of the last page, which SQLite pads with zeros
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


def test_a_file_copied_by_sqlite_gets_its_write_ahead_log_back(file):
    copy = file.with_name("copy.db")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    assert column(copy, "PRAGMA journal_mode") == ["delete"]
    with closing(eb.Optimizer.open(url(file), "edge")) as opt, closing(eb.Optimizer.open(url(copy), "edge")) as again:
        same(opt, again)
        assert column(copy, "PRAGMA journal_mode") == ["wal"]


def test_a_folder_is_not_a_file(tmp_path):
    refused(tmp_path, "cannot be opened; check that the folder exists")


def test_a_missing_folder_is_not_created(tmp_path):
    with pytest.raises(eb.StorageError, match="cannot be opened; check that the folder exists"):
        tiny(tmp_path / "none" / "s.db")
    assert not (tmp_path / "none").exists()


def test_opening_a_missing_file_does_not_create_it(tmp_path):
    (tmp_path / "empty.db").touch()
    for attempt in (
        lambda: eb.Optimizer.open(url(tmp_path / "mistyped.db"), "edge"),
        lambda: Storage.of(url(tmp_path / "mistyped.db")),
        lambda: Storage.of(url(tmp_path / "no folder" / "mistyped.db")),
    ):
        with pytest.raises(eb.StorageError, match=r"mistyped.db does not exist; check the path, or create a study"):
            attempt()
    with pytest.raises(eb.StorageError, match=r"empty.db holds no studies of ebbtide"):
        eb.Optimizer.open(url(tmp_path / "empty.db"), "edge")
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("empty.db", 0)]


UNPRIVILEGED = """
    import json, os, sys
    import ebbtide as eb
    warm = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=0)
    warm.tell(warm.ask(), 1.0)  # import everything while that is still possible
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


@pytest.mark.slow
def test_a_file_without_write_permission_is_an_error_that_says_so():
    with tempfile.TemporaryDirectory() as root:  # unlike pytest's folders, every user may enter it
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
        assert said[0] == "it worked"  # the child can do everything else
        for path, words in zip(paths[1:], said[1:], strict=True):
            assert words.startswith(f"StorageError {path}: it cannot be")
            assert "permissions of" in words
        assert before == {path: path.read_bytes() for path in before}
        assert list(nothing_there.parent.iterdir()) == []


def test_a_reader_creates_no_file_and_writes_nothing(file):
    with pytest.raises(eb.StorageError, match="does not exist"):
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


def test_using_a_closed_study_is_an_error_that_says_so(tmp_path):
    opt = tiny(tmp_path / "s.db")
    trial = opt.ask()
    opt.close()
    opt.close()
    for attempt in (opt.ask, lambda: opt.tell(trial, 1.0), opt.recommend, lambda: opt.history):
        with pytest.raises(eb.StorageError, match="closed"):
            attempt()
