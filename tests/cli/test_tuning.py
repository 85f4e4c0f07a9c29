import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.errors import ConfigurationError, NumericalError, ObservationError, ServiceError, StorageError
from ebbtide.tuning import (
    Outcome,
    Status,
    check,
    duration,
    evaluation,
    evaluator,
    fill,
    fill_url,
    line,
    read_metric,
    run_command,
    tune,
)

PYTHON = [sys.executable, "-I", "-S", "-c"]
AMPLE = 60.0  # a time limit that no machine needs
SHORT = 0.25  # one that has to pass

# --- filling in -----------------------------------------------------------------------------------------------

NASTY = [
    "; rm -rf /",
    "$(touch pwned)",
    "`id`",
    "'\"\\",
    "a\nb\r\n",
    "--help",
    "-",
    "",
    " ",
    "{power}",
    "{{}}",
    "%s%n",
    "*",
    "~",
    "$HOME",
    "&& false",
    "| cat",
    "> f",
    "ü→\U0001f30a",
    "\x1b[2J",
]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.text("{}ab.!:[]0", min_size=1, max_size=6)
arguments = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(NASTY)
values = arguments | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.booleans() | st.none()


def expected_text(value):
    return (
        value
        if isinstance(value, str)
        else {"True": "true", "False": "false", "None": "null"}.get(repr(value), repr(value))
    )


def doubled(text):
    return text.replace("{", "{{").replace("}", "}}")


@given(names, values, st.lists(st.text("{}ab", max_size=4), min_size=1, max_size=5))
def test_literals_and_values_come_out_as_they_went_in(name, value, literals):
    placeholder = "{" + doubled(name) + "}"
    template = placeholder.join(map(doubled, literals))
    assert fill([template], {name: value}) == [expected_text(value).join(literals)]


@given(st.dictionaries(names, values, min_size=1, max_size=5))
def test_every_parameter_is_one_argument_whatever_it_is_called(params):
    argv = ["{" + doubled(name) + "}" for name in params]
    check(list(params), argv, None)
    assert fill(argv, params) == [expected_text(value) for value in params.values()]


@settings(max_examples=8)
@given(st.lists(values, max_size=40))
@example(NASTY)
def test_a_child_process_receives_each_value_byte_for_byte(tmp_path_factory, given_values):
    params = {f"p{i}": value for i, value in enumerate(given_values)}
    arrived = tmp_path_factory.mktemp("child") / "arrived"
    child = "import os, sys; open(sys.argv[1], 'wb').write(b'\\0'.join(map(os.fsencode, sys.argv[2:]))); print(1)"
    argv = [*PYTHON, child, doubled(str(arrived)), *(f"{{{name}}}" for name in params)]
    outcome = run_command(fill(argv, params), AMPLE)
    assert (outcome.value, outcome.problem) == (1.0, None)
    received = arrived.read_bytes().split(b"\0") if params else []
    assert received == [os.fsencode(expected_text(value)) for value in given_values]


def test_a_shell_script_receives_them_too(tmp_path):
    script = tmp_path / "measure.sh"
    script.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > arrived\necho $#\n')
    script.chmod(0o755)
    params = {str(i): value for i, value in enumerate(NASTY)}
    argv = ["sh", "-c", 'cd "$0" && shift 0 && exec ./measure.sh "$@"', str(tmp_path), *(f"{{{n}}}" for n in params)]
    assert run_command(fill(argv, params), AMPLE).value == len(NASTY)
    assert (tmp_path / "arrived").read_bytes().decode().split("\0")[:-1] == NASTY
    assert sorted(file.name for file in tmp_path.iterdir()) == ["arrived", "measure.sh"]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), values, min_size=1, max_size=4))
def test_a_value_in_a_url_is_only_a_value(params):
    url = "http://host/metric?" + "&".join(f"{name}={{{name}}}" for name in params)
    filled = fill_url(url, params)
    assert filled.isascii()
    assert urlsplit(filled)[:3] == ("http", "host", "/metric")
    assert parse_qs(urlsplit(filled).query, keep_blank_values=True, strict_parsing=True) == {
        name: [expected_text(value)] for name, value in params.items()
    }


