"""Behind PgBouncer, which gives a connection to whoever has a transaction, and to another for the next (transaction
mode): everything works but LISTEN, so that news of other replicas are seen within a second, not at once.
"""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from helpers.postgres import PASSWORD, USER, free_port, scratch, unprivileged
from helpers.serving import served
from helpers.studies import TINY

import ebbtide as eb
from ebbtide import testing
from ebbtide.study.storage import Storage

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = 8
"""


@pytest.fixture(scope="module")
def bouncer(server):
    """Its port."""
    with scratch() as folder:
        port, users, file = free_port(), folder / "users.txt", folder / "pgbouncer.ini"
        users.write_text(f'"{USER}" "{PASSWORD}"\n')
        file.write_text(CONFIGURATION.format(server=server.port, port=port, users=users))
        process = subprocess.Popen(
            ["/usr/sbin/pgbouncer", "--quiet", str(file)], stderr=subprocess.DEVNULL, **unprivileged()
        )
        try:
            deadline = time.monotonic() + 30.0
            while True:
                with suppress(psycopg.OperationalError), psycopg.connect(server.url(port=port)):
                    break
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def through(server, url, bouncer):
    return server.url(url.rpartition("/")[2], bouncer)


@pytest.mark.parametrize("check", testing.STORAGE_CHECKS, ids=testing.name_of)
def test_a_storage_behind_it(check, through):
    check(lambda: Storage.of(through, create=True))


def test_two_services_behind_it(through, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        served(tmp_path / "a", storage=through) as first,
        served(tmp_path / "b", storage=through) as second,
        eb.Client(first.url) as one,
        eb.Client(second.url) as other,
        second.connect() as talk,
        ThreadPoolExecutor(1) as pool,
    ):
        study = one.create("edge", TINY, seed=0)
        other.study("edge").tell(study.ask(), 1.0)
        request = second.request("GET", "/studies/edge/events", Last_Event_ID="1.1")
        talk.say(request, head_only=True)
        following = pool.submit(lambda: next(line for line in talk.stream if line.startswith(b"id: ")))
        study.tell({"x": 0.5}, 2.0)
        assert following.result(30.0) == b"id: 1.2\n"
        assert other.study("edge").ask().id == "1"
