"""Commands whose output is closed, full or not read."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from helpers.tuning import AMPLE
from rich.console import Console

import ebbtide as eb
from ebbtide.cli.campaign import CampaignProgress
from ebbtide.cli.streams import display
from ebbtide.experiments.campaign import Tally

EBBTIDE = [sys.executable, "-m", "ebbtide"]
WHERE = ["--storage", "sqlite:///tuner.db", "--name", "edge"]
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with eb.Optimizer({"x": eb.Float(0.0, 1.0)}, storage="sqlite:///tuner.db", name="edge", seed=0) as study:
        study.tell({"x": 0.5}, 1.0)
    return tmp_path


def in_shell(redirection, *arguments):
    """The exit code of a command with its output redirected, and what it said on its standard error."""
    script = f'{{ "$@"; echo $? >code; }} {redirection}'
    done = subprocess.run(["sh", "-c", script, "sh", *EBBTIDE, *arguments], capture_output=True, text=True)
    return int(Path("code").read_text()), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["recommend", *WHERE], ["report", "tuner.db"], ["upgrade", "tuner.db"], ["--help"]]
)
def test_a_reader_who_has_enough_ends_a_command_without_a_word(folder, command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*EBBTIDE, *command], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("command", [["ask", *WHERE], ["upgrade", "tuner.db"], ["--help"]])
def test_an_answer_that_could_not_be_written_is_an_error(folder, command):
    code, said = in_shell(">/dev/full", *command)
    assert code == 1
    assert "No space left on device" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_an_answer_that_nobody_wants_is_none(folder):
    assert in_shell("<&- >&-", "ask", *WHERE) == (0, "")
    assert in_shell("2>&-", "ask", *WHERE) == (0, "")
    assert in_shell("2>&-", "ask", "--storage", "sqlite:///tuner.db", "--name", "unknown") == (1, "")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url):
    patience = time.monotonic() + AMPLE
    while time.monotonic() < patience:
        try:
            with urllib.request.urlopen(f"{url}/studies", timeout=AMPLE) as answer:
                return json.load(answer)["studies"]
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"{url} does not answer")


@pytest.mark.slow
@needs_full
def test_a_service_serves_without_its_output_and_a_hangup_stops_it_as_sigterm_does(folder):
    port = free_port()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
    with open("/dev/full", "w") as full:
        command = [*EBBTIDE, "serve", "--storage", "sqlite:///tuner.db", "--port", str(port)]
        process = subprocess.Popen(command, stdout=full, stderr=full)
    signal.signal(signal.SIGHUP, before)
    try:
        assert [study["name"] for study in answers(f"http://127.0.0.1:{port}")] == ["edge"]
        process.send_signal(signal.SIGHUP)
        assert process.wait(AMPLE) == -signal.SIGTERM  # as uvicorn ends after a clean stop
    finally:
        process.kill()


# --- what is only shown -------------------------------------------------------------------------------------------


@pytest.fixture(params=["full", "a pipe without a reader", "a pipe that nobody reads"])
def unwritable(request, monkeypatch):
    """A standard error that cannot be written to."""
    reader = None
    if request.param == "full":
        if not Path("/dev/full").exists():
            pytest.skip("this system has no /dev/full")
        stream = open("/dev/full", "w")  # noqa: SIM115 - closed below
    else:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        while request.param == "a pipe that nobody reads":
            try:
                os.write(writer, b"x")
            except BlockingIOError:
                break
        os.set_blocking(writer, True)
        stream = open(writer, "w")  # noqa: SIM115 - closed below
        if request.param == "a pipe without a reader":
            os.close(reader)
            reader = None
    monkeypatch.setattr(sys, "stderr", stream)
    yield
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
    stream.close()
    if reader is not None:
        os.close(reader)


@pytest.mark.usefixtures("unwritable")
def test_what_cannot_be_shown_is_dropped():
    assert display().write("a line\n") == 7
    Console(file=display()).print("[bold]a table[/bold]")


@pytest.mark.usefixtures("unwritable")
def test_a_campaign_goes_on_without_its_display():
    with CampaignProgress() as progress:
        for done in range(3):
            progress.show("compare", Tally(total=2, stored=0, done=done, failed=0, running=1))


def test_what_can_be_shown_is(capsys):
    display().write("a line\n")
    assert capsys.readouterr().err == "a line\n"
