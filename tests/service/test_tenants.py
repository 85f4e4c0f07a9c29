"""Several teams share a service, and nobody sees anything of another's studies: neither names nor counts.

Every route of the application is tried, so one that is added is tested, too.
"""

import re
import sqlite3
from contextlib import closing
from functools import partial

import pytest
from helpers.serving import storage_of
from helpers.tenants import ADMIN, SPACE, Team, everything, make, shared

from ebbtide.errors import ServiceError
from ebbtide.service import access, routes_read
from ebbtide.service.middleware import Limits
from ebbtide.study.storage import Storage

OWN, UNKNOWN = "team-a.lathe", "team-a.nobody"
FOREIGN, NOWHERE = "team-b.secret", "team-b.nobody"
BODIES = {
    "/studies": lambda name: {"name": name, "space": SPACE, "algorithm": "random"},
    "/ask": lambda name: {"asks": [{"study": name}]},
    "/tell": lambda name: {"tells": [{"study": name, "params": {"x": 0.5}, "value": 1.0}]},
    "/studies/{name}/ask": lambda name: {},
    "/studies/{name}/tell": lambda name: {"params": {"x": 0.5}, "value": 1.0, "idempotency_key": "k"},
    "/studies/{name}/recommend": lambda name: {},
}
PUBLIC = {"/", "/view/{name}", "/static/{name}"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("tenants") / "s.db"
    Storage.of(storage_of(path), create=True).close()
    return path


@pytest.fixture(scope="module")
def tokens(path):
    return everything(path, "team-a.*"), everything(path, "team-b.*")


@pytest.fixture(scope="module")
def direct(path, tokens):
    with shared(path) as direct:
        for team, name in zip(tokens, (OWN, FOREIGN), strict=True):
            both = Team(direct, team)
            assert both.create(name).status == 201
            assert both.create(f"{name}-broken").status == 201
            tell(both, name, 3)
        with closing(Storage.of(storage_of(path))) as other:
            other.database.run("UPDATE studies SET definition = 'nonsense' WHERE name LIKE '%-broken'")
        yield direct


@pytest.fixture
def a(direct, tokens):
    return Team(direct, tokens[0])


@pytest.fixture
def b(direct, tokens):
    return Team(direct, tokens[1])


@pytest.fixture
def admin(direct):
    return Team(direct, ADMIN)


def tell(team, name, times):
    for _ in range(times):
        trial = team.call("POST", f"/studies/{name}/ask").json
        assert team.call("POST", f"/studies/{name}/tell", {"id": trial["id"], "value": 1.0}).status == 200


def routes(direct):
    """(method, path) of every route, also of those that the OpenAPI document leaves out."""
    included = direct.app.app.app.app.routes  # some versions of FastAPI keep routers as they are
    flat = [each for route in included for each in getattr(getattr(route, "original_router", None), "routes", [route])]
    found = [(method, route.path) for route in flat for method in route.methods - {"HEAD"}]
    assert ("GET", "/studies/{name}/view") in found
    assert ("POST", "/studies/{name}/tell") in found
    return sorted(found)


def try_out(team, method, path, name):
    body = BODIES[path](name) if method == "POST" else None
    return team.call(method, path.replace("{name}", name).replace("{trial_id}", "0"), body)


def test_every_route_has_the_scope_that_it_needs(direct):
    assert set(routes(direct)) - {("GET", "/openapi.json")} == access.NEEDS.keys()


def test_a_study_of_another_team_is_answered_as_one_that_does_not_exist(direct, a, b):
    for method, path in routes(direct):
        if "{name}" in path and path not in PUBLIC:
            answers = [try_out(a, method, path, name) for name in (FOREIGN, NOWHERE, UNKNOWN)]
            assert {answer.status for answer in answers} == {404}, (method, path, answers)
            assert {answer.error for answer in answers} == {"UnknownStudyError"}
            named = zip(answers, (FOREIGN, NOWHERE, UNKNOWN), strict=True)
            assert len({answer.body.replace(name.encode(), b"NAME") for answer, name in named}) == 1, answers
            heads = [{k: v for k, v in answer.headers.items() if k != "content-length"} for answer in answers]
            assert heads[0] == heads[1] == heads[2]
    assert FOREIGN in b.names()


def test_a_study_of_another_team_does_not_exist_among_many_either(direct, a, b):
    for path in ("/ask", "/tell"):
        names = (FOREIGN, NOWHERE, UNKNOWN)
        alone = [try_out(a, "POST", path, name).json["answers"] for name in names]
        assert [answer["status"] for (answer,) in alone] == [404] * 3
        assert len({str(answer).replace(name, "NAME") for answer, name in zip(alone, names, strict=True)}) == 1
        kind = path[1:] + "s"
        both = {kind: [BODIES[path](name)[kind][0] for name in (FOREIGN, OWN)]}
        before = b.call("GET", f"/studies/{FOREIGN}").json
        assert [answer["status"] for answer in a.call("POST", path, both).json["answers"]] == [404, 200]
        assert b.call("GET", f"/studies/{FOREIGN}").json == before


def test_no_answer_has_anything_of_another_team(direct, a, b):
    for method, path in routes(direct):
        for name in (OWN, f"{OWN}-broken", UNKNOWN):
            if method == "DELETE" or (method, path) == ("POST", "/studies"):
                continue  # answered with what was given, or with nothing
            answer = try_out(a, method, path, name)
            assert answer.status < 500 or name.endswith("broken"), (method, path, answer)
            assert b"team-b" not in answer.body, (method, path)
            assert b"secret" not in answer.body.replace(b"secrets", b""), (method, path)


def seen(team, direct):
    """Every answer that names no time, as text."""
    answers = {}
    for method, path in routes(direct):
        if method == "GET" and path not in PUBLIC and not path.endswith(("/events", "/recommend", "/view", "/trail")):
            text = try_out(team, method, path, OWN).body.decode()
            answers[path] = re.sub(r"\d{10}\.\d+|1\.\d+e\+09", "TIME", text)
    return answers


def test_what_another_team_does_changes_nothing(direct, a, b, admin):
    before, whole = seen(a, direct), admin.call("GET", "/metrics").body
    assert b.create("team-b.another").status == 201
    tell(b, "team-b.another", 2)
    tell(b, FOREIGN, 1)
    assert b.call("GET", "/studies/team-b.unknown").status == 404
    assert seen(a, direct) == before
    assert admin.call("GET", "/metrics").body != whole
    assert b.call("DELETE", "/studies/team-b.another").status == 204
    assert seen(a, direct) == before


def test_lists_and_metrics_are_those_of_the_team(a, b, admin):
    assert a.names() == [OWN]
    assert b.names() == [FOREIGN]
    assert admin.names() == [OWN, FOREIGN]
    assert a.call("GET", "/studies").json["damaged"] == [{"name": f"{OWN}-broken"}]
    assert len(admin.call("GET", "/studies").json["damaged"]) == 2
    scraped = a.call("GET", "/metrics").body.decode()
    assert "ebbtide_studies 2.0" in scraped
    assert "ebbtide_studies_damaged 1.0" in scraped
    told = a.call("GET", f"/studies/{OWN}").json["told"]
    assert f'ebbtide_told_total{{study="{OWN}"}} {told:.1f}' in scraped
    assert "ebbtide_storage_readable 1.0" in scraped
    for word in ("team-b", "http", "disk", "_seconds_count", "oldest_ask", "write_ahead"):
        assert word not in scraped, word
    assert "ebbtide_http_requests_total" in admin.call("GET", "/metrics").body.decode()


def test_a_study_is_created_only_under_the_prefix(a, b):
    for name in ("team-b.new", FOREIGN, "team-a", "team-ax", "Team-a.x", " team-a.x", "x"):
        answer = a.create(name)
        assert (answer.status, answer.error) == (403, "AccessError"), answer
        assert "begin with 'team-a.'" in answer.json["error"]["message"]
    assert b.names() == [FOREIGN]
    assert a.create("team-a.new").status == 201
    assert a.create("team-a.new").error == "StudyError"
    assert a.call("DELETE", "/studies/team-a.new").status == 204


def test_a_key_is_that_of_a_study(a, b):
    told = {"params": {"x": 0.25}, "value": 2.0, "idempotency_key": "the-same"}
    assert a.create("team-a.keys").status == b.create("team-b.keys").status == 201
    for team, name in ((a, "team-a.keys"), (b, "team-b.keys")):
        assert team.call("POST", f"/studies/{name}/tell", told).status == 200
        assert team.call("GET", f"/studies/{name}").json["told"] == 1
        assert team.call("DELETE", f"/studies/{name}").status == 204


@pytest.mark.parametrize("name", ["team-a.%2e%2e", "TEAM-B.secret", "team-b.secret ", "team-b.secret\0", "team-a"])
def test_no_other_spelling_leads_to_another_study(a, name):
    assert a.call("GET", f"/studies/{name}").status == 404


def test_a_list_begins_where_it_is_told_to_but_never_before_the_prefix(a):
    for after in ("", "a", "team-a", "team-b", "team-b.", "team-b.s", "zzz"):
        found = a.call("GET", "/studies", query=f"after={after}").json
        assert {study["name"] for study in found["studies"]} <= {OWN}, after
        assert {study["name"] for study in found["damaged"]} <= {f"{OWN}-broken"}
        assert found["next"] is None


def test_the_prefixes_of_teams_may_have_the_same_beginning(path, a):
    for prefix, theirs in (("team-*", 2), ("team-a.lathe-*", 0), ("team-a.lathe.*", 0), ("*", 2), ("team-_*", 0)):
        team = Team(a.direct, make(path, ["read"], prefix))
        team.until(partial(lambda team: team.call("GET", "/studies").status == 200, team))
        assert len(team.names()) == theirs, prefix


def test_why_the_service_is_not_ready_is_for_who_runs_it(a, admin, monkeypatch):
    async def fail(self):
        raise ServiceError("team-b has 1234 asks waiting")

    monkeypatch.setattr("ebbtide.service.studies.Studies.check", fail)
    assert "1234" in admin.call("GET", "/readyz").json["error"]["message"]
    for end in ("/readyz", "/healthz"):
        answer = a.call("GET", end)
        assert (answer.status, answer.json["error"]["message"]) == (503, routes_read.NOT_READY)
    assert a.call("GET", "/livez").status == 200


def test_a_failure_that_all_share_names_nobody(a, admin, path, caplog):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE removals RENAME TO hidden")
        try:
            told = {"params": {"x": 0.5}, "value": 1.0}
            for method, end, body in (("GET", "", None), ("POST", "/ask", {}), ("POST", "/tell", told)):
                answer = a.call(method, f"/studies/{OWN}{end}", body)
                if answer.status != 200:
                    assert (answer.status, answer.error) == (503, "StorageError")
                    assert answer.json["error"]["message"].startswith("the database cannot be used at the moment")
        finally:
            other.execute("ALTER TABLE hidden RENAME TO removals")


def test_how_many_studies_there_are_is_not_said_where_there_is_no_room(a, admin, monkeypatch):
    monkeypatch.setattr(Storage, "count", lambda self, prefix="": Limits().studies)
    answer = a.create("team-a.more")
    assert (answer.status, answer.error) == (409, "StudyError")
    assert "no room" in answer.json["error"]["message"]
    assert str(Limits().studies) not in answer.json["error"]["message"]
    assert str(Limits().studies) in admin.create("more").json["error"]["message"]


def test_the_pages_hold_nothing_of_a_study(direct):
    nobody = Team(direct)
    for page in ("/", f"/view/{FOREIGN}", f"/view/{NOWHERE}"):
        answer = nobody.call("GET", page)
        assert answer.status == 200
        assert b"team-" not in answer.body
    assert nobody.call("GET", f"/view/{FOREIGN}").body == nobody.call("GET", f"/view/{NOWHERE}").body
