"""Transactions with parts, whose statements are sent together with others; and news, which are sent with the commit."""

from contextlib import closing, suppress

import psycopg
import pytest
from helpers.studies import TINY

import ebbtide as eb
from ebbtide.study.storage import Storage, postgresql

INSERT = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"


@pytest.fixture
def storage(url):
    with closing(Storage.of(url, create=True)) as opened:
        yield opened


def test_a_part_that_fails_in_the_database_is_undone_alone(storage):
    database = storage.database
    with database.transaction():
        database.run(INSERT, ("before",))
        with suppress(eb.StorageError), database.transaction():
            database.run(INSERT, ("lost",))
            database.run(INSERT, ("before",))  # which is there already
            pytest.fail("it was recorded twice")
        with database.transaction():
            database.run(INSERT, ("after",))
    assert storage.names() == ["after", "before"]


def test_parts_within_parts(storage):
    database = storage.database
    with database.transaction():
        with suppress(KeyboardInterrupt), database.transaction():
            database.run(INSERT, ("lost with what is around it",))
            with database.transaction():
                database.run(INSERT, ("lost",))
            raise KeyboardInterrupt
        with database.transaction():
            with suppress(KeyboardInterrupt), database.transaction():
                raise KeyboardInterrupt
            with suppress(KeyboardInterrupt), database.transaction():
                database.run_many(INSERT, [("lost",), ("lost, too",)])
                raise KeyboardInterrupt
            with database.transaction():
                database.run_many(INSERT, [("a",), ("b",)])
            with database.transaction():
                pass
        with database.transaction():
            assert storage.names() == ["a", "b"]
    assert storage.names() == ["a", "b"]


def test_news_that_cannot_be_sent_lose_nothing(storage, monkeypatch):
    study = eb.Optimizer(TINY, storage=storage, name="edge", seed=0, n_initial=100)
    monkeypatch.setattr(postgresql, "NOTIFY", b"SELECT length(%s) / 0 FROM unnest(%s::text[]) AS name")
    study.tell({"x": 0.5}, 1.0)
    study.tell(study.ask(), 2.0)
    assert [told.value for told in study.history] == [1.0, 2.0]


def test_a_commit_that_fails_is_an_error(server, url, storage):
    """Also if there are news, which were sent with it."""
    study = eb.Optimizer(TINY, storage=storage, name="edge", seed=0, n_initial=100)
    name = url.rpartition("/")[2]
    server.run(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
        CREATE CONSTRAINT TRIGGER refusing AFTER INSERT ON tells DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse()
        """,
        name,
    )
    with pytest.raises(eb.StorageError, match="not today"):
        study.tell({"x": 0.5}, 1.0)
    assert server.run("SELECT count(*) FROM tells", name) == [(0,)]
    server.run("DROP TRIGGER refusing ON tells", name)
    study.tell({"x": 0.5}, 1.0)
    assert study.told == 1


def test_a_study_is_locked_from_the_beginning(server, url, storage):
    """In the message that begins the transaction, so that nothing is read before."""
    eb.Optimizer(TINY, storage=storage, name="edge", seed=0)
    key = postgresql._key("study", "edge")
    with psycopg.connect(url) as other:
        free = b"SELECT pg_try_advisory_xact_lock(%d)" % key
        with storage.log("edge").transaction():
            assert other.execute(free).fetchone() == (False,)
        assert other.execute(free).fetchone() == (True,)


def test_a_transaction_that_has_failed_does_not_pass_for_a_commit(storage):
    """PostgreSQL answers its COMMIT with ROLLBACK, and calls that no error."""

    def catches_an_error(database):
        with database.transaction():
            database.run(INSERT, ("edge",))
            with suppress(eb.StorageError):
                database.run(INSERT, ("edge",))  # which is there already

    with pytest.raises(eb.StorageError, match="rolled back"):
        catches_an_error(storage.database)
    assert storage.names() == []
