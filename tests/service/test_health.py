"""Health checks: alive as long as it answers, ready only if it can do its work. And a database that goes away."""

import asyncio
import os
import resource
import signal
import sqlite3
import threading
import time
from contextlib import closing, contextmanager

import pytest
from helpers.direct import running
from helpers.serving import served

import ebbtide as eb
from ebbtide.service import studies as studies_module
from ebbtide.service.worker import compute_step

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
TELL = "/studies/edge/tell"
PATIENCE_S = 120.0


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as server:
        assert server.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        yield server
        server.alive()  # what was answered before this is in the log by now
        server.excused = len(server.log)  # a 503 is logged with its traceback


def tell(server, value):
    body = {"params": {"x": 0.5}, "value": value, "idempotency_key": str(value)}
    return server.call("POST", TELL, body)


def becomes(server, status, path="/readyz"):
    """The first answer with this status."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := server.call("GET", path)).status != status:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


def values(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [value for (value,) in connection.execute("SELECT value FROM tells ORDER BY line")]


# --- the file is away -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_database_that_is_moved_is_noticed_and_it_goes_on_when_it_is_back(server, tmp_path):
    path, elsewhere = tmp_path / "s.db", tmp_path / "elsewhere.db"
    assert tell(server, 1.0).status == 200
    becomes(server, 200)
    path.rename(elsewhere)
    for answer in (tell(server, 2.0), server.call("POST", "/studies/edge/ask"), server.call("GET", "/studies")):
        assert (answer.status, answer.error) == (503, "StorageError")
        assert "is gone" in answer.json["error"]["message"]
    assert "is gone" in becomes(server, 503).json["error"]["message"]
    assert becomes(server, 503, "/healthz").error == "StorageError"
    assert server.alive()
    elsewhere.rename(path)
    assert tell(server, 2.0).status == 200
    becomes(server, 200)
    assert len(server.call("GET", "/studies/edge/observations").json["observations"]) == 2
    assert values(path) == [1.0, 2.0]


@pytest.mark.slow
def test_a_backup_moved_over_the_database_is_noticed_and_used_after_a_restart(tmp_path):
    path, backup = tmp_path / "s.db", tmp_path / "backup.db"
    with served(tmp_path) as server:
        assert server.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        assert tell(server, 1.0).status == 200
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        assert tell(server, 2.0).status == 200
        os.link(path, tmp_path / "kept.db")
        backup.replace(path)
        answer = tell(server, 3.0)
        assert (answer.status, answer.error) == (503, "StorageError")
        assert "replaced by another file" in answer.json["error"]["message"]
        becomes(server, 503)
        assert server.alive()
        server.excused = len(server.log)
    with served(tmp_path) as restarted:
        restarted.excused = server.excused  # the log goes on
        assert tell(restarted, 4.0).status == 200
    assert values(path) == [1.0, 4.0]
    assert values(tmp_path / "kept.db") == [1.0, 2.0]  # all that was acknowledged, and no more


@pytest.mark.slow
def test_an_idle_service_lets_go_of_a_database_that_was_replaced(server, tmp_path):
    """Otherwise SQLite would apply the write-ahead log of the old file to the new one, whoever opens it."""
    path = tmp_path / "s.db"
    other = tmp_path / "other.db"
    with closing(eb.Optimizer({"y": eb.Float(0.0, 1.0)}, storage=f"sqlite:///{other}", name="other", seed=0)) as opt:
        opt.tell({"y": 0.5}, 7.0)
    assert tell(server, 1.0).status == 200
    path.rename(tmp_path / "kept.db")
    other.rename(path)
    log = tmp_path / "s.db-wal"
    deadline = time.monotonic() + PATIENCE_S
    while log.stat().st_size:  # no request is sent
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert values(path) == [7.0]
    assert values(tmp_path / "kept.db") == [1.0]


@pytest.mark.slow
def test_a_write_ahead_log_that_is_gone_costs_nothing_that_was_confirmed(server, tmp_path):
    path = tmp_path / "s.db"
    for part in ("-wal", "-shm"):
        assert tell(server, float(len(part))).status == 200
        assert server.call("GET", "/studies").status == 200  # the reading thread has it open, too
        (tmp_path / f"s.db{part}").unlink()
        deadline = time.monotonic() + PATIENCE_S
        while tell(server, part.count("h")).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert len(values(path)) == 3


@pytest.mark.slow
def test_a_dashboard_notices_too(tmp_path):
    path = tmp_path / "s.db"
    with closing(eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=f"sqlite:///{path}", name="edge", seed=0)) as opt:
        opt.tell({"x": 0.5}, 1.0)
    with served(tmp_path, dashboard=True) as server:
        assert becomes(server, 200).json["status"] == "ok"
        path.rename(tmp_path / "elsewhere.db")
        assert becomes(server, 503).error == "StorageError"
        becomes(server, 503, "/studies/edge/view")
        (tmp_path / "elsewhere.db").rename(path)
        becomes(server, 200)
        becomes(server, 200, "/studies/edge/view")
        assert server.alive()
        server.excused = len(server.log)


# --- a disk that takes nothing, workers and asks that hang ------------------------------------------------------------


@contextmanager
def nothing_longer_than(server, size):
    """A file system that is full, for this process: no file may become longer."""
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_a_disk_that_takes_no_more_is_noticed_without_a_tell(server, tmp_path):
    becomes(server, 200)
    with nothing_longer_than(server, (tmp_path / "s.db-wal").stat().st_size):
        assert becomes(server, 503).error == "StorageError"
        assert server.alive()
        assert tell(server, 1.0).status == 503
    becomes(server, 200)
    assert tell(server, 1.0).status == 200
    assert values(tmp_path / "s.db") == [1.0]


@pytest.mark.slow
def test_workers_that_are_frozen_are_replaced_and_the_service_becomes_ready_again(server):
    becomes(server, 200)
    frozen = server.workers()
    assert frozen
    for process in frozen:
        os.kill(process, signal.SIGSTOP)
    assert tell(server, 1.0).status == 200
    assert server.call("POST", "/studies/edge/ask", {}).status == 200
    becomes(server, 200)
    assert not set(frozen) & set(server.workers())


def test_asks_that_are_stuck_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("ebbtide.service.studies.PATIENCE_S", 0.0)
    with running(tmp_path / "s.db") as direct:
        assert direct.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        assert direct.call("GET", "/readyz").status == 200
        with stuck(direct):
            answer = direct.call("GET", "/readyz")
            assert (answer.status, answer.error) == (503, "ServiceError")
            assert "an ask has been waiting" in answer.json["error"]["message"]
            assert direct.call("GET", "/livez").status == 200
        assert direct.call("GET", "/readyz").status == 200


@contextmanager
def stuck(direct):
    """An ask whose model is worked on for as long as this lasts."""
    begun, released = threading.Event(), threading.Event()

    def waiting(plan):
        begun.set()
        released.wait(PATIENCE_S)
        return compute_step(plan)

    async def begin():
        task = asyncio.create_task(direct.request("POST", "/studies/edge/ask"))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        return task

    async def end():
        released.set()
        return await task

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies_module, "compute_step", waiting)
        task = direct.run(begin())
        try:
            yield
        finally:
            assert direct.run(end()).status == 200
