"""Who may do what: every route that the service describes is tried, so one that is added is tested too."""

import asyncio
import sqlite3
from contextlib import closing
from urllib.parse import quote

import pytest
import uvicorn
from click.testing import CliRunner
from helpers.direct import Direct
from helpers.serving import LINE, TOKEN, TRACEBACK, operations, request
from prometheus_client.parser import text_string_to_metric_families

import ebbtide as eb
from ebbtide import service
from ebbtide.cli.commands import ebbtide
from ebbtide.errors import ConfigurationError

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
WRITES = ("POST", "PUT", "PATCH", "DELETE")

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


# --- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", NOT_AUTHORIZED)
def test_nothing_is_answered_without_the_token(server, routes, untouched, authorization):
    for method, path in routes:
        answer = server.call(method, path, Authorization=authorization)
        assert (answer.status, answer.error) == (401, "Unauthorized"), (method, path, answer)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_second_token_is_refused(server, routes, untouched):
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
    if token:  # without a token, the client sends none
        with pytest.raises(ConfigurationError, match="no header can hold it"):
            eb.Client("http://127.0.0.1:8411", token)


# --- where: DNS rebinding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_request_for_another_host_is_refused(server, routes, untouched, host):
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


def test_a_second_host_is_refused(server, routes, untouched):
    ours, theirs = ("Host", server.host), ("Host", "evil.com")
    for method, path in routes:
        for both in ([ours, theirs], [theirs, ours], [ours, ours]):
            answer = server.say(request(method, path, [*both, ("Authorization", f"Bearer {TOKEN}")]))
            assert (answer.status, answer.error) == (400, "Bad Request"), (method, path, answer)


def test_a_request_without_a_host_is_refused_also_in_http_1_0(server):
    answer = server.say(f"GET /studies HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    assert (answer.status, answer.error) == (421, "Misdirected Request")


# --- pages of other sites ---------------------------------------------------------------------------------------------


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


# --- beyond this machine ----------------------------------------------------------------------------------------------


def test_other_machines_are_not_served_without_a_token(tmp_path):
    arguments = ["serve", "--storage", f"sqlite:///{tmp_path}/s.db", "--host", "0.0.0.0", "--port", "0"]
    done = CliRunner(env={"EBBTIDE_TOKEN": None}).invoke(ebbtide, arguments)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "can be reached from other machines, and there is no token: set EBBTIDE_TOKEN" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.invalid", "0"])
@pytest.mark.parametrize("token", [None, ""])
def test_every_address_but_the_loopback_needs_a_token(tmp_path, host, token):
    with pytest.raises(ConfigurationError, match="there is no token"):
        service.serve(f"sqlite:///{tmp_path}/s.db", host=host, port=0, token=token)


def test_on_all_addresses_it_is_known_by_addresses_and_by_the_names_allowed(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: started.append(server.config.app))
    arguments = ["serve", "--storage", f"sqlite:///{tmp_path}/s.db", "--host", "0.0.0.0", "--port", "0"]
    done = CliRunner(env={"EBBTIDE_TOKEN": TOKEN}).invoke(ebbtide, [*arguments, "--allow-host", "tuner.example"])
    assert done.exit_code == 0, done.output
    with asyncio.Runner() as runner:
        direct = Direct(started[0], runner)
        token = [(b"authorization", f"Bearer {TOKEN}".encode())]
        for host in (
            "10.1.2.3",
            "192.0.2.7:8411",
            "[2001:db8::1]:80",
            "tuner.example",
            "TUNER.example:443",
            "localhost",
        ):
            assert direct.call("GET", "/studies", host=host, headers=token).status == 200, host
            assert direct.call("GET", "/studies", host=host).status == 401, host
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
            answer = direct.call("GET", "/studies", host=host, headers=token)
            assert (answer.status, answer.error) == (421, "Misdirected Request"), host


# --- what answers show ------------------------------------------------------------------------------------------------


def test_no_answer_shows_where_a_failing_database_is(server):
    before = len(server.log)
    with closing(sqlite3.connect(server.folder / "s.db", isolation_level=None)) as other:
        other.execute("ALTER TABLE tells RENAME TO hidden")
        try:
            for method, path in (("GET", "/studies"), ("GET", "/studies/edge"), ("POST", "/studies/edge/ask")):
                answer = server.call(method, path)  # which looks for the folder in the answer
                assert (answer.status, answer.error) == (503, "StorageError"), (method, path, answer)
                assert answer.json["error"]["message"].startswith("the database: ")
                assert answer.headers["retry-after"] == "1"
        finally:
            other.execute("ALTER TABLE hidden RENAME TO tells")
    assert server.call("POST", "/studies/edge/ask").status == 200
    failed = [(level, line["error"]) for level, line in server.lines(before) if line["status"] != "200"]
    assert failed == [("ERROR", "StorageError")] * 3
    assert server.log[before:].count(TRACEBACK) >= 3  # the log says why, and where
    server.excused = len(server.log)


def test_no_answer_can_be_taken_for_a_page(server, document):
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
    """Whether a study of that name can be created; then every route knows it by that name."""
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
    before = len(server.log)
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
    assert usable <= {line["study"] for _, line in server.lines(before) if "study" in line}
    lines = server.log[before:].splitlines()
    assert all(LINE.fullmatch(line) for line in lines)  # no name can pass for a line of the log, or break one
    assert all(line.isascii() and line.isprintable() and len(line) < 5000 for line in lines)


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