def test_not_even_a_slash_is_left_in_a_url():
    assert fill_url("http://host/{x}", {"x": "../a b?c#d%"}) == "http://host/..%2Fa%20b%3Fc%23d%25"


def test_where_one_name_begins_another_the_other_is_meant():
    params = {"a": 1, "a}": 2, "{a": 3}
    assert fill(["{a}", "{a}}}", "{{{a}"], params) == ["1", "2", "3"]


def test_nothing_of_an_object_can_be_reached():
    with pytest.raises(ConfigurationError, match="is no parameter"):
        fill(["{x.__class__}"], {"x": 1.0})
    with pytest.raises(ConfigurationError, match="is no parameter"):
        fill(["{x!r:>10}"], {"x": 1.0})


@pytest.mark.parametrize(
    ("argv", "url", "complaint"),
    [
        ([], None, "nothing to run"),
        (["run", "{power}", "{width}", "{size}"], None, "{size} in '{size}' is no parameter: the space has {power}"),
        (["run", "{power}", "{}"], None, "{} in '{}' is no parameter"),
        (["run", "{power}"], None, "['width'] appear nowhere"),
        (["run", "{{power}}", "{width}"], None, "['power'] appear nowhere"),
        (["run", "{power}", "{width}", "a}b"], None, "a lone '}': write }}"),
        (["run", "{power}", "{width}", "{"], None, "a lone '{': write {{"),
        ([], "http://host/{power}", "['width'] appear nowhere"),
        ([], "http://host/{power}/{width}/{what}", "{what}"),
        ([], "ftp://host/{power}/{width}", "give http://"),
        ([], "file:///{power}/{width}", "give http://"),
        ([], "{power}{width}://host", "give http://"),
        ([], "host/{power}/{width}", "give http://"),
        ([], "http:///{power}/{width}", "give http://"),
        ([], "http://[{power}/{width}", "give http://"),
        ([], "", "give http://"),
        ([], "http://host/{power} {width}", "%20"),
        ([], "http://host/{power}/größe/{width}", "percent-encode"),
    ],
)
def test_what_would_make_every_evaluation_useless_is_refused_at_once(argv, url, complaint):
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        check(["power", "width"], argv, url)


def test_parameters_may_be_split_between_command_and_url():
    check(["power", "width"], ["set", "--power={power}"], "HTTPS://host:{width}/metric")
    check(["power"], ["jq", '{{"power": {power}}}'], None)
    assert fill(['{{"power": {power}}}'], {"power": 1e-7}) == ['{"power": 1e-07}']


# --- a command ------------------------------------------------------------------------------------------------


