"""Asks and tells that go past FastAPI are answered, counted and logged like those that do not.

A header with an idempotency key, which the shortcut leaves to the ordinary route, shows what that one answers.
"""

import math

import pytest
from helpers.direct import running

import ebbtide as eb
from ebbtide.service import shortcut
from ebbtide.service.verbs import Verbs

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
ASK, TELL = "/studies/s/ask", "/studies/s/tell"
ORDINARY = ((b"idempotency-key", b"k"),)


@pytest.fixture
def direct(tmp_path):
    with running(tmp_path / "s.db") as direct:
        assert direct.call("POST", "/studies", {"name": "s", "space": SPACE, "seed": 0}).status == 201
        yield direct


@pytest.fixture
def taken(direct, monkeypatch):
    """The bodies that took the shortcut."""
    bodies, do = [], shortcut.Shortcut._do

    async def noted(self, name, body):
        bodies.append(body)
        return await do(self, name, body)

    monkeypatch.setattr(shortcut.Shortcut, "_do", noted)
    return bodies


def counted(direct, route, status):
    text = direct.call("GET", "/metrics").body.decode()
    wanted = f'ebbtide_http_requests_total{{method="POST",route="{route}",status="{status}"}}'
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(wanted))


def test_what_is_in_order_takes_the_shortcut(direct, taken):
    trial = direct.call("POST", ASK)
    assert (trial.status, trial.json["id"], trial.headers["x-content-type-options"]) == (200, "0", "nosniff")
    assert direct.call("POST", TELL, {"id": "0", "value": 1.0}).json == {"told": True}
    assert len(taken) == 2
    ordinary = direct.call("POST", ASK, {}, headers=ORDINARY)
    assert len(taken) == 2
    assert ordinary.json.keys() == trial.json.keys()
    assert ordinary.headers.keys() == trial.headers.keys()
    assert counted(direct, "/studies/{name}/ask", 200) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ASK, {"n": 0}),
        (ASK, {"n": 1000}),
        (ASK, {"lease": "long"}),
        (ASK, {"unknown": 1}),
        (ASK, [1]),
        (ASK, {"context": {"load": 1.0}}),
        (TELL, None),
        (TELL, {}),
        (TELL, {"id": "0", "params": {"x": 0.5}, "value": 1.0}),
        (TELL, {"id": "7", "value": 1.0}),
        (TELL, {"params": {"x": 2.0}, "value": 1.0}),
        (TELL, {"params": {"y": 0.5}, "value": 1.0}),
        (TELL, {"params": {"x": 0.5}, "value": math.nan}),
        (TELL, {"params": {"x": math.inf}, "value": 1.0}),
        (TELL, {"params": {"x": 0.5}, "value": 1.0, "failed": True}),
        (TELL, {"params": {"x": 0.5}, "value": 1.0, "time": -1.0}),
        ("/studies/none/ask", {}),
        ("/studies/none/tell", {"id": "0", "value": 1.0}),
        ("/studies/s%2Fx/ask", {}),
        ("/studies//ask", {}),
        ("/studies/s/ask/", {}),
    ],
)
def test_what_is_not_is_refused_in_the_same_words(direct, path, body):
    short = direct.call("POST", path, body)
    ordinary = direct.call("POST", path, body, headers=ORDINARY)
    assert short.status == ordinary.status
    assert short.status >= 400
    assert {**short.headers} == {**ordinary.headers}
    assert _without_times(short.json) == _without_times(ordinary.json)


def _without_times(answer):
    message = answer["error"]["message"]
    return answer["error"]["type"], "".join(each for each in message if not each.isdigit())


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"id": "0", "value": ' + b"[" * 2000, b"null", b'"\\ud800"'])
def test_a_body_that_cannot_be_read_is_left_to_the_ordinary_route(direct, body):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    short = direct.call("POST", TELL, receive=receive)
    ordinary = direct.call("POST", TELL, receive=receive, headers=ORDINARY)
    assert (short.status, short.body) == (ordinary.status, ordinary.body)
    assert short.status in (400, 422)


def test_a_failure_of_our_own_is_logged_and_not_explained(direct, monkeypatch, caplog):
    async def fails(self, name, body):
        raise RuntimeError("secret")

    monkeypatch.setattr(Verbs, "ask", fails)
    failed = direct.call("POST", ASK)
    assert (failed.status, failed.error) == (500, "InternalError")
    assert "secret" not in failed.body.decode()
    assert "secret" in caplog.text
    assert counted(direct, "/studies/{name}/ask", 500) == 1


def test_a_busy_service_says_when_to_come_back(direct, monkeypatch):
    async def busy(self, name, body):
        raise eb.BusyError("busy")

    monkeypatch.setattr(Verbs, "ask", busy)
    assert direct.call("POST", ASK).headers["retry-after"] == "1"
