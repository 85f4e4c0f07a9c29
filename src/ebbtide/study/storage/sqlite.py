"""A SQLite file that never loses what was committed, and whose errors explain themselves.

Write-ahead log with synchronous=FULL: a committed transaction is on the disk, in the file that is at its path then.
There is one writer at a time; other writers wait for it, BUSY_S at most. Readers and writers never wait for each other.
"""

import os
import shutil
import sqlite3
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ebbtide.checks import is_text
from ebbtide.errors import ConfigurationError, DamagedError, StorageError, UnknownStudyError
from ebbtide.study.storage import schema
from ebbtide.study.storage.database import Disk, Mode
from ebbtide.study.storage.open_files import OpenFiles
from ebbtide.study.storage.urls import POSTGRESQL, SQLITE, shown

BUSY_S = 30.0
LOG_BYTES = 8 << 20  # to which the write-ahead log shrinks, if a long reader has made it larger
TWICE = ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE")
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
    if not isinstance(url, str) or not url.startswith(SQLITE) or not is_text(url) or "\0" in url:
        raise ConfigurationError(
            f'storage={shown(url)!r}: give "{SQLITE}tuner.db", with a fourth / for an absolute path, or '
            f'"{POSTGRESQL}user@host/database"'
        )
    name = url.removeprefix(SQLITE)
    if name in ("", ":memory:"):
        raise ConfigurationError(f"storage={url!r} does not name a file; for a study in memory, leave storage out")
    return Path(name)


