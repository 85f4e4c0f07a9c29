"""ask, tell, recommend, create and tune on the command line, against a file and against a service."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from click.testing import CliRunner
from helpers.serving import served

import ebbtide as eb
from ebbtide.cli.commands import ebbtide

TOML = """
[power]
type = "float"
low = 1.0
high = 100.0
log = true

[codec]
type = "categorical"
choices = ["a", "$(touch injected)", "; touch injected"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(TOML)
    return tmp_path


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service"), token="a-long-secret") as server:
        yield server


@pytest.fixture(params=["a file", pytest.param("a service", marks=pytest.mark.slow)])
def storage(folder, request):
    return "sqlite:///tuner.db" if request.param == "a file" else request.getfixturevalue("service").url


def run(*arguments, code=0):
    done = CliRunner(env={"EBBTIDE_TOKEN": "a-long-secret"}).invoke(ebbtide, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output if code else json.loads(done.stdout)


def test_the_shell_speaks_the_words_of_the_service(storage):
    where = ("--storage", storage, "--name", "edge-7")
    assert run("create", *where, "--space", "space.toml", "--direction", "maximize") == {"name": "edge-7"}
    assert run("create", *where, "--space", "space.toml", "--direction", "maximize") == {"name": "edge-7"}  # is there
    assert "its direction is 'maximize'" in run("create", *where, "--space", "space.toml", code=1)
    trial = run("ask", *where)
    assert trial.keys() == {"id", "params", "time", "expires", "kind"}
    assert run("tell", *where, "--id", trial["id"], "--value", "2.5") == {"told": True}
    assert run("tell", *where, "--id", trial["id"], "--value", "2.5") == {"told": True}
    assert "was told 2.5 before" in run("tell", *where, "--id", trial["id"], "--value", "3", code=1)
    assert [t["id"] for t in run("ask", *where, "-n", "2", "--lease", "60")["trials"]] == ["1", "2"]
    assert run("tell", *where, "--id", "1", "--failed") == {"told": True}
    params = '{"power": 3.0, "codec": "a"}'
    for _ in range(2):
        assert run("tell", *where, "--params", params, "--value", "1", "--key", "k") == {"told": True}
    best = run("recommend", *where)
    assert best.keys() == {"params", "mean", "std", "time", "support", "failure"}
    assert 1.0 <= best["params"]["power"] <= 100.0


GRID = """
cache = {type = "int", low = 64, high = 512, step = 64}
block = {type = "ordinal", choices = [4, 8, 16]}
"""


def test_a_file_may_have_steps_and_ordered_choices(storage, folder):
    (folder / "grid.toml").write_text(GRID)
    where = ("--storage", storage, "--name", "grid")
    assert run("create", *where, "--space", "grid.toml") == {"name": "grid"}
    params = run("ask", *where)["params"]
    assert params["cache"] in range(64, 513, 64)
    assert params["block"] in (4, 8, 16)
    told = ("--params", '{"cache": 100, "block": 8}', "--value", "1")
    assert "'cache' is 100, between two steps of 64 from 64" in run("tell", *where, *told, code=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ask", "--name", "nobody"), "there is no study 'nobody'"),
        (("tell", "--name", "s", "--value", "1"), "either --id"),
        (("tell", "--name", "s", "--id", "0", "--params", "{}", "--value", "1"), "either --id"),
        (("tell", "--name", "s", "--params", "{", "--value", "1"), "not JSON"),
        (("tell", "--name", "s", "--params", "[1]", "--value", "1"), "give an object"),
        (("tell", "--name", "s", "--params", '{"power": 3}', "--value", "1"), "'codec' is missing"),
        (("tell", "--name", "s", "--id", "5", "--value", "1"), "never asked for"),
        (("tell", "--name", "s", "--params", '{"power": 3, "codec": "a"}', "--value", "nan"), "finite number"),
        (("create", "--name", "a/b", "--space", "space.toml"), "printable characters"),
        (("create", "--name", "t", "--space", "broken.toml"), "cannot be read as toml"),
        (("create", "--name", "t", "--space", "wrong.toml"), "'power': 'high' is missing; 'hihg' is unknown."),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, arguments, says):
    (folder / "broken.toml").write_text("[power\n")
    (folder / "wrong.toml").write_text('[power]\ntype = "int"\nlow = 1\nhihg = 3\n')
    run("create", "--storage", "sqlite:///tuner.db", "--name", "s", "--space", "space.toml")
    output = run(arguments[0], "--storage", "sqlite:///tuner.db", *arguments[1:], code=1)
    assert says in output
    assert "Traceback" not in output


def test_storage_that_is_none(folder):
    assert "sqlite:///" in run("ask", "--storage", "tuner.db", "--name", "s", code=1)
    assert "nowhere/tuner.db does not exist" in run(
        "ask", "--storage", "sqlite:///nowhere/tuner.db", "--name", "s", code=1
    )


# --- tune -----------------------------------------------------------------------------------------------------------

MEASURE = """
import math, sys

_, power, codec = sys.argv
print("measuring", codec)
print(-(math.log(float(power)) - 2.0) ** 2)
"""


def tune(folder, *options, name="edge-7", command=None):
    (folder / "measure.py").write_text(MEASURE)
    command = command or [sys.executable, "measure.py", "{power}", "{codec}"]
    own = [sys.executable, "-m", "ebbtide", "tune", "--space", "space.toml", "--storage", "sqlite:///tuner.db"]
    return [*own, "--name", name, "--direction", "maximize", "--seed", "0", *options, "--", *command]


@pytest.mark.slow
def test_any_command_is_tuned_and_the_next_start_resumes(folder):
    for total in (5, 10):
        done = subprocess.run(tune(folder, "--trials", "5"), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "#5" in done.stderr
        assert "best now" in done.stderr
        study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
        assert len(study.history) == total
        assert not any(observation.failed for observation in study.history)
        study.close()
    assert not (folder / "injected").exists()


@pytest.mark.parametrize("script", ["sys.exit(3)", "import time; time.sleep(60)", "while True: print('babble' * 1000)"])
def test_a_command_that_goes_wrong_is_a_failed_evaluation(folder, script):
    command = [sys.executable, "-I", "-S", "-c", f"import sys\n{script}", "{power}", "{codec}"]
    arguments = tune(folder, "--trials", "2", "--timeout", "500ms", command=command)[3:]
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(ebbtide, arguments)
    assert signal.getsignal(signal.SIGTERM) is before
    assert done.exit_code == 0, done.output
    assert "2 failed" in done.stderr
    study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
    assert [observation.failed for observation in study.history] == [True, True]
    study.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_takes_its_command_along(folder, how):
    slow = [sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may ignore it
    command = tune(folder, "--timeout", "10m", command=[*slow, "{power}", "{codec}"])
    process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heard)
    deadline = time.monotonic() + 60.0
    while not ((folder / "pid").exists() and (folder / "pid").read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert b"run the same command again to continue" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
    study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
    assert [observation.failed for observation in study.history] == [True]
    study.close()


@pytest.mark.slow
def test_a_service_can_be_tuned_too(folder, service):
    command = tune(folder, "--trials", "3", name="tuned")
    command[command.index("--storage") + 1] = service.url
    environment = os.environ | {"EBBTIDE_TOKEN": "a-long-secret"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    client = eb.Client(service.url, "a-long-secret")
    assert [o.failed for o in client.study("tuned").history] == [False] * 3
    client.close()


@pytest.mark.parametrize(
    ("options", "command", "says"),
    [
        ((), ["true", "{power}"], "codec"),
        ((), ["true", "{power}", "{codec}", "{speed}"], "speed"),
        ((), [], "command"),
        (("--every", "soon"), ["true", "{power}", "{codec}"], "soon"),
        (("--metric-url", "file:///etc/passwd"), ["true", "{power}", "{codec}"], "http"),
    ],
)
def test_a_mistake_is_noticed_before_the_first_run(folder, options, command, says):
    arguments = tune(folder, *options, command=command or ["--"])[3:]
    done = CliRunner().invoke(ebbtide, arguments if command else arguments[:-2])
    assert done.exit_code == 1, done.output
    assert says in done.output
    assert not (folder / "tuner.db").exists()
