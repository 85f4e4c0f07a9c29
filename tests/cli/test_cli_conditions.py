"""Context, cycles and constraints on the command line, and in the loop of `ebbtide tune`."""

import json
import math
import shlex
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest
from click.testing import CliRunner
from helpers.serving import served
from helpers.tuning import PYTHON

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.cli.described import described
from ebbtide.tuning import Around, Outcome, Reading, Status, context, context_reader, line, summary, tune

pytestmark = pytest.mark.usefixtures("little_grace")
TOML = """
[power]
type = "float"
low = 1.0
high = 100.0

[context.load]
type = "float"
low = 0
high = 2000

[context.backend]
type = "categorical"
choices = ["a", "b"]

[cycles]
day = "24h"
hour = 3600

[constraints.p99_ms]
at_most = 50

[constraints.hits]
at_least = 0.9

[study]
violation_rate = "10%"
failures_violate = true
"""
WHERE = ("--storage", "sqlite:///tuner.db", "--name", "edge")
MEASURED = {"load": 312.0, "backend": "a"}


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
def where(folder, request):
    url = "sqlite:///tuner.db" if request.param == "a file" else request.getfixturevalue("service").url
    return "--storage", url, "--name", "edge"


def run(*arguments, code=0):
    done = CliRunner(env={"EBBTIDE_TOKEN": "a-long-secret"}).invoke(ebbtide, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output if code else json.loads(done.stdout)


def said(**changes):
    words = ("direction", "algorithm", "seed", "family", "explore", "baseline", "baseline_every", "on_failure")
    return dict.fromkeys((*words, "move_cost", "violation_rate")) | {"start": (), "limit": (), "cycle": ()} | changes


# --- the words ------------------------------------------------------------------------------------------------------


def test_a_file_describes_the_world_around_a_study(folder):
    space, options = described(folder / "space.toml", said())
    assert list(space.parameters) == ["power"]
    opt = eb.Optimizer(space, **options)
    conditions = opt.definition.conditions
    assert list(conditions.variables) == ["load", "backend"]
    assert conditions.cycles == {"day": 86400.0, "hour": 3600.0}
    assert conditions.constraints == {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)}
    assert (conditions.violation_rate, conditions.failures_violate) == (0.1, True)


def test_the_command_line_wins_over_the_file(folder):
    options = described(folder / "space.toml", said(cycle=("day=12h", "30m"), violation_rate="2%"))[1]
    assert options["cycles"] == {"day": 43200.0, "hour": 3600.0, "30m": 1800.0}
    assert options["violation_rate"] == 0.02


@pytest.mark.parametrize("word", ["context", "cycles", "constraints", "study"])
def test_a_parameter_may_have_the_name_of_a_table(folder, word):
    (folder / "other.toml").write_text(f'[{word}]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n')
    space, options = described(folder / "other.toml", said())
    assert list(space.parameters) == [word]
    assert list(options) == ["direction"]


