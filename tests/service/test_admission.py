"""Only so many connections: those that keep the service waiting give way to new ones; the others do not."""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from helpers.serving import PATIENCE_S
from helpers.speaking import speaking

from ebbtide.service import protocol
from ebbtide.service.admission import Admission

PER_ADDRESS, MOST = 3, 5
WORKS, STREAMS, LONG = "/works", "/streams", "/long"
HALF_A_HEAD, HALF_A_BODY = b"GET / HTTP/1.1\r\nHost: loc", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"
begun, given_up = threading.Semaphore(0), threading.Semaphore(0)  # work


async def app(scope, receive, send):
    """Answers when it has the body. The client of `WORKS` gets no answer, that of `STREAMS` only the beginning of one,
    and that of `LONG` more than fits into any buffer.
    """
    while (await receive()).get("more_body"):
        pass
    if scope["path"] in (WORKS, STREAMS):
        if scope["path"] == STREAMS:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        begun.release()
        while (await receive())["type"] != "http.disconnect":
            pass
        given_up.release()
        return
    body = b"ok" if scope["path"] != LONG else bytes(1 << 25)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await asyncio.sleep(0.005)  # as on a busy machine: a client may get the head long before the rest
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def crowd():
    while begun.acquire(blocking=False) or given_up.acquire(blocking=False):
        pass
    admission = Admission(MOST, PER_ADDRESS)
    with speaking(app, admission) as (port, metrics), ExitStack() as stack:
        yield Crowd(port, metrics, admission, stack)


class Crowd:
    def __init__(self, port, metrics, admission, stack):
        self.port, self.metrics, self.admission, self.stack = port, metrics, admission, stack

    def connect(self, address="127.0.0.1", sent=b""):
        found = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S, source_address=(address, 0))
        found.sendall(sent)
        return self.stack.enter_context(found)

    def work(self, address="127.0.0.1", path=WORKS):
        """A connection that the service works for."""
        connection = self.connect(address, request(path))
        assert begun.acquire(timeout=PATIENCE_S)
        return connection

    def count(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"ebbtide_http_{name}", labels)


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def request(path="/"):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def is_served(connection):
    """Whether a request is answered. All of the answer is read: the rest would be taken for that of the next one."""
    connection.sendall(request())
    answer = b""
    while not answer.endswith(b"\r\n\r\nok") and (part := connection.recv(10_000)):
        answer += part
    return answer.startswith(b"HTTP/1.1 200 OK\r\n")


def was_ended(connection):
    """Whether the connection ends, after what was sent before."""
    try:
        while connection.recv(10_000):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def was_refused(connection):
    head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["type"] == "Service Unavailable"
    return head.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1" in head


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "half a head", "half a body"])
def test_a_new_connection_displaces_the_one_that_has_kept_the_service_waiting_longest(crowd, sent):
    old = [crowd.connect(sent=sent) for _ in range(PER_ADDRESS)]
    assert is_served(crowd.connect())
    assert was_ended(old[0])
    assert crowd.count("ended_connections_total", reason="displaced") == 1
    assert is_served(crowd.connect())
    assert was_ended(old[1])
    assert crowd.count("open_connections") == PER_ADDRESS


def test_of_idle_connections_the_one_that_was_not_used_for_longest_is_displaced(crowd):
    first, second, third = (crowd.connect() for _ in range(PER_ADDRESS))
    assert all(map(is_served, (first, second, third, first)))
    assert is_served(crowd.connect())
    assert was_ended(second)
    assert all(map(is_served, (first, third)))


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "half a head", "half a body"])
def test_connections_that_keep_the_service_waiting_do_not_displace_one_that_is_used_now_and_then(crowd, sent):
    used = crowd.connect()
    for _ in range(2 * PER_ADDRESS):
        assert is_served(used)
        crowd.connect(sent=sent)
    assert is_served(used)


def test_a_connection_that_the_service_works_for_is_never_displaced_and_others_are_refused(crowd):
    working = [crowd.work() for _ in range(PER_ADDRESS)]
    assert was_refused(crowd.connect())
    assert is_served(crowd.connect("127.0.0.2"))  # another address
    working.pop().close()
    assert is_served(crowd.connect("127.0.0.1"))


def test_an_answer_that_has_begun_gives_way_if_nothing_else_does(crowd):
    """A stream, or a long page whose client reads it: they may take hours."""
    first, second = (crowd.work(path=STREAMS) for _ in range(PER_ADDRESS - 1))
    working = [crowd.work()]
    for stream in (first, second):
        assert stream.recv(10_000).startswith(b"HTTP/1.1 200 OK\r\n")
        assert is_served(crowd.connect())
        assert was_ended(stream)
        assert is_served(crowd.connect())  # instead of the one that idles
        working.append(crowd.work())
    assert was_refused(crowd.connect())
    for connection in working:
        connection.close()
        assert given_up.acquire(timeout=PATIENCE_S)


def test_a_client_that_does_not_read_gives_way_first_even_if_it_goes_on_asking(crowd):
    assert is_served(idle := crowd.connect())
    unread = [crowd.connect(sent=request(LONG)) for _ in range(PER_ADDRESS - 1)]
    for connection in unread:
        assert connection.recv(12) == b"HTTP/1.1 200"
    until(lambda: len(crowd.admission._owed) == len(unread))  # nothing more fits into the buffers
    for connection in unread:
        connection.sendall(request(WORKS))
    assert is_served(idle)  # by then, those requests have been read
    for _ in unread:
        assert is_served(crowd.connect())
    assert is_served(idle)


def test_one_address_alone_cannot_take_all_connections_and_two_can(crowd):
    for _ in range(2 * MOST):
        crowd.connect()
    others = [crowd.work("127.0.0.2") for _ in range(MOST - PER_ADDRESS)]
    assert is_served(crowd.connect("127.0.0.3"))  # those that wait give way, whatever their address
    for _ in range(PER_ADDRESS):
        others.append(crowd.work(f"127.0.0.{3 + len(others)}"))
    assert was_refused(crowd.connect("127.0.0.99"))
    assert crowd.count("open_connections") <= MOST + 1  # the refused one may still be closing


def test_connections_are_counted(crowd):
    for _ in range(2):
        with crowd.connect() as connection:
            assert is_served(connection)
            assert crowd.count("open_connections") >= 1
    assert crowd.count("connections_total") == 2


def test_the_first_of_several_requests_in_a_row_learns_that_its_client_has_gone(crowd):
    crowd.work().close()
    assert given_up.acquire(timeout=PATIENCE_S)
    for before in (b"", request()):
        with crowd.connect(sent=before + request(WORKS) + request() * 3):
            assert begun.acquire(timeout=PATIENCE_S)
        assert given_up.acquire(timeout=PATIENCE_S)


def test_a_flood_of_requests_on_one_connection_is_not_kept(crowd):
    flood = crowd.connect(sent=request(WORKS) + request() * 2 * protocol.MAX_PIPELINED)
    assert was_ended(flood)
    assert crowd.count("ended_connections_total", reason="flooding") == 1
    few = crowd.connect(sent=request() * protocol.MAX_PIPELINED)
    assert few.makefile("rb").read(10).startswith(b"HTTP/1.1 ")
    assert is_served(crowd.connect())
