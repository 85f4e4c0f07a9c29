"""The service as its users meet it: a real process, the package's own client, and the studies in the file."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import TOKEN, storage_of
from prometheus_client.parser import text_string_to_metric_families

import ebbtide as eb
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0), "k": eb.Int(1, 5), "c": eb.Categorical(["a", "b"])}


@pytest.fixture
def study(client, request):
    return client.create(request.node.name[-90:], SPACE, direction="maximize", seed=3)


def measured(params):
    return -((params["x"] - 0.3) ** 2) - 0.01 * (params["k"] - 2) ** 2 - 0.1 * (params["c"] == "b")


# --- the verbs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(server):
    """A study after 20 asks and tells."""
    client = eb.Client(server.url, TOKEN)
    study = client.create("tuned", SPACE, direction="maximize", seed=3)
    for _ in range(20):
        trial = study.ask()
        study.tell(trial, measured(trial.params))
    yield study
    client.close()


def test_the_client_has_the_verbs_of_the_optimizer_and_finds_the_optimum(tuned):
    best = tuned.recommend()
    assert abs(best.params["x"] - 0.3) < 0.2
    assert best.params["c"] == "a"
    assert [o.trial_id for o in tuned.history] == [str(i) for i in range(20)]
    assert tuned.state()["asked"] == 20
    assert tuned.state()["hyperparameters"]["timescale"] > 0.0


def test_reading_changes_nothing(tuned, server):
    counts = "SELECT count(*), (SELECT count(*) FROM asks) FROM tells"
    before = _rows(server.folder / "s.db", counts)
    for path in ("", "/recommend", "/state", "/observations"):
        assert server.call("GET", f"/studies/tuned{path}").status == 200
    assert _rows(server.folder / "s.db", counts) == before


def test_the_service_asks_what_the_library_would_ask(tuned, server):
    """The same study, opened by the library from a copy of the file: its next query is the service's."""
    copy = server.folder / "copy.db"
    with closing(sqlite3.connect(server.folder / "s.db")) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    there = tuned.ask()
    now, landed, told = _rows(
        server.folder / "s.db",
        "SELECT now, landed, told FROM asks a JOIN studies USING (study) WHERE name = 'tuned' AND ask = 20",
    )[0]
    here = eb.Optimizer.open(f"sqlite:///{copy}", "tuned", clock=None)
    here.clock = Readings([now, landed])
    assert here.told == told
    assert here.ask() == there
    here.close()


class Readings(eb.SystemClock):
    def __init__(self, readings):
        super().__init__()
        self.readings = readings

    def now(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def _rows(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_several_trials_at_once_differ_and_carry_their_lease(study):
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


def test_an_id_may_be_a_whole_number(study, server):
    study.ask(2)
    path = f"/studies/{study.name}/tell"
    assert server.call("POST", path, {"id": 1, "value": 2.5}).status == 200
    assert [(o.trial_id, o.value) for o in study.history] == [("1", 2.5)]
    assert study.trial(1) == study.trial("1")
    for unknown in (7, -1):
        assert server.call("POST", path, {"id": unknown, "value": 2.5}).error == "TrialError"
    for wrong in (True, 1.5, [1]):
        assert server.call("POST", path, {"id": wrong, "value": 2.5}).error == "ValidationError"


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
    with pytest.raises(eb.ObservationError, match="value="):
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


def test_every_route_is_in_the_guide(server):
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    routes = server.call("GET", "/openapi.json").json["paths"]
    assert len(routes) >= 9
    assert [path for path in routes if path not in page] == []


# --- metrics --------------------------------------------------------------------------------------------------------


def test_prometheus_can_read_the_metrics(study, server):
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), failed=True)
    study.tell(study.ask(), abandoned=True)
    text = server.call("GET", "/metrics").body.decode()
    assert f'ebbtide_told_total{{study="{study.name}"}} 3.0' in text
    assert f'ebbtide_failed_total{{study="{study.name}"}} 1.0' in text
    assert f'ebbtide_abandoned_total{{study="{study.name}"}} 1.0' in text
    assert 'ebbtide_http_requests_total{method="POST",route="/studies/{name}/tell",status="200"}' in text
    assert len(list(text_string_to_metric_families(text))) >= 8


# --- other processes --------------------------------------------------------------------------------------------------


def test_what_another_process_told_is_known_to_the_next_ask(study, server):
    other = eb.Optimizer.open(storage_of(server.folder), study.name)
    for x in np.linspace(0.0, 1.0, 12):
        other.tell({"x": float(x), "k": 2, "c": "a"}, measured({"x": x, "k": 2, "c": "a"}))
    assert study.state()["told"] == 12
    trial = study.ask()
    assert other.ask().id == str(int(trial.id) + 1)
    other.close()


@pytest.mark.parametrize("verb", ["ask", "tell", "recommend", "state"])
def test_a_study_that_another_process_deleted_and_created_again_is_the_new_one(study, server, verb):
    study.tell(study.ask(), 1.0)
    with closing(Storage.of(storage_of(server.folder))) as storage:
        definition = eb.Optimizer.open(storage, study.name).definition
        storage.delete(study.name)
        if verb != "tell":
            with pytest.raises(eb.UnknownStudyError):
                getattr(study, verb)()
        storage.create(study.name, definition)
        if verb == "tell":  # a trial of the new study, by an id that the old one had, too
            trial = eb.Optimizer.open(storage, study.name).ask()
            study.tell(trial, 2.0)
            assert [o.value for o in study.history] == [2.0]
            return
    if verb == "recommend":
        with pytest.raises(eb.NothingKnownError):
            study.recommend()
    else:
        getattr(study, verb)()
    assert study.history == []
    assert study.state()["asked"] == (verb == "ask")


def test_a_study_by_another_clock_is_left_to_its_program(server, client):
    opt = eb.Optimizer(SPACE, clock=eb.ManualClock(), storage=storage_of(server.folder), name="simulated")
    opt.tell({"x": 0.5, "k": 1, "c": "a"}, 1.0)
    opt.close()
    study = client.study("simulated")
    assert len(study.history) == 1
    with pytest.raises(eb.StudyError, match="ManualClock"):
        study.ask()
