"""The service as its users meet it: a real process, the package's own client, and the studies in the file."""

import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import command, served

import ebbtide as eb
from ebbtide.client import RemoteStudy
from ebbtide.errors import StorageError
from ebbtide.service.writer import Writer
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 5), "c": eb.Categorical(["a", "b"])}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def client(server):
    client = eb.Client(server.url, patience=30.0)
    yield client
    client.close()


@pytest.fixture
def study(client, request):
    return client.create(request.node.name[:90], SPACE, direction="maximize", seed=3)


def measured(params):
    return -((params["x"] - 0.3) ** 2) - 0.01 * (params["k"] - 2) ** 2 - 0.1 * (params["c"] == "b")


# --- the verbs ------------------------------------------------------------------------------------------------------


def test_the_client_has_the_verbs_of_the_optimizer_and_finds_the_optimum(study):
    for _ in range(25):
        trial = study.ask()
        study.tell(trial, measured(trial.params))
    best = study.recommend()
    assert abs(best.params["x"] - 0.3) < 0.2
    assert best.params["c"] == "a"
    assert len(study.history) == 25
    assert [o.trial_id for o in study.history] == [str(i) for i in range(25)]
    assert study.state()["asked"] == 25
    assert study.state()["hyperparameters"]["timescale"] > 0.0


def test_the_service_asks_what_the_library_would_ask(study, server):
    """The same study, opened by the library from a copy of the file: its next query is the service's."""
    for _ in range(15):
        trial = study.ask()
        study.tell(trial, measured(trial.params))
    copy = server.folder / "copy.db"
    source = sqlite3.connect(server.folder / "s.db")
    target = sqlite3.connect(copy)
    source.backup(target)
    source.close()
    target.close()
    there = study.ask()
    row = _rows(
        server.folder / "s.db",
        "SELECT now, landed, told FROM asks a JOIN studies USING (study) WHERE name = ? AND ask = 15",
        study.name,
    )[0]
    here = eb.Optimizer.open(f"sqlite:///{copy}", study.name, clock=None)
    here.clock = Readings([*row[:2]])
    assert here.told == row[2]
    assert here.ask() == there
    here.close()


class Readings(eb.SystemClock):
    def __init__(self, readings):
        super().__init__()
        self.readings = readings

    def now(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def _rows(path, query, *values):
    database = sqlite3.connect(path)
    try:
        return database.execute(query, values).fetchall()
    finally:
        database.close()


def test_several_at_once_are_different_and_carry_their_lease(study):
    trials = study.ask(4, lease=30.0)
    assert [trial.id for trial in trials] == ["0", "1", "2", "3"]
    assert len({json.dumps(trial.params) for trial in trials}) == 4
    assert [trial.expires for trial in trials] == [trial.time + 30.0 for trial in trials]


def test_a_failed_evaluation_and_outside_data(study):
    trial = study.ask()
    study.tell(trial, failed=True)
    study.tell({"x": 0.5, "k": 2, "c": "b"}, 1.5, time=trial.time - 60.0)
    failed, outside = study.history
    assert (failed.value, failed.active) == (None, False)
    assert (outside.value, outside.time, outside.trial_id) == (1.5, trial.time - 60.0, None)


def test_the_same_tell_twice_is_one_observation(study):
    trial = study.ask()
    study.tell(trial, 2.0)
    study.tell(trial, 2.0)
    for _ in range(2):
        study.tell({"x": 0.5, "k": 2, "c": "b"}, 1.5, key="first")
    study.tell({"x": 0.5, "k": 2, "c": "b"}, 1.5, key="second")
    assert len(study.history) == 3


def test_the_key_may_be_a_header(study, server):
    body = {"params": {"x": 0.5, "k": 2, "c": "b"}, "value": 1.0}
    path = f"/studies/{study.name}/tell"
    for _ in range(2):
        assert server.call("POST", path, body, Idempotency_Key="h").status == 200
    assert server.call("POST", path, body | {"value": 2.0}, Idempotency_Key="h").status == 409
    assert len(study.history) == 1


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"id": "0", "value": 7.0}, 409, "TrialError"),  # it was told 1.0
        ({"id": "99", "value": 7.0}, 409, "TrialError"),
        ({"value": 7.0}, 422, "ObservationError"),
        ({"id": "0", "params": {"x": 0.5}, "value": 7.0}, 422, "ObservationError"),
        ({"id": "1", "value": 7.0, "failed": True}, 422, "ObservationError"),
        ({"id": "1"}, 422, "ObservationError"),
        ({"params": {"x": 2.0, "k": 2}, "value": 7.0}, 422, "ParameterError"),
        ({"id": "1", "value": "7"}, 422, "ValidationError"),
        ({"id": "1", "value": 7.0, "when": 3}, 422, "ValidationError"),
        ({"params": {"x": 0.5, "k": 2, "c": "b"}, "value": 7.0, "time": 12.0}, 422, "ObservationError"),
        ({"params": {"x": 0.5, "k": 2, "c": "b"}, "value": 7.0, "time": 9e9}, 422, "ObservationError"),
    ],
)
def test_what_cannot_be_told_is_refused_in_one_shape_and_leaves_no_trace(server, client, body, status, kind):
    study = _once(client, "refusals")
    before = study.history
    answer = server.call("POST", "/studies/refusals/tell", body)
    assert (answer.status, answer.error) == (status, kind)
    assert study.history == before