class Lifeline:
    """A FIFO that a command and all that it starts hold open: it ends when the last of them has."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def holding(self, script):
        """The script in a shell that holds the line, as does whatever it starts."""
        return ["sh", "-c", f'exec 9>"$0"; echo alive >&9; {script}', str(self.path)]

    def wait_for_a_sign(self):
        self._read_until(b"alive\n")

    def assert_ended(self):
        self._read_until(b"")

    def _read_until(self, wanted):
        patience = time.monotonic() + AMPLE
        while time.monotonic() < patience:
            try:
                if os.read(self.reader, 100) == wanted:
                    return
            except BlockingIOError:
                pass
            time.sleep(0.01)
        pytest.fail(f"{wanted!r} never came: the command did not start, or something of it is still running")


@pytest.fixture
def lifeline(tmp_path):
    line = Lifeline(tmp_path / "lifeline")
    yield line
    os.close(line.reader)


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch):
    monkeypatch.setattr(evaluation, "GRACE", 0.2)


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def python(code):
    return run_command([*PYTHON, code], AMPLE)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("print(3)", 3.0),
        ("print('warming up\\n', -2.5e-3, '\\n\\n  \\n')", -0.0025),
        ("print('10 %\\r', end=''); print('4.5', end='')", 4.5),
        ("print('7\\r\\n')", 7.0),
        ("""print('log'); print('{"value": 1.5, "unit": "dB"}')""", 1.5),
        ("import sys; print(8); print('a warning', file=sys.stderr)", 8.0),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\n6\\n')", 6.0),
        ("import sys; print('x' * 99 + '\\n', end='') or [print('y' * 9999) for _ in range(99)]; print(11)", 11.0),
        ("import sys; [print('e' * 9999, file=sys.stderr) for _ in range(99)]; print(12)", 12.0),
        ("import sys; print(len(sys.stdin.read()))", 0.0),
    ],
)
def test_the_value_is_the_last_line(code, value):
    outcome = python(code)
    assert (outcome.value, outcome.problem) == (value, None)
    assert 0.0 < outcome.seconds < AMPLE


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("print(5); raise SystemExit('no route\\tto \\x1b[31mhost\\x1b[0m\\n\\n')", "exit code 1: no route to host"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; print(5, flush=True); os.abort()", "killed by SIGABRT"),
        ("pass", "printed nothing"),
        ("print(' \\n\\t\\n')", "printed nothing"),
        ("import sys; print('boo', file=sys.stderr)", "printed nothing: boo"),
        ("print(5); print('done')", "the last line is 'done', not a finite number"),
        ("print('nan')", "'nan'"),
        ("print('-inf')", "'-inf'"),
        ("print('1e999')", "'1e999'"),
        ("print('2024_01')", "'2024_01'"),
        ("print('3,5')", "'3,5'"),
        ("print('{\"value\": NaN}')", "NaN"),
        ("print('{\"value\": true}')", "true"),
        ('print(\'{"value": "3"}\')', "finite number"),
        ("print('{\"cost\": 3}')", "cost"),
        ("print('{\"value\": 1' + '0' * 9000 + '}')", "finite number"),
        ("print('{\"value\": ' + '[' * 60000)", "finite number"),
        ("print('{')", "'{'"),
        ("print('[3]')", "'[3]'"),
        ("import os; os.write(1, bytes(range(128, 256)))", "the last line is '"),
        ("print('1' * 70000)", "a last line longer than 65536 bytes"),
    ],
)
def test_what_went_wrong_is_said_in_one_line(code, problem):
    outcome = python(code)
    assert outcome.value is None
    assert problem in outcome.problem
    assert outcome.problem.isprintable()
    assert len(outcome.problem) <= evaluation.LONGEST_QUOTE


def test_a_signal_without_a_name_has_a_number():
    assert evaluation._ending(-63) == "killed by signal 63"


def test_commands_that_cannot_start(tmp_path):
    script = tmp_path / "not-executable"
    script.write_text("echo 1")
    script.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert "cannot start './nowhere': No such file" in run_command(["./nowhere"], AMPLE).problem
    assert "Permission denied" in run_command([str(script)], AMPLE).problem
    assert "cannot start ''" in run_command([""], AMPLE).problem
    assert "null byte" in run_command(["true", "a\0b"], AMPLE).problem
    assert "surrogates" in run_command(["true", "\ud800"], AMPLE).problem
    assert "too long" in run_command(["true", *["x" * 100_000] * 100], AMPLE).problem


def test_a_hanging_command_ends_with_all_that_it_started(lifeline):
    outcome = run_command(lifeline.holding("echo 5; echo stuck >&2; sleep 1000 & sleep 1000"), SHORT)
    assert outcome.value is None
    assert outcome.problem.startswith("still running after 0.25 s")
    lifeline.assert_ended()


def test_one_that_ignores_sigterm_is_killed(lifeline):
    outcome = run_command(lifeline.holding("trap '' TERM; while :; do sleep 0.05; done"), SHORT)
    assert "still running" in outcome.problem
    assert "could not" not in outcome.problem
    lifeline.assert_ended()


def test_one_that_ends_well_at_sigterm_is_late_all_the_same(lifeline):
    outcome = run_command(lifeline.holding("trap 'echo 7; exit 0' TERM; while :; do sleep 0.02; done"), SHORT)
    assert outcome.value is None
    assert "still running" in outcome.problem
    lifeline.assert_ended()


def test_one_that_closes_its_output_and_hangs(lifeline):
    assert "still running" in run_command(lifeline.holding("exec >&- 2>&-; sleep 1000"), SHORT).problem
    lifeline.assert_ended()


def test_a_grandchild_that_keeps_the_output_open(lifeline):
    outcome = run_command(lifeline.holding("sleep 1000 & echo 4"), AMPLE)
    assert (outcome.value, outcome.problem) == (4.0, None)
    lifeline.assert_ended()


def test_a_grandchild_in_a_session_of_its_own_is_not_waited_for():
    """Nor heard out: it goes on for ever, which ends when nobody listens any more."""
    outcome = python(
        "import os\n"
        "ready, go = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.write(go, b'!')\n"
        "    while True: os.write(1, b'3\\n' * 9999)\n"
        "os.read(ready, 1)\n"
        "print(3)\n"
    )
    assert outcome.value == 3.0


def test_an_orphan_that_never_pauses_is_not_heard_out(monkeypatch):
    monkeypatch.setattr(evaluation, "_hear", lambda pipes, seconds: True)
    assert run_command(["true"], AMPLE).problem == "printed nothing"


def test_endless_output_keeps_only_its_end():
    assert "still running" in run_command(["yes"], SHORT).problem
    assert "still running" in run_command([*PYTHON, "while True: print('x' * 99999, end='')"], SHORT).problem
    tail = evaluation._Tail()
    for _ in range(100):
        tail.add(b"x" * 65_536)
        assert len(tail._bytes) <= evaluation.TAIL
    assert tail.torn
    tail.add(b"\n1\n")
    assert not tail.torn
    assert tail.last_line() == "1"


def test_one_that_nobody_may_kill_does_not_hold_the_loop_up(monkeypatch):
    """As of another user: here the kill is left out, and the command ends when it likes."""
    monkeypatch.setattr(evaluation, "_signal", lambda process, number: None)
    monkeypatch.setattr(evaluation, "DEATH", 0.1)
    started = []
    popen = subprocess.Popen

    def remembered(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    outcome = run_command(["sleep", "1000"], 0.1)
    assert outcome.problem == "still running after 0.1 s, and could not be killed"
    started[0].kill()
    started[0].wait()


def interrupt_this():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_cuts_the_grace_short(lifeline, monkeypatch):
    monkeypatch.setattr(evaluation, "GRACE", 100 * AMPLE)

    def interrupt_twice():
        lifeline.wait_for_a_sign()
        interrupt_this()
        lifeline.wait_for_a_sign()  # it has been asked to end, and did not
        interrupt_this()

    impatient = threading.Thread(target=interrupt_twice)
    impatient.start()
    script = 'trap "echo alive >&9" TERM; exec 9>"$0"; echo alive >&9; while :; do sleep 0.05; done'
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", script, str(lifeline.path)], 100 * AMPLE)
    impatient.join()
    lifeline.assert_ended()


@pytest.mark.usefixtures("ctrl_c")
def test_a_ctrl_c_while_the_command_starts_leaves_nothing_running(lifeline, monkeypatch):
    popen = subprocess.Popen

    def interrupted(*args, **kwargs):
        process = popen(*args, **kwargs)
        interrupt_this()
        time.sleep(0.01)  # here an interrupt would be raised, and the process forgotten
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(lifeline.holding("sleep 1000"), AMPLE)
    lifeline.assert_ended()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_can_be_run_from_any_thread():
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(run_command(["echo", "2"], AMPLE)))
    thread.start()
    thread.join()
    assert outcomes[0].value == 2.0


def test_no_descriptor_stays_open():
    before = len(os.listdir("/dev/fd"))
    run_command(["echo", "1"], AMPLE)
    run_command(["./nowhere"], AMPLE)
    run_command(["true", "\0"], AMPLE)
    run_command(["sleep", "1000"], 0.05)
    assert len(os.listdir("/dev/fd")) == before


# --- an endpoint ----------------------------------------------------------------------------------------------


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
        ("/to-file", "'file:///etc/hostname' is no http or https address"),
        ("/to-ftp", "'ftp://localhost/' is no http or https address"),
        ("/to-nothing", "is no http or https address"),
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
    assert "no http" in read_metric("file:///etc/hostname", AMPLE).problem
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


# --- the loop -------------------------------------------------------------------------------------------------


class Hours:
    """Time that passes only while someone sleeps or works."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Study:
    """The verbs, and nothing else."""

    def __init__(self, hours=None, looking=0.0):
        self.asked, self.told, self.looks, self.troubles = 0, [], [], []
        self.hours, self.looking = hours, looking

    def _trouble(self):
        if self.troubles and (error := self.troubles.pop(0)):
            raise error

    def ask(self):
        self._trouble()
        self.asked += 1
        return eb.Trial(str(self.asked), {"x": 0.5}, 0.0)

    def tell(self, trial, value=None, *, failed=False):
        self._trouble()
        if value is not None and value > 1e6:
            raise ObservationError(f"value={value!r} is too much")
        self.told.append((trial.id, "failed" if failed else value))

    def recommend(self):
        self.looks.append(self.hours.now)
        self.hours.now += self.looking
        if len(self.looks) == 2:
            raise NumericalError("not now")
        return eb.Recommendation({"x": 0.25}, 1.0, 0.1, self.hours.now)


