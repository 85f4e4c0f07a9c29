"""The files that a connection has open, compared with those at their paths now.

Deleting, moving or replacing a database does not stop SQLite: it goes on with the files that it has open, where nobody
else will ever find what it writes. So whoever confirms a write looks first whether they are the ones at the path.
"""

import json
import os
import weakref
from contextlib import suppress
from pathlib import Path

from ebbtide.files import write_atomically

Identity = tuple[int, int]  # device and inode


class OpenFiles:
    """A database, its write-ahead log and the index of that log, as they were when they were opened."""

    def __init__(self, path: Path) -> None:
        """To be called right after the database was opened; `path` is absolute."""
        self.path = path
        real = os.path.realpath(path)
        self._logs = (f"{real}-wal", f"{real}-shm")
        self._note = Path(f"{real}-use")  # which database the log beside it belongs to
        self._log_identities: tuple[Identity | None, ...] = (None, None)
        self.database = _identity(path)
        # As long as this is open, no other file gets the same inode, and what was deleted can still be copied. Unlike
        # an ordinary descriptor, it does not release SQLite's locks when it is closed.
        self._descriptor: int | None = None
        with suppress(OSError):
            if hasattr(os, "O_PATH"):
                self._descriptor = os.open(path, os.O_PATH)
                weakref.finalize(self, os.close, self._descriptor)

    def note_logs(self) -> None:
        """To be called once the write-ahead log is in use: from then on, it must stay where it is, too."""
        self._log_identities = tuple(map(_identity, self._logs))

    @property
    def log_is_of_another(self) -> bool:
        """Whether the write-ahead log belongs to a database that was at the path before, and was replaced.

        SQLite cannot tell, and would apply it to this one.
        """
        with suppress(OSError, ValueError):
            database, log = map(tuple, json.loads(self._note.read_text()))
            return log == _identity(self._logs[0]) and database != self.database and self.log_size > 0
        return False

    def note_use(self) -> None:
        """For the next who opens it, in case this process cannot tidy up."""
        content = json.dumps([self.database, self._log_identities[0]])
        with suppress(OSError):
            if self._log_identities[0] is not None and not (self._note.exists() and self._note.read_text() == content):
                write_atomically(self._note, content)

    def note_end(self) -> None:
        """To be called after the database was closed: the last to do so has removed the log."""
        with suppress(OSError):
            if not os.path.exists(self._logs[0]):
                self._note.unlink(missing_ok=True)

    def follow(self, before: "OpenFiles") -> bool:
        """Whether these are the files that were open before, or new logs in their places.

        As long as another connection of this process uses a log that was deleted, SQLite makes no new one.
        """
        noted = zip(before._log_identities, self._log_identities, strict=True)
        return self.database == before.database and all(new is not None for old, new in noted if old is not None)

    @property
    def log_size(self) -> int:
        """Bytes of the write-ahead log."""
        try:
            return os.stat(self._logs[0]).st_size
        except OSError:
            return 0

    @property
    def is_there(self) -> bool:
        """Whether the database itself is at its path."""
        return self.database is not None and _identity(self.path) == self.database

    @property
    def are_there(self) -> bool:
        """Whether all of them are at their paths."""
        logs = zip(self._logs, self._log_identities, strict=True)
        return self.is_there and all(noted in (None, _identity(path)) for path, noted in logs)

    @property
    def can_be_left(self) -> bool:
        """Whether the database can be closed and found again: not where only its connection keeps a deleted file."""
        return self._descriptor is not None

    @property
    def trouble(self) -> str:
        """What is wrong, and what to do about it."""
        if self.is_there:
            return "its write-ahead log was deleted or moved while it was in use; try again in a moment"
        what = "is gone: it was deleted or moved" if _identity(self.path) is None else "was replaced by another file"
        return (
            f"{what} while it was in use; nothing more is recorded until you put the file back{self._copy}, or "
            "restart (open it again) to use what is there then"
        )

    @property
    def _copy(self) -> str:
        if self._descriptor is None or os.fstat(self._descriptor).st_nlink:
            return ""
        return f" (a copy, for as long as this process runs: cp /proc/{os.getpid()}/fd/{self._descriptor} COPY)"


def _identity(path: str | Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
