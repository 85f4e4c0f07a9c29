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
    assert trial.keys() == {"id", "params", "time", "expires", "kind", "context", "filled"}
    assert run("tell", *where, "--id", trial["id"], "--value", "2.5") == {"told": True}
    assert run("tell", *where, "--id", trial["id"], "--value", "2.5") == {"told": True}
    assert "was told 2.5 before" in run("tell", *where, "--id", trial["id"], "--value", "3", code=1)
    assert [t["id"] for t in run("ask", *where, "-n", "2", "--lease", "60")["trials"]] == ["1", "2"]
    assert run("tell", *where, "--id", "1", "--failed") == {"told": True}
    assert run("tell", *where, "--id", "2", "--abandoned") == {"told": True}
    assert "that it was abandoned before" in run("tell", *where, "--id", "2", "--value", "3", code=1)
    params = '{"power": 3.0, "codec": "a"}'
    for _ in range(2):
        assert run("tell", *where, "--params", params, "--value", "1", "--key", "k") == {"told": True}
    best = run("recommend", *where)
    assert best.keys() == {"params", "mean", "std", "time", "support", "failure", "feasible"}
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
        (
            ("tell", "--name", "s", "--params", '{"power": 3, "codec": "a"}', "--failed", "--abandoned"),
            "called off did not fail",
        ),
        (("recommend", "--name", "s"), "no value was told"),
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


# --- how a study behaves on a live system ---------------------------------------------------------------------------

LIVE = """
[pool]
type = "int"
low = 1
high = 128

[level]
type = "ordinal"
choices = [1, 3, 9]

[study]
direction = "maximize"
algorithm = "w-dbo"
explore = "25%"
on_failure = 0.0
baseline_every = 10

[study.baseline]
pool = 10
level = 3

[[study.start]]
pool = 20
level = 3

[[study.start]]
pool = 30
level = 9

[study.movement]
limit = {pool = 16, level = 1}
cost = 0.5
"""

AS_DEFINED = {
    "direction": "maximize",
    "explore": 0.25,
    "on_failure": 0.0,
    "baseline": {"pool": 10, "level": 3},
    "baseline_every": 10,
    "start": [{"pool": 20, "level": 3}, {"pool": 30, "level": 9}],
    "movement": {"limit": {"pool": 16.0, "level": 1.0}, "cost": 0.5},
}
FLAGS = ["--direction", "maximize", "-a", "w-dbo", "--explore", "0.25", "--on-failure", "0", "--baseline-every", "10"]
FLAGS += ["--baseline", "pool=10, level=3", "--start", "level=3,pool=20", "--start", '{"pool": 30, "level": 9}']
FLAGS += ["--limit", "pool=16", "--limit", "level=1", "--move-cost", "0.5"]


def stored(storage, name):
    """How the study is defined, as somebody else reads it."""
    if storage.startswith("http"):
        with eb.Client(storage, "a-long-secret") as client:
            return client.study(name).describe()
    with eb.Optimizer.open(storage, name) as study:
        return study.definition.to_json()


@pytest.mark.parametrize("how", ["in the file", "on the command line"])
def test_how_a_study_behaves_is_said_in_the_file_or_on_the_command_line(storage, folder, how):
    plain = LIVE.partition("[study]")[0]
    (folder / "live.toml").write_text(LIVE if how == "in the file" else plain)
    where = ("--storage", storage, "--name", how)
    options = FLAGS if how == "on the command line" else []
    for _ in range(2):  # the second time it is there, and the same
        run("create", *where, "--space", "live.toml", *options)
    defined = stored(storage, how)
    assert {word: defined[word] for word in AS_DEFINED} == AS_DEFINED
    assert defined["algorithm"] in ("w-dbo", eb.Optimizer(SMALL, algorithm="w-dbo").definition.to_json()["algorithm"])
    asked = run("ask", *where, "-n", "2")["trials"]
    assert [(trial["kind"], trial["params"]["pool"]) for trial in asked] == [("start", 20), ("start", 30)]


SMALL = {"x": eb.Float(0.0, 1.0)}


