"""Clients that do not read what they asked for, against a real server: others are served, and memory is not used up."""

import contextlib
import json
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from helpers.serving import PATIENCE_S, served

import ebbtide as eb

pytestmark = pytest.mark.slow

MIB = 1 << 20
WRITE_S = 2.0  # of the server in these tests
SPACE = {f"{i:02}{'x' * 50}": {"type": "float", "low": 0.0, "high": 1.0} for i in range(100)}
LINES = 500  # of 6 kB each
STATIC = "/static/plotly.min.js"
PAGE = "/studies/long/observations?limit=10000"
EVENTS = "/studies/long/events"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(fill(tmp_path_factory.mktemp("unread"), LINES), env={"WRITE_S": str(WRITE_S)}) as running:
        yield running


def fill(folder, lines):
    """The folder of a database with one study, in which every line is long."""
    storage = f"sqlite:///{folder}/s.db"
    space = {name: eb.Float(0.0, 1.0) for name in SPACE}
    with eb.Optimizer(space, algorithm="random", seed=0, storage=storage, name="long") as optimizer:
        for _ in range(lines):
            optimizer.tell(dict.fromkeys(SPACE, 0.5), 1.0)
    return folder


@contextlib.contextmanager
def unread(server, path, count, **headers):
    """So many connections that ask for something and do not read it; they keep little for themselves."""
    with contextlib.ExitStack() as stack:
        asking = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(PATIENCE_S)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(server.request("GET", path, **headers))
            asking.append(connection)
        yield asking


@contextlib.contextmanager
def begun(server, path, count):
    """The same, each with the beginning of its answer: if too many wait for theirs, one more has to try again."""
    with contextlib.ExitStack() as stack:

        def begins():
            (connection,) = stack.enter_context(unread(server, path, 1))
            return connection.recv(12) == b"HTTP/1.1 200"

        for _ in range(count):
            eventually(begins)
        yield


def sample(server, name):
    """One of the figures for Prometheus."""
    text = server.call("GET", "/metrics").body.decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return 0 if found is None else float(found[1])


def ended(server, reason):
    """How many connections the server has ended for a reason."""
    return sample(server, f'ebbtide_http_ended_connections_total{{reason="{reason}"}}')


def eventually(holds):
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def rest(connection):
    """All that can still be read from it."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("path", [STATIC, PAGE, EVENTS])
def test_a_client_that_does_not_read_is_cut_off(server, path):
    before = ended(server, "unread")
    with unread(server, path, 5, Last_Event_ID="0.0") as asking:
        eventually(lambda: ended(server, "unread") == before + 5)
        for connection in asking:
            got = rest(connection)
            assert got.startswith(b"HTTP/1.1 200 OK\r\n")
            assert len(got) < 2 * MIB
            assert not got.endswith(b"0\r\n\r\n")


def test_the_end_of_an_answer_need_not_be_read_for_a_connection_to_end(server):
    """The system has taken some of it, the rest is shorter than a chunk, and the service has nothing more to do."""
    with contextlib.ExitStack() as stack:
        for limit in range(1, 61):
            path = f"/studies/long/observations?limit={limit}"
            stack.enter_context(unread(server, path, 1, Connection="close"))
        eventually(lambda: sample(server, "ebbtide_http_open_connections") == 1)  # the one that asks


def test_a_client_that_reads_slowly_gets_everything(server):
    with unread(server, PAGE, 1) as (one,):
        got, until = bytearray(), time.monotonic() + 2.0 * WRITE_S
        while not got.endswith(b"0\r\n\r\n"):  # which may come in two parts
            part = one.recv(1 << 15)
            assert part
            got += part
            if time.monotonic() < until:
                time.sleep(0.05)
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(json.loads(unchunked(body))["observations"]) == LINES


def unchunked(body):
    parts = []
    while body:
        length, _, body = body.partition(b"\r\n")
        parts.append(body[: int(length, 16)])
        body = body[int(length, 16) + 2 :]
    return b"".join(parts)


def test_long_pages_that_nobody_reads_cost_little_memory(server):
    page = len(server.call("GET", PAGE).body)
    assert page > 2 * MIB
    before = server.memory()
    if before is None:
        pytest.skip("there is no /proc to read it from")
    with begun(server, PAGE, 80):
        tell = {"params": dict.fromkeys(SPACE, 0.5), "value": 1.0, "idempotency_key": "again"}
        for _ in range(20):
            assert server.call("POST", "/studies/long/tell", tell).status == 200
        assert server.memory() - before < 64 * MIB < 80 * page


def test_event_streams_that_nobody_reads_do_not_keep_others_out(server):
    with begun(server, EVENTS, 110), server.connect() as talk:
        assert talk.say(server.request("GET", EVENTS, Last_Event_ID="0.0"), head_only=True).status == 200
        assert b"retry: 1000\n" in [talk.stream.readline() for _ in range(2)]


def test_clients_that_do_not_read_are_no_error_when_the_service_stops(tmp_path):
    with served(tmp_path) as running:
        assert running.call("POST", "/studies", {"name": "long", "space": SPACE}).status == 201
        with unread(running, STATIC, 3) as asking, unread(running, EVENTS, 3) as streams:
            for connection in (*asking, *streams):
                assert connection.recv(12) == b"HTTP/1.1 200"
            running.process.terminate()
            assert running.process.wait(PATIENCE_S) == -signal.SIGTERM
        assert " ERROR " not in running.log


# --- few descriptors --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scarce(tmp_path_factory):
    folder = fill(tmp_path_factory.mktemp("scarce"), 100)
    with served(folder, env={"SOFT_FILES": "150", "HARD_FILES": "200"}) as running:
        assert running.alive()
        yield running


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="there is no /proc to read it from")
def test_the_soft_limit_of_descriptors_is_raised(scarce):
    limits = Path(f"/proc/{scarce.process.pid}/limits").read_text()
    assert re.search(r"^Max open files +200 +200 ", limits, re.MULTILINE)
    assert "connections=100 " in scarce.log


@pytest.mark.parametrize("what", ["static", "page", "events", "half a head", "nothing", "half a body"])
def test_more_clients_than_descriptors_that_keep_the_service_waiting_do_not_keep_others_out(scarce, what):
    asks = {
        "static": scarce.request("GET", STATIC),
        "page": scarce.request("GET", PAGE),
        "events": scarce.request("GET", EVENTS, Last_Event_ID="0.0"),
        "half a head": b"GET / HTTP/1.1\r\nHost: loc",
        "nothing": b"",
        "half a body": scarce.request("POST", "/studies", Content_Length="2", Content_Type="application/json"),
    }
    before = ended(scarce, "displaced")
    with contextlib.ExitStack() as stack:
        for number in range(250):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", scarce.port), PATIENCE_S))
            connection.sendall(asks[what])
            if number % 50 == 49:
                assert scarce.alive()
        assert scarce.call("POST", "/studies", {"name": what, "space": SPACE}).status == 201
        assert ended(scarce, "displaced") > before + 100
