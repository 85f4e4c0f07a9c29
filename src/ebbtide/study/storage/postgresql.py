"""A PostgreSQL database. A study is locked while something is recorded in it, and at no other time.

Locks belong to transactions, and no statement is prepared, so that PgBouncer may share connections between transactions
(its transaction mode). A connection that was lost while nobody used it is replaced without a word; in the middle of a
transaction it is an error, and whoever tells again is told whether it was recorded.
"""

import os
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout

from ebbtide.errors import StorageError
from ebbtide.study.storage import schema
from ebbtide.study.storage.database import Disk, Mode, Values
from ebbtide.study.storage.pools import PATIENCE_S, POOLS, REST_S, Connection
from ebbtide.study.storage.troubles import explained, unreachable
from ebbtide.study.storage.urls import shown

CHANNEL = "ebbtide"  # of news: the name of the study that has some
LOCK_S, IDLE_S = 10, 5  # for a lock; whoever holds one and does nothing for as long loses the connection and the lock
TURN_S, TURN_IDLE_S = 10, 30  # the same for a turn, during which a model is worked out
PATIENTLY = "BEGIN; SET LOCAL lock_timeout = '{}s'; SET LOCAL idle_in_transaction_session_timeout = '{}s'"
BEGIN, BEGIN_TURN = PATIENTLY.format(LOCK_S, IDLE_S).encode(), PATIENTLY.format(TURN_S, TURN_IDLE_S).encode()
BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
OWN_TABLES = {"studies", "asks", "tells", "removals", "active", "tokens"}
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
OLDEST_SERVER = 12
LOCK = b"; SELECT pg_advisory_xact_lock(%d)"  # in the same message as what comes before it
NOTIFY = b"SELECT pg_notify(%s, name) FROM unnest(%s::text[]) AS name"