def test_a_variable_of_the_context_may_be_named_type(folder):
    (folder / "other.toml").write_text('[x]\ntype="float"\nlow=0\nhigh=1\n[context.type]\ntype="int"\nlow=1\nhigh=3\n')
    assert list(described(folder / "other.toml", said())[1]["context"]) == ["type"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[cycles]\nday = "tomorrow"', "'tomorrow' is not a duration"),
        ("[cycles]\nday = 0", "period of 'day' is 0"),
        ("[constraints.p99]\nat_most = 5\nat_least = 7", "constraint 'p99' is"),
        ("[constraints.value]\nat_most = 5", "named 'value'"),
        ("[context.power]\ntype = 'int'\nlow = 1\nhigh = 3", "'power' is a parameter and in the context"),
        ("[study]\nviolation_rate = 0.1", "violation_rate=0.1 needs constraints"),
        ("[study]\nviolation_rate = 'much'", "violation_rate='much': give a share"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(folder, more, says):
    plain = TOML[: TOML.index("[context")]
    (folder / "space.toml").write_text(plain + more)
    assert says in run("create", *WHERE, "--space", "space.toml", code=1)


def test_the_shell_speaks_them(where):
    run("create", *where, "--space", "space.toml", "--seed", "1")
    trial = run("ask", *where, "--context", "load=312,backend=a")
    assert (trial["context"], trial["filled"]) == (MEASURED, [])
    told = ("--id", trial["id"], "--value", "2.5", "--context", '{"load": 330}', "--constraints", "p99_ms=60,hits=0.95")
    assert run("tell", *where, *told) == {"told": True}
    assert run("ask", *where, "--context", "load=400")["filled"] == ["backend"]
    assert run("recommend", *where, "--context", "load=900", "--current", "power=5")["feasible"] <= 1.0
    assert "'laod' is unknown" in run("ask", *where, "--context", "laod=1", code=1)
    assert "'p98' is unknown" in run("tell", *where, "--id", "1", "--value", "1", "--constraints", "p98=1", code=1)
    assert "'load' has no =" in run("ask", *where, "--context", "load", code=1)
    assert "not JSON" in run("ask", *where, "--context", "{load", code=1)
    assert "has no 'pwr'" in run("recommend", *where, "--current", "pwr=5", code=1)


def test_what_was_filled_is_said_beside_the_answer(folder):
    run("create", *WHERE, "--space", "space.toml")
    run("ask", *WHERE, "--context", "load=312,backend=a")
    done = CliRunner().invoke(ebbtide, ("ask", *WHERE, "--context", "load=5"))
    assert json.loads(done.stdout)["context"] == {"load": 5.0, "backend": "a"}
    assert "Warning: 'backend' of the context was not measured" in done.stderr


# --- measuring the context ------------------------------------------------------------------------------------------


def printing(text):
    return [*PYTHON, f"print({text!r})"]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ('{"load": 312, "backend": "a"}', ["load", "backend"], {"load": 312, "backend": "a"}),
        ('chatter\n{"load": 312}\n\n', ["load", "backend"], {"load": 312}),
        ("312.5", ["load"], {"load": 312.5}),
    ],
)
def test_a_command_prints_the_context(text, names, expected):
    assert context_reader(printing(text), None, names)() == Reading(expected)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (printing("312"), "not a JSON object with 'load', 'backend'"),
        (printing("{load"), "the last line is '{load'"),
        (printing("[1, 2]"), "not a JSON object"),
        (["true"], "printed nothing"),
        (["./nowhere"], "cannot start './nowhere'"),
        ([*PYTHON, "import sys; sys.exit('no sensor')"], "exit code 1: no sensor"),
        (printing('{"load": "' + "x" * context.LONGEST + '"}'), f"a last line longer than {context.LONGEST} bytes"),
    ],
)
def test_a_command_that_does_not_is_named(argv, says):
    reading = context_reader(argv, None, ["load", "backend"])()
    assert reading.context is None
    assert says in reading.problem


def test_a_command_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(context, "TIME_LIMIT", 0.2)
    assert context_reader(["sleep", "1000"], None, ["load"])().problem == "still running after 0.2 s"


BODIES = {
    "/object": b'{\n "load": 312,\n "backend": "a"\n}',
    "/empty": b"",
    "/long": b'{"load": "' + b"x" * context.LONGEST + b'"}',
}


class Endpoint(BaseHTTPRequestHandler):
    def do_GET(self):
        body = BODIES.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def host():
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_endpoint_answers_the_context(host):
    assert context_reader((), f"{host}/object", ["load", "backend"])() == Reading(MEASURED | {"load": 312})
    for path, says in (("/empty", "empty"), ("/long", "longer than 65536"), ("/nothing", "HTTP 404")):
        assert says in context_reader((), host + path, ["load"])().problem


# --- the loop -------------------------------------------------------------------------------------------------------


def study():
    space = {"x": eb.Float(0.0, 1.0)}
    context, constraints = {"load": eb.Float(0.0, 2000.0)}, {"p99": eb.AtMost(50.0)}
    clock = eb.ManualClock()
    return eb.Optimizer(space, clock=clock, seed=0, n_initial=1000, context=context, constraints=constraints)


