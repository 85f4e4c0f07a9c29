"""One evaluation by an endpoint: its value, what may go wrong, and that it has no more than its time."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from helpers.tuning import AMPLE, SHORT, interrupt_this

from ebbtide.tuning import Outcome, evaluator, read_metric

pytestmark = pytest.mark.usefixtures("little_grace")

PAGES = {
    "/number": b"log\n 2.5 \n\n",
    "/json": b'{\n  "value": 3,\n  "unit": "dB"\n}\n',
    "/text": b"all is well",
    "/nan": b"NaN",
    "/junk": bytes(range(128, 256)),
    "/empty": b"",
    "/largest": b" " * (2**20 - 1) + b"5",
    "/huge": b"1\n" * 2**20,
}
REDIRECTS = {
    "/redirect": "/number",
    "/to-file": "file:///etc/hostname",
    "/to-ftp": "ftp://localhost/",
    "/to-nothing": "https:///",
    "/loop": "/loop",
}


class Endpoint(BaseHTTPRequestHandler):
    def do_GET(self):
        path = urlsplit(self.path).path
        if path in PAGES:
            self._answer(200, PAGES[path])
        elif path in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[path])
            self.end_headers()
        elif path == "/query":
            self._answer(200, parse_qs(urlsplit(self.path).query)["power"][0].encode())
        else:
            getattr(self, path[1:])()

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def ago(self):
        """How long ago a file was written."""
        written = os.stat(parse_qs(urlsplit(self.path).query)["file"][0]).st_mtime
        self._answer(200, str(time.time() - written).encode())

    def broken(self):
        self._answer(500, b"1.0")

    def rude(self):
        self.wfile.write(b"1.0\r\n")

    def torn(self):
        self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n1")

    def silent(self):
        self.connection.recv(1)

    def interrupts(self):
        interrupt_this()
        self.silent()

    def drips(self):
        self.send_response(200)
        self.end_headers()
        self._drip()

    def drips_headers(self):
        self.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
        self._drip()

    def endless(self):
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b"1\n" * 10_000)

    def _drip(self):
        while True:
            self.wfile.write(b"1")
            time.sleep(0.02)

    def handle(self):
        try:
            super().handle()
        except OSError:
            self.close_connection = True  # the reader has gone, as it should

    def finish(self):
        try:
            super().finish()
        except OSError:
            self.rfile.close()

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for them: a request that never ends would be noticed


@pytest.fixture(scope="module")
def host():
    with Server(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "value"), [("/number", 2.5), ("/json", 3.0), ("/redirect", 2.5), ("/largest", 5.0), ("/number#top", 2.5)]
)
def test_the_value_is_read_from_an_endpoint(host, path, value):
    outcome = read_metric(host + path, AMPLE)
    assert (outcome.value, outcome.problem) == (value, None)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/text", "'all is well'"),
        ("/nan", "'NaN'"),
        ("/junk", "finite number"),
        ("/empty", "the answer is empty"),
        ("/huge", "longer than 1048576 bytes"),
        ("/endless", "longer than 1048576 bytes"),
        ("/broken", "HTTP 500 Internal Server Error"),
        ("/rude", "no HTTP answer"),
        ("/to-file", "'file:///etc/hostname' is not an http or https address"),
        ("/to-ftp", "'ftp://localhost/' is not an http or https address"),
        ("/to-nothing", "is not an http or https address"),
        ("/loop", "more than 10 redirects"),
        ("/a b", "no HTTP answer"),
    ],
)
def test_an_endpoint_without_a_value(host, path, problem):
    outcome = read_metric(host + path, AMPLE)
    assert outcome.value is None
    assert problem in outcome.problem
    assert outcome.problem.isprintable()


@pytest.mark.parametrize("path", ["/silent", "/drips", "/drips_headers"])
def test_a_slow_endpoint_has_no_more_than_its_time(host, path):
    outcome = read_metric(host + path, SHORT)
    assert outcome == Outcome(None, "no answer within 0.25 s", outcome.seconds)
    assert not [thread for thread in threading.enumerate() if thread.name == "ebbtide-metric"]


def test_endpoints_that_are_not_there(host):
    with Server(("127.0.0.1", 0), Endpoint) as unused:
        port = unused.server_port
    assert "no answer: Connection refused" in read_metric(f"http://127.0.0.1:{port}/", AMPLE).problem
    assert "not an http" in read_metric("file:///etc/hostname", AMPLE).problem
    assert "no answer" in read_metric("http://127.0.0.1:99999/", AMPLE).problem
    assert "no answer" in read_metric("http://" + "a" * 100 + "/", AMPLE).problem
    assert "no answer" in read_metric(host.replace("http", "https") + "/number", AMPLE).problem


def test_a_name_lookup_that_hangs_is_given_up(monkeypatch):
    hangs = threading.Event()
    lookups = []

    def lookup(*args, **kwargs):
        lookups.append(threading.current_thread())
        hangs.wait(AMPLE)
        raise OSError("too late")

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    assert read_metric("http://metrics.example/", 0.1).problem == "no answer within 0.1 s"
    hangs.set()
    lookups[0].join()


@pytest.mark.usefixtures("ctrl_c")
def test_an_endpoint_is_left_at_ctrl_c(host):
    with pytest.raises(KeyboardInterrupt):
        read_metric(f"{host}/interrupts", 100 * AMPLE)
    for thread in threading.enumerate():
        if thread.name == "ebbtide-metric":
            thread.join(AMPLE)
            assert not thread.is_alive()


def test_a_command_may_set_what_an_endpoint_measures(host, tmp_path):
    setting = tmp_path / "setting"
    command = ["sh", "-c", 'printf %s "$1" > "$0"', str(setting), "{power}"]
    both = evaluator(command, f"{host}/query?power={{power}}", AMPLE)
    assert both({"power": 1.25}).value == 1.25
    assert setting.read_text() == "1.25"
    assert evaluator([], f"{host}/query?power={{power}}", AMPLE)({"power": -2}).value == -2.0
    assert evaluator(["echo", "{power}"], None, AMPLE)({"power": 4}).value == 4.0
    failing = evaluator(["sh", "-c", "exit 2"], f"{host}/number", AMPLE)
    assert failing({}).problem == "exit code 2"


def test_a_pause_between_applying_and_measuring(host, tmp_path, monkeypatch):
    """It does not count against the time limit."""
    applied = tmp_path / "applied"
    evaluate = evaluator(["sh", "-c", 'echo {x} > "$0"', str(applied)], f"{host}/ago?file={applied}", AMPLE, settle=0.3)
    outcome = evaluate({"x": 1.5})
    assert applied.read_text() == "1.5\n"
    assert outcome.value > 0.29  # the clock of a file system ticks a few times in 10 ms
    assert outcome.seconds > 0.3
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    longer = 100 * AMPLE
    failing = evaluator(["false"], f"{host}/number", AMPLE, settle=longer)
    assert failing({}).problem == "exit code 1"
    assert naps == []
    unhurried = evaluator(["true"], f"{host}/number", AMPLE, settle=longer)
    assert unhurried({}).value == 2.5
    assert naps == [longer]
