"""What a token allows, from when on, and until when."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.serving import served, storage_of
from helpers.tenants import ADMIN, SPACE, Team, everything, make, shared, take_back

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.service import tokens
from ebbtide.service.middleware import Refusal
from ebbtide.study.storage import Storage
from ebbtide.study.storage.tokens import SCOPES, stored

NAME = "team-a.lathe"
TELL = {"params": {"x": 0.5}, "value": 1.0}
NEW = {"name": "team-a.new", "space": SPACE, "algorithm": "random"}
ROUTES = [  # with the scopes that allow it, beside admin
    ("GET", "/livez", None, SCOPES),
    ("GET", "/readyz", None, SCOPES),
    ("GET", "/healthz", None, SCOPES),
    ("GET", "/openapi.json", None, SCOPES),
    ("GET", "/metrics", None, ["read"]),
    ("GET", "/studies", None, ["read"]),
    ("GET", f"/studies/{NAME}", None, ["read"]),
    ("GET", f"/studies/{NAME}/observations", None, ["read"]),
    ("GET", f"/studies/{NAME}/trials/0", None, ["read"]),
    ("GET", f"/studies/{NAME}/recommend", None, ["read"]),
    ("POST", f"/studies/{NAME}/recommend", {}, ["read"]),
    ("GET", f"/studies/{NAME}/state", None, ["read"]),
    ("GET", f"/studies/{NAME}/events", None, ["read"]),
    ("GET", f"/studies/{NAME}/view", None, ["read"]),
    ("GET", f"/studies/{NAME}/trail", None, ["read"]),
    ("POST", f"/studies/{NAME}/ask", {}, ["ask"]),
    ("POST", f"/studies/{NAME}/tell", TELL, ["tell"]),
    ("POST", "/ask", {"asks": [{"study": NAME}]}, ["ask"]),
    ("POST", "/tell", {"tells": [{"study": NAME} | TELL]}, ["tell"]),
    ("POST", "/studies", NEW, []),
    ("DELETE", "/studies/team-a.new", None, []),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "s.db"
    Storage.of(storage_of(path), create=True).close()
    return path


@pytest.fixture(scope="module")
def made(path):
    """A token for every scope, and two with several."""
    chosen = [*((scope,) for scope in SCOPES), ("ask", "tell"), ("read", "ask", "tell")]
    return {scopes: make(path, scopes, "team-a.*") for scopes in chosen}


@pytest.fixture(scope="module")
def direct(path, made):
    with shared(path) as direct:
        admin = Team(direct, ADMIN)
        assert admin.create(NAME).status == 201
        assert admin.call("POST", f"/studies/{NAME}/ask").status == 200
        assert admin.call("POST", f"/studies/{NAME}/tell", TELL).status == 200
        yield direct


@pytest.mark.parametrize(("method", "end", "body", "allowing"), ROUTES, ids=lambda value: str(value)[:30])
def test_a_token_allows_what_its_scopes_do(direct, made, method, end, body, allowing):
    for scopes, token in made.items():
        answer = Team(direct, token).call(method, end, body)
        if "admin" in scopes or set(scopes) & set(allowing):
            assert answer.status in (200, 201, 204), (scopes, answer)
        else:
            assert (answer.status, answer.error) == (403, "AccessError"), (scopes, answer)
            assert f"only {', '.join(s for s in SCOPES if s in scopes)};" in answer.json["error"]["message"]


def test_a_scope_that_is_missing_is_said_before_anything_of_the_study(direct, made):
    for name in (NAME, "team-a.nobody", "team-b.nobody"):
        answers = [
            Team(direct, made["ask",]).call("POST", f"/studies/{name}/tell", body) for body in (TELL, {"nonsense": 1})
        ]
        assert {answer.status for answer in answers} == {403}


def test_a_wrong_token_is_refused_as_a_missing_one(direct, made):
    good = made["admin",]
    mark, token_id, secret = good.split("_", 2)
    wrong = [
        None,
        "",
        good[:-1],
        f"{good}x",
        good.upper(),
        secret,
        token_id,
        f"{mark}_{token_id}_",
        f"{mark}_{token_id}",
    ]
    wrong += [f"{mark}_00000000_{secret}", f"{mark}__{secret}", "eb_", "_", f"{mark}_{token_id}_{'A' * 43}"]
    said = {Team(direct, token).call("GET", f"/studies/{NAME}").body for token in wrong}
    assert len(said) == 1
    assert all(Team(direct, token).call("GET", f"/studies/{NAME}").status == 401 for token in wrong)


# --- from when on, and until when -------------------------------------------------------------------------------------


def test_a_running_service_notices_new_and_revoked_tokens(direct, path):
    team = Team(direct, everything(path, "team-a.*"))
    team.until(lambda: team.call("GET", "/studies").status == 200)
    assert team.names() == [NAME]
    take_back(path, team.token)
    team.until(lambda: team.call("GET", "/studies").status == 401)
    assert Team(direct, ADMIN).call("GET", "/studies").status == 200


def test_the_streams_of_a_revoked_token_end(direct, path):
    team = Team(direct, everything(path, "team-a.*"))
    team.until(lambda: team.call("GET", "/studies").status == 200)
    headers = [(b"authorization", f"Bearer {team.token}".encode())]
    begun = asyncio.Event()
    parts = []

    async def note(message):
        parts.append(message)
        begun.set()

    async def follow():
        stream = asyncio.create_task(direct.request("GET", f"/studies/{NAME}/events", headers=headers, send=note))
        await begun.wait()
        await asyncio.to_thread(take_back, path, team.token)
        await stream  # it ends; otherwise the helper would lose its patience

    direct.run(follow())
    assert parts[0]["status"] == 200
    assert not parts[-1].get("more_body")


def test_without_any_token_a_service_is_open_and_with_the_first_it_is_not(tmp_path):
    path = tmp_path / "s.db"
    with shared(path, token=None) as direct:
        nobody = Team(direct)
        assert nobody.create("anything").status == 201
        assert nobody.names() == ["anything"]
        team = Team(direct, everything(path, "team-a.*"))
        nobody.until(lambda: nobody.call("GET", "/studies").status == 401)
        assert team.names() == []
        take_back(path, team.token)
        team.until(lambda: team.call("GET", "/studies").status == 401)
        assert nobody.call("GET", "/studies").status == 401  # a service does not open because its last token is gone
    with shared(path, token=None) as direct:
        assert Team(direct).call("GET", "/studies").status == 401  # nor because it was started again


def test_while_tokens_cannot_be_read_their_holders_are_refused(direct, made, path):
    team, admin = Team(direct, made["admin",]), Team(direct, ADMIN)
    assert team.call("GET", "/livez").status == 200
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE tokens RENAME TO hidden")
        try:
            team.until(lambda: team.call("GET", "/livez").status == 503)
            assert team.call("GET", "/livez").headers["retry-after"] == "1"
            assert admin.call("GET", "/studies").status == 200
            assert Team(direct, "eb_00000000_wrong").call("GET", "/livez").status == 401
        finally:
            other.execute("ALTER TABLE hidden RENAME TO tokens")
    team.until(lambda: team.call("GET", "/livez").status == 200)


def test_a_look_that_takes_too_long_counts_as_one_that_failed(path, made, monkeypatch):
    with closing(Storage.of(storage_of(path), read_only=True)) as storage:
        known = tokens.Tokens(ADMIN, stored(storage.database))
    header = f"Bearer {made['read',]}"
    assert known.access(header).prefix == "team-a."

    async def never(query):
        await asyncio.Future()

    async def look():
        watching = asyncio.create_task(known.watch(never))
        await asyncio.sleep(0)
        assert known.access(header).prefix == "team-a."
        monkeypatch.setattr(tokens, "PATIENCE_S", -1.0)
        with pytest.raises(Refusal) as refused:
            known.access(header)
        assert refused.value.status == 503
        assert known.access(f"Bearer {ADMIN}").sees_all
        watching.cancel()

    asyncio.run(look())


def test_the_dashboard_of_a_file_is_for_whoever_can_read_the_file(tmp_path):
    with closing(eb.Optimizer({"x": eb.Float(0, 1)}, storage=storage_of(tmp_path), name="edge")):
        pass
    everything(tmp_path / "s.db", "team-a.*")
    with served(tmp_path, dashboard=True) as server:
        assert [study["name"] for study in server.call("GET", "/studies").json["studies"]] == ["edge"]


# --- where a token is not ---------------------------------------------------------------------------------------------


def test_a_token_is_in_no_file_no_log_no_answer_and_no_list_of_processes(tmp_path):
    with served(tmp_path, "--access-log", token=ADMIN) as server:
        storage = ("--storage", storage_of(tmp_path))
        arguments = ("token", "create", *storage, "--name", "a", "--scope", "admin", "--prefix", "team-a.*")
        token = CliRunner().invoke(ebbtide, arguments).stdout.strip()
        bearer = f"Bearer {token}"
        client = eb.Client(server.url, token, patience=0.0)
        for _ in range(600):
            if server.call("GET", "/studies", Authorization=bearer).status == 200:
                break
            time.sleep(0.05)
        with closing(client):
            study = client.create(NAME, {"x": eb.Float(0, 1)}, algorithm="random")
            study.tell(study.ask(), 1.0)
            with pytest.raises(eb.AccessError, match=r"begin with 'team-a\.'"):
                client.create("team-b.lathe", {"x": eb.Float(0, 1)})
            with pytest.raises(eb.UnknownStudyError, match=r"there is no study 'team-b\.lathe'"):
                client.study("team-b.lathe")
        answers = [
            server.call(method, f"/studies/{name}{end}", Authorization=bearer)
            for method, end in (("GET", ""), ("POST", "/ask"), ("POST", "/tell"), ("GET", "/nowhere"))
            for name in (NAME, "team-b.lathe")
        ]
        secret = token.split("_", 2)[2]
        assert all(secret.encode() not in answer.body for answer in answers)
        assert secret not in server.log
        assert f"token_id={token.split('_')[1]}" in server.log
        processes = [server.process.pid, *server.workers()]
        about = [Path(f"/proc/{pid}/{what}") for pid in processes for what in ("cmdline", "environ")]
        assert all(secret.encode() not in each.read_bytes() for each in about)
        files = [each for each in tmp_path.iterdir() if each.is_file()]
        assert tmp_path / "s.db" in files
        assert [each for each in files if secret.encode() in each.read_bytes()] == []
