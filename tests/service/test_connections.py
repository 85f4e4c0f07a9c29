"""Bodies that are too long or wrong, and connections that misbehave."""

import contextlib
import socket

import pytest
from helpers.serving import PATIENCE_S, TOKEN, chunked, request
from helpers.speaking import speaking

from ebbtide.service import protocol

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
MIB = 1 << 20


# --- bodies -----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_announced_as_too_long_is_refused_before_it_is_sent(server, routes, untouched):
    for method, path in routes:
        for length in (MIB + 1, 10**15, 10**30):
            answer = server.call(method, path, Content_Length=str(length), Content_Type="application/json")
            assert answer.status in (400, 413), (method, path, answer)  # 400: more than a parser can count
            assert answer.error in ("Bad Request", "Request Entity Too Large", "Content Too Large")
            assert answer.status == 413 or length > 2**63


def test_a_body_that_turns_out_too_long_is_refused(server, routes, untouched):
    part = b" " * (MIB // 4)
    for method, path in routes:
        head = server.request(method, path, Transfer_Encoding="chunked", Content_Type="application/json")
        answer = server.say(head, chunked(part, part, part, part, b" "))
        assert answer.status == 413, (method, path, answer)
        assert answer.headers["connection"] == "close"


def test_a_body_may_be_as_long_as_the_limit(server):
    body = b'{"n": 1' + b" " * (MIB - 8) + b"}"
    assert server.call("POST", "/studies/nobody/ask", body, Content_Type="application/json").status == 404


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/json",
        "application/jsonp",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=json",
        "text/plain; application/json",
        "application/xml",
        "json",
    ],
)
def test_a_body_of_another_content_type_is_refused(server, routes, untouched, kind):
    for method, path in routes:
        answer = server.call(method, path, b'{"name": "form", "space": {}}', Content_Type=kind)
        assert (answer.status, answer.error) == (415, "Unsupported Media Type"), (method, path, answer)


def test_a_second_content_type_is_refused(server, untouched):
    kinds = [("Content-Type", "text/plain"), ("Content-Type", "application/json")]
    own = [("Host", server.host), ("Authorization", f"Bearer {TOKEN}")]
    answer = server.say(request("POST", "/studies", [*own, *kinds], b"{}"))
    assert (answer.status, answer.error) == (400, "Bad Request")


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_the_content_type_of_json_may_be_written_in_several_ways(server, kind):
    assert server.call("POST", "/studies/nobody/ask", b"{}", Content_Type=kind).status == 404


def test_a_request_that_breaks_off_is_not_carried_out(server):
    """An ask needs no body, but one whose announced body did not arrive must not be carried out."""
    before = server.call("GET", "/studies/edge").json["asked"]
    head = server.request("POST", "/studies/edge/ask", Content_Length="10", Content_Type="application/json")
    for part in (b"", b"{}"):
        assert server.say(head, part, half_close=True).status is None
    assert server.call("POST", "/studies/edge/ask").json["id"] == str(before)  # so no ask came before it


def test_a_trailer_is_not_a_header(server):
    body = chunked(b'{"params": {"x": 0.5}, "value": 1.0}')
    trailer = body.removesuffix(b"\r\n") + b"Idempotency-Key: same\r\nHost: evil.com\r\n\r\n"
    head = server.request("POST", "/studies/edge/tell", Transfer_Encoding="chunked", Content_Type="application/json")
    before = server.call("GET", "/studies/edge").json["told"]
    for _ in range(2):
        assert server.say(head, trailer).status == 200
    assert server.call("GET", "/studies/edge").json["told"] == before + 2


@pytest.mark.parametrize(
    "space",
    [
        {"x": {"type": "categorical", "choices": list(range(140_000))}},
        {"x": {"type": "categorical", "choices": [[]] * 250_000}},
        {f"x{i}": {"type": "categorical", "choices": [[]] * 100} for i in range(1800)},
        {f"x{i}": 0 for i in range(60_000)},
        {f"x{i}": SPACE["x"] for i in range(15_000)},
    ],
    ids=["choices", "wrong choices", "wrong choices of many", "wrong parameters", "parameters"],
)
def test_a_space_that_is_far_too_wide_costs_little_to_refuse(server, untouched, space):
    before = server.memory()
    answer = server.call("POST", "/studies", {"name": "wide", "space": space})
    assert answer.status == 422, answer
    assert answer.error in ("ConfigurationError", "SpaceError", "ValidationError")
    assert len(answer.body) < 10_000
    if before is not None:
        assert server.memory() - before < 300 * MIB


@pytest.mark.parametrize(
    "space",
    [{"x" * 70_000: SPACE["x"]}, {"x": {"type": "categorical", "choices": ["a" * 35_000, "b" * 35_000]}}],
    ids=["a name", "choices"],
)
def test_a_space_with_names_that_are_far_too_long_is_refused(server, untouched, space):
    """They would come back with every observation, in pages of ten thousand."""
    answer = server.call("POST", "/studies", {"name": "wordy", "space": space})
    assert (answer.status, answer.error) == (422, "ConfigurationError")
    assert len(answer.body) < 10_000


def test_an_error_does_not_repeat_all_of_a_long_input(server, untouched):
    params = {f"x{i}": "y" * 100 for i in range(7000)}
    answer = server.call("POST", "/studies/edge/tell", {"params": params, "value": 1.0})
    assert (answer.status, answer.error) == (422, "ParameterError")
    assert len(answer.body) < 10_000
    answer = server.call("POST", "/studies/edge/tell", {"params": {"x": "y" * 900_000}, "value": 1.0})
    assert (answer.status, answer.error) == (422, "ParameterError")
    assert len(answer.body) < 10_000


