"""The write-ahead log: a long reader lets it grow, and it shrinks again."""

import sqlite3
import time
from contextlib import closing

import pytest
from helpers.direct import running
from helpers.studies import tiny

from ebbtide.study.storage.sqlite import LOG_BYTES

PARAMS = {"x": 0.5}
PATIENCE_S = 120.0


def reading(path):
    """A connection in the middle of reading."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM tells").fetchone()
    return connection


def grow(path, tell):
    """Tell until the log is too long."""
    log = path.with_name(f"{path.name}-wal")
    while log.stat().st_size <= 2 * LOG_BYTES:
        tell()
    return log


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """A limit that is reached sooner."""
    monkeypatch.setattr("ebbtide.study.storage.sqlite.LOG_BYTES", 1 << 18)
    monkeypatch.setattr(f"{__name__}.LOG_BYTES", 1 << 18)


def test_the_log_shrinks_once_a_long_reader_has_finished(tmp_path):
    path = tmp_path / "s.db"
    with closing(tiny(path)) as opt:
        with closing(reading(path)):
            log = grow(path, lambda: opt.tell(PARAMS, 1.0))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint")  # as SQLite does by itself after a thousand pages
        for _ in range(2):
            opt.tell(PARAMS, 1.0)
        assert log.stat().st_size <= LOG_BYTES


def test_the_log_of_an_idle_service_shrinks_and_is_measured(tmp_path):
    path = tmp_path / "s.db"
    with running(path) as direct:

        def measured():
            lines = direct.call("GET", "/metrics").body.decode().splitlines()
            return next(float(line.split()[1]) for line in lines if line.startswith("ebbtide_write_ahead_log_bytes"))

        def tell():
            assert direct.call("POST", "/studies/edge/tell", {"params": PARAMS, "value": 1.0}).status == 200

        space = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
        assert direct.call("POST", "/studies", {"name": "edge", "space": space, "seed": 0}).status == 201
        with closing(reading(path)):
            log = grow(path, tell)
            assert measured() == log.stat().st_size
            tell()  # nobody waits for the reader
        deadline = time.monotonic() + PATIENCE_S
        while log.stat().st_size > LOG_BYTES:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert measured() == log.stat().st_size
        tell()