def run(study, hours, outcomes, every=None):
    """The loop over outcomes as (seconds, value); when each evaluation started, and what was shown."""
    starts, shown, left = [], [], list(outcomes)

    def evaluate(params):
        starts.append(hours.now)
        seconds, value = left.pop(0)
        hours.now += seconds
        return Outcome(value, None if value is not None else "broken", seconds)

    options = {"sleep": hours.sleep, "monotonic": hours, "stop_after": len(left)}
    tune(study, evaluate, every=every, show=shown.append, **options)
    return starts, shown


def test_evaluations_start_at_a_pace_and_do_not_bunch_up():
    hours = Hours()
    outcomes = [(1, 1.0), (25, 1.0), (1, 1.0), (10, 1.0), (1, None), (1, 1.0)]
    starts, _ = run(Study(hours), hours, outcomes, every=10.0)
    assert starts == [0, 10, 35, 45, 55, 65]
    assert hours.slept == [9, 9, 9]  # and not after the last


def test_without_a_pace_one_follows_the_other_but_failures_make_no_storm():
    hours = Hours()
    starts, _ = run(Study(hours), hours, [(0.25, 1.0), (0.25, None), (0.25, None), (5, None), (1, 1.0)])
    assert starts == [0, 0.25, 1.25, 2.25, 7.25]


