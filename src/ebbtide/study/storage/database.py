"""A SQLite file that never loses what was committed, and whose errors explain themselves.

Write-ahead log with synchronous=FULL: a committed transaction is on the disk. There is one writer at a time; other
writers wait for it, BUSY_S at most. Readers and writers never wait for each other.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ebbtide.checks import is_text
from ebbtide.errors import ConfigurationError, StorageError, UnknownStudyError
from ebbtide.study.storage import schema

Mode = Literal["ro", "rw", "rwc"]  # as in SQLite's URIs

BUSY_S = 30.0
PREFIX = "sqlite:///"
WHY = {
    "SQLITE_FULL": "the disk is full; nothing was recorded: make room and try again",
    "SQLITE_READONLY": "it cannot be written to; check the permissions of the file and of its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists, and the permissions of both",
    "SQLITE_BUSY": f"another process has kept it locked for more than {BUSY_S:g} s; find out what it is doing",
    "SQLITE_LOCKED": f"another process has kept it locked for more than {BUSY_S:g} s; find out what it is doing",
    "SQLITE_CORRUPT": "it is damaged; keep a copy, then restore a backup or salvage it with `sqlite3 FILE .recover`",
    "SQLITE_NOTADB": "it is not a SQLite database, or damaged; nothing was changed: check the path, or use a backup",
    "SQLITE_IOERR": "the disk could not be read or written, but the change may be recorded; check disk and study",
}


def path_of(url: str) -> Path:
    """The file that a URL names: sqlite:///relative or sqlite:////absolute."""
    if not isinstance(url, str) or not url.startswith(PREFIX) or not is_text(url) or "\0" in url:
        raise ConfigurationError(f'storage={url!r}: give "{PREFIX}tuner.db", with a fourth / for an absolute path')
    name = url.removeprefix(PREFIX)
    if name in ("", ":memory:"):
        raise ConfigurationError(f"storage={url!r} does not name a file; for a study in memory, leave storage out")
    return Path(name)


def connect(path: Path, mode: Mode) -> sqlite3.Connection:
    """A connection that begins and commits only explicitly."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


class Database:
    """A file opened for writing ("rw") or only for reading ("ro"); "rwc" creates the file if it is missing.

    A file of an older ebbtide is upgraded when it is opened for writing; it is copied first, unless `copy` is false.
    """

    def __init__(self, path: Path, mode: Mode = "rw", *, copy: bool = True) -> None:
        if mode != "rwc" and _is_missing(path):
            raise StorageError(
                f"{path} does not exist; check the path, or create a study there: "
                "eb.Optimizer(..., storage=..., name=...), or `ebbtide create`"
            )
        self.path = path
        self._depth, self._closed = 0, False
        self._process = os.getpid()
        with self._clearly():
            self._connection = connect(path, mode)
        self._close = weakref.finalize(self, _close, self._connection, self._process)
        try:
            self._prepare(mode, copy)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._closed = True
        self._close()

    # --- opening ------------------------------------------------------------------------------------------

    def _prepare(self, mode: Mode, copy: bool) -> None:
        with self._clearly():
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")  # macOS: a flush that reaches the disk itself
            self._connection.execute("PRAGMA trusted_schema = OFF")
            version = self._version()
            self.version_found = version or 0  # before an upgrade
            if version is None and mode != "rwc":
                raise StorageError(f"{self.path} holds no studies of ebbtide; nothing was changed: check the path")
            schema.check(self.path, version, read_only=mode == "ro")
            if mode == "ro":
                return
            self._patiently("PRAGMA journal_mode = WAL")  # a restored backup may have lost it
            if version != schema.version():
                with self.transaction():
                    schema.upgrade(self._connection, self.path, self._version(), copy)

    def _version(self) -> int | None:
        """The schema's version; None for an empty file. An error if the file belongs to another program."""
        with self.reading():  # a consistent view: another process may be creating the tables
            application, version = self._number("PRAGMA application_id"), self._number("PRAGMA user_version")
            empty = not self.rows("SELECT 1 FROM sqlite_schema LIMIT 1")
        if application == 0 and version == 0 and empty:
            return None
        if application != schema.APPLICATION:
            raise StorageError(
                f"{self.path} is a database of another program; nothing was changed: choose another file"
            )
        return version

    def _patiently(self, statement: str) -> None:
        """SQLite does not wait for other processes when it changes the journal mode; this does."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                self._connection.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if _reason(error) != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    # --- use ----------------------------------------------------------------------------------------------

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        with self._clearly():
            self._connection.execute(statement, values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._clearly():
            self._connection.executemany(statement, rows)

    def rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self._clearly():
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """The first row, or None."""
        with self._clearly():
            return self._connection.execute(query, values).fetchone()

    def _number(self, query: str) -> int:
        return int(self.row(query)[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when it ends. Inside another transaction: a part that may fail on its own."""
        begin, end, undo = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
        if self._depth:
            point = f"part{self._depth}"
            begin, end, undo = f"SAVEPOINT {point}", f"RELEASE {point}", f"ROLLBACK TO {point}; RELEASE {point}"
        else:
            self._undo(undo)  # in case a Ctrl-C at the wrong moment has left one open
        depth = self._depth
        try:
            self.run(begin)
            self._depth = depth + 1
            yield
            self.run(end)
        except BaseException:
            self._undo(undo)
            raise
        finally:
            self._depth = depth

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see the same state of the file."""
        with self._clearly():
            inside = self._connection.in_transaction
        if inside:
            yield
            return
        self.run("BEGIN")
        try:
            yield
        finally:
            self._undo("ROLLBACK")

    def _undo(self, statements: str) -> None:
        # After some failures SQLite has already rolled back. If the rollback fails too, the first error is still
        # reported, and the transaction is undone when the file is next opened.
        for statement in statements.split(";"):
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute(statement)

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise StorageError(f"{self.path} was opened by another process, before a fork; open it again in this one")
        try:
            yield
        except sqlite3.Error as error:
            if self._closed:
                raise StorageError(
                    f"{self.path} was closed; open the study again: eb.Optimizer.open(storage, name)"
                ) from error
            reason = _reason(error)
            if reason == "SQLITE_CONSTRAINT_FOREIGNKEY":
                raise UnknownStudyError(
                    f"{self.path}: the study was deleted in the meantime; open or create another"
                ) from error
            why = next((text for name, text in WHY.items() if reason.startswith(name)), "SQLite reported an error")
            raise StorageError(f"{self.path}: {why} ({error})") from error


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        pass  # SQLite will say what is wrong
    return False


def _close(connection: sqlite3.Connection, process: int) -> None:
    if os.getpid() == process:  # SQLite's locks belong to the process: a forked child must not release them
        connection.close()


def _reason(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
