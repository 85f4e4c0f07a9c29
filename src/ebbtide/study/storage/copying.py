"""Studies from one storage to another, row by row; each is compared, and is there as a whole or not at all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ebbtide.errors import StorageError, StudyError
from ebbtide.study.storage.database import Database
from ebbtide.study.storage.store import Storage

AT_ONCE = 1000  # rows read and written
STUDY = ("created", "definition", "family")
DESCRIBED = "SELECT created, definition, family FROM studies WHERE study = ?"
TABLES = {  # each with its columns; the first one is its number within the study
    "asks": (
        *("ask", "told", "now", "until", "landed", "params", "time", "expires", "state", "kind", "context", "filled"),
        "gone",
    ),
    "tells": (
        *("line", "asks", "reading", "params", "time", "value", "ask", "key", "abandoned"),
        *("context", "filled", "constraints", "broken", "valued", "failed", "first", "last", "alike"),
    ),
    "removals": ("line", "ask", "relevance"),
    "active": ("line",),
}
FLAGS = {"abandoned"}  # numbers in SQLite

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Copied:
    """A study, and how many rows of it were copied and compared."""

    name: str
    asks: int
    tells: int


def copy(source: Storage, target: Storage, names: Iterable[str] | None = None) -> Iterator[Copied]:
    """All studies of a storage, or those with some names. The source may be in use: each is copied as of one moment."""
    chosen = source.names() if names is None else list(names)
    numbers = [source.identify(name) for name in chosen]
    there = set(target.names())
    if taken := [name for name in chosen if name in there]:
        raise StudyError(
            f"{target.database.place} has {', '.join(map(repr, taken[:10]))} already; nothing was copied: delete or "
            "rename, or choose other studies with --name"
        )
    for name, number in zip(chosen, numbers, strict=True):
        with source.database.reading():
            yield _copied(source.database, number, target.database, name)


def _copied(source: Database, number: int, target: Database, name: str) -> Copied:
    with target.transaction([name]):
        study = source.row(DESCRIBED, (number,))
        target.run("INSERT INTO studies (name, created, definition, family) VALUES (?, ?, ?, ?)", (name, *study))
        (new,) = target.row("SELECT study FROM studies WHERE name = ?", (name,))
        counts = {table: _copy_table(source, number, target, new, table) for table in TABLES}
        _compare("studies", study, target.row(DESCRIBED, (new,)), name)
        for table in TABLES:
            _compare_table(source, number, target, new, table, name)
        target.announce(name)
    return Copied(name, counts["asks"], counts["tells"])


def _copy_table(source: Database, number: int, target: Database, new: int, table: str) -> int:
    columns, count = TABLES[table], 0
    marks = ", ".join("?" * (1 + len(columns)))
    insert = f"INSERT INTO {table} (study, {', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names
    for rows in _pages(source, number, table):
        target.run_many(insert, [(new, *row) for row in rows])
        count += len(rows)
    return count


def _compare_table(source: Database, number: int, target: Database, new: int, table: str, name: str) -> None:
    here, there = _rows(source, number, table), _rows(target, new, table)
    for row in here:
        _compare(table, row, next(there, None), name)
    _compare(table, None, next(there, None), name)


def _compare(table: str, given: Row | None, found: Row | None, name: str) -> None:
    if given != found:
        raise StorageError(
            f"{name!r} was not copied: a row of {table} became another one ({given!r:.200}, then {found!r:.200}); "
            "please report this"
        )


def _rows(database: Database, study: int, table: str) -> Iterator[Row]:
    for rows in _pages(database, study, table):
        yield from rows


def _pages(database: Database, study: int, table: str) -> Iterator[list[Row]]:
    columns, after = TABLES[table], -1
    query = (
        f"SELECT {', '.join(columns)} FROM {table} WHERE study = ? AND {columns[0]} > ? "  # noqa: S608
        f"ORDER BY {columns[0]} LIMIT ?"
    )
    flags = [index for index, column in enumerate(columns) if column in FLAGS]
    while rows := database.rows(query, (study, after, AT_ONCE)):
        yield [tuple(bool(value) if index in flags else value for index, value in enumerate(row)) for row in rows]
        after = rows[-1][0]
