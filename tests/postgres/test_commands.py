"""Every command that takes a storage takes PostgreSQL."""

import json
import os
import subprocess
import sys

import pytest
from helpers.studies import TINY

import ebbtide as eb

SPACE = '[x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'


@pytest.fixture
def run(url, tmp_path):
    """The command with the storage in the environment; its stdout, once it has succeeded."""
    (tmp_path / "space.toml").write_text(SPACE)

    def run(*arguments, succeeds=True, storage=url):
        environment = os.environ | {"EBBTIDE_STORAGE": storage, "XDG_STATE_HOME": str(tmp_path), "PGPASSWORD": ""}
        done = subprocess.run(
            [sys.executable, "-m", "ebbtide", *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode == 0) is succeeds, done.stderr
        assert "s3cret" not in done.stdout + done.stderr
        return done.stdout if succeeds else done.stderr

    return run


def without_password(url):
    return url.replace(url[url.index(":", 12) : url.index("@")], "")


def test_create_ask_tell_and_recommend(run):
    run("create", "--name", "edge", "--space", "space.toml")
    trial = json.loads(run("ask", "--name", "edge"))
    run("tell", "--name", "edge", "--id", str(trial["id"]), "--value", "1.5")
    assert json.loads(run("recommend", "--name", "edge"))["params"].keys() == {"x"}


def test_tune(run, url, tmp_path):
    command = ["--", sys.executable, "-c", "import sys; print(float(sys.argv[1]) ** 2)", "{x}"]
    run("tune", "--name", "edge", "--space", "space.toml", "--trials", "3", *command)
    with eb.Optimizer.open(url, "edge") as study:
        assert (study.asked, study.told) == (3, 3)
    claims = [path.read_text() for path in tmp_path.rglob("*tune-*") if path.is_file()]
    assert all("s3cret" not in claim for claim in claims)


def test_tokens(run):
    run("create", "--name", "edge", "--space", "space.toml")
    secret = run("token", "create", "--name", "a", "--scope", "read", "--prefix", "*").strip()
    (listed,) = json.loads(run("token", "list"))["tokens"]
    assert secret.startswith(f"eb_{listed['id']}_")
    run("token", "revoke", listed["id"])
    assert json.loads(run("token", "list"))["tokens"][0]["revoked"] is not None


def test_report_and_upgrade(run, url, tmp_path, monkeypatch):
    with eb.Optimizer(TINY, storage=url, name="edge", seed=0) as study:
        for _ in range(5):
            study.tell(study.ask(), 1.0)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"127.0.0.1:*:*:ebbtide:{'s3cret/w0rd@home'}\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(secrets))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    environment = {name: value for name, value in os.environ.items() if name != "PGPASSWORD"}
    for arguments in (["report", without_password(url), "--out", "r.html"], ["upgrade", without_password(url)]):
        done = subprocess.run(
            [sys.executable, "-m", "ebbtide", *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert "has schema version" in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert "edge" in page
    assert "s3cret" not in page


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--storage"],
        ["ask", "--name", "edge", "--storage"],
        ["token", "list", "--storage"],
        ["dashboard"],
        ["report"],
        ["upgrade"],
    ],
)
def test_a_password_on_the_command_line_is_refused(run, url, arguments):
    said = run(*arguments, url, succeeds=False)
    assert "can see a password on the command line; keep it in ~/.pgpass" in " ".join(said.split())


def test_a_server_that_is_away_is_named_without_its_password(run):
    said = run("ask", "--name", "edge", succeeds=False, storage="postgresql://me:s3cret@127.0.0.1:1/db")
    assert "postgresql://me:***@127.0.0.1:1/db: it cannot be reached; does it run?" in " ".join(said.split())
