"""Who may do what, and how much of it: every route that the service describes, so one that is added is tested too."""

import asyncio
import contextlib
import http.server
import json
import socket
import sqlite3
import subprocess
import threading
from contextlib import closing
from urllib.parse import quote

import pytest
import uvicorn
from helpers.serving import PATIENCE_S, SOURCES, TRACEBACK, Answer, chunked, command, operations, request, served
from prometheus_client.parser import text_string_to_metric_families

import ebbtide as eb
from ebbtide import service
from ebbtide.errors import ConfigurationError, ServiceError
from ebbtide.service import middleware, protocol, reader
from ebbtide.service import studies as studies_module

TOKEN = "correct-horse-battery-staple"
SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
WRITES = ("POST", "PUT", "PATCH", "DELETE")
MIB = 1 << 20
NOT_AUTHORIZED = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN.upper()}",
    f"Bearer {TOKEN} {TOKEN}",
    f"Bearer tökén-{TOKEN}",
    "Bearer \xff\xfe",
    f"Basic {TOKEN}",
    f"Bearer:{TOKEN}",
    f"bearer{TOKEN}",
    TOKEN,
]
FOREIGN_HOSTS = [
    None,
    "",
    "evil.com",
    "evil.com:8411",
    "127.0.0.1.evil.com",
    "localhost.evil.com",
    "localhost@evil.com",
    "evil.com@localhost",
    "localhost:80@evil.com",
    "localhost:evil",
    "127.0.0.1:8411:8411",
    "[::1].evil.com",
    "[::1",
    "::1",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "10.1.2.3",
    "localhost, evil.com",
    "localhost/evil.com",
    "localhost\t.evil.com",
    "lócalhost",
]
FOREIGN_ORIGINS = [
    {"Origin": "http://evil.com"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:1"},  # another service of the same machine
    {"Origin": "http://127.0.0.1.evil.com"},
    {"Origin": "file://"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": "cross-site", "Origin": "http://evil.com"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("guarded"), token=TOKEN) as running:
        assert running.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        yield running


@pytest.fixture(scope="module")
def document(server):
    return server.call("GET", "/openapi.json").json


@pytest.fixture(scope="module")
def routes(document):
    """Every route, the description itself, and what is not there."""
    found = operations(document, "edge")
    assert ("POST", "/studies/edge/tell") in found
    return [*found, ("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/nowhere"), ("OPTIONS", "/studies")]


@pytest.fixture
def untouched(server):
    """What was refused has changed nothing."""
    before = server.call("GET", "/studies").json
    yield
    assert server.call("GET", "/studies").json == before


# --- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", NOT_AUTHORIZED)
def test_nothing_is_answered_without_the_token(server, routes, untouched, authorization):
    for method, path in routes:
        answer = server.call(method, path, Authorization=authorization)
        assert (answer.status, answer.error) == (401, "Unauthorized"), (method, path, answer)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_none(server, routes, untouched):
    for method, path in routes:
        right, wrong = ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")
        for both in ([right, wrong], [wrong, right]):
            answer = server.say(request(method, path, [("Host", server.host), *both]))
            assert (answer.status, answer.error) == (400, "Bad Request"), (method, path, answer)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_right_token_is_let_in_everywhere(server, document, scheme):
    for method, path in operations(document, "nobody"):
        answer = server.call(method, path, Authorization=f"{scheme} {TOKEN}")
        expected = (200,) if "nobody" not in path and method == "GET" else (404, 422)
        assert answer.status in expected, (method, path, answer)
    assert server.call("GET", "/studies/edge/events", head_only=True).status == 200


@pytest.mark.parametrize("token", ["", "two words", "tökén", "line\nline", " padded", "nul\0"])
def test_a_token_that_no_header_can_hold_is_refused_at_once_and_not_repeated(tmp_path, token):
    with pytest.raises(ConfigurationError, match="no header can hold it") as refused:
        service.application(f"sqlite:///{tmp_path}/s.db", token=token)
    assert not token or token not in str(refused.value)
    assert not (tmp_path / "s.db").exists()
    if token:  # without one, the client sends none
        with pytest.raises(ConfigurationError, match="no header can hold it"):
            eb.Client("http://127.0.0.1:8411", token)


# --- where: DNS rebinding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_request_for_another_host_is_misdirected(server, routes, untouched, host):
    for method, path in routes:
        answer = server.call(method, path, Host=host)
        assert answer.status in (400, 421), (method, path, answer)
        assert answer.error in ("Bad Request", "Misdirected Request")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost:8411", "[::1]", "[::1]:80", "127.0.0.1:65535"])
def test_the_machine_itself_may_be_called_by_its_names(server, host):
    assert server.call("GET", "/healthz", Host=host).status == 200


def test_a_target_that_names_another_host_than_the_host_is_refused(server, routes, untouched):
    own = [("Host", server.host), ("Authorization", f"Bearer {TOKEN}")]
    for method, path in routes:
        answer = server.say(request(method, f"http://evil.com{path}", own))
        assert (answer.status, answer.error) == (400, "Bad Request"), (method, path, answer)


def test_two_hosts_are_none(server, routes, untouched):
    ours, theirs = ("Host", server.host), ("Host", "evil.com")
    for method, path in routes:
        for both in ([ours, theirs], [theirs, ours], [ours, ours]):
            answer = server.say(request(method, path, [*both, ("Authorization", f"Bearer {TOKEN}")]))
            assert (answer.status, answer.error) == (400, "Bad Request"), (method, path, answer)


def test_a_request_without_a_host_is_refused_also_in_http_1_0(server):
    answer = server.say(f"GET /studies HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    assert (answer.status, answer.error) == (421, "Misdirected Request")


# --- by whose hand: pages of other sites ------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", FOREIGN_ORIGINS)
def test_a_page_of_another_site_cannot_write(server, routes, untouched, headers):
    for method, path in routes:
        if method in WRITES:
            for body in (None, {}):  # a form can send either
                answer = server.call(method, path, body, **headers)
                assert (answer.status, answer.error) == (403, "Forbidden"), (method, path, answer)


@pytest.mark.parametrize("headers", FOREIGN_ORIGINS)
def test_a_page_of_another_site_cannot_read_what_it_makes_its_visitor_fetch(server, routes, headers):
    for method, path in routes:
        if method not in WRITES:
            answer = server.call(method, path, head_only=True, **headers)
            assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path, answer)


@pytest.mark.parametrize("method", WRITES)
def test_a_preflight_is_granted_nothing(server, routes, method):
    asks = {"Origin": "http://evil.com", "Access_Control_Request_Method": method}
    for path in {path for _, path in routes}:
        for token in (None, f"Bearer {TOKEN}"):  # a browser sends none with a preflight
            answer = server.call("OPTIONS", path, Authorization=token, **asks)
            assert answer.status in (401, 404, 405), answer
            assert not [name for name in answer.headers if name.startswith("access-control-")], answer


def test_a_read_stays_a_read_whatever_a_header_says(server, untouched):
    for name in ("X_HTTP_Method_Override", "X_Method_Override", "X_HTTP_Method"):
        server.call("GET", "/studies/edge", **{name: "DELETE"})
        server.call("GET", "/studies/edge?_method=DELETE", **{name: "DELETE"})


def test_a_page_of_the_service_itself_may_write(server):
    for headers in ({"Origin": server.url}, {"Origin": server.url, "Sec_Fetch_Site": "same-origin"}):
        assert server.call("POST", "/studies/nobody/ask", **headers).status == 404


# --- how much ---------------------------------------------------------------------------------------------------------


def test_a_body_that_is_announced_as_too_long_is_refused_before_it_is_sent(server, routes, untouched):
    for method, path in routes:
        for length in (MIB + 1, 10**15, 10**30):
            answer = server.call(method, path, Content_Length=str(length), Content_Type="application/json")
            assert answer.status in (400, 413), (method, path, answer)  # 400: more than a parser can count
            assert answer.error in ("Bad Request", "Request Entity Too Large", "Content Too Large")
            assert answer.status == 413 or length > 2**63


def test_a_body_that_turns_out_too_long_is_refused(server, routes, untouched):
    part = b" " * (MIB // 4)
    for method, path in routes:
        head = server.request(method, path, Transfer_Encoding="chunked", Content_Type="application/json")
        answer = server.say(head, chunked(part, part, part, part, b" "))
        assert answer.status == 413, (method, path, answer)
        assert answer.headers["connection"] == "close"


def test_a_body_may_be_as_long_as_is_said(server):
    body = b'{"n": 1' + b" " * (MIB - 8) + b"}"
    assert server.call("POST", "/studies/nobody/ask", body, Content_Type="application/json").status == 404


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "application/jsonp",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=json",
        "text/plain; application/json",
        "application/xml",
        "json",
    ],
)
def test_a_body_that_is_not_said_to_be_json_is_refused(server, routes, untouched, kind):
    for method, path in routes:
        answer = server.call(method, path, b'{"name": "form", "space": {}}', Content_Type=kind)
        assert (answer.status, answer.error) == (415, "Unsupported Media Type"), (method, path, answer)


def test_two_kinds_of_content_are_none(server, untouched):
    kinds = [("Content-Type", "text/plain"), ("Content-Type", "application/json")]
    own = [("Host", server.host), ("Authorization", f"Bearer {TOKEN}")]
    answer = server.say(request("POST", "/studies", [*own, *kinds], b"{}"))
    assert (answer.status, answer.error) == (400, "Bad Request")


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_json_may_be_said_in_several_ways(server, kind):
    assert server.call("POST", "/studies/nobody/ask", b"{}", Content_Type=kind).status == 404


def test_a_request_that_breaks_off_is_not_carried_out(server):
    """An ask needs no body: one that was announced and did not come must not be taken for none."""
    before = server.call("GET", "/studies/edge").json["asked"]
    head = server.request("POST", "/studies/edge/ask", Content_Length="10", Content_Type="application/json")
    for part in (b"", b"{}"):
        assert server.say(head, part, half_close=True).status is None
    assert server.call("POST", "/studies/edge/ask").json["id"] == str(before)  # in the order that they came


def test_what_follows_a_body_is_no_header(server):
    body = chunked(b'{"params": {"x": 0.5}, "value": 1.0}')
    trailer = body.removesuffix(b"\r\n") + b"Idempotency-Key: same\r\nHost: evil.com\r\n\r\n"
    head = server.request("POST", "/studies/edge/tell", Transfer_Encoding="chunked", Content_Type="application/json")
    before = server.call("GET", "/studies/edge").json["told"]
    for _ in range(2):
        assert server.say(head, trailer).status == 200
    assert server.call("GET", "/studies/edge").json["told"] == before + 2


@pytest.mark.parametrize(
    "space",
    [
        {"x": {"type": "categorical", "choices": list(range(140_000))}},
        {"x": {"type": "categorical", "choices": [[]] * 250_000}},
        {f"x{i}": {"type": "categorical", "choices": [[]] * 100} for i in range(1800)},
        {f"x{i}": 0 for i in range(60_000)},
        {f"x{i}": SPACE["x"] for i in range(15_000)},
    ],
    ids=["choices", "wrong choices", "wrong choices of many", "wrong parameters", "parameters"],
)
def test_a_space_that_is_far_too_wide_costs_little_to_refuse(server, untouched, space):
    before = server.memory()
    answer = server.call("POST", "/studies", {"name": "wide", "space": space})
    assert answer.status == 422, answer
    assert answer.error in ("ConfigurationError", "ValidationError")
    assert len(answer.body) < 10_000
    if before is not None:
        assert server.memory() - before < 300 * MIB


@pytest.mark.parametrize(
    "space",
    [{"x" * 70_000: SPACE["x"]}, {"x": {"type": "categorical", "choices": ["a" * 35_000, "b" * 35_000]}}],
    ids=["a name", "choices"],
)
def test_a_space_with_words_that_are_far_too_long_is_refused(server, untouched, space):
    """They would come back with every observation, a page of ten thousand at a time."""
    answer = server.call("POST", "/studies", {"name": "wordy", "space": space})
    assert (answer.status, answer.error) == (422, "ConfigurationError")
    assert len(answer.body) < 10_000


def test_parameters_that_nobody_asked_for_are_not_all_repeated(server, untouched):
    params = {f"x{i}": "y" * 100 for i in range(7000)}
    answer = server.call("POST", "/studies/edge/tell", {"params": params, "value": 1.0})
    assert (answer.status, answer.error) == (422, "ParameterError")
    assert len(answer.body) < 10_000
    answer = server.call("POST", "/studies/edge/tell", {"params": {"x": "y" * 900_000}, "value": 1.0})
    assert (answer.status, answer.error) == (422, "ParameterError")
    assert len(answer.body) < 10_000


# --- what is given away -----------------------------------------------------------------------------------------------


def test_a_database_that_fails_is_not_said_to_be_where(server):
    with closing(sqlite3.connect(server.folder / "s.db", isolation_level=None)) as other:
        other.execute("ALTER TABLE removals RENAME TO hidden")
        try:
            for method, path in (("GET", "/studies"), ("GET", "/studies/edge"), ("POST", "/studies/edge/ask")):
                answer = server.call(method, path)  # which looks for the folder in all that is said
                assert (answer.status, answer.error) == (503, "StorageError"), (method, path, answer)
                assert answer.json["error"]["message"].startswith("the database: ")
                assert answer.headers["retry-after"] == "1"
        finally:
            other.execute("ALTER TABLE hidden RENAME TO removals")
    assert server.call("POST", "/studies/edge/ask").status == 200


def test_what_is_answered_cannot_be_taken_for_a_page(server, document):
    for method, path in operations(document, "<script>alert(1)</script>".replace("/", "")):
        answer = server.call(method, path)
        assert answer.headers["content-type"].partition(";")[0] in ("application/json", "text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = [
    ".",
    "..",
    "...",
    "%2e%2e",
    "%2F",
    "%00",
    "a/b",
    "../../etc/passwd",
    "a\\b",
    "\0",
    "a\0b",
    "\n",
    "a\r\nSet-Cookie: b",
    "x" * 100,
    "x" * 101,
    "x" * 100_000,
    "😀" * 100,
    "<script>alert('1')<script>",
    '"};alert(1);//',
    "'; DROP TABLE studies; --",
    '{study="other"} 1',
    'a" b\\" c\\',
    "${jndi:ldap://127.0.0.1}",
    "{{7*7}}",
    "%s%n%d",
    "naïve café",
    "नमस्ते",
    "שלום עולם",
    "مرحبا",
    "\u202eedge",  # which would be shown from right to left
    "a\u2028b",
    "\ud800",
    " ",
    " edge ",
    "edge?start=1",
    "edge#fragment",
    "a;b=c&d",
    "a+b",
    "-rf",
    "null",
    "__proto__",
    "ask",
    "",
]


def _life(server, name):
    """Whether a study of that name can be made; then it goes by that name through everything."""
    made = server.call("POST", "/studies", {"name": name, "space": SPACE, "algorithm": "random", "seed": 1})
    if made.status != 201:
        assert 400 <= made.status < 500, (name, made)
        assert made.error in ("ConfigurationError", "StudyError", "ValidationError")
        return False
    path = f"/studies/{quote(name, safe='')}"
    assert made.json["name"] == server.call("GET", path).json["name"] == name
    trial = server.call("POST", f"{path}/ask").json
    assert server.call("POST", f"{path}/tell", {"id": trial["id"], "value": 2.0}).json == {"told": True}
    (told,) = server.call("GET", f"{path}/observations").json["observations"]
    assert (told["params"], told["value"]) == (trial["params"], 2.0)
    families = {f.name: f for f in text_string_to_metric_families(server.call("GET", "/metrics").body.decode())}
    counted = {sample.labels["study"]: sample.value for sample in families["ebbtide_told"].samples}
    assert counted[name] == 1.0
    assert counted.keys() == {study["name"] for study in server.call("GET", "/studies").json["studies"]}
    assert server.call("DELETE", path).status == 204
    assert server.call("GET", path).status == 404
    return True


def test_a_name_is_a_plain_name_or_refused(server, untouched):
    logged = server.log
    usable = {name for name in NAMES if _life(server, name)}
    assert {
        "😀" * 100,
        "'; DROP TABLE studies; --",
        "שלום עולם",
        "%2e%2e",
        "%00",
        "edge?start=1",
        'a" b\\" c\\',
    } <= usable
    assert not {".", "..", "a/b", "\0", "\n", "x" * 101, "\u202eedge", "\ud800", ""} & usable
    assert server.log == logged  # nothing of it is written where it could pass for a message


@pytest.mark.parametrize(
    "path",
    [
        "/studies/%2e%2e",
        "/studies/..",
        "/studies/../healthz",
        "/studies/%2e%2e%2fhealthz",
        "/studies/edge%2fask",
        "/studies//edge",
        "//studies",
        "/studies/",
        "/studies/edge/",
        "/studies/%00",
        "/studies/edge%00",
        "/studies/%ff%fe",
        "/studies/%ed%a0%80",
        "/studies/%",
        "/studies/%zz",
        "/studies/%25%32%65",
        "/studies/edge%0d%0aSet-Cookie:%20a",
        "/studies/edge;a=b",
        "/studies/{name}",
        f"/studies/{'x' * 50_000}",
        "/etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/docs",
        "/redoc",
        "/static/../s.db",
    ],
)
def test_a_path_leads_to_what_it_says_or_nowhere(server, untouched, path):
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/ask"), ("GET", "/events")):
        answer = server.call(method, path + end)
        assert answer.status in (404, 405), (method, answer)
        assert answer.error in ("Not Found", "Method Not Allowed", "UnknownStudyError")
        assert "set-cookie" not in answer.headers


# --- connections that misbehave ---------------------------------------------------------------------------------------


def _idle(server, stack, count):
    for _ in range(count):
        stack.enter_context(server.connect())


def _half_a_head(server, stack):
    for _ in range(50):
        stack.enter_context(server.connect()).send(b"GET /healthz HTTP/1.1\r\nHost: loc")


def _half_a_body(server, stack):
    head = server.request("POST", "/studies/edge/ask", Content_Length="2", Content_Type="application/json")
    for _ in range(50):
        stack.enter_context(server.connect()).send(head, b"{")


def _unread(server, stack):
    for _ in range(20):
        stack.enter_context(server.connect()).send(server.request("GET", "/openapi.json") * 20)


def _hung_up(server, stack):
    for _ in range(50):
        with server.connect() as talk:
            talk.send(server.request("GET", "/studies"))


def _streams(server, stack):
    for _ in range(20):
        stack.enter_context(server.connect()).send(server.request("GET", "/studies/edge/events"))


@pytest.mark.parametrize(
    "misbehave",
    [lambda server, stack: _idle(server, stack, 200), _half_a_head, _half_a_body, _unread, _hung_up, _streams],
    ids=["idle", "half a head", "half a body", "unread", "hung up", "streams"],
)
def test_others_are_served_while_some_keep_their_connections_waiting(server, misbehave):
    with contextlib.ExitStack() as stack:
        misbehave(server, stack)
        assert server.alive()
        assert server.call("POST", "/studies/nobody/ask", {}).status == 404
    assert server.alive()


def test_a_slow_body_is_taken_when_it_comes(server):
    with server.connect() as talk:
        body = b'{"n": 1}'
        talk.send(server.request("POST", "/studies/edge/ask", Content_Length="8", Content_Type="application/json"))
        for byte in body[:-1]:
            talk.send(bytes([byte]))
            assert server.alive()
        assert len(talk.say(body[-1:]).json["trials"]) == 1


@pytest.mark.parametrize(
    "bomb",
    [
        [b"X: " + b"a" * MIB] + [b"a" * MIB] * 63,
        [b"X: a\r\n" * (MIB // 6)] * 8,
        [b"a" * MIB] * 16,
        [b"X:" + b" " * MIB] * 16,
    ],
    ids=["a long header", "many headers", "a header's long name", "spaces"],
)
def test_a_head_without_end_is_refused_and_not_kept(server, bomb):
    before = server.memory()
    answer = server.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", *bomb)
    assert answer.status in (400, 431, None), answer  # None: what was sent after the answer has drowned it
    assert answer.status is None or answer.error in ("Bad Request", "Request Header Fields Too Large")
    assert server.alive()
    if before is not None:
        assert server.memory() - before < 16 * MIB


def test_a_target_without_end_is_refused_and_not_kept(server):
    before = server.memory()
    assert server.say(b"GET /", *[b"a" * MIB] * 32).status in (400, 414, 431, None)
    assert server.alive()
    if before is not None:
        assert server.memory() - before < 16 * MIB


def test_garbage_after_a_request_is_not_taken_for_another(server, untouched):
    for garbage in (b"\0\1\2\3\r\n\r\n", b"DELETE /studies/edge\r\n\r\n", b"}{\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"):
        with server.connect() as talk:
            first = talk.say(server.request("GET", "/healthz") + garbage)
            assert first.status in (200, 400)
            if first.status == 200:
                answer = talk.hear()
                assert answer.status in (400, 421), answer
                assert answer.error in ("Bad Request", "Misdirected Request")
                assert talk.hear().status is None
    assert server.alive()


def test_a_body_is_never_taken_for_a_request(server, untouched):
    """What a server in front of this one may have let through as one request is one, or is refused."""
    hidden = server.request("DELETE", "/studies/edge")
    own = [("Host", server.host), ("Authorization", f"Bearer {TOKEN}"), ("Content-Type", "application/json")]
    for lengths in (
        [("Content-Length", "0"), ("Content-Length", str(len(hidden)))],
        [("Content-Length", "0"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding", "chunked, identity")],
        [("Content-Length", "+0")],
        [("Content-Length", "0x0")],
        [("Content-Length", "-1")],
        [("Content-Length ", "0")],
    ):
        with server.connect() as talk:
            answer = talk.say(request("POST", "/studies/nobody/ask", [*own, *lengths]) + hidden)
            assert (answer.status, answer.error) == (400, "Bad Request"), (lengths, answer)
            assert talk.hear().status is None


# --- beyond this machine ----------------------------------------------------------------------------------------------


def test_other_machines_are_not_served_without_a_token(tmp_path):
    done = subprocess.run(command(tmp_path, "--host", "0.0.0.0"), capture_output=True, text=True, env={})
    assert done.returncode != 0
    assert "can be reached from other machines, and there is no token: set EBBTIDE_TOKEN" in done.stderr
    assert TRACEBACK not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.invalid", "0"])
@pytest.mark.parametrize("token", [None, ""])
def test_every_address_but_the_machine_s_own_needs_a_token(tmp_path, host, token):
    with pytest.raises(ConfigurationError, match="there is no token"):
        service.serve(f"sqlite:///{tmp_path}/s.db", host=host, port=0, token=token)


def test_on_all_addresses_it_goes_by_numbers_and_by_the_names_allowed(tmp_path):
    with served(tmp_path, "--host", "0.0.0.0", "--allow-host", "tuner.example", token=TOKEN) as server:
        for host in (
            "10.1.2.3",
            "192.0.2.7:8411",
            "[2001:db8::1]:80",
            "tuner.example",
            "TUNER.example:443",
            "localhost",
        ):
            assert server.call("GET", "/studies", Host=host).status == 200, host
            assert server.call("GET", "/studies", Host=host, Authorization=None).status == 401, host
        foreign = (
            "evil.com",
            "tuner.example.evil.com",
            "eviltuner.example",
            "10.1.2.3.evil.com",
            "1.2.3",
            "",
            "[evil]",
        )
        for host in foreign:
            answer = server.call("GET", "/studies", Host=host)
            assert (answer.status, answer.error) == (421, "Misdirected Request"), host


# --- the limits, in this process: the application itself, without a socket --------------------------------------------

LIMITS = service.Limits(rate=0.5, at_once=8, studies=6, width=10, trials=3, streams=4)


class Direct:
    """The application, called as a server would call it."""

    def __init__(self, app, runner):
        self.app, self.runner = app, runner
        self.addresses = iter(range(10**9))

    def call(self, *args, **kwargs):
        return self.runner.run(asyncio.wait_for(self.request(*args, **kwargs), PATIENCE_S))

    async def request(self, method, path, body=None, query="", address=None, receive=None, send=None):
        """Every request comes from an address of its own, unless one is given."""
        sent, content = [], b"" if body is None else json.dumps(body).encode()
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def honest():
            for message in messages:
                return message
            return await asyncio.Future()  # it stays

        async def noted(message):
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": (address or f"10.0.0.{next(self.addresses)}", 1),
            "server": ("127.0.0.1", 8411),
        }
        await self.app(scope, receive or honest, send or noted)
        if not sent:
            return Answer(None)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    app = service.application(f"sqlite:///{tmp_path_factory.mktemp('direct')}/s.db", limits=LIMITS)

    async def begin():
        told, heard = asyncio.Queue(), asyncio.Queue()
        task = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, told.get, heard.put))
        await told.put({"type": "lifespan.startup"})
        assert (await heard.get())["type"] == "lifespan.startup.complete"
        return task, told

    with asyncio.Runner() as runner:
        task, told = runner.run(begin())
        yield Direct(app, runner)
        runner.run(told.put({"type": "lifespan.shutdown"}))
        runner.run(asyncio.wait_for(task, PATIENCE_S))


@pytest.fixture
def studies(direct):
    """As many as there may be."""
    names = [f"study {i}" for i in range(LIMITS.studies)]
    for name in names:
        made = direct.call("POST", "/studies", {"name": name, "space": SPACE, "algorithm": "random", "seed": 0})
        assert made.status == 201, made
    yield names
    for name in names:
        direct.call("DELETE", f"/studies/{name}")


def test_there_are_only_so_many_studies_until_one_is_deleted(direct, studies):
    more = {"name": "one more", "space": SPACE}
    refused = direct.call("POST", "/studies", more)
    assert (refused.status, refused.error) == (409, "StudyError")
    assert direct.call("DELETE", f"/studies/{studies[0]}").status == 204
    assert direct.call("POST", "/studies", more).status == 201
    assert direct.call("DELETE", "/studies/one more").status == 204


def test_an_address_that_asks_too_often_has_to_wait_and_others_have_not(direct):
    answers = [direct.call("GET", "/healthz", address="10.9.9.9") for _ in range(20)]
    assert answers[0].status == 200
    slowed = [answer for answer in answers if answer.status == 429]
    assert slowed
    assert {(answer.error, answer.headers["retry-after"]) for answer in slowed} == {("Too Many Requests", "1")}
    assert direct.call("GET", "/healthz", address="10.9.9.8").status == 200


def test_the_addresses_that_are_remembered_are_few_and_short():
    rates = middleware.Rates(1.0)
    for number in range(3 * middleware.MAX_ADDRESSES):
        assert rates.allow(str(number), 0.0)
    assert len(rates._buckets) == middleware.MAX_ADDRESSES
    guard = middleware.Middleware(None, token=None, hosts=["localhost"], any_address=False, limits=LIMITS)
    for end in "ab":  # as a proxy's header may have it
        with contextlib.suppress(middleware.Refusal):
            guard._check_rate({"client": ("x" * 10**6 + end, 1)})
    assert [len(address) for address in guard.rates._buckets] == [middleware.MAX_ADDRESS]


def test_a_space_has_only_so_many_coordinates(direct):
    wide = {"x": {"type": "categorical", "choices": list(range(LIMITS.width))}, "y": SPACE["x"]}
    refused = direct.call("POST", "/studies", {"name": "wide", "space": wide})
    assert (refused.status, refused.error) == (422, "ConfigurationError")
    del wide["y"]
    assert direct.call("POST", "/studies", {"name": "wide", "space": wide}).status == 201
    assert direct.call("DELETE", "/studies/wide").status == 204


def test_only_so_many_trials_are_given_at_once(direct, studies):
    path = f"/studies/{studies[0]}/ask"
    assert len(direct.call("POST", path, {"n": LIMITS.trials}).json["trials"]) == LIMITS.trials
    for n in (LIMITS.trials + 1, 10**9, 10**400):
        refused = direct.call("POST", path, {"n": n})
        assert (refused.status, refused.error) == (422, "ObservationError")
    assert direct.call("GET", f"/studies/{studies[0]}").json["asked"] == LIMITS.trials


def test_a_page_holds_fewer_observations_if_they_are_long_and_none_is_left_out(direct, studies, monkeypatch):
    path = f"/studies/{studies[0]}"
    for value in range(5):
        assert direct.call("POST", f"{path}/tell", {"params": {"x": 0.5}, "value": value}).status == 200
    space = len(json.dumps(direct.call("GET", path).json["space"]))
    monkeypatch.setattr(reader, "PAGE_CHARACTERS", 2 * space + 1)
    values, sizes, start = [], [], 0
    while start is not None:
        page = direct.call("GET", f"{path}/observations", query=f"start={start}").json
        values += [observation["value"] for observation in page["observations"]]
        sizes.append(len(page["observations"]))
        start = page["next"]
    assert values == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sizes == [2, 2, 1]
    monkeypatch.setattr(reader, "PAGE_CHARACTERS", 1)
    assert len(direct.call("GET", f"{path}/observations").json["observations"]) == 1


def test_only_so_many_streams_are_open_at_once_and_each_that_ends_makes_room(direct, studies):
    path = f"/studies/{studies[0]}/events"

    async def all_at_once(count):
        gone = asyncio.Event()
        begun, statuses = asyncio.Semaphore(0), []

        def listener():
            first = True

            async def reads():
                nonlocal first
                if first:
                    first = False
                    return {"type": "http.request", "body": b"", "more_body": False}
                await gone.wait()
                return {"type": "http.disconnect"}

            async def hears(message):
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])
                    begun.release()

            return direct.request("GET", path, receive=reads, send=hears)

        tasks = [asyncio.create_task(listener()) for _ in range(count)]
        for _ in tasks:
            await begun.acquire()
        gone.set()
        await asyncio.gather(*tasks)
        return statuses

    for _ in range(2):
        statuses = direct.runner.run(asyncio.wait_for(all_at_once(2 * LIMITS.streams), PATIENCE_S))
        assert sorted(statuses) == [200] * LIMITS.streams + [503] * LIMITS.streams


def test_a_stream_of_nothing_takes_no_room(direct, studies):
    for _ in range(2 * LIMITS.streams):
        assert direct.call("GET", "/studies/nobody/events").status == 404
    test_only_so_many_streams_are_open_at_once_and_each_that_ends_makes_room(direct, studies)


def test_only_so_many_requests_are_dealt_with_at_once(direct):
    async def crowd():
        waits = asyncio.Event()

        async def slow():
            await waits.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        tasks = [asyncio.create_task(direct.request("GET", "/healthz", receive=slow)) for _ in range(LIMITS.at_once)]
        await asyncio.sleep(0)
        late = await direct.request("GET", "/healthz")
        waits.set()
        return late, await asyncio.gather(*tasks)

    late, waited = direct.runner.run(asyncio.wait_for(crowd(), PATIENCE_S))
    assert (late.status, late.error, late.headers["retry-after"]) == (503, "Service Unavailable", "1")
    assert [answer.status for answer in waited] == [200] * LIMITS.at_once


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(direct, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_S", 0.05)
    answer = direct.call("POST", "/studies", receive=lambda: asyncio.Future())
    assert (answer.status, answer.error, answer.headers["connection"]) == (408, "Request Timeout", "close")


def test_what_is_called_off_is_answered_and_stops_nobody_else(direct, studies):
    """A server that has to stop calls off what it is doing: those who wait are told to come back."""

    async def call_off():
        tell = {"params": {"x": 0.5}, "value": 1.0}
        ways = [("POST", f"/studies/{studies[0]}/{verb}", tell if verb == "tell" else {}) for verb in ("tell", "ask")]
        called_off = []
        for method, path, body in ways * 20:
            task = asyncio.create_task(direct.request(method, path, body))
            for _ in range(1 + len(called_off) % 7):
                await asyncio.sleep(0)
            task.cancel()
            called_off += await asyncio.gather(task, return_exceptions=True)
        return [answer for answer in called_off if not isinstance(answer, asyncio.CancelledError)]  # it was answered

    called_off = direct.runner.run(asyncio.wait_for(call_off(), PATIENCE_S))
    assert {answer.status for answer in called_off} <= {200, 503}
    told_so = [answer for answer in called_off if answer.status == 503]
    assert told_so
    assert {(answer.error, answer.headers["retry-after"]) for answer in told_so} == {("Service Unavailable", "1")}
    assert direct.call("GET", "/healthz").status == 200
    assert direct.call("POST", f"/studies/{studies[0]}/ask").status == 200


def test_more_studies_than_are_kept_open_are_all_served(direct, studies, monkeypatch):
    """Each ask may find its study put away when it is worked out; it must not start again for ever."""
    monkeypatch.setattr(studies_module, "MAX_OPEN", 1)

    async def ask_all():
        return await asyncio.gather(*(direct.request("POST", f"/studies/{name}/ask") for name in studies))

    for k in range(3):
        answers = direct.runner.run(asyncio.wait_for(ask_all(), PATIENCE_S))
        assert [(answer.status, answer.json["id"]) for answer in answers] == [(200, str(k))] * len(studies)


# --- a head that does not come ----------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    """A server in a thread, with ebbtide's connections, which waits a moment only; its port."""
    monkeypatch.setattr(protocol, "HEAD_S", 0.1)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=protocol.HttpProtocol, lifespan="off", log_config=None, ws="none")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1]
        running.should_exit = True
        thread.join()


