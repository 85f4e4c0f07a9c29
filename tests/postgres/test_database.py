"""What is particular to PostgreSQL: tables, rights, lost connections, passwords."""

import os
import shutil
import threading
from contextlib import closing, suppress

import psycopg
import pytest
from helpers.postgres import HELD_BY_OTHERS, PASSWORD, proxy
from helpers.studies import TINY

import ebbtide as eb
from ebbtide.study.storage import Storage, schema
from ebbtide.study.storage import tokens as stored
from ebbtide.study.storage.postgresql import PostgresqlDatabase

TODAY = schema.version()


def name_in(url):
    return url.rpartition("/")[2]


def tiny(url, name="edge", **options):
    return eb.Optimizer(TINY, storage=url, name=name, seed=0, n_initial=1000, **options)


def described(server, url):
    """Every column of every table, and the version."""
    columns = server.run(
        "SELECT table_name, column_name, data_type, collation_name FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY 1, 2",
        name_in(url),
    )
    return columns, server.run("SELECT version FROM ebbtide_schema", name_in(url))


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """Migrations of a later ebbtide, with one more step."""
    for kind in ("sqlite", "postgresql"):
        shutil.copytree(schema.MIGRATIONS.parent / kind, tmp_path / kind)
        script = "ALTER TABLE tells ADD COLUMN weight double precision NOT NULL DEFAULT 1.0;"
        (tmp_path / kind / f"{TODAY + 1:04}_next.sql").write_text(script)
    schema.steps.cache_clear()
    monkeypatch.setattr(schema, "MIGRATIONS", tmp_path / "sqlite")
    monkeypatch.setattr(schema, "MIGRATIONS_OF_POSTGRESQL", tmp_path / "postgresql")
    yield tmp_path / "postgresql"
    schema.steps.cache_clear()


# --- tables -------------------------------------------------------------------------------------------------------


def test_both_databases_have_the_same_version():
    assert schema.number(schema.steps(schema.MIGRATIONS_OF_POSTGRESQL)[-1]) == schema.version()


def test_both_databases_have_the_same_columns(server, url, tmp_path):
    import sqlite3

    tiny(url).close()
    tiny(f"sqlite:///{tmp_path / 's.db'}").close()
    there = {(table, column) for table, column, *_ in described(server, url)[0] if table != "ebbtide_schema"}
    with closing(sqlite3.connect(tmp_path / "s.db")) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        here = {
            (t, row[1]) for t in tables if t != "sqlite_sequence" for row in file.execute(f"PRAGMA table_info({t})")
        }
    assert here == there


def test_an_empty_database_is_not_opened_by_mistake(server, url):
    for attempt in (
        lambda: eb.Optimizer.open(url, "edge"),
        lambda: Storage.of(url, read_only=True),
        lambda: Storage.upgrade(url),
    ):
        with pytest.raises(eb.StorageError, match="holds no studies of ebbtide; nothing was changed: check the URL"):
            attempt()
    assert server.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name_in(url)) == [(0,)]


def test_tables_of_another_program_are_left_alone(server, url):
    server.run("CREATE TABLE studies (study_id integer)", name_in(url))
    with pytest.raises(eb.StorageError, match=r"has tables of another program \(studies\).*of its own"):
        tiny(url)
    assert server.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name_in(url)) == [(1,)]


def test_a_schema_of_its_own_is_enough(server, url):
    server.run("CREATE TABLE studies (study_id integer); CREATE SCHEMA own", name_in(url))
    with tiny(f"{url}?options=-csearch_path%3Down") as study:
        study.tell(study.ask(), 1.0)
    assert server.run("SELECT count(*) FROM own.tells", name_in(url)) == [(1,)]


def test_an_older_database_is_upgraded_and_continues(server, url, request):
    with tiny(url) as study:
        study.tell(study.ask(), 1.0)
    request.getfixturevalue("next_version")
    with pytest.raises(eb.StorageError, match=r"written by an older ebbtide.*`ebbtide upgrade`"):
        Storage.of(url, read_only=True)
    assert Storage.upgrade(url) == (TODAY, TODAY + 1)
    assert Storage.upgrade(url) == (TODAY + 1, TODAY + 1)
    with eb.Optimizer.open(url, "edge") as study:
        assert study.ask().id == "1"
    assert server.run("SELECT weight FROM tells", name_in(url)) == [(1.0,)]


