"""Several services over one database."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import pytest
from helpers.postgres import HELD_BY_OTHERS
from helpers.serving import served
from helpers.studies import TINY

import ebbtide as eb

PATIENCE_S = 60.0


@pytest.fixture
def replicas(url, tmp_path):
    """Two of them, which look for news by themselves only once in an hour."""
    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("a", "b")]
        for folder in folders:
            folder.mkdir()
        env = {"POLL_S": "3600"}
        made = [stack.enter_context(served(folder, storage=url, env=env)) for folder in folders]
        yield made
        for each in made:
            each.excused = len(each.log)  # errors of a database that is away are logged with a traceback
            assert "s3cret" not in each.log


@pytest.fixture
def clients(replicas):
    with ExitStack() as stack:
        yield [stack.enter_context(eb.Client(each.url, patience=PATIENCE_S)) for each in replicas]


def events(server, name, since="0.0"):
    """Of a study, as they come."""
    with server.connect() as talk:
        talk.say(server.request("GET", f"/studies/{name}/events", Last_Event_ID=since), head_only=True)
        for line in talk.stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def test_what_one_is_told_all_know(clients):
    first = clients[0].create("edge", TINY, seed=0, n_initial=100)
    second = clients[1].study("edge")
    trial = first.ask()
    second.tell(trial, 1.0)
    assert [line.value for line in first.history] == [1.0]
    assert second.ask().id == "1"
    assert first.ask().id == "2"
    clients[1].delete("edge")
    with pytest.raises(eb.UnknownStudyError):
        first.tell({"x": 0.5}, 1.0)


def test_a_stream_is_woken_by_what_another_replica_or_a_program_records(server, url, replicas, clients):
    study = clients[0].create("edge", TINY, seed=0)
    following = events(replicas[1], "edge")
    with ThreadPoolExecutor(1) as pool:
        for number in range(3):
            told = pool.submit(next, following)
            study.tell({"x": 0.5}, float(number))
            assert told.result(PATIENCE_S)["value"] == float(number)
        with closing(eb.Optimizer.open(url, "edge")) as program:
            told = pool.submit(next, following)
            program.tell({"x": 0.5}, 7.0)
            assert told.result(PATIENCE_S)["value"] == 7.0
        told = pool.submit(next, following)
        server.kill()
        server.start()
        study.tell({"x": 0.5}, 8.0, key="after the restart")
        assert told.result(PATIENCE_S)["value"] == 8.0


def test_asks_of_one_study_on_all_replicas_at_once(server, clients):
    clients[0].create("edge", TINY, seed=0, n_initial=2)

    def work(number):
        study = clients[number % len(clients)].study("edge")
        asked = []
        for _ in range(6):
            trial = study.ask()
            study.tell(trial, trial.params["x"])
            asked.append(trial.id)
        return asked

    with ThreadPoolExecutor(4) as pool:
        asked = [trial for ids in pool.map(work, range(4)) for trial in ids]
    assert sorted(map(int, asked)) == list(range(24))
    study = clients[1].study("edge")
    assert (study.describe()["told"], study.describe()["asked"]) == (24, 24)
    assert server.run(HELD_BY_OTHERS) == [(0,)]


def test_a_database_that_is_away_is_an_error_and_asks_go_on_when_it_is_back(server, replicas, clients):
    study = clients[0].create("edge", TINY, seed=0)
    server.kill()
    try:
        for each in replicas:
            for method, path in (("GET", "/studies"), ("POST", "/studies/edge/ask"), ("GET", "/readyz")):
                answer = each.call(method, path)
                assert answer.status == 503, (path, answer)
                assert "s3cret" not in answer.body.decode()
                assert str(server.port) not in answer.body.decode()  # where the database is
            assert each.call("GET", "/livez").status == 200
            assert b"ebbtide_storage_readable 0.0" in each.call("GET", "/metrics").body
    finally:
        server.start()
    for client in clients:
        trial = client.study("edge").ask()
        client.study("edge").tell(trial, 1.0)
    assert study.describe()["told"] == 2


def test_a_password_is_in_no_list_of_processes_no_answer_and_no_log(url, replicas, clients):
    clients[0].create("edge", TINY, seed=0)
    commands = b" ".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    assert b"launcher.py" in commands
    assert b"s3cret" not in commands
    for path in ("/", "/view/edge", "/studies", "/metrics", "/studies/edge", "/studies/none", "/openapi.json"):
        assert b"s3cret" not in replicas[0].call("GET", path).body
    for each in replicas:
        assert "storage=postgresql://ebbtide:***@127.0.0.1" in each.log


def test_a_view_is_drawn(replicas, clients):
    study = clients[0].create("edge", TINY, seed=0)
    for _ in range(3):
        study.tell(study.ask(), 1.0)
    answer = replicas[1].call("GET", "/studies/edge/view")
    assert answer.status == 200
    assert answer.json["study"]["told"] == 3


def test_a_service_of_a_file_needs_no_psycopg(tmp_path):
    with served(tmp_path) as server, eb.Client(server.url) as client:
        client.create("edge", TINY, seed=0).tell({"x": 0.5}, 1.0)
    with closing(sqlite3.connect(tmp_path / "s.db")) as file:
        assert list(islice(file.execute("SELECT value FROM tells"), 2)) == [(1.0,)]