class PostgresqlDatabase:
    """A database opened for writing ("rw") or only for reading ("ro"); "rwc" creates the tables if there are none."""

    among = "{} = ANY(ARRAY(SELECT CAST(json_array_elements_text(CAST(? AS json)) AS bigint)))"
    as_bytes = "convert_to({}, 'UTF8')"

    def __init__(self, url: str, mode: Mode = "rw") -> None:
        self.place = shown(url)
        self._url, self._mode, self._process = url, mode, os.getpid()
        self._pool = POOLS.take(url)
        self._close = weakref.finalize(self, POOLS.leave, self._process, url)
        self._held: Connection | None = None  # in a transaction
        self._depth = 0
        self._locked: set[int] = set()
        self._insisted: str | None = None  # the study on whose next ask this one insists
        self._queued: list[bytes] = []  # statements that go along with the next one
        self._news: dict[str, None] = {}
        self._closed = False
        try:
            self._prepare()
        except BaseException:
            self._close()
            raise

    def close(self) -> None:
        self._closed = True
        self._close()

    @property
    def log_size(self) -> int | None:
        return None

    @property
    def disk(self) -> Disk | None:
        return None

    # --- the tables ---------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        with self.reading():
            self._check_server()
            version = self._version()
        self.version_found = version or 0
        if version is None and self._mode != "rwc":
            raise StorageError(f"{self.place} holds no studies of ebbtide; nothing was changed: check the URL")
        schema.check(self.place, version, read_only=self._mode == "ro")
        if version != schema.version():
            with self.transaction(), self._clearly():
                self._lock_keys([_key("schema", "")])  # two who come first at the same moment
                self._upgrade(self._version())

    def _check_server(self) -> None:
        info = self._connection.info
        if info.server_version < OLDEST_SERVER * 10_000:
            raise StorageError(
                f"{self.place} is PostgreSQL {info.server_version // 10_000}; use {OLDEST_SERVER} or newer"
            )
        if (encoding := info.parameter_status("server_encoding")) != "UTF8":
            raise StorageError(
                f"{self.place} is encoded in {encoding}, which lacks characters that names may have: create another "
                "with createdb --encoding UTF8 --template template0"
            )

    def _version(self) -> int | None:
        """The schema's version; None if there are no tables. An error if there are tables of another program."""
        found = {str(name) for (name,) in self.rows(TABLES)}  # to_regclass() would remember what was missing before
        if "ebbtide_schema" in found:
            return int(self.row("SELECT max(version) FROM ebbtide_schema")[0])
        if taken := sorted(found & OWN_TABLES):
            raise StorageError(
                f"{self.place} has tables of another program ({', '.join(taken)}); nothing was changed: give ebbtide a "
                "database or a schema of its own"
            )
        return None

    def _upgrade(self, found: int | None) -> None:
        if found == schema.version():  # another process was first
            return
        schema.check(self.place, found, read_only=False)
        for script in schema.steps_from(schema.MIGRATIONS_OF_POSTGRESQL, found):
            self._connection.execute(script.encode())
        if found is None:
            self.run("CREATE TABLE ebbtide_schema (version integer NOT NULL)")
            self.run("INSERT INTO ebbtide_schema (version) VALUES (?)", (schema.version(),))
        else:
            self.run("UPDATE ebbtide_schema SET version = ?", (schema.version(),))

    # --- use ----------------------------------------------------------------------------------------------

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        with self._writing() as connection:
            self._send(connection, translated(statement), values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._writing() as connection, connection.pipeline():
            self._send_queued(connection)
            connection.cursor().executemany(translated(statement), rows)

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._clearly():
            if self._held is not None:
                return self._send(self._held, translated(query), values).fetchall()
            connection, found = self._begun(translated(query), values)
            self._give_back(connection)
            return found

    def row(self, query: str, values: Values = ()) -> Any:
        found = self.rows(query, values)
        return found[0] if found else None

    def touch(self) -> None:
        self.run("UPDATE ebbtide_schema SET version = version")

    def tend(self) -> None:
        """The pool looks after its connections by itself."""

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A statement that stands alone is a transaction, so that it is never made twice."""
        if self._held is None:
            with self.transaction():
                yield self._connection
            return
        with self._clearly():
            yield self._held

    @property
    def _connection(self) -> Connection:
        """In a transaction."""
        if self._held is None:
            raise StorageError(f"{self.place}: there is no transaction")
        return self._held

    # --- transactions -------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, studies: Iterable[str] = ()) -> Iterator[None]:
        keys = sorted({_key("study", name) for name in studies})
        if self._depth:
            with self._part():
                self._lock_keys(keys)
                yield
            return
        if self._mode == "ro":
            raise StorageError(f"{self.place} was opened only for reading")
        with self._holding(BEGIN + b"".join(LOCK % key for key in keys), self._commit):
            self._depth, self._locked = 1, set(keys)
            yield

    @contextmanager
    def _part(self) -> Iterator[None]:
        point = b"part%d" % self._depth
        begin = b"SAVEPOINT " + point
        depth, news = self._depth, dict(self._news)
        self._queued.append(begin)
        self._depth = depth + 1
        try:
            yield
            if begin in self._queued:  # nothing was sent since
                self._queued.remove(begin)
            else:
                self._queued.append(b"RELEASE " + point)
        except BaseException:
            self._news = news
            if begin in self._queued:
                self._queued.remove(begin)
            else:
                self._queued = []
                with suppress(psycopg.Error, StorageError):  # if the connection is gone, so is the whole transaction
                    self._connection.execute(b"ROLLBACK TO %b; RELEASE %b" % (point, point))
            raise
        finally:
            self._depth = depth

    def _send(self, connection: Connection, query: bytes, values: Values) -> psycopg.Cursor[Any]:
        """Nobody waits for what is queued: it goes along, and so does its answer."""
        if not self._queued:
            return connection.execute(query, values)
        with connection.pipeline():
            self._send_queued(connection)
            return connection.execute(query, values)

    def _send_queued(self, connection: Connection) -> None:
        queued, self._queued = self._queued, []
        for statement in queued:
            connection.execute(statement)

    def _commit(self, connection: Connection) -> None:
        """The news go along, but come after the commit: inside, all commits of the database would wait for each other.

        If they are lost, those who wait look after a second anyway.
        """
        names, committed = list(self._news), None
        try:
            with connection.pipeline():
                self._send_queued(connection)
                committed = connection.execute(b"COMMIT")
                if names:
                    connection.execute(NOTIFY, (CHANNEL, names))
        except psycopg.Error:
            if committed is None or committed.statusmessage != "COMMIT":
                raise
        else:
            if committed.statusmessage != "COMMIT":  # an error before was caught, and the server has not forgotten it
                raise psycopg.errors.InFailedSqlTransaction("a statement had failed, so everything was rolled back")

    @contextmanager
    def reading(self) -> Iterator[None]:
        if self._held is not None:
            yield
            return
        with self._holding(BEGIN_READING, Connection.rollback):
            yield

    @contextmanager
    def _holding(self, begin: bytes, end: Callable[[Connection], None]) -> Iterator[None]:
        """A connection that is ours until the transaction ends."""
        with self._clearly():
            connection, _ = self._begun(begin)
        self._held = connection
        self._locked, self._queued, self._news = set(), [], {}
        try:
            yield
            with self._clearly():
                end(connection)
        except BaseException:
            with suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._held, self._depth = None, 0
            self._give_back(connection)

    def _begun(self, query: bytes, values: Values = ()) -> tuple[Connection, list[Any]]:
        """A connection on which this succeeded: one that broke while nobody used it is no reason to fail."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            connection = self._take(deadline)
            try:
                cursor = connection.execute(query, values or None)
                return connection, cursor.fetchall() if cursor.description else []
            except BaseException as error:
                lost = isinstance(error, psycopg.OperationalError) and connection.broken
                self._give_back(connection)
                if not lost or time.monotonic() > deadline:
                    raise

    def _take(self, deadline: float) -> Connection:
        """While the server is away, one waits for it, and the others learn at once that it is."""
        made = self._pool.connection_class
        try:
            if time.monotonic() < made.given_up + REST_S:
                raise PoolTimeout
            taken: Connection = self._pool.getconn(max(0.1, deadline - time.monotonic()))
        except PoolTimeout:
            if made.trouble is not None and time.monotonic() > made.given_up + REST_S:
                made.given_up = time.monotonic()
            raise unreachable(self._url, made.trouble, self._pool.max_size) from None
        return taken

    def _give_back(self, connection: Connection) -> None:
        with suppress(psycopg.Error, ValueError):  # a pool that was closed meanwhile closes it
            self._pool.putconn(connection)

    # --- other processes ----------------------------------------------------------------------------------

    def _lock_keys(self, keys: Sequence[int]) -> None:
        """All at once and in one order: in this way, no two processes wait for each other."""
        missing = set(keys) - self._locked
        if not missing:
            return
        if self._locked and min(missing) < max(self._locked):
            raise StorageError(f"{self.place}: several studies must be locked at once")
        with self._clearly():
            self._connection.execute(b"".join(LOCK % key for key in sorted(missing))[1:])
        self._locked |= missing

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """A lock beside the one for recording, on a connection of its own: nobody who tells waits for it."""
        if name == self._insisted:
            yield
            return
        with self._clearly():
            connection, _ = self._begun(BEGIN_TURN)
        self._insisted = name
        try:
            with suppress(psycopg.OperationalError):  # too long, or lost: then without it
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_key("turn", name),))
            yield
        finally:
            self._insisted = None
            with suppress(psycopg.Error):
                connection.rollback()
            self._give_back(connection)

    def is_taken(self, name: str) -> bool:
        query = "SELECT NOT pg_try_advisory_xact_lock_shared(?)"
        return name != self._insisted and bool(self.row(query, (_key("turn", name),))[0])

    def announce(self, name: str) -> None:
        self._news[name] = None

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise StorageError(f"{self.place} was opened by another process, before a fork; open it again in this one")
        if self._closed and self._held is None:
            raise StorageError(f"{self.place} was closed; open the study again: eb.Optimizer.open(storage, name)")
        try:
            yield
        except psycopg.Error as error:
            raise explained(self._url, error) from error


@cache
def translated(query: str) -> bytes:
    """A query as Psycopg takes it.

    >>> translated("SELECT x FROM y INDEXED BY z WHERE a = ? AND b = :b")
    b'SELECT x FROM y WHERE a = %s AND b = %(b)s'
    """
    plain = re.sub(r" INDEXED BY \w+", "", query).replace("%", "%%")
    return re.sub(r":(\w+)", r"%(\1)s", plain).replace("?", "%s").encode()


def _key(kind: str, name: str) -> int:
    """The number of an advisory lock. Two names with the same one would wait for each other, and no more."""
    text = f"ebbtide {kind} {name}".encode(errors="backslashreplace")
    return int.from_bytes(sha256(text).digest()[:8], "big", signed=True)
