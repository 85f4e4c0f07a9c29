"""What a storage asks of a database: SQL with `?` or `:name` for values, transactions, and locks of studies.

SQLite and PostgreSQL have the same tables. Their SQL differs where `among` and `as_bytes` say; `INDEXED BY`, a hint to
SQLite's planner, is left out for others.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Mode = Literal["ro", "rw", "rwc"]  # only read; write; write, and create what is missing

Values = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Disk:
    """Bytes in all, and free for this process."""

    size: int
    free: int


class Database(Protocol):
    """To be used by one thread at a time; any number of processes may use the same database."""

    among: str  # a condition: that a column is in a list of integers, whose value is JSON text
    as_bytes: str  # a text, as the bytes of its UTF-8
    place: str  # what messages call it, without a password
    version_found: int  # of the schema, before an upgrade

    def run(self, statement: str, values: Sequence[Any] = ()) -> None: ...

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def rows(self, query: str, values: Values = ()) -> list[Any]: ...

    def row(self, query: str, values: Values = ()) -> Any:
        """The first row, or None."""

    def transaction(self, studies: Iterable[str] = ()) -> AbstractContextManager[None]:
        """All or nothing, and on the disk when it ends. Inside another transaction: a part that may fail on its own.

        Until it ends, nobody else records anything in the studies with these names, and what was recorded before is
        seen. Whoever needs several studies names all of them at once, so that no two processes wait for each other.
        """

    def reading(self) -> AbstractContextManager[None]:
        """Several queries that see the same state."""

    def turn(self, name: str) -> AbstractContextManager[object]:
        """Around an ask, from its plan to its record, that must not be overtaken by those of other processes."""

    def is_taken(self, name: str) -> bool:
        """Whether another process has taken the next turn of a study, so that others should wait for theirs."""

    def announce(self, name: str) -> None:
        """When the transaction has ended, wake those who wait for news of a study."""

    def touch(self) -> None:
        """Write what is there already, to find out whether the database takes it."""

    def tend(self) -> None:
        """To be called now and then, outside a transaction."""

    @property
    def log_size(self) -> int | None:
        """Bytes of the write-ahead log; None if that is not ours to watch."""

    @property
    def disk(self) -> Disk | None:
        """The disk that holds the database; None if it is another machine's, or gone."""

    def close(self) -> None: ...
