"""One study whose rows are damaged: it alone is in trouble, and it can be deleted."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from helpers.direct import running

import ebbtide as eb

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
READS = ["", "/observations", "/recommend", "/state", "/events", "/trials/0"]


def damage(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


DEFINITIONS = {
    "not JSON": "{",
    "empty": "",
    "not an object": "[]",
    "null": "null",
    "without anything": "{}",
    "too deep": "[" * 100_000,
    "not UTF-8": b"\xff\xfe",
    "no space": {"space": None},
    "a strange space": {"space": {"x": {"type": "spiral"}}},
    "a strange range": {"space": {"x": {"type": "float", "low": "a", "high": []}}},
    "no algorithm": {"algorithm": 7},
    "an unknown part": {"algorithm": {"acquisition": {"kind": "Nothing"}}},
    "a strange seed": {"seed": "x"},
    "a strange direction": {"direction": "sideways"},
    "a strange clock": {"clock": {}},
    "a strange share": {"explore": "most"},
    "a strange start": {"start": 7},
    "a strange movement": {"movement": []},
    "a number that JSON has not": {"n_initial": float("nan")},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged") / "s.db"


@pytest.fixture(scope="module")
def shared(path):
    make(path, "good")
    with running(path) as direct:
        yield direct


@pytest.fixture
def service(shared, path):
    """With two studies, of which one is about to be damaged, and not open in the service yet."""
    make(path, "bad")
    yield shared
    for study in listed(shared)["studies"]:
        if study["name"] != "good":
            assert shared.call("DELETE", f"/studies/{study['name']}").status == 204
    with closing(sqlite3.connect(path)) as connection, connection:  # what has no name to delete it by
        connection.execute("DELETE FROM studies WHERE CAST(name AS BLOB) != CAST('good' AS BLOB)")


def make(path, name):
    with closing(eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=f"sqlite:///{path}", name=name)) as opt:
        opt.tell(opt.ask(), 1.0)
        opt.ask()


def works(service, name):
    trial = service.call("POST", f"/studies/{name}/ask")
    assert trial.status == 200, trial
    assert service.call("POST", f"/studies/{name}/tell", {"id": trial.json["id"], "value": 1.0}).status == 200
    assert all(service.call("GET", f"/studies/{name}{path}").status == 200 for path in READS if path != "/events")


def listed(service):
    found = service.call("GET", "/studies")
    assert found.status == 200, found
    return found.json


def in_trouble_alone(service, paths):
    works(service, "good")
    for path in paths:
        answer = service.call("GET", f"/studies/bad{path}")
        assert (answer.status, answer.error) == (503, "DamagedError"), (path, answer)
        assert "damaged" in answer.json["error"]["message"]
    metrics = service.call("GET", "/metrics")
    assert metrics.status == 200
    assert b'ebbtide_told_total{study="good"}' in metrics.body
    assert service.call("GET", "/readyz").status == 200
    assert service.call("DELETE", "/studies/bad").status == 204
    assert [study["name"] for study in listed(service)["studies"]] == ["good"]
    assert listed(service)["damaged"] == []
    assert service.call("POST", "/studies", {"name": "bad", "space": SPACE}).status == 201
    works(service, "bad")


@pytest.mark.parametrize("what", DEFINITIONS)
def test_a_study_with_a_damaged_definition_is_alone_in_trouble(what, service, path):
    given = DEFINITIONS[what]
    if isinstance(given, dict):
        with closing(sqlite3.connect(path)) as connection:
            (text,) = connection.execute("SELECT definition FROM studies WHERE name = 'bad'").fetchone()
        given = json.dumps(json.loads(text) | given)
    damage(path, "UPDATE studies SET definition = CAST(? AS TEXT) WHERE name = 'bad'", given)
    found = listed(service)
    assert [study["name"] for study in found["studies"]] == ["good"]
    assert [study["name"] for study in found["damaged"]] == ["bad"]
    assert b"ebbtide_studies_damaged 1.0" in service.call("GET", "/metrics").body
    in_trouble_alone(service, ["", "/recommend", "/state", "/events"])


@pytest.mark.parametrize("state", ["", "{", "7", "[]", "{}", '{"asks": 1}', "[" * 100_000, b"\xff", None])
def test_a_study_with_a_damaged_state_is_alone_in_trouble(state, service, path):
    query = "SELECT state FROM asks JOIN studies USING (study) WHERE name = 'bad' ORDER BY ask DESC"
    if state is None:  # of the right form, but nonsense
        with closing(sqlite3.connect(path)) as connection:
            (text,) = connection.execute(query).fetchone()
        state = json.dumps(json.loads(text) | {"standardization": {"mean": "a", "scale": []}, "policy": 7, "asks": "x"})
    damage(
        path,
        "UPDATE asks SET state = CAST(? AS TEXT) WHERE study = (SELECT study FROM studies WHERE name = 'bad')",
        state,
    )
    assert {study["name"] for study in listed(service)["studies"]} == {"good", "bad"}  # a list needs no state
    in_trouble_alone(service, ["/recommend", "/state"])


@pytest.mark.parametrize("params", ["", "{", "[]", "{}", '{"y": 1}', '{"x": "a"}', '{"x": 1e999}', b"\xff"])
def test_a_study_with_a_damaged_observation_is_alone_in_trouble(params, service, path):
    damage(
        path,
        "UPDATE tells SET params = CAST(? AS TEXT) WHERE study = (SELECT study FROM studies WHERE name = 'bad')",
        params,
    )
    in_trouble_alone(service, ["/recommend", "/state"])


@pytest.mark.parametrize(
    ("column", "value"),
    [("name", b"b\xffd"), ("name", b"bad"), ("created", "long ago"), ("created", b"\xff"), ("created", float("inf"))],
)
def test_the_list_does_without_a_row_that_cannot_be_shown(column, value, service, path):
    cast = "CAST(? AS TEXT)" if value == b"b\xffd" else "?"
    damage(path, f"UPDATE studies SET {column} = {cast} WHERE name = 'bad'", value)
    found = listed(service)
    assert [study["name"] for study in found["studies"]] == ["good"]
    assert len(found["damaged"]) == 1
    assert service.call("GET", "/metrics").status == 200
    assert service.call("GET", "/studies/nobody").status == 404
    works(service, "good")
    assert service.call("POST", "/studies", {"name": "new", "space": SPACE}).status == 201


def test_a_tell_in_the_same_batch_as_one_of_a_damaged_study_is_recorded(service, path):
    damage(path, "UPDATE studies SET definition = '{' WHERE name = 'bad'")

    async def together():
        body = {"params": {"x": 0.5}, "value": 1.0}
        requests = (service.request("POST", f"/studies/{name}/tell", body) for name in ["bad", "good"] * 20)
        return [answer.status for answer in await asyncio.gather(*requests)]

    assert service.run(together()) == [503, 200] * 20


def test_the_library_says_so_too(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=url, name="bad").close()
    damage(tmp_path / "s.db", "UPDATE studies SET definition = '{}' WHERE name = 'bad'")
    with pytest.raises(eb.DamagedError, match="the study 'bad' is damaged"):
        eb.Optimizer.open(url, "bad")
    with pytest.raises(eb.DamagedError, match="the study 'bad' is damaged"):
        eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=url, name="bad")