def _once(client, name):
    try:
        study = client.create(name, SPACE, seed=0)
        study.tell(study.ask(2)[0], 1.0)
    except eb.StudyError:
        study = client.study(name)
    return study


def test_the_client_raises_what_the_library_would(study, client):
    trial = study.ask()
    study.tell(trial, 1.0)
    with pytest.raises(eb.TrialError, match=r"was told 1.0 before and 2.0 now"):
        study.tell(trial, 2.0)
    with pytest.raises(eb.ParameterError, match="'k' is missing"):
        study.tell({"x": 0.5, "c": "a"}, 2.0)
    with pytest.raises(eb.ObservationError, match="cannot be sent as JSON"):
        study.tell(study.ask(), float("nan"))
    with pytest.raises(eb.UnknownStudyError, match="there is no study 'nowhere'"):
        client.study("nowhere")
    with pytest.raises(eb.StudyError, match="already"):
        client.create(study.name, SPACE)
    with pytest.raises(eb.StudyError, match="its direction is 'maximize', not 'minimize'"):
        client.create_or_open(study.name, SPACE, direction="minimize")
    assert client.create_or_open(study.name, SPACE, direction="maximize").name == study.name
    with pytest.raises(eb.ConfigurationError, match="url="):
        eb.Client("tuner.db")


def test_a_service_that_is_not_there_is_said_to_be_not_there():
    client = eb.Client("http://127.0.0.1:9", patience=0.0)
    with pytest.raises(eb.ServiceError, match="cannot be reached"):
        client.studies()


def test_studies_are_listed_described_and_deleted(client):
    client.create('<b>"x" & ü', SPACE, algorithm="abo", seed=5, n_initial=2)
    (listed,) = [study for study in client.studies() if study["name"] == '<b>"x" & ü']
    assert listed == client.study('<b>"x" & ü').describe()
    assert (listed["algorithm"], listed["seed"], listed["n_initial"]) == ("abo", 5, 2)
    assert eb.Space.from_json(listed["space"]).parameters == SPACE
    client.delete('<b>"x" & ü')
    with pytest.raises(eb.UnknownStudyError):
        client.study('<b>"x" & ü')


def test_observations_come_in_pages(study, server):
    for i in range(7):
        study.tell({"x": i / 10, "k": 1, "c": "a"}, float(i))
    seen, start = [], 0
    while start is not None:
        page = server.call("GET", f"/studies/{study.name}/observations?start={start}&limit=3").json
        assert len(page["observations"]) <= 3
        seen += [row["value"] for row in page["observations"]]
        start = page["next"]
    assert seen == [float(i) for i in range(7)]
    assert server.call("GET", f"/studies/{study.name}/observations?active=false").json["observations"] == []


def test_reading_changes_nothing(study, server):
    for _ in range(10):
        trial = study.ask()
        study.tell(trial, measured(trial.params))
    before = _rows(server.folder / "s.db", "SELECT count(*), (SELECT count(*) FROM asks) FROM tells")
    for path in ("", "/recommend", "/state", "/observations"):
        assert server.call("GET", f"/studies/{study.name}{path}").status == 200
    assert _rows(server.folder / "s.db", "SELECT count(*), (SELECT count(*) FROM asks) FROM tells") == before


def test_every_route_is_in_the_guide(server):
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    routes = server.call("GET", "/openapi.json").json["paths"]
    assert len(routes) >= 9
    assert [path for path in routes if path not in page] == []


