"""What an operator sees: every answer is counted, and every refusal and every failure is in the log."""

import asyncio
import logging
import time

import pytest
from helpers.direct import running
from helpers.serving import TOKEN, TRACEBACK, pairs
from prometheus_client.parser import text_string_to_metric_families

from ebbtide import service
from ebbtide.service import logs, middleware, protocol
from ebbtide.service.logs import Throttle, line
from ebbtide.study.storage import Storage
from ebbtide.version import __version__

LIMITS = service.Limits(body=1000, rate=0.5)
SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    with running(tmp_path_factory.mktemp("logs") / "s.db", limits=LIMITS, token=TOKEN) as direct:
        made = direct.call("POST", "/studies", {"name": "edge-7", "space": SPACE}, headers=[BEARER])
        assert made.status == 201
        yield direct


def logged(caplog):
    """The level and the pairs of each line."""
    lines = [(record.levelname, pairs(record.message)) for record in caplog.records if record.name == "ebbtide.service"]
    assert TOKEN not in caplog.text
    caplog.clear()
    return lines


def counts(text):
    """(method, route, status) → how many were answered."""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = [s for s in families["ebbtide_http_requests"].samples if s.name.endswith("_total")]
    return {(s.labels["method"], s.labels["route"], s.labels["status"]): s.value for s in samples}


def scraped(direct):
    return counts(direct.call("GET", "/metrics", headers=[BEARER]).body.decode())


# --- refusals before a route ------------------------------------------------------------------------------------------


async def never():
    await asyncio.Future()


def twice(direct):
    return direct.call("GET", "/studies", headers=[BEARER, BEARER])


def without_token(direct):
    return direct.call("GET", "/studies")


def of_another_site(direct):
    return direct.call("POST", "/studies", {}, headers=[BEARER, (b"origin", b"http://evil.com")])


def without_a_body(direct):
    return direct.call("POST", "/studies", headers=[BEARER], receive=never)


def too_long(direct):
    return direct.call("POST", "/studies", {"name": "x" * 2000}, headers=[BEARER])


def not_json(direct):
    return direct.call("POST", "/studies", {}, headers=[BEARER], content_type="text/plain")


def of_another_host(direct):
    return direct.call("GET", "/studies", headers=[BEARER], host="evil.com")


def too_often(direct):
    for _ in range(2):
        answer = direct.call("GET", "/studies", headers=[BEARER], address="10.9.9.9")
    return answer


@pytest.mark.parametrize(
    ("refuse", "status"),
    [
        (twice, 400),
        (without_token, 401),
        (of_another_site, 403),
        (without_a_body, 408),
        (too_long, 413),
        (not_json, 415),
        (of_another_host, 421),
        (too_often, 429),
    ],
)
def test_a_request_refused_before_any_route_is_counted_and_logged(direct, caplog, monkeypatch, refuse, status):
    monkeypatch.setattr(middleware, "BODY_S", 0.05)
    before = scraped(direct)
    caplog.clear()
    answer = refuse(direct)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    level, said = next((level, said) for level, said in logged(caplog) if said["status"] == str(status))
    assert level == "WARNING"
    assert said["verb"] == "refused"
    assert said["reason"] == answer.json["error"]["message"]
    assert float(said["duration_ms"]) >= 0.0
    route = ("other", "refused", str(status))
    assert scraped(direct)[route] > before.get(route, 0.0)


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([b"nonsense\r\n\r\n"], 400),
        ([b"GET / HTTP/1.1\r\nX: ", b"a" * (protocol.MAX_HEAD + 1)], 431),  # refused once all of it is read
    ],
)
def test_a_connection_refused_before_any_request_is_counted_and_logged(server, parts, status):
    before, mark = counts(server.call("GET", "/metrics").body.decode()), len(server.log)
    with server.connect() as talk:
        for part in parts:
            talk.send(part)
            assert server.alive()  # so it has read the part
        answer = talk.hear()
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    (refused,) = [said for _, said in server.lines(mark) if said["verb"] == "refused"]
    assert (refused["status"], refused["client"]) == (str(status), "127.0.0.1")
    after = counts(server.call("GET", "/metrics").body.decode())
    route = ("other", "refused", str(status))
    assert after[route] == before.get(route, 0.0) + 1


def test_nothing_that_is_sent_makes_more_metrics(direct):
    """A label for each odd path or method would fill the memory."""

    def send(number):
        for headers in ([], [BEARER]):
            direct.call("GET", f"/nowhere/{number}", headers=headers)
            direct.call(f"METHOD{number}", f"/nowhere/{number}", headers=headers)
            direct.call(f"METHOD{number}", "/studies", headers=headers)
            direct.call("GET", f"/studies/nobody-{number}", headers=headers)
            direct.call("GET", "/studies", headers=headers, host=f"evil-{number}.com")

    send(0)
    known = scraped(direct).keys()
    for number in range(1, 5):
        send(number)
    assert scraped(direct).keys() - known <= {("GET", "/metrics", "200")}


# --- errors and failures of routes ------------------------------------------------------------------------------------


