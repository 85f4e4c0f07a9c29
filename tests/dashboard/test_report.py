"""`ebbtide report`: one file, taken apart as a browser would."""

import base64
import hashlib
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from helpers.pages import Document
from helpers.stories import SPACE, made, trail_of, url

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.dashboard import assets
from ebbtide.dashboard import excerpt as excerpt_module

NASTY = "</script><script>alert(1)</script>"


@dataclass(frozen=True)
class Mine(eb.UCB):
    """An acquisition of the user's own."""


def report(*arguments, code=0):
    done = CliRunner().invoke(ebbtide, ["report", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    if code:
        assert isinstance(done.exception, SystemExit)
        assert done.output.startswith("Error: ")
    return done.output


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A study whose names look like code."""
    path = tmp_path_factory.mktemp("nasty") / "s.db"
    space = {NASTY: eb.Float(0.0, 1.0), "<!--<script>": eb.Categorical([NASTY, "]]>", "\u2028'\"&amp;\\"])}
    name = "<img src=x onerror=alert(1)> & <script>alert(1)"
    with closing(made(path, steps=0, space=space, name=name, close=False)) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for number in range(9):
            trial = opt.ask()
            opt.tell(trial, trial.params[NASTY], key=f"{NASTY}{number}")
            opt.clock.advance(1.0)
    return SimpleNamespace(path=path, name=name, space=space)


@pytest.fixture(scope="module")
def written(story, nasty, tmp_path_factory):
    """Two reports: of the story, and of the names that look like code; the databases are left as they were."""
    documents = {}
    for kind, path, name in (("story", story.path, "edge"), ("nasty", nasty.path, nasty.name)):
        folder = tmp_path_factory.mktemp(kind)
        copied, out = Path(shutil.copy(path, folder / "s.db")), folder / "page.html"
        before = copied.read_bytes()
        said = report(copied, *(("--name", name) if kind == "story" else ()), "--out", out)
        assert str(out) in said
        assert copied.read_bytes() == before
        left = {each.name for each in folder.iterdir()} - {"s.db", "s.db-shm", "s.db-wal"}
        assert left == {"page.html"}  # and nothing half-written
        documents[kind] = Document(out.read_text(encoding="utf-8"))
    return documents


@pytest.mark.parametrize("kind", ["story", "nasty"])
def test_a_report_fetches_nothing(written, kind):
    page = written[kind]
    links = [(tag, attributes[key]) for tag, attributes in page.tags for key in ("src", "href") if key in attributes]
    assert links
    for tag, address in links:
        assert address.startswith(("#", "data:", "/")), (tag, address)
        assert not address.startswith("//")
        assert tag == "a" or address.startswith("data:"), (tag, address)
    assert not page.tags_of("iframe", "object", "embed", "base", "img", "source", "video")
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]
    assert not [a for _, a in page.tags_of("meta") if a.get("http-equiv") == "refresh"]
    for tag, _, text in page.inline:
        if tag == "style":
            assert not re.search(r"url\(|@import", text)
    policy = page.policy
    assert policy["default-src"] == ["'none'"]
    assert "connect-src" not in policy
    assert policy["img-src"] == ["data:"]
    assert (policy["base-uri"], policy["form-action"]) == (["'none'"], ["'none'"])


@pytest.mark.parametrize("kind", ["story", "nasty"])
def test_a_report_lets_its_own_scripts_run_and_no_others(written, kind):
    page = written[kind]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        own = [text for each, attributes, text in page.inline if each == tag and "type" not in attributes]
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
        assert page.policy[directive] == [f"'sha256-{each}'" for each in hashes]
        assert not any("\r" in text or "\0" in text for text in own)  # which a browser would change before it hashes
    kinds = [attributes.get("type") for tag, attributes, _ in page.inline if tag == "script"]
    assert kinds == ["application/json"] + [None] * len((*assets.SCRIPTS, assets.PLOTLY))
    tags = [tag for tag, a in page.tags if tag in ("script", "style") or a.get("http-equiv")]
    assert tags[0] == "meta"  # a policy counts for what comes after it


def test_names_that_look_like_code_stay_text(written, nasty):
    data = written["nasty"].data
    assert data["name"] == nasty.name
    view = data["lengths"]["all"]["view"]
    assert list(view["study"]["space"]) == list(nasty.space)
    assert view["study"]["space"]["<!--<script>"]["choices"] == list(nasty.space["<!--<script>"].choices)
    assert set(data["lengths"]["all"]["maps"]) == set(nasty.space)
    alike = [len(page.tags) for page in written.values()]
    assert alike[0] == alike[1]  # no name has become an element


def test_a_report_holds_what_the_views_show(written, story, views):
    data = written["story"].data
    assert data["name"] == "edge"
    assert set(data["lengths"]) == {*map(str, excerpt_module.LENGTHS), "all"}
    for last in (250, None):
        part = data["lengths"]["all" if last is None else str(last)]
        for parameter in SPACE:
            model = part["view"]["model"] | {"map": part["maps"][parameter]}
            assert part["view"] | {"model": model} == views.study("edge", last, parameter)
        assert part["trail"] == trail_of(views, last)[0]


def test_a_study_without_a_model_has_a_report(tmp_path):
    made(tmp_path / "s.db", steps=5, algorithm=eb.Algorithm(acquisition=Mine()))
    report(tmp_path / "s.db", "--out", tmp_path / "page.html")
    part = Document((tmp_path / "page.html").read_text(encoding="utf-8")).data["lengths"]["all"]
    assert (part["view"]["model"], part["maps"]) == (None, {})
    assert "Mine" in part["view"]["why"]


def test_of_several_studies_one_must_be_chosen(tmp_path):
    for name in ("edge-7", "edge-8", "edge-9"):
        made(tmp_path / "s.db", steps=0, name=name)
    said = report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert all(word in said for word in ("edge-7", "edge-8", "edge-9", "--name"))
    said = report(tmp_path / "s.db", "--name", "nobody", "--out", tmp_path / "page.html", code=1)
    assert all(word in said for word in ("nobody", "edge-7"))
    assert not (tmp_path / "page.html").exists()
    report(url(tmp_path / "s.db"), "--name", "edge-8", "--out", tmp_path / "page.html")
    assert Document((tmp_path / "page.html").read_text(encoding="utf-8")).data["name"] == "edge-8"


@pytest.mark.parametrize("command", ["report", "dashboard"])
def test_a_missing_file_is_an_error_and_is_not_created(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for file in ("nothing.db", "sqlite:///nothing.db", "folder", str(tmp_path / "no" / "where.db"), ""):
        done = CliRunner().invoke(ebbtide, [command, file])
        assert (done.exit_code, type(done.exception)) == (1, SystemExit)
        assert "does not exist, or is not a file" in done.output
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0 and then nothing"])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    (tmp_path / "s.db").write_bytes(content)
    report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert (tmp_path / "s.db").read_bytes() == content
    assert not (tmp_path / "page.html").exists()


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    made(tmp_path / "s.db", steps=2)
    (tmp_path / "page.html").write_text("old")
    report(tmp_path / "s.db", "--out", tmp_path / "no" / "where.html", code=1)

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    said = report(tmp_path / "s.db", "--out", tmp_path / "page.html", code=1)
    assert "No space left" in said
    assert (tmp_path / "page.html").read_text() == "old"
    left = {each.name for each in tmp_path.iterdir()} - {"s.db-shm", "s.db-wal"}
    assert left == {"s.db", "page.html"}


def test_a_report_is_not_written_over_the_studies(tmp_path):
    """`ebbtide report tuner.db --out tuner.db` is easily typed, and weeks of observations must survive it."""
    path = tmp_path / "s.db"
    made(path, steps=2)
    before = path.read_bytes()
    report(path, "--out", path, code=1)
    assert path.read_bytes() == before
