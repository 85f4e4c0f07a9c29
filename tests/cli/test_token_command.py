"""`ebbtide token create`, `list` and `revoke`."""

import json
import re

import pytest
from click.testing import CliRunner

from ebbtide.cli.commands import ebbtide
from ebbtide.study.storage import Storage


@pytest.fixture
def token(tmp_path, monkeypatch):
    """The command, with a database."""
    monkeypatch.setenv("EBBTIDE_STORAGE", f"sqlite:///{tmp_path}/s.db")
    Storage.of(f"sqlite:///{tmp_path}/s.db", create=True).close()
    return lambda *words: CliRunner().invoke(ebbtide, ["token", *words])


def create(token, *scopes, name="gateway", prefix="team-a.*"):
    chosen = [word for scope in scopes for word in ("--scope", scope)]
    return token("create", "--name", name, "--prefix", prefix, *chosen)


def listed(token):
    return json.loads(token("list").stdout)["tokens"]


def test_a_token_is_created_listed_and_revoked(token):
    done = create(token, "tell", "ask")
    assert re.fullmatch(r"eb_[0-9a-f]{8}_[\w-]{43}\n", done.stdout)
    assert "for team-a.*: tell, ask" in done.stderr
    (found,) = listed(token)
    assert (found["name"], found["scopes"], found["prefix"]) == ("gateway", ["tell", "ask"], "team-a.*")
    assert found["revoked"] is None
    assert found["id"] == done.stdout.split("_")[1]
    for _ in range(2):
        assert json.loads(token("revoke", found["id"]).stdout) == {"revoked": found["id"]}
    (again,) = listed(token)
    assert again["revoked"] >= found["created"]
    assert again | {"revoked": None} == found


def test_each_token_is_another(token):
    made = {create(token, "read", prefix="*").stdout for _ in range(20)}
    assert len(made) == len({one["id"] for one in listed(token)}) == 20
    assert [one["prefix"] for one in listed(token)] == ["*"] * 20


@pytest.mark.parametrize(
    ("prefix", "why"),
    [
        ("team-a", "and a star, such as 'team-a.*'"),
        ("", "and a star"),
        ("te*m.*", "and a star"),
        ("**", "and a star"),
        ("a\n.*", "and a star"),
        ("x" * 100 + ".*", "and a star"),
        ("team-a*", "would include names such as 'team-ab': end the prefix with a separator, such as 'team-a.*'"),
    ],
)
def test_a_prefix_that_means_something_else_is_refused(token, prefix, why):
    done = create(token, "read", prefix=prefix)
    assert done.exit_code == 1
    assert why in done.stderr
    assert listed(token) == []


def test_a_token_needs_a_scope_and_a_name(token):
    assert "--scope" in create(token).stderr
    assert "'write' is not one of" in create(token, "write").stderr
    assert "give 1 to 100 printable characters" in create(token, "read", name=" ").stderr
    assert listed(token) == []


def test_only_a_token_that_exists_can_be_revoked_and_none_is_repeated(token):
    assert "there is no token with the id '0a1b2c3d'" in token("revoke", "0a1b2c3d").stderr
    secret = create(token, "read").stdout.strip()
    done = token("revoke", secret)
    assert done.exit_code == 1
    assert "give the id of the token" in done.stderr
    assert secret not in done.output


def test_a_service_is_no_database(token, monkeypatch):
    done = token("list", "--storage", "http://127.0.0.1:8411")
    assert done.exit_code == 1
    assert "sqlite:///" in done.stderr
