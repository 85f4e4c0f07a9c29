"""The tables, as numbered steps of SQL, in a folder for each kind of database: `0005_more.sql` makes version 5 of 4.

A version has the same tables and columns in each. A released step never changes. A file of an older version is copied,
then upgraded in one transaction.
"""

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from ebbtide.errors import EbbtideWarning, StorageError

APPLICATION = 0x65626274  # "ebbt": marks a file as ours
MIGRATIONS = Path(__file__).with_name("migrations") / "sqlite"
MIGRATIONS_OF_POSTGRESQL = MIGRATIONS.with_name("postgresql")


@cache
def steps(folder: Path) -> tuple[Path, ...]:
    """The scripts, in order."""
    return tuple(sorted(folder.glob("*.sql")))


def version() -> int:
    """The version that this ebbtide writes."""
    return number(steps(MIGRATIONS)[-1])


def number(step: Path) -> int:
    """The version that a step makes."""
    return int(step.name.partition("_")[0])


def steps_from(folder: Path, found: int | None) -> list[str]:
    """The scripts that make this version of the one found."""
    return [step.read_text(encoding="utf-8") for step in steps(folder) if number(step) > (found or 0)]


def check(place: str, found: int | None, *, read_only: bool) -> None:
    """Raise an error if the database is newer than this ebbtide, or older and opened only for reading."""
    if found is None or found == version():
        return
    if found > version():
        raise StorageError(
            f"{place} was written by a newer ebbtide (schema version {found}; this one knows {version()}); "
            "nothing was changed: upgrade ebbtide"
        )
    if read_only:
        raise StorageError(
            f"{place} was written by an older ebbtide (schema version {found}; this one reads {version()}); nothing "
            "was changed: open it once for writing, which upgrades it, or run `ebbtide upgrade`"
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
    for script in steps_from(MIGRATIONS, found):
        for statement in _statements(script):
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