# --- events and metrics -----------------------------------------------------------------------------------------------


def _events(server, name, since, count):
    request = urllib.request.Request(f"{server.url}/studies/{name}/events", headers={"Last-Event-ID": since})
    events, event = [], {}
    with urllib.request.urlopen(request, timeout=60) as stream:
        for raw in stream:
            field, _, value = raw.decode().rstrip("\n").partition(": ")
            if field in ("id", "event", "data"):
                event[field] = json.loads(value) if field == "data" else value
            elif event:
                events.append(event)
                event = {}
                if len(events) == count:
                    return events
    raise AssertionError("the stream ended")


def test_events_come_as_they_happen_and_nothing_is_missed_on_the_way(study, server):
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(_events, server, study.name, "0.0", 6)
        for _ in range(2):
            study.tell(study.ask(), 1.0)
        study.tell({"x": 0.1, "k": 1, "c": "a"}, 2.0)
        other = eb.Optimizer.open(f"sqlite:///{server.folder}/s.db", study.name)  # another process, to the service
        other.tell({"x": 0.2, "k": 1, "c": "a"}, 3.0)
        other.close()
        events = following.result()
    assert [event["event"] for event in events] == ["asked", "told", "asked", "told", "told", "told"]
    assert [event["id"] for event in events] == ["1.0", "1.1", "2.1", "2.2", "2.3", "2.4"]
    assert [event["data"].get("value") for event in events[-2:]] == [2.0, 3.0]
    assert _events(server, study.name, "2.2", 2) == events[4:]  # a reader who comes back


def test_what_another_process_told_is_known_to_the_next_ask(study, server):
    other = eb.Optimizer.open(f"sqlite:///{server.folder}/s.db", study.name)
    for x in np.linspace(0.0, 1.0, 12):
        other.tell({"x": float(x), "k": 2, "c": "a"}, measured({"x": x, "k": 2, "c": "a"}))
    assert study.state()["told"] == 0 or study.state()["told"] == 12
    trial = study.ask()
    assert study.state()["told"] == 12
    assert other.ask().id == str(int(trial.id) + 1)
    other.close()


def test_a_study_that_another_process_deleted_and_made_anew_is_the_new_one(study, server):
    study.tell(study.ask(), 1.0)
    storage = Storage.of(f"sqlite:///{server.folder}/s.db")
    definition = eb.Optimizer.open(storage, study.name).definition
    storage.delete(study.name)
    with pytest.raises(eb.UnknownStudyError):
        study.ask()
    storage.create(study.name, definition)
    storage.close()
    assert study.ask().id == "0"
    assert study.history == []


def test_metrics_are_for_prometheus(study, server):
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), failed=True)
    text = server.call("GET", "/metrics").body.decode()
    assert f'ebbtide_told_total{{study="{study.name}"}} 2.0' in text
    assert f'ebbtide_failed_total{{study="{study.name}"}} 1.0' in text
    assert 'ebbtide_http_requests_total{method="POST",route="/studies/{name}/tell",status="200"}' in text
    from prometheus_client.parser import text_string_to_metric_families

    assert len(list(text_string_to_metric_families(text))) >= 8


# --- slow models, dying workers, the end ---------------------------------------------------------------------------


def test_slow_model_work_holds_up_no_tell_of_any_study(server, client):
    slow = client.create("slow", {"x": eb.Float(0.0, 1.0)}, algorithm="gp-ucb", seed=0)
    rng = np.random.default_rng(0)
    with Storage.of(f"sqlite:///{server.folder}/s.db").database.transaction():
        pass  # the file is there and free
    opt = eb.Optimizer.open(f"sqlite:///{server.folder}/s.db", "slow")
    with opt._log.transaction():
        for x in rng.random(1800):
            opt.tell({"x": float(x)}, float(np.sin(9 * x) + 0.1 * rng.normal()))
    opt.close()
    quick = client.create("quick", {"x": eb.Float(0.0, 1.0)})
    answered: Future = Future()

    def ask():
        own = eb.Client(server.url)
        answered.set_result(RemoteStudy(own, "slow").ask())
        own.close()

    thread = threading.Thread(target=ask)
    thread.start()
    told = 0
    while not answered.done() and told < 20:
        quick.tell({"x": 0.5}, 1.0)
        slow.tell({"x": 0.5}, 1.0)
        told += 1
    assert told == 20  # all of them while one ask was being worked out
    thread.join()
    assert answered.result().id == "0"
    assert len(quick.history) == 20


