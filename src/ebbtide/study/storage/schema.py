"""The tables, as numbered steps of SQL: `migrations/0001_initial.sql` makes version 1, the next one version 2, ...

A released step never changes. A file of an older version is copied, then upgraded in one transaction.
"""

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from ebbtide.errors import EbbtideWarning, StorageError

APPLICATION = 0x65626274  # "ebbt": marks a file as ours
MIGRATIONS = Path(__file__).with_name("migrations")


@cache
def steps(folder: Path) -> tuple[Path, ...]:
    """The scripts, in order."""
    return tuple(sorted(folder.glob("*.sql")))


def version() -> int:
    """The version that this ebbtide writes."""
    return len(steps(MIGRATIONS))


def check(path: Path, found: int | None, *, read_only: bool) -> None:
    """Raise an error if the file is newer than this ebbtide, or older and opened only for reading."""
    if found is None or found == version():
        return
    if found > version():
        raise StorageError(
            f"{path} was written by a newer ebbtide (schema version {found}; this one knows {version()}); "
            "nothing was changed: upgrade ebbtide"
        )
    if read_only:
        raise StorageError(
            f"{path} was written by an older ebbtide (schema version {found}; this one reads {version()}); nothing was "
            "changed: open it once for writing, which upgrades it, or run `ebbtide upgrade`"
        )


def upgrade(connection: sqlite3.Connection, path: Path, found: int | None, copy: bool) -> None:
    """Upgrade a file to this version. The caller holds a write transaction, so no other process can write."""
    if found == version():  # another process was first
        return
    if found and copy:
        kept = _copy(path, found)
        warnings.warn(
            f"{path} was upgraded from schema version {found} to {version()}; the old file is kept as {kept}",
            EbbtideWarning,
            stacklevel=6,
        )
    for step in steps(MIGRATIONS)[found or 0 :]:
        for statement in _statements(step.read_text(encoding="utf-8")):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {version()}")


def _copy(path: Path, found: int) -> Path:
    """Copy the file, as it is before the upgrade, to the same folder."""
    names = (path.with_name(f"{path.name}.v{found}{suffix}") for suffix in ("", *(f"-{k}" for k in range(2, 1000))))
    kept = next(name for name in names if not name.exists())
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with closing(source), closing(sqlite3.connect(kept)) as target:
        source.backup(target)
    return kept


def _statements(script: str) -> Iterator[str]:
    """One statement at a time: `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