def test_a_process_of_the_older_version_goes_on_after_an_upgrade(url, request):
    """So that services can be replaced one by one."""
    with tiny(url) as old:
        old.tell(old.ask(), 1.0)
        request.getfixturevalue("next_version")
        assert Storage.upgrade(url) == (TODAY, TODAY + 1)
        with eb.Optimizer.open(url, "edge") as new:
            new.tell(old.ask(), 2.0)
            old.tell(new.ask(), 3.0)
            assert [line.value for line in old.history] == [line.value for line in new.history] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "bad", ["CREATE TABLE asks (x integer);", "ALTER TABLE tells ADD y integer; SELECT no_such();"]
)
def test_a_step_that_fails_leaves_everything_as_it_was(bad, server, url, request):
    tiny(url).close()
    next_version = request.getfixturevalue("next_version")
    (next_version / f"{TODAY + 2:04}_bad.sql").write_text(bad)
    (next_version.parent / "sqlite" / f"{TODAY + 2:04}_bad.sql").write_text(bad)
    schema.steps.cache_clear()
    before = described(server, url)
    with pytest.raises(eb.StorageError):
        eb.Optimizer.open(url, "edge")
    assert described(server, url) == before


def test_a_newer_database_is_refused_with_the_right_remedy(server, url):
    tiny(url).close()
    server.run("UPDATE ebbtide_schema SET version = 77", name_in(url))
    for attempt in (lambda: tiny(url), lambda: Storage.of(url, read_only=True)):
        with pytest.raises(eb.StorageError, match=r"written by a newer ebbtide \(schema version 77.*upgrade ebbtide"):
            attempt()


def test_many_who_create_the_tables_at_once(server, url):
    barrier, errors = threading.Barrier(8), []

    def create(number):
        try:
            barrier.wait()
            tiny(url, f"s{number}").close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert server.run("SELECT count(*) FROM studies", name_in(url)) == [(8,)]


# --- rights -------------------------------------------------------------------------------------------------------


def test_a_user_who_may_only_read_can_look_and_is_told_why_he_cannot_write(server, url):
    with tiny(url) as study:
        study.tell(study.ask(), 1.0)
    server.run("DROP ROLE IF EXISTS looker; CREATE ROLE looker LOGIN PASSWORD 'l00k'")
    server.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker", name_in(url))
    his = f"postgresql://looker:l00k@127.0.0.1:{server.port}/{name_in(url)}"
    with closing(Storage.of(his, read_only=True)) as storage:
        assert storage.summary("edge").told == 1
        with pytest.raises(eb.StorageError, match="opened only for reading"):
            storage.delete("edge")
    with eb.Optimizer.open(his, "edge") as study, pytest.raises(eb.StorageError, match="the user may not do that"):
        study.tell({"x": 0.5}, 1.0)
    server.run("DROP OWNED BY looker; DROP ROLE looker", name_in(url))


WRONG = {
    "the user or the password is wrong": lambda url: url.replace("s3cret", "wr0ng"),
    "there is no such database; create it": lambda url: url.replace("/test", "/no-such-test"),
    "it cannot be reached; does it run": lambda url: "postgresql://me:s3cret@127.0.0.1:1/db",
}


@pytest.mark.parametrize("why", WRONG)
def test_whoever_cannot_connect_is_told_why_and_no_password(url, why, monkeypatch):
    monkeypatch.setattr("ebbtide.study.storage.postgresql.PATIENCE_S", 0.5)
    with pytest.raises(eb.StorageError, match=why) as caught:
        Storage.of(WRONG[why](url))
    said = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert all(secret not in said for secret in ("s3cret", "wr0ng", PASSWORD))


def test_a_password_is_in_no_representation(url):
    with tiny(url) as study:
        for shown in (
            repr(study),
            repr(study._log),
            repr(study._log.database),
            str(vars(study._log.database)["place"]),
        ):
            assert "s3cret" not in shown


# --- connections --------------------------------------------------------------------------------------------------


def test_connections_that_were_ended_meanwhile_are_replaced(server, url):
    with tiny(url) as study:
        for _ in range(3):
            study.tell(study.ask(), 1.0)
            assert server.end_backends() >= 1
        assert (study.asked, study.told) == (3, 3)


