"""A disk that fails or loses power: a VFS below SQLite, made with APSW.

APSW has its own SQLite. `Connection` implements the part of sqlite3.Connection that ebbtide.study.storage uses, with
the same errors. So `ebbtide.study.storage.sqlite.connect` can be replaced with `Disk.connect`, and everything above
it is real.

A disk keeps a list of everything that was done to it. `Disk.fail` makes one of the next writes, syncs and truncations
fail; `after_power_cut` returns what a real disk may hold if the power was cut after some of them.
"""

import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from ebbtide.study.storage.database import Mode

SECTOR = 512
NAMES = apsw.mapping_result_codes | apsw.mapping_extended_result_codes
CLASSES = {
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
}
# How SQLite reports ENOSPC and EIO
ERRORS = {
    "ENOSPC": {"write": "SQLITE_FULL", "sync": "SQLITE_IOERR_FSYNC", "truncate": "SQLITE_IOERR_TRUNCATE"},
    "EIO": {"write": "SQLITE_IOERR_WRITE", "sync": "SQLITE_IOERR_FSYNC", "truncate": "SQLITE_IOERR_TRUNCATE"},
}
_names = itertools.count()


@dataclass(frozen=True)
class Done:
    """One operation on the disk. A file that is created again under the same name is another file."""

    kind: str  # write, sync, truncate; link, unlink, sync folder
    file: int = -1
    name: str = ""
    offset: int = 0  # or the size
    data: bytes = b""