def go(opt, readings, outcomes, told=("context", "constraints")):
    """The loop over these readings and outcomes; what was shown, and how long it waited."""
    left, shown, slept = list(readings), [], []
    measured = iter(outcomes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ebbtide.study.contexts.warnings.warn", lambda *arguments, **options: None)
        tune(
            opt,
            lambda params: next(measured),
            every=None,
            show=shown.append,
            stop_after=len(outcomes),
            around=Around(lambda: left.pop(0), told),
            sleep=slept.append,
            monotonic=count(step=10).__next__,
        )
    assert left == []
    return shown, slept


def test_the_context_is_measured_before_each_ask_and_may_be_corrected():
    opt = study()
    outcomes = [Outcome(1.0, None, 0.0, {"p99": 60.0}, {"load": 330.0}), Outcome(2.0, None, 0.0, {"p99": 40.0})]
    shown, slept = go(opt, [Reading({"load": 312.0}), Reading({"load": 400.0})], outcomes)
    assert [told.context for told in opt.history] == [{"load": 330.0}, {"load": 400.0}]
    assert [told.constraints for told in opt.history] == [{"p99": 60.0}, {"p99": 40.0}]
    assert slept == []
    assert shown[-1].violations == eb.Violations(0.5, 2, 0.05, {"p99": 0.5})
    assert "violations 50.0 % of 2 (wanted: at most 5 %)" in line(shown[-1], 1000)
    assert "Constraints: violations 50.0 % of 2 (wanted: at most 5 %)." in summary(shown[-1])


@pytest.mark.parametrize("bad", [Reading(None, "no sensor"), Reading({"laod": 1.0}), Reading({"load": math.nan})])
def test_a_context_that_cannot_be_measured_is_taken_from_earlier(bad):
    opt = study()
    shown, slept = go(opt, [Reading({"load": 312.0}), bad], [Outcome(1.0, None, 0.0)] * 2)
    assert [told.context for told in opt.history] == [{"load": 312.0}] * 2
    assert opt.history[1].filled == ("load",)
    assert slept == []
    assert "context from earlier: " in line(shown[-1], 1000)
    assert "context from earlier" not in line(shown[0], 1000)


def test_without_any_context_the_ask_waits():
    opt = study()
    readings = [Reading(None, "no sensor"), Reading({"laod": 1.0}), Reading({"load": 5.0})]
    shown, slept = go(opt, readings, [Outcome(1.0, None, 0.0)])
    assert slept == [1.0, 2.0]
    assert "the context cannot be measured: no sensor; trying again in 1 s" in line(shown[0], 1000)
    assert "'laod' is unknown" in line(shown[1], 1000)
    assert (opt.asked, opt.history[0].context) == (1, {"load": 5.0})


@pytest.mark.parametrize("beside", [{"constraints": {"p98": 1.0}}, {"constraints": 3}, {"context": {"load": "x"}}])
def test_what_cannot_be_told_beside_a_value_does_not_cost_the_value(beside):
    opt = study()
    shown, _ = go(opt, [Reading({"load": 1.0})], [Outcome(2.0, None, 0.0, **beside)])
    assert (opt.history[0].value, opt.history[0].constraints) == (2.0, None)
    assert shown[-1].failed == 0
    assert "only the value was told: " in line(shown[-1], 1000)


def test_a_study_without_conditions_does_not_look_at_what_is_beside_a_value():
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=0)
    outcome = Outcome(2.0, None, 0.0, {"p99": 1.0}, "whatever")
    shown = []
    tune(opt, lambda params: outcome, every=None, show=shown.append, stop_after=1)
    assert opt.history[0].value == 2.0
    assert line(shown[-1], 1000).count("   ") <= 1
    assert Status().violations is None


# --- ebbtide tune ---------------------------------------------------------------------------------------------------


def tuned(*options):
    value = '{"value": 3.0, "constraints": {"p99_ms": 60, "hits": 0.95}, "context": {"load": 330}}'
    code = f"print({value!r})".replace("{", "{{").replace("}", "}}")
    command = [sys.executable, "-I", "-S", "-c", code, "{power}"]
    arguments = ("tune", "--space", "space.toml", *WHERE, "--seed", "0", *options, "--", *command)
    return CliRunner().invoke(ebbtide, arguments)


def test_tune_measures_the_context(folder):
    measure = shlex.join(printing('{"load": 312, "backend": "b"}'))
    done = tuned("--trials", "2", "--context-command", measure, "--cycle", "week=168h")
    assert done.exit_code == 0, done.output
    assert "violations 100.0 % of 2 (wanted: at most 10 %)" in done.stderr
    with closing(eb.Optimizer.open("sqlite:///tuner.db", "edge")) as opt:
        assert [told.context for told in opt.history] == [{"load": 330, "backend": "b"}] * 2
        assert [told.constraints for told in opt.history] == [{"p99_ms": 60.0, "hits": 0.95}] * 2
        assert opt.definition.conditions.cycles == {"day": 86400.0, "hour": 3600.0, "week": 604800.0}
        assert opt.violations.per_constraint == {"p99_ms": 1.0, "hits": 0.0}


def test_tune_reads_the_context_from_an_address(folder, host):
    done = tuned("--trials", "1", "--context-url", f"{host}/object")
    assert done.exit_code == 0, done.output
    with closing(eb.Optimizer.open("sqlite:///tuner.db", "edge")) as opt:
        assert opt.trial("0").context == MEASURED


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "the study has a context, load, backend: give --context-command or --context-url"),
        (("--context-command", "a", "--context-url", "http://b"), "give one of them"),
        (("--context-command", "'a"), "--context-command 'a: No closing quotation"),
        (("--context-command", " "), "--context-command is empty"),
    ],
)
def test_a_mistake_is_noticed_before_the_first_run(folder, options, says):
    done = tuned("--trials", "1", *options)
    assert done.exit_code == 1
    assert says in done.stderr


def test_a_study_without_a_context_is_not_given_one(folder):
    (folder / "space.toml").write_text(TOML[: TOML.index("[context")])
    done = tuned("--trials", "1", "--context-command", "true")
    assert done.exit_code == 1
    assert "are for a study with a context" in done.stderr