@pytest.mark.parametrize("after_one", [False, True], ids=["at first", "after a request"])
@pytest.mark.parametrize("begun", [b"\r\n", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_connection_whose_request_does_not_come_is_closed(impatient, begun, after_one):
    with socket.create_connection(("127.0.0.1", impatient), timeout=PATIENCE_S) as connection:
        if after_one:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.sendall(begun)
        assert connection.recv(10_000) == b""


def test_a_connection_that_says_nothing_is_closed(impatient):
    with socket.create_connection(("127.0.0.1", impatient), timeout=PATIENCE_S) as connection:
        assert connection.recv(10_000) == b""


# --- the other side: a service that is not what it seems --------------------------------------------------------------


@pytest.fixture
def impostor():
    """Answers everything with what it was given."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = self.server.says
            self.server.heard.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.heard = []
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (307, b""),
        (302, b"{}"),
        (500, b"<html>"),
        (404, b"[]"),
        (422, b'{"error": 1}'),
        (422, b'{"error": {"type": 1, "message": "x"}}'),
        (422, b'{"error": {"type": "__class__", "message": "x"}}'),
        (422, b'{"error": {"type": "BaseException", "message": "x"}}'),
        (422, b'{"error": {"type": [], "message": {}}}'),
        (401, b"\xff"),
    ],
)
def test_the_client_believes_no_nonsense_and_follows_nobody(impostor, status, body):
    impostor.says = (status, {"Location": f"http://127.0.0.1:{impostor.server_port}/elsewhere"}, body)
    client = eb.Client(f"http://127.0.0.1:{impostor.server_port}", TOKEN, patience=0.0)
    with closing(client), pytest.raises(ServiceError, match=f"answered {status}") as raised:
        client.studies()
    assert impostor.heard == ["/studies"]
    assert TOKEN not in str(raised.value)
    assert SOURCES not in str(raised.value)
