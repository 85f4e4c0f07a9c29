"""Asks and tells of many studies in one request."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from helpers.direct import running

from ebbtide.service.schemas import MAX_ASKS, MAX_TELLS
from ebbtide.service.studies import Studies

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("bulk") / "s.db"


@pytest.fixture(scope="module")
def shared(path):
    with running(path) as direct:
        yield direct


@pytest.fixture
def direct(shared):
    """With the studies a, b and c."""
    for name in "abc":
        new = {"name": name, "space": SPACE, "algorithm": "random", "seed": 0}
        assert shared.call("POST", "/studies", new).status == 201
    yield shared
    for name in "abc":
        assert shared.call("DELETE", f"/studies/{name}").status == 204


def ask(direct, *items):
    answer = direct.call("POST", "/ask", {"asks": items})
    assert answer.status == 200, answer
    return answer.json["answers"]


def tell(direct, *items):
    answer = direct.call("POST", "/tell", {"tells": items})
    assert answer.status == 200, answer
    return answer.json["answers"]


def told(direct, name):
    return direct.call("GET", f"/studies/{name}").json["told"]


def test_many_studies_are_asked_and_told_in_one_request_each(direct):
    answers = ask(direct, {"study": "b"}, {"study": "a", "n": 2}, {"study": "c", "lease": 60.0})
    assert [answer["status"] for answer in answers] == [200] * 3
    b, a, c = (answer["body"] for answer in answers)
    assert b == direct.call("GET", "/studies/b/trials/0").json
    assert a["trials"] == [direct.call("GET", f"/studies/a/trials/{number}").json for number in (0, 1)]
    assert c["expires"] is not None
    outcomes = tell(
        direct,
        {"study": "a", "id": a["trials"][1]["id"], "value": 1.0},
        {"study": "b", "id": b["id"], "failed": True},
        {"study": "a", "id": a["trials"][0]["id"], "value": 2.0},
        {"study": "c", "params": {"x": 0.5}, "value": 3.0},
    )
    assert outcomes == [{"status": 200, "body": {"told": True}}] * 4
    found = direct.call("GET", "/studies/a/observations").json["observations"]
    assert [(line["id"], line["value"]) for line in found] == [("1", 1.0), ("0", 2.0)]  # in the order of the request
    assert (told(direct, "b"), told(direct, "c")) == (1, 1)


def test_each_item_fails_alone_and_as_it_would_in_a_request_of_its_own(direct):
    items: list[dict[str, Any]] = [
        {"study": "a", "params": {"x": 0.5}, "value": 1.0},
        {"study": "nobody", "params": {"x": 0.5}, "value": 1.0},
        {"study": "a", "id": "99", "value": 1.0},
        {"study": "a", "params": {"y": 0.5}, "value": 1.0},
        {"study": "a", "params": {"x": 0.5}, "value": "high"},
        {"study": "a", "params": {"x": 0.5}, "id": "0", "value": 1.0},
        {"study": "b", "params": {"x": 0.5}, "value": 1.0},
    ]
    for item, answer in zip(items, tell(direct, *items), strict=True):
        body = {key: value for key, value in item.items() if key != "study"}
        alone = direct.call("POST", f"/studies/{item['study']}/tell", body)
        assert answer["status"] == alone.status, answer
        if alone.status != 200:
            assert answer["error"]["type"] == alone.json["error"]["type"]
            if answer["error"]["type"] != "ValidationError":  # which says where in the body
                assert answer["error"] == alone.json["error"]
    assert (told(direct, "a"), told(direct, "b")) == (2, 2)


@pytest.mark.parametrize("item", [None, 1, "a", [], {}, {"study": 1}, {"study": None}, {"study": "a", "more": 1}])
def test_an_item_that_cannot_be_read_leaves_the_others_alone(direct, item):
    for answers in (
        ask(direct, item, {"study": "a"}),
        tell(direct, item, {"study": "a", "params": {"x": 0}, "value": 1}),
    ):
        assert [answer["status"] for answer in answers] == [422, 200]
        assert answers[0]["error"]["type"] == "ValidationError"


def test_a_repeated_request_records_nothing_twice(direct):
    trial = direct.call("POST", "/studies/a/ask").json
    items = [
        {"study": "a", "id": trial["id"], "value": 1.0},
        {"study": "a", "params": {"x": 0.5}, "value": 2.0, "idempotency_key": "k"},
        {"study": "b", "params": {"x": 0.5}, "value": 2.0, "idempotency_key": "k"},
    ]
    for _ in range(2):
        assert [answer["status"] for answer in tell(direct, *items)] == [200] * 3
    assert (told(direct, "a"), told(direct, "b")) == (2, 1)


def test_there_are_only_so_many_in_one_request(direct):
    item = {"study": "a", "params": {"x": 0.5}, "value": 1.0}
    assert len(tell(direct, *[item] * MAX_TELLS)) == told(direct, "a") == MAX_TELLS
    for path, body in (
        ("/tell", {"tells": [item] * (MAX_TELLS + 1)}),
        ("/tell", {"tells": []}),
        ("/tell", {"asks": [{"study": "a"}]}),
        ("/ask", {"asks": [{"study": "a"}] * (MAX_ASKS + 1)}),
        ("/ask", {"asks": []}),
        ("/ask", {}),
    ):
        answer = direct.call("POST", path, body)
        assert (answer.status, answer.error) == (422, "ValidationError")
    many = direct.call("POST", "/ask", {"asks": [{"study": "a", "n": 60}, {"study": "b", "n": 5}]})
    assert (many.status, many.error) == (422, "ObservationError")
    assert "n=65: this service gives at most 64 trials" in many.json["error"]["message"]
    assert direct.call("GET", "/studies/a").json["asked"] == 0
    assert told(direct, "a") == MAX_TELLS


def test_a_failure_of_the_service_is_that_of_one_item_and_is_logged_once(direct, monkeypatch, caplog):
    real = Studies.tell

    async def fail(self, name, *more):
        if name == "b":
            raise ZeroDivisionError("the reason")
        await asyncio.sleep(0)
        await real(self, name, *more)

    monkeypatch.setattr(Studies, "tell", fail)
    answers = tell(direct, *({"study": name, "params": {"x": 0.5}, "value": 1.0} for name in "abbc"))
    assert [answer["status"] for answer in answers] == [200, 500, 500, 200]
    assert answers[1]["error"] == {"type": "InternalError", "message": "the service failed; its log says why"}
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 1
    assert "verb=tell_many" in failures[0].message


def test_a_database_that_fails_is_said_without_its_path(direct, path, caplog):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE tells RENAME TO hidden")
        try:
            answers = tell(direct, {"study": "a", "params": {"x": 0.5}, "value": 1.0})
        finally:
            other.execute("ALTER TABLE hidden RENAME TO tells")
    assert answers[0]["status"] == 503
    assert answers[0]["error"]["message"].startswith("the database: ")
    assert tell(direct, {"study": "a", "params": {"x": 0.5}, "value": 1.0})[0]["status"] == 200
