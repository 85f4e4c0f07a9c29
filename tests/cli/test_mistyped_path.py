"""A mistyped path of a database is an error that names it; only `create`, `serve` and `tune` make a file."""

import json

import pytest
from click.testing import CliRunner

from ebbtide.cli.commands import ebbtide

NAME = ("--storage", "sqlite:///typo.db", "--name", "edge-7")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A study in tuner.db, and nobody's typo.db."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.json").write_text(json.dumps({"power": {"type": "float", "low": 0.0, "high": 1.0}}))
    created = ("create", "--storage", "sqlite:///tuner.db", "--name", "edge-7", "--space", "space.json")
    assert CliRunner().invoke(ebbtide, created).exit_code == 0
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", *NAME),
        ("ask", *NAME, "-n", "2"),
        ("tell", *NAME, "--id", "0", "--value", "1"),
        ("tell", *NAME, "--params", '{"power": 0.5}', "--value", "1"),
        ("recommend", *NAME),
        ("token", "create", *NAME, "--scope", "read", "--prefix", "*"),
        ("token", "list", *NAME[:2]),
        ("token", "revoke", *NAME[:2], "0a1b2c3d"),
        ("dashboard", "typo.db"),
        ("dashboard", "sqlite:///typo.db"),
        ("report", "typo.db"),
        ("report", "sqlite:///typo.db", "--name", "edge-7"),
    ],
    ids=" ".join,
)
def test_a_mistyped_path_is_named_and_not_created(folder, arguments):
    before = sorted(path.name for path in folder.iterdir())
    done = CliRunner().invoke(ebbtide, arguments)
    assert done.exit_code == 1
    assert "typo.db" in done.output
    assert "Traceback" not in done.output
    assert sorted(path.name for path in folder.iterdir()) == before


def test_what_creates_still_does(folder):
    made = CliRunner().invoke(ebbtide, ("create", *NAME, "--space", "space.json"))
    assert made.exit_code == 0, made.output
    asked = CliRunner().invoke(ebbtide, ("ask", *NAME))
    assert json.loads(asked.stdout)["id"] == "0"
    tuned = ("tune", "--storage", "sqlite:///new.db", "--name", "edge-7", "--space", "space.json", "--trials", "1")
    done = CliRunner().invoke(ebbtide, (*tuned, "--", "echo", "{power}"))
    assert done.exit_code == 0, done.output
    assert (folder / "new.db").is_file()
