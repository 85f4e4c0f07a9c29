"""Families on the command line, and in the file of a space."""

import pytest
from click.testing import CliRunner

import ebbtide as eb
from ebbtide.cli.commands import ebbtide

SPACE = '[x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "family.toml").write_text(SPACE + '[study]\nfamily = "edge"\n')
    return tmp_path


def create(name, *options):
    command = ["create", "--storage", "sqlite:///tuner.db", "--name", name, *options]
    return CliRunner().invoke(ebbtide, command)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--space", "space.toml"), None),
        (("--space", "space.toml", "--family", "edge"), "edge"),
        (("--space", "family.toml"), "edge"),
        (("--space", "family.toml", "--family", "cloud"), "cloud"),
    ],
)
def test_a_family_comes_from_the_file_or_the_command_line(folder, options, expected):
    assert create("team-a.7", *options).exit_code == 0
    with eb.Optimizer.open("sqlite:///tuner.db", "team-a.7") as opt:
        assert opt.definition.family == expected


def test_a_bad_family_is_refused(folder):
    answer = create("team-a.7", "--space", "space.toml", "--family", "a/b")
    assert answer.exit_code != 0
    assert "family='a/b': give 1 to 100 printable characters" in answer.output


def test_tune_measures_a_study_of_a_family(folder):
    words = ["--storage", "sqlite:///tuner.db", "--name", "team-a.7", "--space", "family.toml"]
    answer = CliRunner().invoke(ebbtide, ["tune", *words, "--trials", "2", "--", "echo", "{x}"])
    assert answer.exit_code == 0, answer.output
    with eb.Optimizer.open("sqlite:///tuner.db", "team-a.7") as opt:
        assert (opt.definition.family, opt.told) == ("edge", 2)