def test_an_error_is_logged_with_its_study_and_its_reason(direct, caplog):
    answer = direct.call("POST", "/studies/edge-7/tell", {"id": "99", "value": 1.0}, headers=[BEARER])
    assert answer.status == 409
    ((level, said),) = logged(caplog)
    assert level == "WARNING"
    assert (said["verb"], said["study"], said["status"], said["error"]) == ("tell", "edge-7", "409", "TrialError")
    assert said["reason"] == answer.json["error"]["message"]


def test_a_method_that_a_path_does_not_have_is_logged_with_both(direct, caplog):
    assert direct.call("DELETE", "/studies", headers=[BEARER]).status == 405
    ((_, said),) = logged(caplog)
    assert (said["verb"], said["method"], said["path"], said["status"]) == ("other", "DELETE", "/studies", "405")


def test_a_study_that_cannot_be_created_is_named(direct, caplog):
    assert direct.call("POST", "/studies", {"name": "edge-7", "space": SPACE}, headers=[BEARER]).status == 409
    ((_, said),) = logged(caplog)
    assert (said["verb"], said["study"], said["error"]) == ("create", "edge-7", "StudyError")


def test_what_succeeds_is_logged_only_on_demand(direct, tmp_path, caplog):
    caplog.set_level(logging.INFO, "ebbtide.service")
    assert direct.call("GET", "/studies/edge-7", headers=[BEARER]).status == 200
    assert logged(caplog) == []
    with running(tmp_path / "s.db", access_log=True) as verbose:
        assert verbose.call("POST", "/studies", {"name": "s", "space": SPACE}).status == 201
        assert verbose.call("POST", "/studies/s/ask", {}, query="secret=1").status == 200
    created, asked = logged(caplog)
    assert (created[0], created[1]["verb"], created[1]["status"]) == ("INFO", "create", "201")
    assert created[1]["study"] == "s"
    assert (asked[0], asked[1]["verb"], asked[1]["study"]) == ("INFO", "ask", "s")
    assert "secret" not in str([created, asked])


def test_a_failure_of_the_service_has_its_traceback_in_the_log_and_not_in_the_answer(direct, caplog, monkeypatch):
    def fail(*page):
        raise ZeroDivisionError("something is\nERROR wrong")

    monkeypatch.setattr(Storage, "listed", fail)
    answer = direct.call("GET", "/studies", headers=[BEARER])
    assert (answer.status, answer.error) == (500, "InternalError")
    assert b"wrong" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"
    (record,) = [record for record in caplog.records if record.name == "ebbtide.service"]
    record.exc_text = None  # as another formatter left it
    _, *others = logs.Formatter().format(record).splitlines()
    assert TRACEBACK in others[0]
    assert all(line.startswith("    ") for line in others)  # nothing in it can pass for a line of ours
    ((level, said),) = logged(caplog)
    assert (level, said["status"], said["error"]) == ("ERROR", "500", "ZeroDivisionError")


# --- lines ------------------------------------------------------------------------------------------------------------


def test_the_service_says_at_its_start_what_it_serves_and_how_much_it_accepts(server):
    level, said = server.lines()[0]
    assert (level, said["verb"], said["version"], said["token"]) == ("INFO", "start", __version__, "yes")
    assert said["storage"] == f"sqlite:///{server.folder}/s.db"
    assert said["address"] == server.url
    assert (said["rate"], said["studies"], said["streams"]) == ("2000.0", "1000", "100")


def test_the_access_log_has_a_line_for_every_request(server):
    assert server.alive()  # after this, nothing of the tests before is still to be logged
    mark = len(server.log)
    assert server.call("GET", "/studies/edge?x=1").status == 200
    ((level, said),) = server.lines(mark)
    assert (level, said["verb"], said["study"], said["status"]) == ("INFO", "study", "edge", "200")


@pytest.mark.parametrize(
    "value",
    [
        "a b",
        'a" status="200',
        "a\nb",
        "a\r\nERROR b",
        "a=b",
        "",
        "\u2028",
        "\u202e",
        "\x1b[31m",
        "ü",
        "\ud800",
        "\\",
        "\0",
    ],
)
def test_no_value_can_pass_for_a_line_or_for_another_pair(value):
    text = line({"study": value, "status": 200})
    assert text.isascii()
    assert text.isprintable()
    assert pairs(text) == {"study": value, "status": "200"}


def test_a_long_value_is_cut_and_a_missing_one_left_out():
    assert len(line({"path": "x" * 10**6, "study": None})) < 1000
    assert line({"verb": "ask", "study": None, "status": 200}) == "verb=ask status=200"


def test_a_flood_of_refusals_does_not_flood_the_log(caplog, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    throttle = Throttle(most=3)
    assert [throttle.allow() for _ in range(8)] == [True] * 3 + [False] * 5
    assert logged(caplog) == []
    now = 101.0
    assert throttle.allow()
    assert logged(caplog) == [("WARNING", {"suppressed": "5"})]
    assert throttle.allow()
    assert logged(caplog) == []