def test_a_worker_that_dies_is_replaced(study, server):
    for _ in range(3):
        study.tell(study.ask(), 1.0)
    children = _children(server.process.pid)
    assert children
    for child in children:
        os.kill(child, signal.SIGKILL)
    study.tell(study.ask(), 1.0)
    assert len(study.history) == 4


def _children(pid):
    """Worker processes: those that were spawned, not multiprocessing's own helper."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "spawn_main" in line]


def _gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path, how):
    with served(tmp_path) as server:
        client = eb.Client(server.url)
        study = client.create("s", SPACE)
        study.tell(study.ask(), 1.0)
        children = _children(server.process.pid)
        server.process.send_signal(how)
        server.process.wait(timeout=60)
        client.close()
        deadline = time.monotonic() + 60.0
        while not all(map(_gone, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert all(map(_gone, children))
        assert "Traceback" not in server.log
    opt = eb.Optimizer.open(f"sqlite:///{tmp_path}/s.db", "s")
    assert [o.value for o in opt.history] == [1.0]
    opt.close()


def test_a_port_that_is_taken_and_a_file_that_is_none(server, tmp_path):
    taken = command(tmp_path)
    taken[taken.index("--port") + 1] = str(server.port)
    done = subprocess.run(taken, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"port {server.port}" in done.stderr
    (tmp_path / "s.db").write_text("hello, this is not a database, whatever it is called" * 30)
    done = subprocess.run(command(tmp_path), capture_output=True, text=True)
    assert done.returncode == 1
    assert "not a SQLite database" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_study_on_a_clock_of_its_own_is_left_to_its_program(server, client):
    opt = eb.Optimizer(SPACE, clock=eb.ManualClock(), storage=f"sqlite:///{server.folder}/s.db", name="simulated")
    opt.tell({"x": 0.5, "k": 1, "c": "a"}, 1.0)
    opt.close()
    study = client.study("simulated")
    assert len(study.history) == 1
    with pytest.raises(eb.StudyError, match="ManualClock"):
        study.ask()


# --- the writing thread ----------------------------------------------------------------------------------------------


@pytest.fixture
def writer(tmp_path):
    storage = Storage.of(f"sqlite:///{tmp_path}/w.db")
    undone = []
    writer = Writer(storage.database, lambda: undone.append(True))
    writer.undone = undone
    yield writer
    writer.close()
    storage.close()


def _held(writer):
    """Keep the writer busy, so that what is submitted meanwhile is one batch."""
    release = threading.Event()
    busy = writer.submit(release.wait)
    return busy, release


def test_one_that_fails_does_not_spoil_the_batch(writer):
    _, release = _held(writer)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"

    def fail():
        with writer.database.transaction():
            writer.database.run(insert, ("never",))
            raise eb.TrialError("no")

    futures = [
        writer.submit(lambda: writer.database.run(insert, ("a",))),
        writer.submit(fail),
        writer.submit(lambda: writer.database.run(insert, ("b",))),
    ]
    release.set()
    futures[0].result(60)
    futures[2].result(60)
    with pytest.raises(eb.TrialError):
        futures[1].result(60)
    assert [name for (name,) in writer.database.rows("SELECT name FROM studies ORDER BY name")] == ["a", "b"]
    assert writer.undone == []


def test_a_disk_that_fails_takes_the_whole_batch_with_it_and_says_so(writer):
    _, release = _held(writer)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"

    def full():
        raise StorageError("the disk is full")

    futures = [writer.submit(lambda: writer.database.run(insert, ("a",))), writer.submit(full)]
    release.set()
    for future in futures:
        with pytest.raises(StorageError, match="full"):
            future.result(60)
    assert writer.database.rows("SELECT name FROM studies") == []
    assert writer.undone == [True]
    writer.submit(lambda: writer.database.run(insert, ("b",))).result(60)  # and it goes on


def test_what_was_submitted_is_finished_before_the_end(tmp_path):
    storage = Storage.of(f"sqlite:///{tmp_path}/w.db")
    writer = Writer(storage.database, lambda: None)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"
    futures = [writer.submit(lambda i=i: storage.database.run(insert, (str(i),))) for i in range(50)]
    writer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert not writer.alive
    storage.close()
