"""Where studies are stored, as a URL, whose password nobody else may see."""

import importlib.util

import pytest

import ebbtide as eb
from ebbtide.study.storage import Storage, place_of, shown
from ebbtide.study.storage.pools import options
from ebbtide.study.storage.urls import has_password, without

SECRETS = {
    "postgresql://me:s3cret@host/db": "postgresql://me:***@host/db",
    "postgres://me:s3cret@host:1,other:2/db": "postgres://me:***@host:1,other:2/db",
    "postgresql://:s3cret@host/db": "postgresql://:***@host/db",
    "postgresql://me@host/db?password=s3cret&sslmode=require": "postgresql://me@host/db?password=***&sslmode=require",
    "postgresql://me@host/db?sslpassword=s3cret": "postgresql://me@host/db?sslpassword=***",
    "postgresql://me:s3/cret@host/db": "postgresql://me:***@host/db",
    "postgresql://me:s3@cret@host/db": "postgresql://me:***@host/db",
    "https://me:s3cret@host": "https://me:***@host",
    "host=h user=me password=s3cret dbname=db": "host=h user=me password=*** dbname=db",
    "postgresql+psycopg://me:s3cret@host/db": "postgresql+psycopg://me:***@host/db",
}
PLAIN = ("postgresql://me@host/db", "postgresql:///db", "sqlite:///a:b@c.db", "http://127.0.0.1:8411", "", "x:y@z")


@pytest.mark.parametrize("url", SECRETS)
def test_a_password_is_not_shown(url):
    assert shown(url) == SECRETS[url]
    assert "s3" not in shown(url)


@pytest.mark.parametrize("url", PLAIN)
def test_the_rest_is_shown_as_it_is(url):
    assert shown(url) == url
    assert not has_password(url)


def test_what_is_no_text_is_shown_as_it_is():
    assert shown(None) is None
    assert shown(7) == 7


def test_a_message_loses_the_password_in_either_form():
    url = "postgresql://me:a%40b@host/db"
    assert without("no a@b, no a%40b", url) == "no ***, no ***"
    assert without("as it was", "postgresql://me@host/db") == "as it was"


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:s3@cret@host/db", "postgresql://me:s3cret@host:port/db", "postgresql://me:s3cret@host/db?x=1"],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url):
    with pytest.raises(eb.ConfigurationError, match=r"cannot be read.*%40 for @") as caught:
        options(url)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://me:s3cret@host/db", "postgresql+psycopg://me:s3cret@host/db"])
def test_another_kind_of_database_is_refused_without_its_password(url):
    with pytest.raises(
        eb.ConfigurationError, match=r'give "sqlite:///tuner.db".*or "postgresql://user@host/database"'
    ) as e:
        eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage=url, name="edge")
    assert "s3cret" not in str(e.value)


def test_half_of_a_stored_study_is_refused_without_its_password():
    with pytest.raises(eb.ConfigurationError, match="needs both") as caught:
        eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage="postgresql://me:s3cret@host/db")
    assert "s3cret" not in str(caught.value)


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "psycopg" else there(name))
    with pytest.raises(eb.ConfigurationError, match=r"this needs psycopg: pip install 'ebbtide\[postgres\]'"):
        Storage.of("postgresql://me@127.0.0.1:1/db")


def test_what_a_place_is_called():
    assert place_of("sqlite:///a/b.db") == "a/b.db"
    assert place_of("postgresql://me:s3cret@host/db") == "postgresql://me:***@host/db"