def test_failures_are_told_and_counted():
    hours = Hours()
    study = Study(hours)
    _, shown = run(study, hours, [(1, None), (1, 2.0), (1, 1e7), (1, 3.0)])
    assert study.told == [("1", "failed"), ("2", 2.0), ("3", "failed"), ("4", 3.0)]
    assert [(s.count, s.failed) for s in shown] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert [s.outcome.value for s in shown] == [None, 2.0, None, 3.0]
    assert shown[1].problem == "broken"
    assert shown[3].problem == shown[2].outcome.problem == "value=10000000.0 is too much"
    assert shown[0].best is None  # nothing is known yet
    assert shown[1].best.params == {"x": 0.25}


def test_the_best_is_looked_up_now_and_then_whatever_that_does():
    hours = Hours()
    study = Study(hours)
    _, shown = run(study, hours, [(0.3, 1.0)] * 12)
    assert len(study.looks) == 3
    assert all(after - before >= 1.0 for before, after in pairwise(study.looks))
    assert [s.best is None for s in shown] == [False] * 4 + [True] * 4 + [False] * 4
    hours = Hours()
    slow = Study(hours, looking=3.0)
    run(slow, hours, [(1, 1.0)] * 40)
    assert len(slow.looks) == 2  # a tenth of the time