# --- connections ------------------------------------------------------------------------------------------------------


def _idle(server, stack, count):
    for _ in range(count):
        stack.enter_context(server.connect())


def _half_a_head(server, stack):
    for _ in range(50):
        stack.enter_context(server.connect()).send(b"GET /healthz HTTP/1.1\r\nHost: loc")


def _half_a_body(server, stack):
    head = server.request("POST", "/studies/edge/ask", Content_Length="2", Content_Type="application/json")
    for _ in range(50):
        stack.enter_context(server.connect()).send(head, b"{")


def _unread(server, stack):
    for _ in range(20):
        stack.enter_context(server.connect()).send(server.request("GET", "/openapi.json") * 20)


def _hung_up(server, stack):
    for _ in range(50):
        with server.connect() as talk:
            talk.send(server.request("GET", "/studies"))


def _streams(server, stack):
    for _ in range(20):
        stack.enter_context(server.connect()).send(server.request("GET", "/studies/edge/events"))


@pytest.mark.parametrize(
    "misbehave",
    [lambda server, stack: _idle(server, stack, 200), _half_a_head, _half_a_body, _unread, _hung_up, _streams],
    ids=["idle", "half a head", "half a body", "unread", "hung up", "streams"],
)
def test_others_are_served_while_some_keep_their_connections_waiting(server, misbehave):
    with contextlib.ExitStack() as stack:
        misbehave(server, stack)
        assert server.alive()
        assert server.call("POST", "/studies/nobody/ask", {}).status == 404
    assert server.alive()


def test_a_body_may_arrive_byte_by_byte(server):
    with server.connect() as talk:
        body = b'{"n": 1}'
        talk.send(server.request("POST", "/studies/edge/ask", Content_Length="8", Content_Type="application/json"))
        for byte in body[:-1]:
            talk.send(bytes([byte]))
            assert server.alive()
        assert len(talk.say(body[-1:]).json["trials"]) == 1


@pytest.mark.parametrize(
    "bomb",
    [
        [b"X: " + b"a" * MIB] + [b"a" * MIB] * 63,
        [b"X: a\r\n" * (MIB // 6)] * 8,
        [b"a" * MIB] * 16,
        [b"X:" + b" " * MIB] * 16,
    ],
    ids=["a long header", "many headers", "a header's long name", "spaces"],
)
def test_a_head_without_end_is_refused_and_not_kept(server, bomb):
    before = server.memory()
    answer = server.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", *bomb)
    assert answer.status in (400, 431, None), answer  # None: what was still being sent has reset the connection
    assert answer.status is None or answer.error in ("Bad Request", "Request Header Fields Too Large")
    assert server.alive()
    if before is not None:
        assert server.memory() - before < 16 * MIB


def test_a_target_without_end_is_refused_and_not_kept(server):
    before = server.memory()
    assert server.say(b"GET /", *[b"a" * MIB] * 32).status in (400, 414, 431, None)
    assert server.alive()
    if before is not None:
        assert server.memory() - before < 16 * MIB


def test_garbage_after_a_request_is_not_taken_for_another(server, untouched):
    for garbage in (b"\0\1\2\3\r\n\r\n", b"DELETE /studies/edge\r\n\r\n", b"}{\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"):
        with server.connect() as talk:
            first = talk.say(server.request("GET", "/healthz") + garbage)
            assert first.status in (200, 400)
            if first.status == 200:
                answer = talk.hear()
                assert answer.status in (400, 421), answer
                assert answer.error in ("Bad Request", "Misdirected Request")
                assert talk.hear().status is None
    assert server.alive()


def test_a_body_is_never_taken_for_a_request(server, untouched):
    """A proxy may have let it through as one request: then it is one here, too, or it is refused."""
    hidden = server.request("DELETE", "/studies/edge")
    own = [("Host", server.host), ("Authorization", f"Bearer {TOKEN}"), ("Content-Type", "application/json")]
    for lengths in (
        [("Content-Length", "0"), ("Content-Length", str(len(hidden)))],
        [("Content-Length", "0"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding", "chunked, identity")],
        [("Content-Length", "+0")],
        [("Content-Length", "0x0")],
        [("Content-Length", "-1")],
        [("Content-Length ", "0")],
    ):
        with server.connect() as talk:
            answer = talk.say(request("POST", "/studies/nobody/ask", [*own, *lengths]) + hidden)
            assert (answer.status, answer.error) == (400, "Bad Request"), (lengths, answer)
            assert talk.hear().status is None


# --- a head that does not arrive --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient():
    """A server with the service's protocol, which waits only a moment for a head; its port."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    with pytest.MonkeyPatch.context() as patch, speaking(app) as (port, _):
        patch.setattr(protocol, "HEAD_S", 0.1)
        yield port


@pytest.mark.parametrize("after_one", [False, True], ids=["at first", "after a request"])
@pytest.mark.parametrize("begun", [b"\r\n", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_connection_whose_request_does_not_arrive_is_closed(impatient, begun, after_one):
    with socket.create_connection(("127.0.0.1", impatient), timeout=PATIENCE_S) as connection:
        if after_one:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.sendall(begun)
        assert connection.recv(10_000) == b""


def test_a_connection_that_says_nothing_is_closed(impatient):
    with socket.create_connection(("127.0.0.1", impatient), timeout=PATIENCE_S) as connection:
        assert connection.recv(10_000) == b""
