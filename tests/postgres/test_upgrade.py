"""A database of schema version 4 is upgraded as a file is, and goes on with the same asks."""

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from helpers.copying import expect_the_same, studies_of_all_kinds
from helpers.counts import check_counts
from helpers.studies import url as url_of_file

import ebbtide as eb
from ebbtide.study.storage import Storage, schema

FILE = Path(__file__).parents[1] / "study" / "data" / "v4.db"
TABLES = ("studies", "asks", "tells", "removals")


@pytest.fixture
def old(url):
    """The URL of a database of version 4, with the studies of the file."""
    script = next(step for step in schema.steps(schema.MIGRATIONS_OF_POSTGRESQL) if schema.number(step) == 4)
    with psycopg.connect(url) as connection, closing(sqlite3.connect(f"file:{FILE}?immutable=1", uri=True)) as file:
        connection.execute(script.read_bytes())
        connection.execute("CREATE TABLE ebbtide_schema (version integer NOT NULL)")
        connection.execute("INSERT INTO ebbtide_schema (version) VALUES (4)")
        for table in TABLES:
            rows = file.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            marks = ", ".join("%s::int::boolean" if name == "abandoned" else "%s" for name in names)
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
            connection.cursor().executemany(insert.encode(), rows.fetchall())
    return url


@pytest.fixture
def file(tmp_path):
    """The URL of the same studies in a file, which was upgraded."""
    shutil.copy(FILE, tmp_path)
    assert Storage.upgrade(url_of_file(tmp_path / "v4.db"), copy=False) == (4, schema.version())
    return url_of_file(tmp_path / "v4.db")


def test_a_database_of_version_4_is_upgraded_as_a_file_is(old, file):
    assert Storage.upgrade(old) == (4, schema.version())
    with closing(Storage.of(old)) as there, closing(Storage.of(file)) as here:
        check_counts(there)
        expect_the_same(here, there)
        check_counts(there)


def test_an_upgrade_that_fails_leaves_everything_as_it_was(server, old):
    name = old.rpartition("/")[2]
    server.run("CREATE TABLE active (somebody_elses integer)", name)
    queries = (
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
        "SELECT * FROM ebbtide_schema",
        *(f"SELECT * FROM {table} ORDER BY 1, 2" for table in TABLES),
    )
    before = [server.run(query, name) for query in queries]
    with pytest.raises(eb.StorageError, match="active"):
        Storage.upgrade(old)
    assert [server.run(query, name) for query in queries] == before


def test_whoever_writes_while_it_is_upgraded_is_counted(old):
    """A process of an older ebbtide, whose transaction is open when the upgrade begins."""
    line = """
        INSERT INTO tells (study, line, asks, reading, params, time, value)
        SELECT study, max(line) + 1, max(asks), max(reading), max(params), max(time), 1.0 FROM tells GROUP BY study
    """
    with psycopg.connect(old) as connection:
        connection.execute(line)
        upgrade = threading.Thread(target=Storage.upgrade, args=(old,))
        upgrade.start()
        upgrade.join(0.5)
        assert upgrade.is_alive()  # it waits for the transaction
    upgrade.join()
    with psycopg.connect(old) as connection:
        connection.execute(line)
    with closing(Storage.of(old)) as storage:
        check_counts(storage)


def test_whoever_could_read_or_write_still_can(server, old):
    name = old.rpartition("/")[2]
    server.run('DROP ROLE IF EXISTS looker; DROP ROLE IF EXISTS "Te ller"')
    server.run("""CREATE ROLE looker LOGIN PASSWORD 'l00k'; CREATE ROLE "Te ller" LOGIN PASSWORD 't3ll'""")
    server.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker", name)
    server.run('GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO "Te ller"', name)
    Storage.upgrade(old)
    looker, teller = (f"postgresql://{who}@127.0.0.1:{server.port}/{name}" for who in ("looker:l00k", "Te%20ller:t3ll"))
    with closing(Storage.of(looker, read_only=True)) as storage:
        assert len(storage.page("sliding-window", 0, 1000, active=True).observations) == 102
    with eb.Optimizer.open(teller, "sliding-window", clock=eb.ManualClock(300.0)) as study:
        study.tell(study.ask(), 1.0)
        assert study.told == 126
    server.run('DROP OWNED BY looker, "Te ller"', name)
    server.run('DROP ROLE looker, "Te ller"')


def test_every_row_says_how_much_came_before_it(url):
    with closing(Storage.of(url, create=True)) as storage:
        studies_of_all_kinds(storage)
        check_counts(storage)
        for name in storage.names():
            storage.delete(name)
        assert storage.database.rows("SELECT * FROM active") == []
