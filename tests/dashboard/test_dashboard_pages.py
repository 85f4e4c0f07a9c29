"""The pages and their views, from real processes: `ebbtide serve` and `ebbtide dashboard`."""

import asyncio
import gzip
import json
import re
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fastapi import FastAPI
from helpers.pages import Document, directives
from helpers.serving import TOKEN, read_chunk, served
from helpers.stories import made, trail_of, url

import ebbtide as eb
from ebbtide.dashboard import assets
from ebbtide.dashboard import views as views_module
from ebbtide.service import routes_pages, viewer
from ebbtide.service.errors import answer_errors

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service(story, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    story.copy(folder)
    with served(folder, token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def dashboard(story, tmp_path_factory):
    """When it ends, it must leave no process behind."""
    folder = tmp_path_factory.mktemp("dashboard")
    made(story.copy(folder), name="busy")
    with served(folder, dashboard=True) as running:
        yield running
        children = running.workers()
        assert children
    assert running.process.returncode == -signal.SIGTERM
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@pytest.fixture(params=["service", pytest.param("dashboard", marks=pytest.mark.slow)])
def server(request):
    return request.getfixturevalue(request.param)


PAGES = ["/", "/view/edge", "/view/nobody", "/view/%3Cscript%3E"]

WITHOUT_TOKEN = {"Authorization": None}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_the_same_for_all_and_runs_only_our_own_scripts(server, path):
    answer = server.call("GET", path, **WITHOUT_TOKEN)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    policy = directives(answer.headers["content-security-policy"])
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
    loose = [name for name, sources in policy.items() if {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(sources)]
    assert loose == ["style-src-attr"]  # which Plotly sets, and which cannot run code
    page = Document(answer.body.decode())
    assert page.inline == [("script", attributes, "") for _, attributes in page.tags_of("script")]
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]
    assert answer.body == server.call("GET", "/", **WITHOUT_TOKEN).body  # it shows nothing of a study


def test_the_files_of_a_page_are_there_and_a_browser_may_cache_them(service):
    page = Document(service.call("GET", "/", **WITHOUT_TOKEN).body.decode())
    scripts = [attributes["src"] for _, attributes in page.tags_of("script")]
    styles = [attributes["href"] for _, attributes in page.tags_of("link") if attributes["rel"] == "stylesheet"]
    assert [re.sub(r"\?v=.*", "", each) for each in scripts] == [f"/static/{name}" for name in assets.SCRIPTS]
    for address in [*scripts, *styles]:
        answer = service.call("GET", address, **WITHOUT_TOKEN)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("name", [*assets.STYLES, *assets.SCRIPTS, assets.PLOTLY])
def test_a_file_is_the_same_packed_and_plain(service, name):
    plain, packed = (
        service.call("GET", f"/static/{name}", Accept_Encoding=encoding, **WITHOUT_TOKEN)
        for encoding in ("identity", "gzip, deflate, br")
    )
    for answer in (plain, packed):
        assert answer.status == 200
        assert answer.headers["content-type"] == assets.TYPES[Path(name).suffix]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["cache-control"] == "no-cache"
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body == assets.assets()[name].content


def direct(app, path, **headers):
    """The status and the body of an answer, without a server."""
    sent = []

    async def send(message):
        sent.append(message)

    head = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "query_string": b""}
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(app(head | {"path": path, "raw_path": path.encode(), "root_path": "", "headers": given}, None, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_no_large_file_is_packed_or_unpacked_in_the_event_loop(monkeypatch, encoding):
    """It takes as long as hundreds of tells, and anybody may ask for it."""
    app, held_up = FastAPI(), []
    app.include_router(routes_pages.page_routes(None, "service"))  # type: ignore[arg-type]

    def noted(work):
        def do(content, *options):
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                held_up.append((work.__name__, len(content)))
            return work(content, *options)

        return do

    assets.assets.cache_clear()
    for name in ("compress", "decompress"):
        monkeypatch.setattr(gzip, name, noted(getattr(gzip, name)))
    assert direct(app, f"/static/{assets.PLOTLY}", accept_encoding=encoding)[0] == 200
    assert [(work, length) for work, length in held_up if length > 1 << 20] == []


@pytest.mark.parametrize("content", [None, b"", b"not a database", b"of something else"])
def test_no_answer_shows_where_a_file_is_that_cannot_be_read(tmp_path, content):
    """It is opened for the first view, when it may be gone, or be another one."""
    path = tmp_path / "s.db"
    if content == b"of something else":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE other (x)")
    elif content is not None:
        path.write_bytes(content)
    app = FastAPI()
    answer_errors(app, str(path))

    @app.get("/view")
    async def view():
        return viewer.study_view(url(path), "edge", None, None)

    status, body = direct(app, "/view")
    assert status == 503
    assert str(tmp_path) not in body.decode()


@pytest.mark.parametrize("path", ["/static/style.css", "/studies/edge/trail?last=1"])
def test_nothing_is_packed_for_clients_that_do_not_accept_gzip(service, path):
    encodings = [None, "", "identity", "br", "gzip;q=0", "identity, gzip;q=0.0"]
    answers = {encoding: service.call("GET", path, Accept_Encoding=encoding) for encoding in encodings}
    assert {answer.status for answer in answers.values()} == {200}
    assert [encoding for encoding, answer in answers.items() if "content-encoding" in answer.headers] == []


@pytest.mark.parametrize("last", [None, 50])
def test_a_view_is_what_the_library_sees(server, views, last):
    query = "" if last is None else f"&last={last}"
    answer = server.call("GET", f"/studies/edge/view?parameter=k{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json == json.loads(json.dumps(views.study("edge", last, "k")))
    packed = server.call("GET", f"/studies/edge/view?parameter=k{query}", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == answer.body


def test_a_trail_comes_a_few_at_a_time(server, views):
    path, missing = "/studies/edge/trail?last=100", []
    while not missing or missing[-1]:
        trail = server.call("GET", path).json
        missing.append(trail["missing"])
    assert len(missing) <= views_module.TRAIL // views_module.TRAIL_AT_ONCE
    assert trail == trail_of(views, 100)[0]


def test_pages_need_no_token_and_what_they_show_does(service):
    for path in (*PAGES, "/static/page.js"):
        for authorization in (None, "Bearer wrong"):
            assert service.call("GET", path, Authorization=authorization).status == 200
    for path in ("/studies", "/studies/edge", "/studies/edge/view", "/studies/edge/trail", "/studies/edge/events"):
        for authorization in (None, "Bearer wrong", f"Bearer {TOKEN}x"):
            answer = service.call("GET", path, Authorization=authorization)
            assert (answer.status, answer.error) == (401, "Unauthorized")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/", "/view/edge", "/static/page.js"):
            assert service.call(method, path, Authorization=None).status == 401


@pytest.mark.parametrize("path", ["/../studies", "/static/../studies", "/view/../studies", "/static/..%2fstudies"])
def test_no_detour_leads_past_the_token(service, path):
    answer = service.call("GET", path, Authorization=None)
    assert (answer.status, answer.error) in ((401, "Unauthorized"), (404, "Not Found"))


@pytest.mark.parametrize("host", [None, "", "evil.com", "127.0.0.1.evil.com", "localhost:80@evil.com", "10.1.2.3"])
def test_a_page_under_another_host_is_refused(server, host):
    for path in (*PAGES, "/static/style.css", "/studies/edge/view", "/studies/edge/trail"):
        answer = server.call("GET", path, Host=host)
        assert (answer.status, answer.error) == (421, "Misdirected Request"), path


@pytest.mark.parametrize("path", [*PAGES, "/static/style.css", "/studies/edge/view", "/studies/edge/trail"])
def test_nothing_can_be_written_to_a_page(server, path):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = server.call(method, path, {})
        assert (answer.status, answer.error) == (405, "Method Not Allowed")
        foreign = server.call(method, path, {}, Origin="http://evil.com")
        assert (foreign.status, foreign.error) == (403, "Forbidden")


def test_a_page_says_which_methods_it_allows(server):
    paths = ["/", "/view/edge", "/static/style.css", "/studies/edge/view", "/studies/edge/trail"]
    allowed = {path: server.call("POST", path, {}).headers["allow"] for path in paths}
    assert allowed == dict.fromkeys(paths, "GET")


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/nothing.js",
        "/static/page.html",
        "/static/../page.html",
        "/static/%2e%2e/page.html",
        "/static/..%2fassets.py",
        "/static/..%5cassets.py",
        "/static/%2fetc%2fpasswd",
        "/static/style.css%00",
        "/static/style.css/",
        "/static",
        "/view",
        "/view/",
        "/view/a/b",
        "/view/a%2fb",
        "/favicon.ico",
    ],
)
def test_other_paths_are_not_found(server, path):
    answer = server.call("GET", path)
    assert (answer.status, answer.error) == (404, "Not Found")


@pytest.mark.parametrize("view", ["view", "trail"])
def test_a_senseless_view_is_refused_in_the_one_shape(server, view):
    for query in ("last=0", "last=-1", "last=abc", "last=1.5", "last=", "last=99999999999999999999"):
        answer = server.call("GET", f"/studies/edge/{view}?{query}")
        assert (answer.status, answer.error) == (422, "ValidationError"), query
    for name in ("nobody", "%00", "%ff", "%F0%9F%8C%8A"):
        answer = server.call("GET", f"/studies/{name}/{view}")
        assert (answer.status, answer.error) == (404, "UnknownStudyError"), name
    for parameter in ("y", "", "%00", "%ff") if view == "view" else ():
        answer = server.call("GET", f"/studies/edge/view?parameter={parameter}")
        assert (answer.status, answer.error) == (422, "ConfigurationError"), parameter


def until(condition):
    """Tells of another process are seen a moment later."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it was never seen")


def test_the_service_shows_what_it_is_told(service):
    space = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
    assert service.call("GET", "/studies/new/view").status == 404
    assert service.call("POST", "/studies", {"name": "new", "space": space, "seed": 0}).status == 201
    until(lambda: service.call("GET", "/studies/new/view").status == 200)
    assert service.call("GET", "/studies/new/view").json["study"]["told"] == 0
    assert service.call("POST", "/studies/new/tell", {"params": {"x": 0.5}, "value": 2.0}).status == 200
    until(lambda: service.call("GET", "/studies/new/view").json["observations"]["value"] == [2.0])
    assert service.call("DELETE", "/studies/new").status == 204
    until(lambda: service.call("GET", "/studies/new/view").status == 404)


@pytest.mark.slow
def test_the_dashboard_lists_and_shows_and_changes_nothing(dashboard, story):
    path = dashboard.folder / "s.db"
    before = path.read_bytes()
    busy, study = dashboard.call("GET", "/studies").json["studies"]
    assert (busy["name"], study["name"], study["told"]) == ("busy", "edge", len(story.history))
    assert dashboard.call("GET", "/studies/edge").json == study
    assert len(dashboard.call("GET", "/studies/edge/observations?limit=3").json["observations"]) == 3
    assert dashboard.call("GET", "/healthz").json["status"] == "ok"
    assert dashboard.call("GET", "/studies/edge/view").json["study"] == study
    writes = [
        ("POST", "/studies", {"name": "new", "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}}}),
        ("POST", "/studies/edge/ask", {}),
        ("POST", "/studies/edge/tell", {"params": {"x": 0.5, "k": 1}, "value": 1.0}),
        ("DELETE", "/studies/edge", None),
    ]
    for method, target, body in writes:
        answer = dashboard.call(method, target, body)
        assert (answer.status, answer.error) in ((405, "Method Not Allowed"), (404, "Not Found")), target
    assert path.read_bytes() == before


@pytest.mark.slow
def test_the_dashboard_sees_what_another_process_tells(dashboard):
    told = dashboard.call("GET", "/studies/busy/view").json["study"]["told"]
    with dashboard.connect() as talk:
        assert talk.say(dashboard.request("GET", "/studies/busy/events"), head_only=True).status == 200
        assert read_chunk(talk.stream) == b"retry: 1000\n\n"
        with closing(eb.Optimizer.open(url(dashboard.folder / "s.db"), "busy")) as opt:
            opt.tell({"x": 0.125}, 0.75)
        event = read_chunk(talk.stream)
    assert b"event: told\n" in event
    assert b'"x": 0.125' in event
    until(lambda: dashboard.call("GET", "/studies/busy/view").json["study"]["told"] == told + 1)
    view = dashboard.call("GET", "/studies/busy/view").json
    assert view["observations"]["line"][-1] == told
    assert view["model"]["relevance"]["line"][-1] == told
