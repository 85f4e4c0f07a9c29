"""The studies, a page at a time."""

import sqlite3
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest
from helpers.direct import running
from helpers.serving import storage_of

import ebbtide as eb
from ebbtide.study.storage import Storage

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def direct(path):
    with running(path) as direct:
        yield direct


def create(direct, path, names):
    """One through the service, and copies of it."""
    first, *others = names
    assert direct.call("POST", "/studies", {"name": first, "space": SPACE, "algorithm": "random"}).status == 201
    with closing(Storage.of(storage_of(path))) as other:
        copy = "INSERT INTO studies (name, created, definition) SELECT ?, created, definition FROM studies LIMIT 1"
        other.database.run_many(copy, [(name,) for name in others])


def pages(direct, limit):
    found, after = [], None
    while after is not None or not found:
        query = f"limit={limit}" + ("" if after is None else f"&after={quote(after, safe='')}")
        page = direct.call("GET", "/studies", query=query)
        assert page.status == 200, page
        found.append(sorted(study["name"] for kind in ("studies", "damaged") for study in page.json[kind]))
        after = page.json["next"]
        assert len(found) < 100
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 1000])
def test_every_study_is_on_one_page(direct, path, limit):
    names = sorted(["a", "B", "b c", "d&e=f", "ü", "😀", "z?#"])
    create(direct, path, names)
    found = pages(direct, limit)
    assert [name for page in found for name in page] == names
    assert all(len(page) == limit for page in found[:-1])
    assert 0 < len(found[-1]) <= limit


def test_a_page_begins_after_a_name_even_if_its_study_is_gone(direct, path):
    create(direct, path, ["a", "b", "c", "d"])
    assert direct.call("GET", "/studies", query="limit=2").json["next"] == "b"
    assert direct.call("DELETE", "/studies/b").status == 204
    page = direct.call("GET", "/studies", query="limit=2&after=b").json
    assert [study["name"] for study in page["studies"]] == ["c", "d"]
    assert page["next"] is None


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-1", f"after={'x' * 101}"])
def test_a_page_that_makes_no_sense_is_refused(direct, query):
    assert direct.call("GET", "/studies", query=query).error == "ValidationError"


def test_a_damaged_study_has_its_place(direct, path):
    create(direct, path, ["a", "b", "c", "d", "e"])
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE studies SET definition = 'nonsense' WHERE name = 'b'")
        other.execute("UPDATE studies SET name = CAST(x'63ff' AS TEXT) WHERE name = 'c'")
        other.commit()
    assert [name for page in pages(direct, 1) for name in page] == ["a", "b", "c\\xff", "d", "e"]


def test_a_list_is_bounded_and_the_client_has_all_of_it(direct, path, monkeypatch):
    names = [f"edge-{number:04}" for number in range(1203)]
    create(direct, path, names)
    page = direct.call("GET", "/studies").json
    assert ([study["name"] for study in page["studies"]], page["next"]) == (names[:100], names[99])
    asked = []

    def call(self, method, target, body=None):
        asked.append(target)
        return direct.call(method, urlsplit(target).path, body, query=urlsplit(target).query).json

    monkeypatch.setattr(eb.Client, "call", call)
    assert [study["name"] for study in eb.Client("http://127.0.0.1:8411").studies()] == names
    assert len(asked) == 3


def test_a_client_of_an_older_service_has_its_only_page(monkeypatch):
    monkeypatch.setattr(eb.Client, "call", lambda *request: {"studies": [{"name": "a"}], "damaged": []})
    assert eb.Client("http://127.0.0.1:8411").studies() == [{"name": "a"}]