def test_the_command_line_wins_over_the_file(folder):
    (folder / "live.toml").write_text(LIVE)
    storage = "sqlite:///tuner.db"
    where = ("--storage", storage, "--name", "s", "--space", "live.toml")
    other = ("--direction", "minimize", "--explore", "50%", "--start", "pool=9,level=1", "--limit", "pool=32")
    run("create", *where, *other, "--on-failure", "ignore", "--algorithm", "tide")
    defined = stored(storage, "s")
    assert (defined["direction"], defined["explore"], defined["on_failure"]) == ("minimize", 0.5, "ignore")
    assert defined["start"] == [{"pool": 9, "level": 1}]
    assert defined["movement"] == {"limit": {"pool": 32.0, "level": 1.0}, "cost": 0.5}
    assert defined["baseline"] == AS_DEFINED["baseline"]
    assert "its explore is 0.5, not 0.25" in run("create", *where, code=1)


def test_without_an_algorithm_a_new_study_gets_the_default_and_an_old_one_keeps_its_own(folder):
    for name, chosen in (("new", ()), ("old", ("-a", "w-dbo"))):
        where = ("--storage", "sqlite:///tuner.db", "--name", name, "--space", "space.toml")
        run("create", *where, *chosen)
        run("create", *where)
    for name, algorithm in (("new", "tide"), ("old", "w-dbo")):
        expected = eb.Optimizer(SMALL, algorithm=algorithm).definition.to_json()["algorithm"]
        assert stored("sqlite:///tuner.db", name)["algorithm"] == expected


def test_a_parameter_may_be_named_study(folder):
    (folder / "named.toml").write_text('study = {type = "int", low = 1, high = 9}\n')
    run("create", "--storage", "sqlite:///tuner.db", "--name", "s", "--space", "named.toml", "--start", "study=4")
    assert run("ask", "--storage", "sqlite:///tuner.db", "--name", "s")["params"] == {"study": 4}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--explore", "often"), "explore='often': give a share such as 20% or 0.2"),
        (("--explore", "20"), "give a share between 0 and 1"),
        (("--start", "pool"), "'pool' has no ="),
        (("--start", "pool=1,pool=2"), "'pool' stands there twice"),
        (("--start", "pool=1"), "'level' is missing"),
        (("--start", "pool=ten,level=1"), "'ten' is not a value of 'pool'"),
        (("--start", "pool=1,level=2"), "'2' is not a value of 'level'"),
        (("--start", "{pool: 1}"), "not JSON"),
        (("--baseline", "pool=500,level=1"), "500"),
        (("--baseline", "pools=5,level=1"), "['pool', 'level'] has no 'pools'"),
        (("--baseline-every", "5"), "needs a baseline"),
        (("--limit", "pool"), "--limit pool: write name=number"),
        (("--limit", "pools=3"), "'pools'"),
        (("--move-cost", "-1"), "cost=-1.0"),
        (("--on-failure", "best"), "on_failure='best'"),
        (("--space", "typo.toml"), "[study] has 'explor': it may have direction, algorithm, seed,"),
    ],
)
def test_options_that_make_no_sense_create_nothing(folder, options, says):
    (folder / "plain.toml").write_text(LIVE.partition("[study]")[0])
    (folder / "typo.toml").write_text(LIVE.replace("explore", "explor"))
    where = ("--storage", "sqlite:///tuner.db", "--name", "s", "--space", "plain.toml")
    assert says in run("create", *where, *options, code=1)
    assert not (folder / "tuner.db").exists()


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


def when_written(path):
    deadline = time.monotonic() + 60.0
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return path.read_text()