def test_what_may_pass_is_waited_for_and_nothing_is_lost():
    hours = Hours()
    study = Study(hours)
    full = StorageError("the disk is full")
    study.troubles = [ServiceError("no route"), None, full, full, None, None, full]
    starts, shown = run(study, hours, [(1, 7.0), (1, None)], every=5.0)
    assert study.told == [("1", 7.0), ("2", "failed")]
    assert starts == [1, 5]
    assert hours.slept == [1, 1, 2, 1]
    assert [s.trouble for s in shown if s.trouble] == [
        "no route; trying again in 1 s",
        "the disk is full; trying again in 1 s",
        "the disk is full; trying again in 2 s",
        "the disk is full; trying again in 1 s",
    ]
    assert [(s.count, s.failed) for s in shown if not s.trouble] == [(1, 0), (2, 1)]
    study.troubles = [full] * 9
    hours.slept.clear()
    run(study, hours, [(1, 1.0)])
    assert hours.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_clock_that_cannot_be_reached_yet_is_waited_for():
    class Remote(Study):
        @property
        def clock(self):
            self._trouble()
            return eb.ManualClock(start=5.0)

    hours = Hours()
    study = Remote(hours)
    study.troubles = [ServiceError("no route")]
    starts, shown = run(study, hours, [(1, 7.0)])
    assert starts == [1]
    assert "no route" in shown[0].trouble


def test_other_errors_of_the_study_end_the_loop():
    study = Study()
    study.troubles = [None, eb.TrialError("unknown")]
    with pytest.raises(eb.TrialError):
        run(study, Hours(), [(1, 1.0)])


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_a_trial_that_is_called_off_has_failed(stopped):
    def evaluate(params):
        raise stopped

    study = Study()
    with pytest.raises(stopped):
        tune(study, evaluate, every=None, show=print)
    assert study.told == [("1", "failed")]
    study.troubles = [None, StorageError("full")]
    with pytest.raises(stopped):  # and without waiting for the disk
        tune(study, evaluate, every=None, show=print)


def test_ctrl_c_while_a_trial_waits_for_its_moment():
    class Impatient:
        def now(self):
            raise KeyboardInterrupt

    study = Study()
    study.clock = Impatient()
    with pytest.raises(KeyboardInterrupt):
        tune(study, pytest.fail, every=None, show=print)
    assert study.told == [("1", "failed")]


def test_ctrl_c_between_two_evaluations():
    def sleep(seconds):
        raise KeyboardInterrupt

    study = Study(Hours())
    with pytest.raises(KeyboardInterrupt):
        tune(study, lambda params: Outcome(1.0, None, 0.0), every=100.0, show=lambda status: None, sleep=sleep)
    assert study.told == [("1", 1.0)]


@pytest.mark.parametrize("algorithm", ["w-dbo", "abo"])
def test_an_optimizer_is_measured_at_the_moments_it_asks_for(algorithm):
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, algorithm=algorithm, clock=clock, seed=0)
    shown, measured = [], []

    def evaluate(params):
        measured.append(clock.now())
        clock.advance(1.0)
        value = (params["x"] - 0.5 - 0.2 * math.sin(clock.now() / 30.0)) ** 2
        return Outcome(None, "broken", 1.0) if len(measured) == 3 else Outcome(value, None, 1.0)

    hours = Hours()
    tune(opt, evaluate, every=None, show=shown.append, stop_after=15, sleep=hours.sleep, monotonic=hours)
    assert measured == [status.trial.time for status in shown]
    assert [observation.time for observation in opt.history] == measured
    assert [observation.failed for observation in opt.history] == [i == 2 for i in range(15)]
    assert shown[0].best is not None


