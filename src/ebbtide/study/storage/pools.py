"""Connections to PostgreSQL: each process has one pool for each URL, which all of its studies share."""

import atexit
import logging
import math
import os
import threading
from collections import deque
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from ebbtide.errors import ConfigurationError
from ebbtide.study.storage.urls import POSTGRESQL, shown

PATIENCE_S = 5.0  # for a connection; a server that was killed is back in a second or two
REST_S = 1.0  # after somebody has waited in vain, nobody waits
MOST = 16  # connections of a process: a thread needs one, or two while it insists on an ask
# A server that has vanished without a word is noticed after about 20 s.
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3, "tcp_user_timeout": 20_000}
DEFAULTS: dict[str, Any] = {"connect_timeout": 5, "application_name": "ebbtide", "client_encoding": "UTF8"} | ALIVE

logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # errors are raised; nobody wants them twice

Connection = psycopg.Connection[tuple[Any, ...]]


def options(url: str) -> dict[str, Any]:
    """What a URL says, with our defaults. What libpq says of a wrong URL may hold parts of a password."""
    try:
        said = conninfo_to_dict(url)
    except psycopg.Error:
        said = {}
    ports = str(said.get("port", "")).replace(",", "")
    if not said or "@" in str(said.get("host", "")) or not (ports.isdecimal() or not ports):
        raise ConfigurationError(
            f'storage={shown(url)!r} cannot be read: give "{POSTGRESQL}user:password@host:port/database"; in a '
            "password, write %40 for @, %2F for / and %3A for :"
        )
    return DEFAULTS | said


class Remembering(psycopg.Connection[tuple[Any, ...]]):
    """Remembers why the last connection could not be made, which the pool only logs. Each pool has its own class."""

    trouble: BaseException | None = None
    given_up = -math.inf  # when somebody last had waited in vain

    @classmethod
    def connect(cls, *arguments: Any, **named: Any) -> "Remembering":
        try:
            made = super().connect(*arguments, **named)
        except psycopg.Error as error:
            cls.trouble = error
            raise
        cls.trouble, cls.given_up = None, -math.inf
        return made


class Pools:
    """A pool is opened by the first who wants it, and closed by the last who had it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[tuple[int, str], tuple[ConnectionPool[Any], int]] = {}  # by process and URL; users
        self._left = deque[tuple[int, str]]()  # by users whom nobody has counted yet

    def take(self, url: str) -> ConnectionPool[Any]:
        said = options(url)
        key = os.getpid(), url
        with self._lock:
            pool, users = self._pools.get(key) or (_pool(said), 0)
            self._pools[key] = pool, users + 1
        self._count_those_who_left()
        return pool

    def leave(self, process: int, url: str) -> None:
        """Also called by the garbage collector, at any moment: even in the middle of `take`, by the same thread.

        Nothing, in a process that was forked from the one which has opened it.
        """
        if process == os.getpid():
            self._left.append((process, url))
            self._count_those_who_left()

    def _count_those_who_left(self) -> None:
        while self._left and self._lock.acquire(blocking=False):  # otherwise whoever has the lock does it
            unused = None
            try:
                with suppress(IndexError):
                    key = self._left.popleft()
                    unused, users = self._pools.pop(key)
                    if users > 1:
                        self._pools[key], unused = (unused, users - 1), None
            finally:
                self._lock.release()
            if unused is not None:
                _close(unused)

    def close(self) -> None:
        for (process, _), (pool, _) in self._pools.items():
            if process == os.getpid():
                _close(pool)


def _pool(said: dict[str, Any]) -> ConnectionPool[Any]:
    # No prepared statements: PgBouncer, in transaction mode, may use another connection for the next transaction.
    return ConnectionPool(
        kwargs=said | {"autocommit": True, "prepare_threshold": None},
        connection_class=type("Remembering", (Remembering,), {}),
        min_size=0,
        max_size=MOST,
        reconnect_timeout=PATIENCE_S,
        num_workers=1,
        open=True,
    )


def _close(pool: ConnectionPool[Any]) -> None:
    with suppress(psycopg.Error):
        pool.close(timeout=1.0)


POOLS = Pools()
atexit.register(POOLS.close)
