"""The client, when there is no service, or something else in its place."""

import http.server
import socket
import threading
from contextlib import closing

import pytest
from helpers.serving import SOURCES, TOKEN

import ebbtide as eb
from ebbtide.errors import ServiceError


def test_a_service_that_cannot_be_reached_is_an_error():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody listens at this port, nor can anybody else
        client = eb.Client(f"http://127.0.0.1:{silent.getsockname()[1]}", patience=0.0)
        with closing(client), pytest.raises(eb.ServiceError, match="cannot be reached"):
            client.studies()


@pytest.fixture(scope="module")
def impostor():
    """A server that answers every request with what it is given."""

    class Impostor(http.server.ThreadingHTTPServer):
        says: tuple[int, dict[str, str], bytes]
        heard: list[str]

    class Handler(http.server.BaseHTTPRequestHandler):
        server: Impostor

        def do_GET(self):
            status, headers, body = self.server.says
            self.server.heard.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with Impostor(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (307, b""),
        (302, b"{}"),
        (500, b"<html>"),
        (404, b"[]"),
        (422, b'{"error": 1}'),
        (422, b'{"error": {"type": 1, "message": "x"}}'),
        (422, b'{"error": {"type": "__class__", "message": "x"}}'),
        (422, b'{"error": {"type": "BaseException", "message": "x"}}'),
        (422, b'{"error": {"type": [], "message": {}}}'),
        (401, b"\xff"),
    ],
)
def test_the_client_believes_no_nonsense_and_follows_no_redirect(impostor, status, body):
    impostor.heard = []
    impostor.says = (status, {"Location": f"http://127.0.0.1:{impostor.server_port}/elsewhere"}, body)
    client = eb.Client(f"http://127.0.0.1:{impostor.server_port}", TOKEN, patience=0.0)
    with closing(client), pytest.raises(ServiceError, match=f"answered {status}") as raised:
        client.studies()
    assert impostor.heard == ["/studies"]
    assert TOKEN not in str(raised.value)
    assert SOURCES not in str(raised.value)