def test_a_tell_whose_commit_was_cut_is_recorded_once(server, url):
    with proxy(server.port) as between, tiny(server.url(name_in(url), between.port)) as study:
        trial = study.ask()
        for number, told in enumerate(((trial, 1.0), ({"x": 0.5}, 2.0))):
            between.cut_at = b"COMMIT"
            with pytest.raises(eb.StorageError, match="the connection was lost, but the change may be recorded"):
                study.tell(*told, key=f"key {number}" if number else None)
            assert between.cut_at is None
            study.tell(*told, key=f"key {number}" if number else None)
        assert [line.value for line in study.history] == [1.0, 2.0]
        assert study.ask().id == "1"


def test_an_ask_whose_commit_was_cut_is_not_lost(server, url):
    with proxy(server.port) as between, tiny(server.url(name_in(url), between.port)) as study:
        between.cut_at = b"COMMIT"
        with pytest.raises(eb.StorageError, match="the change may be recorded"):
            study.ask()
        assert study.ask().id == "1"
        assert [trial.id for trial in study.pending_trials] == ["0", "1"]


def test_a_server_that_was_killed_and_comes_back(server, url):
    with tiny(url) as study:
        study.tell(study.ask(), 1.0)
        server.kill()
        server.start()
        study.tell(study.ask(), 2.0)
        assert [line.value for line in study.history] == [1.0, 2.0]


def test_studies_of_one_process_share_connections(server, url):
    studies = [tiny(url, f"s{number}") for number in range(40)]
    for study in studies:
        study.tell(study.ask(), 1.0)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ebbtide'"
    assert server.run(query)[0][0] <= 2
    for study in studies:
        study.close()
    with suppress(psycopg.Error):  # the last who leaves closes them
        for _ in range(100):
            if server.run(query) == [(0,)]:
                break
    assert server.run(query) == [(0,)]


def test_nothing_stays_locked_after_an_error(server, url):
    with tiny(url) as study:
        with suppress(KeyboardInterrupt), study._log.transaction():
            assert server.run(HELD_BY_OTHERS) == [(1,)]
            raise KeyboardInterrupt
        assert server.run(HELD_BY_OTHERS) == [(0,)]


def test_no_lock_is_held_while_a_model_is_worked_out(server, url, monkeypatch):
    """Other than the turn of who insists, for which nobody waits who tells."""
    from ebbtide.study.asks import Plan

    seen, step = [], Plan.step
    monkeypatch.setattr(Plan, "step", lambda plan: seen.extend(server.run(HELD_BY_OTHERS)) or step(plan))
    with tiny(url) as study:
        study.ask()
    assert seen == [(0,)]


def test_studies_are_locked_together_or_not_at_all(url):
    """One by one, in one of the two orders, two processes could wait for each other."""
    with tiny(url) as study:
        database, refused = study._log.database, list[str]()
        for order in (("edge", "other"), ("other", "edge")):
            try:
                with database.transaction(order[:1]), database.transaction(order[1:]):
                    pass
            except eb.StorageError as error:
                refused.append(str(error))
        assert len(refused) == 1
        assert "several studies must be locked at once" in refused[0]


def test_what_was_closed_says_how_to_go_on(url):
    study, other = tiny(url), tiny(url)
    study.close()
    other.tell({"x": 0.5}, 1.0)  # which uses the same connections
    other.close()
    with pytest.raises(eb.StorageError, match=r"was closed; open the study again: eb.Optimizer.open"):
        study.tell({"x": 0.5}, 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_must_open_it_again(url):
    with tiny(url) as study:
        child = os.fork()
        if child == 0:
            try:
                study.tell({"x": 0.5}, 1.0)
            except eb.StorageError as error:
                os._exit(7 if "before a fork; open it again" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        study.tell({"x": 0.5}, 1.0)
        assert study.told == 1


def test_tokens_and_numbers_survive_the_server(server, url):
    with closing(Storage.of(url, create=True)) as storage:
        assert isinstance(storage.database, PostgresqlDatabase)
        secret, made = stored.create(storage.database, "a", ["read"], "*")
        server.kill()
        server.start()
        assert stored.stored(storage.database) == [made]
        assert stored.digest(secret) == made.digest