class Disk(apsw.VFS):
    def __init__(self, folder: Path, checkpoint_pages: int | None = None, synchronous: str | None = None) -> None:
        self.name = f"faulty-{next(_names)}"
        super().__init__(self.name, base="")
        self.folder, self.checkpoint_pages, self.synchronous = Path(folder), checkpoint_pages, synchronous
        self.done: list[Done] = []
        self.files: dict[str, int] = {}
        self.numbers = itertools.count()
        self.counted = 0  # writes, syncs and truncations
        self.at: int | None = None
        self.error, self.lasting = "EIO", False
        self.unheard = False  # in a checkpoint or in closing, whose errors SQLite keeps for itself
        self.struck: list[tuple[str, bool]] = []  # kind, and whether it had to be heard of

    # --- faults -------------------------------------------------------------------------------------------

    def fail(self, at: int, error: str, lasting: bool) -> None:
        """Let the operation number `at` from now on fail; if `lasting`, all after it too, until healed."""
        self.counted, self.at, self.error, self.lasting, self.struck = 0, at, error, lasting, []

    def heal(self) -> None:
        self.at = None

    def count(self, kind: str) -> None:
        """Count an operation; raise an error if it is to fail."""
        number, self.counted = self.counted, self.counted + 1
        if self.at is not None and (number == self.at or (self.lasting and number > self.at)):
            self.struck.append((kind, not self.unheard))
            raise apsw.exception_for(getattr(apsw, ERRORS[self.error][kind]))

    # --- a VFS --------------------------------------------------------------------------------------------

    def connect(self, path: str | Path, mode: Mode = "rw") -> "Connection":
        return Connection(self, path, mode)

    def xOpen(self, name: Any, flags: list[int]) -> "File":
        return File(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        super().xDelete(name, sync_folder)
        self.done.append(Done("unlink", self.files.pop(name), Path(name).name))
        if sync_folder:
            self.done.append(Done("sync folder"))


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        main = flags[0] & apsw.SQLITE_OPEN_MAIN_DB
        self.disk = disk
        # SQLite also opens temporary files, which it deletes when they are closed; they hold nothing that matters.
        self.kept = path is not None and not flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE
        new = self.kept and not Path(path).exists()
        super().__init__("", name, flags)
        if new:
            disk.files[path] = next(disk.numbers)
            disk.done.append(Done("link", disk.files[path], Path(path).name))
        self.number = disk.files[path] if self.kept else -1
        self.syncs_folder = new and not main  # SQLite syncs the folder with the first sync of a new journal

    def xWrite(self, data: Any, offset: int) -> None:
        data = bytes(data)
        if self.kept:
            try:
                self.disk.count("write")
            except apsw.Error:
                self._write(data[: len(data) // 2], offset)  # this much was still written
                raise
            self._write(data, offset)
        else:
            super().xWrite(data, offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self.disk.done.append(Done("write", self.number, offset=offset, data=data))

    def xTruncate(self, size: int) -> None:
        if self.kept:
            self.disk.count("truncate")
            self.disk.done.append(Done("truncate", self.number, offset=size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        if self.kept:
            self.disk.count("sync")
            self.disk.done.append(Done("sync", self.number))
            if self.syncs_folder:
                self.disk.done.append(Done("sync folder"))
                self.syncs_folder = False
        # No sync of the real disk is needed: what it holds after a power cut is computed from the list.


class Connection:
    """The part of sqlite3.Connection that ebbtide.study.storage.sqlite uses."""

    def __init__(self, disk: Disk, path: str | Path, mode: Mode) -> None:
        self.disk = disk
        writing = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if mode == "rwc" else 0)
        flags = apsw.SQLITE_OPEN_READONLY if mode == "ro" else writing
        uri = f"{Path(path).absolute().as_uri()}?mode={mode}"
        self.real = _speaking(apsw.Connection, uri, vfs=disk.name, flags=flags | apsw.SQLITE_OPEN_URI)
        self.real.set_busy_timeout(1000)
        self.real.set_wal_hook(self._checkpoint)

    def _checkpoint(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Like SQLite's own hook, which ignores errors; APSW would report them."""
        if pages >= (self.disk.checkpoint_pages or 1000):
            self._unheard(lambda: connection.wal_checkpoint(database))
        return apsw.SQLITE_OK

    def _unheard(self, act: Callable[[], Any]) -> None:
        self.disk.unheard = True
        try:
            act()
        except (apsw.FullError, apsw.IOError):
            pass
        finally:
            self.disk.unheard = False

    def execute(self, statement: str, values: Any = ()) -> "Rows":
        if statement.startswith("PRAGMA synchronous") and self.disk.synchronous is not None:
            statement = f"PRAGMA synchronous = {self.disk.synchronous}"
        return Rows(_speaking(lambda: list(self.real.execute(statement, values))))

    def executemany(self, statement: str, rows: Any) -> "Rows":
        return Rows(_speaking(lambda: list(self.real.executemany(statement, rows))))

    @property
    def in_transaction(self) -> bool:
        return bool(self.real.in_transaction)

    def close(self) -> None:
        self._unheard(self.real.close)


class Rows:
    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = iter(rows)

    def fetchone(self) -> Any:
        return next(self.rows, None)

    def fetchall(self) -> list[Any]:
        return list(self.rows)


def _speaking(act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Raise the errors that the standard library would raise."""
    try:
        return act(*args, **kwargs)
    except apsw.Error as error:
        code = int(getattr(error, "extendedresult", 0) or getattr(error, "result", apsw.SQLITE_ERROR))
        raised = CLASSES.get(code & 0xFF, sqlite3.OperationalError)(str(error) or str(NAMES[code]))
        raised.sqlite_errorcode, raised.sqlite_errorname = code, str(NAMES[code])
        raise raised from error


# --- power cuts -------------------------------------------------------------------------------------------------------


def after_power_cut(
    done: list[Done], rng: np.random.Generator | None = None, keep_all: bool = False
) -> dict[str, bytes]:
    """Files by name, as a disk may hold them if the power is cut after all of `done`.

    What was synced is there. What was not synced is missing (without `rng`), or partly there, sector by sector; of the
    folder's entries, those up to some moment after its last sync. `keep_all`: only the process died.
    """
    entries = [i for i, d in enumerate(done) if d.kind in ("link", "unlink")]
    synced = max((i for i, d in enumerate(done) if d.kind == "sync folder"), default=-1)
    certain = sum(i < synced for i in entries)
    known = len(entries) if keep_all else certain if rng is None else rng.integers(certain, len(entries) + 1)
    folder: dict[str, int] = {}
    for i in entries[:known]:
        if done[i].kind == "link":
            folder[done[i].name] = done[i].file
        else:
            folder.pop(done[i].name, None)
    by_file = defaultdict[int, list[Done]](list)
    for d in done:
        by_file[d.file].append(d)
    return {name: _content(by_file[file], rng, keep_all) for name, file in folder.items()}


def _content(done: list[Done], rng: np.random.Generator | None, keep_all: bool) -> bytes:
    content = bytearray()
    last_sync = max((i for i, d in enumerate(done) if d.kind == "sync"), default=-1)
    share = 1.0 if keep_all else 0.0 if rng is None else rng.choice([0.1, 0.5, 0.9])  # of what was not synced
    for i, d in enumerate(done):
        certain = i < last_sync or keep_all
        if d.kind == "truncate" and (certain or (rng is not None and rng.random() < share)):
            del content[d.offset :]
            content.extend(bytes(d.offset - len(content)))
        elif d.kind == "write":
            for start, sector in _sectors(d):
                if certain or (rng is not None and rng.random() < share):
                    content.extend(bytes(max(0, start - len(content))))
                    content[start : start + len(sector)] = sector
    return bytes(content)


def _sectors(write: Done) -> Iterator[tuple[int, bytes]]:
    """A write, divided at the ends of the disk's sectors."""
    end = write.offset + len(write.data)
    cuts = [write.offset, *range((write.offset // SECTOR + 1) * SECTOR, end, SECTOR), end]
    for start, stop in itertools.pairwise(cuts):
        yield start, write.data[start - write.offset : stop - write.offset]