def test_a_real_command_on_the_systems_clock(tmp_path):
    opt = eb.Optimizer({"power": eb.Float(1.0, 9.0), "codec": eb.Categorical(["a", "b; exit 1"])}, seed=0)
    script = 'echo "measuring $1"; echo "$0"'
    argv = ["sh", "-c", script, "{power}", "{codec}"]
    check(opt.space.parameters, argv, None)
    lines = []
    tune(opt, evaluator(argv, None, AMPLE), every=0.01, show=lambda s: lines.append(line(s, 100)), stop_after=8)
    assert [o.value for o in opt.history] == [o.params["power"] for o in opt.history]
    assert len(lines) == 8
    assert lines[-1].startswith("#8  power=")
    assert "best now: power=" in lines[-1]


INTERRUPTED = """
import json, signal, sys
import ebbtide as eb
from ebbtide.tuning import evaluator, tune

signal.signal(signal.SIGINT, signal.default_int_handler)
opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, seed=0)
try:
    tune(opt, evaluator(json.loads(sys.argv[1]), None, 1000.0), every=1.0, show=print)
except KeyboardInterrupt:
    print(json.dumps([observation.failed for observation in opt.history]))
"""


def test_ctrl_c_ends_the_command_and_tells_that_it_failed(lifeline):
    command = json.dumps(lifeline.holding("sleep 1000 & sleep 1000"))
    loop = subprocess.Popen([sys.executable, "-c", INTERRUPTED, command], stdout=subprocess.PIPE, text=True)
    with loop:
        lifeline.wait_for_a_sign()
        loop.send_signal(signal.SIGINT)
        said, _ = loop.communicate(timeout=AMPLE)
    assert loop.returncode == 0
    assert json.loads(said) == [True]
    lifeline.assert_ended()


# --- for people -----------------------------------------------------------------------------------------------

TRIAL = eb.Trial("7", {"power": 3.21044, "width": 4, "codec": "a\nb", "fast": True}, 0.0)
BEST = eb.Recommendation({"power": 12345.678, "width": 4}, 4.8, 0.2149, 0.0)


def test_a_status_line():
    status = Status(
        count=123, failed=2, trial=TRIAL, outcome=Outcome(4.52, None, 1.0), best=BEST, problem="exit code 1"
    )
    full = "#123  power=3.21 width=4 codec=a b fast=true → 4.52   best now: power=12346 width=4, 4.80 ± 0.21"
    full += "   2 failed: exit code 1"
    assert line(status, 200) == line(status, len(full)) == full
    assert line(status, 20) == full[:19] + "…"
    assert all(len(line(status, width)) <= width for width in range(1, 150))


def test_other_status_lines():
    assert line(Status(), 80) == "#0"
    failed = Status(count=1, failed=1, trial=TRIAL, outcome=Outcome(None, "boo", 1.0), problem="boo")
    assert line(failed, 80) == "#1  power=3.21 width=4 codec=a b fast=true → failed   1 failed: boo"
    assert (
        line(Status(count=3, trial=TRIAL, trouble="full; trying again in 1 s"), 80) == "#3  full; trying again in 1 s"
    )


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (4.8, 0.2149, "4.80 ± 0.21"),
        (1234.5, 30.0, "1234 ± 30"),
        (0.5, 1e-12, "0.5 ± 1e-12"),
        (-3e9, 2e8, "-3e+09 ± 2e+08"),
        (2.0, 0.0, "2 ± 0"),
        (1.0, 9.99, "1.0 ± 10.0"),
    ],
)
def test_a_belief_has_sensible_digits(mean, std, text):
    assert line(Status(best=eb.Recommendation({"x": 1}, mean, std, 0.0)), 80) == f"#0   best now: x=1, {text}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("1.5", 1.5), (" .5 s ", 0.5), ("3.", 3.0)],
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "0", "0ms", "nan", "inf", "1e3", "5d", "1 0", "٣s", "9" * 400, "400000h"]
)
def test_what_is_no_duration(text):
    with pytest.raises(ConfigurationError, match=re.escape(repr(text))):
        duration(text)