def connect(path: Path, mode: Mode) -> sqlite3.Connection:
    """A connection that begins and commits only explicitly."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


class SqliteDatabase:
    """A file opened for writing ("rw") or only for reading ("ro"); "rwc" creates the file if it is missing.

    A file of an older ebbtide is upgraded when it is opened for writing; it is copied first, unless `copy` is false.
    While the file is not at its path (deleted, moved, replaced), every use is an error; once it is back, it goes on.
    """

    among = "{} IN (SELECT value FROM json_each(?))"
    as_bytes = "CAST({} AS BLOB)"

    def __init__(self, path: Path, mode: Mode = "rw", *, copy: bool = True) -> None:
        if _is_missing(path):
            _check_missing(path, mode)
        self.path, self._place, self._mode = path, path.absolute(), mode
        self.place = str(path)
        self._depth, self._closed = 0, False
        self._opening, self._held = False, False  # held: between an open that succeeded and leaving a file that is away
        self._process = os.getpid()
        self._open(mode, copy)

    def close(self) -> None:
        self._closed = True
        self._close()

    @property
    def log_size(self) -> int:
        """Bytes of the write-ahead log."""
        return self._files.log_size

    @property
    def disk(self) -> Disk | None:
        try:
            found = shutil.disk_usage(self._place.parent)
        except OSError:
            return None
        return Disk(found.total, found.free)

    # --- opening ------------------------------------------------------------------------------------------

    def _open(self, mode: Mode, copy: bool, before: OpenFiles | None = None) -> None:
        """With `before`: only if it is the same file."""
        with self._clearly():
            self._connection = connect(self._place, mode)
        files = OpenFiles(self._place)
        self._close = weakref.finalize(self, _close, self._connection, self._process, files)
        self._opening = True
        try:
            if files.log_is_of_another:
                raise StorageError(
                    f"{self.path} was replaced by another file while it was in use, and SQLite would apply the log of "
                    f"the old one, {self.path.name}-wal, to it; put the old file back, or move the log away"
                )
            if before is None or files.database == before.database:
                self._prepare(mode, copy)
                files.note_logs()
                if mode != "ro":
                    files.note_use()
            if before is not None and not files.follow(before):
                raise StorageError(f"{self.path} {before.trouble}")
        except BaseException:
            self._close()
            raise
        finally:
            self._opening = False
        self._files, self._held = files, True

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
            schema.check(self.place, version, read_only=mode == "ro")
            if mode == "ro":
                return
            self._patiently("PRAGMA journal_mode = WAL")  # a restored backup may have lost it
            self._connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            if version != schema.version():
                with self.transaction():
                    schema.upgrade(self._connection, self.path, self._version(), copy)
            self._version()  # a read, which opens the write-ahead log

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

    # --- the file in its place ------------------------------------------------------------------------------

    def _check_place(self) -> None:
        if self._held and not self._files.are_there:
            raise StorageError(f"{self.path} {self._files.trouble}")

    def _return(self) -> None:
        """Go on with the file that was opened, which may have been away. An error if it is not at its path.

        Meanwhile it is closed, so that it is complete without a write-ahead log, and whatever is at the path now has
        no log of another file beside it.
        """
        if self._held and self._files.are_there:
            return
        if self._held and self._files.can_be_left and (self._mode == "ro" or _empty_log(self._connection)):
            self._close()
            self._held = False
        if self._held or not self._files.is_there:
            raise StorageError(f"{self.path} {self._files.trouble}")
        self._open("ro" if self._mode == "ro" else "rw", True, self._files)

    # --- use ----------------------------------------------------------------------------------------------

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        with self._in_place() as connection:
            connection.execute(statement, values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._in_place() as connection:
            connection.executemany(statement, rows)

    def rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self._in_place() as connection:
            return connection.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """The first row, or None."""
        with self._in_place() as connection:
            return connection.execute(query, values).fetchone()

    def touch(self) -> None:
        """Write what is there already, the version, to find out whether the disk takes it."""
        self.run(f"PRAGMA user_version = {schema.version()}")

    def tend(self) -> None:
        """To be called now and then, outside a transaction: an error if the file is away, which is then closed.

        A write-ahead log that has grown too long is emptied, unless somebody is reading it.
        """
        with self._in_place() as connection:
            if self._mode != "ro" and self.log_size > LOG_BYTES:
                _empty_log(connection)

    def _number(self, query: str) -> int:
        return int(self.row(query)[0])

    @contextmanager
    def transaction(self, studies: Iterable[str] = ()) -> Iterator[None]:
        """All or nothing, and on the disk when it ends. Inside another transaction: a part that may fail on its own.

        There is one writer at a time, whatever the studies.
        """
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
            if depth == 0:  # before anything is confirmed: the file may have gone since the transaction began
                self._check_place()
        except BaseException:
            self._undo(undo)
            raise
        finally:
            self._depth = depth

    def turn(self, name: str) -> AbstractContextManager[object]:
        """Others wait for the end of the transaction."""
        return self.transaction()

    def is_taken(self, name: str) -> bool:
        return False

    def announce(self, name: str) -> None:
        """Whoever waits for news of a file looks at it now and then."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several queries that see the same state of the file."""
        with self._in_place() as connection:
            inside = connection.in_transaction
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
    def _in_place(self) -> Iterator[sqlite3.Connection]:
        """The connection; where a transaction or a single statement begins, only if the file is at its path."""
        with self._clearly():
            if not (self._closed or self._opening or (self._held and self._connection.in_transaction)):
                self._return()
            yield self._connection

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
            undecodable = str(error).startswith("Could not decode to UTF-8")  # by the standard library, not by SQLite
            if undecodable or reason in TWICE:  # what is recorded follows what is there
                reason = "SQLITE_CORRUPT"
            why = next((text for name, text in WHY.items() if reason.startswith(name)), "SQLite reported an error")
            kind = DamagedError if reason.startswith("SQLITE_CORRUPT") else StorageError
            raise kind(f"{self.path}: {why} ({error})") from error


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        pass  # SQLite will say what is wrong
    return False


def _check_missing(path: Path, mode: Mode) -> None:
    if mode != "rwc":
        raise StorageError(
            f"{path} does not exist; check the path, or create a study there: "
            "eb.Optimizer(..., storage=..., name=...), or `ebbtide create`"
        )
    log = Path(f"{os.path.realpath(path)}-wal")
    left_behind = not _is_missing(log) and log.stat().st_size
    if left_behind and _is_missing(path):  # another process may have created both a moment ago
        raise StorageError(
            f"{path} does not exist, but its write-ahead log is there, with what was recorded last: put the file back, "
            f"or, to begin a new one, move {log.name} away"
        )


def _close(connection: sqlite3.Connection, process: int, files: OpenFiles) -> None:
    if os.getpid() != process:  # SQLite's locks belong to the process: a forked child must not release them
        return
    if not files.are_there:
        with suppress(sqlite3.Error):
            _empty_log(connection)  # otherwise it would be applied to whatever file is at the path next
    connection.close()
    files.note_end()


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Move all of the write-ahead log to the database, and empty it; False if somebody is reading it."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {1000 * BUSY_S:.0f}")
    return not busy


def _reason(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
