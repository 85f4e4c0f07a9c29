"""Slow models, workers that die, and how the service starts and ends."""

import os
import signal
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from click.testing import CliRunner
from helpers.serving import PATIENCE_S, gone, served

import ebbtide as eb
from ebbtide.cli.commands import ebbtide

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 5), "c": eb.Categorical(["a", "b"])}
AT_ONCE = {"WORKERS_AFTER_S": "0.5"}


def test_slow_model_work_holds_up_no_tell_of_any_study(server, client):
    """An ask whose worker is stopped, and those that replace it, takes as long as we like."""
    slow, quick = (client.create(name, {"x": eb.Float(0.0, 1.0)}, seed=0) for name in ("slow", "quick"))
    slow.ask()  # there is a worker now
    assert stop_workers(server)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, server, "slow")
        for _ in range(20):
            quick.tell({"x": 0.5}, 1.0)
            slow.tell({"x": 0.5}, 1.0)
            stop_workers(server)
        assert not asking.done()
        assert asking.result(timeout=60).id == "1"  # by another worker, without our help
    assert len(quick.history) == len(slow.history) == 20


def stop_workers(server):
    workers = server.workers()
    for worker in workers:
        with suppress(ProcessLookupError):  # the service was faster
            os.kill(worker, signal.SIGSTOP)
    return workers


def ask(server, name):
    """From another thread."""
    with closing(eb.Client(server.url, server.token)) as client:
        return client.study(name).ask()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(server, client):
    study = client.create("mourned", SPACE)
    study.tell(study.ask(), 1.0)
    workers = server.workers()
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    study.tell(study.ask(), 1.0)
    assert len(study.history) == 2


@pytest.mark.slow
def test_ctrl_c_while_the_workers_start_is_quiet(tmp_path):
    """A terminal sends it to the workers, too; `served` looks for tracebacks."""
    with served(tmp_path, env=AT_ONCE) as server:
        while not server.workers():
            time.sleep(0.01)
        time.sleep(0.3)  # it is importing
        os.killpg(server.process.pid, signal.SIGINT)
        server.process.wait(timeout=60)


def ends(server, workers):
    server.process.wait(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(gone, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return all(map(gone, workers))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "state"),
    [
        (signal.SIGTERM, "starting"),
        (signal.SIGTERM, "at work"),
        (signal.SIGTERM, "stopped"),
        (signal.SIGKILL, "stopped"),
    ],
)
def test_no_worker_keeps_a_service_from_ending_or_outlives_it(tmp_path, how, state):
    """One that is stopped notices no SIGTERM, and not that its service has gone."""
    with served(tmp_path, env=AT_ONCE) as server, closing(eb.Client(server.url, patience=0.0)) as client:
        study = client.create("s", SPACE)
        if state != "starting":
            study.ask()
        while not (workers := server.workers()):
            time.sleep(0.01)
        with ThreadPoolExecutor(1) as pool:
            if state == "stopped":
                stop_workers(server)
            asking = pool.submit(study.ask) if state != "starting" else None
            server.process.send_signal(how)
            assert ends(server, workers)
            assert asking is None or asking.exception() is None or isinstance(asking.exception(), eb.ServiceError)


@pytest.mark.very_slow
def test_a_database_that_is_locked_keeps_no_service_from_ending(tmp_path):
    with served(tmp_path) as server, closing(eb.Client(server.url, patience=0.0)) as client:
        study = client.create("s", SPACE)
        with (
            closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other,
            ThreadPoolExecutor(1) as pool,
        ):
            other.execute("BEGIN IMMEDIATE")
            telling = pool.submit(study.tell, {"x": 0.5, "k": 1, "c": "a"}, 1.0)
            time.sleep(0.5)  # it waits for the lock
            server.process.send_signal(signal.SIGTERM)
            assert ends(server, server.workers())
            assert isinstance(telling.exception(), eb.ServiceError)  # it was not confirmed
    with closing(eb.Optimizer.open(f"sqlite:///{tmp_path}/s.db", "s")) as opt:
        assert opt.told == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path, how):
    with served(tmp_path) as server:
        client = eb.Client(server.url)
        study = client.create("s", SPACE)
        study.tell(study.ask(), 1.0)
        workers = server.workers()
        assert workers
        server.process.send_signal(how)
        assert ends(server, workers)
        client.close()
        assert "Traceback" not in server.log
    opt = eb.Optimizer.open(f"sqlite:///{tmp_path}/s.db", "s")
    assert [o.value for o in opt.history] == [1.0]
    opt.close()


def serve(folder, port):
    """What `ebbtide serve` prints when it does not start."""
    arguments = ["serve", "--storage", f"sqlite:///{folder}/s.db", "--port", str(port)]
    done = CliRunner().invoke(ebbtide, arguments)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.output
    return done.stderr


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in serve(tmp_path, port)


def test_a_file_that_is_not_a_database_is_refused(tmp_path):
    (tmp_path / "s.db").write_text("hello, this is not a database, whatever it is called" * 30)
    assert "not a SQLite database" in serve(tmp_path, 0)