@pytest.mark.slow
def test_any_command_is_tuned_and_the_next_start_resumes(folder):
    for total in (5, 10):  # and the count goes on
        done = subprocess.run(tune(folder, "--trials", "5"), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert f"#{total} probe" in done.stderr
        assert "best now" in done.stderr
        assert "Best now: power=" in done.stderr
        study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
        assert len(study.history) == total
        assert not any(observation.failed for observation in study.history)
        study.close()
    assert not (folder / "injected").exists()


@pytest.mark.parametrize("script", ["sys.exit(3)", "import time; time.sleep(60)", "while True: print('babble' * 1000)"])
def test_a_command_that_goes_wrong_is_a_failed_evaluation(folder, script, monkeypatch):
    monkeypatch.setattr("ebbtide.tuning.loop.FAILURE_PACE", 0.0)
    command = [sys.executable, "-I", "-S", "-c", f"import sys\n{script}", "{power}", "{codec}"]
    arguments = tune(folder, "--trials", "2", "--timeout", "500ms", command=command)[3:]
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(ebbtide, arguments)
    assert signal.getsignal(signal.SIGTERM) is before
    assert done.exit_code == 1, done.output
    assert "2 failed" in done.stderr
    assert "Nothing is known yet: no evaluation has given a value." in done.stderr
    assert "Error: all 2 evaluations failed, the last one with: " in done.stderr
    study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
    assert [observation.failed for observation in study.history] == [True, True]
    study.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_stops_cleanly_and_takes_its_command_along(folder, how):
    slow = [sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"]
    heard = partial(signal.signal, how, signal.SIG_DFL)  # whoever runs the tests may ignore it
    command = tune(folder, "--timeout", "10m", command=[*slow, "{power}", "{codec}"])
    process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heard)
    when_written(folder / "pid")
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert b"run the same command again to continue" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
    study = eb.Optimizer.open("sqlite:///tuner.db", "edge-7")
    assert [(observation.failed, observation.abandoned) for observation in study.history] == [(False, True)]
    study.close()


@pytest.mark.slow
def test_the_gain_and_the_warnings_are_shown(folder):
    options = ("--start", "power=50,codec=a", "--baseline", "power=50,codec=a", "--baseline-every", "4")
    command = ["sh", "-c", 'case "$1" in a) echo "$0";; *) exit 1;; esac', "{power}", "{codec}"]
    done = subprocess.run(
        tune(folder, *options, "--explore", "25%", "--trials", "24", command=command),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("edge-7  #1 start  power=50 codec=a → 50")
    assert any(" hold  power=" in text for text in lines)
    assert any(" baseline  power=50 codec=a → 50" in text for text in lines)
    (said,) = [text for text in lines if text.startswith("Gain over the baseline: ")]
    with eb.Optimizer.open("sqlite:///tuner.db", "edge-7") as study:
        assert said.endswith(f"from {study.gain.comparisons} comparisons.")
    alone = subprocess.run(
        tune(folder, *options, "--trials", "3", name="alone", command=command),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert alone.stderr.count("There is a baseline, but no gain over it can be shown") == 1


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


@pytest.mark.slow
def test_the_gain_and_the_warnings_are_read_from_a_service_too(service):
    setting = {"x": 0.5}
    with eb.Client(service.url, "a-long-secret") as client:
        study = client.create("gained", SMALL, seed=0, explore=0.25, baseline=setting, baseline_every=4, start=setting)
        alone = client.create("alone", SMALL, baseline=setting)
        assert study.warnings == []
        for _ in range(24):
            trial = study.ask()
            study.tell(trial, abs(trial.params["x"] - 0.25))
        assert study.told == 24
        gain = study.gain
        assert gain.baseline == pytest.approx(0.25)
        assert gain.comparisons >= 3
        (said,) = alone.warnings
        assert said.startswith("There is a baseline")
        assert client.create("plain", SMALL).gain is None


@pytest.mark.parametrize(
    ("options", "command", "says"),
    [
        ((), ["true", "{power}"], "codec"),
        ((), ["true", "{power}", "{codec}", "{speed}"], "speed"),
        ((), [], "command"),
        (("--every", "soon"), ["true", "{power}", "{codec}"], "soon"),
        (("--settle", "2s"), ["true", "{power}", "{codec}"], "--metric-url that measures: give both"),
        (("--settle", "2s", "--metric-url", "http://a/?p={power}&c={codec}"), [], "wait in the command itself"),
        (("--settle", "a while"), ["true", "{power}", "{codec}"], "'a while' is not a duration"),
        (("--metric-url", "file:///etc/passwd"), ["true", "{power}", "{codec}"], "http"),
    ],
)
def test_a_mistake_is_noticed_before_the_first_run(folder, options, command, says):
    arguments = tune(folder, *options, command=command or ["--"])[3:]
    done = CliRunner().invoke(ebbtide, arguments if command else arguments[:-2])
    assert done.exit_code == 1, done.output
    assert says in done.output
    assert not (folder / "tuner.db").exists()
