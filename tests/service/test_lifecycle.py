"""Slow models, workers that die, and how the service starts and ends."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from click.testing import CliRunner
from helpers.serving import served

import ebbtide as eb
from ebbtide.cli.commands import ebbtide

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 5), "c": eb.Categorical(["a", "b"])}


def test_slow_model_work_holds_up_no_tell_of_any_study(server, client):
    """An ask whose worker is stopped takes as long as we like."""
    slow, quick = (client.create(name, {"x": eb.Float(0.0, 1.0)}, seed=0) for name in ("slow", "quick"))
    slow.ask()  # there is a worker now
    workers = server.workers()
    assert workers
    with ThreadPoolExecutor(1) as pool:
        try:
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            asking = pool.submit(ask, server, "slow")
            for _ in range(20):
                quick.tell({"x": 0.5}, 1.0)
                slow.tell({"x": 0.5}, 1.0)
            assert not asking.done()
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
        assert asking.result(timeout=60).id == "1"
    assert len(quick.history) == len(slow.history) == 20


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


def _gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
def test_ctrl_c_while_the_workers_start_is_quiet(tmp_path):
    """A terminal sends it to the workers, too; `served` looks for tracebacks."""
    with served(tmp_path) as server:
        while not server.workers():
            time.sleep(0.01)
        time.sleep(0.3)  # it is importing
        os.killpg(server.process.pid, signal.SIGINT)
        server.process.wait(timeout=60)


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
        server.process.wait(timeout=60)
        client.close()
        deadline = time.monotonic() + 60.0
        while not all(map(_gone, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert all(map(_gone, workers))
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
