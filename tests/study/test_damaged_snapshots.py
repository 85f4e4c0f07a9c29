"""Snapshots whose content is wrong, although their checksum is right: an error when they are loaded, or they work."""

import copy
import json
import tempfile
import warnings
from pathlib import Path

import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.studies import MEMORY, MIXED, named, value_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.study import snapshot


def saved(opt):
    """What `save` writes, as JSON."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        opt.save(f"{folder}/s.json")
        return json.loads(Path(folder, "s.json").read_text(encoding="utf-8"))["payload"]


def loaded(payload):
    """The same, with the right checksum."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        snapshot.write(f"{folder}/s.json", payload)
        return eb.Optimizer.load(f"{folder}/s.json")


def example(algorithm="tide"):
    """A study with everything in it that a snapshot can hold."""
    setting = {"x": 0.5, "rate": 0.01, "n": 4, "codec": "a"}
    opt = eb.Optimizer(
        MIXED,
        algorithm=algorithm,
        clock=eb.ManualClock(),
        seed=3,
        n_initial=3,
        start=setting,
        baseline=setting,
        baseline_every=5,
        explore=0.5,
        movement=eb.Movement({"x": 0.3}, cost=0.01),
    )
    drive(opt, value_of, 12)
    opt.tell(setting, 1.5, time=3.0, key="from elsewhere")
    opt.tell(opt.ask(), failed=True)
    opt.tell(opt.ask(lease=5.0), abandoned=True)
    opt.ask(lease=7.0)
    opt.ask()
    return opt


def conditioned():
    """A study with a context, a cycle and constraints."""
    clock = eb.ManualClock()
    opt = eb.Optimizer(
        {"x": eb.Float(0.0, 1.0)},
        clock=clock,
        seed=3,
        n_initial=3,
        context={"load": eb.Float(0.0, 100.0), "codec": eb.Categorical(["a", "b"])},
        cycles={"day": 24.0},
        constraints={"p99": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)},
    )
    for k in range(6):
        trial = opt.ask(context={"load": 10.0 * k, "codec": "ab"[k % 2]})
        opt.tell(trial, float(k), context={"load": 10.0 * k + 1.0}, constraints={"p99": 47.0 + k})
        clock.advance(1.0)
    opt.tell({"x": 0.5}, failed=True, constraints={"hits": 0.1})
    opt.ask(context={"load": 99.0, "codec": "a"})
    return opt


WHOLE, AROUND = saved(example()), saved(conditioned())
DEEP = json.loads("[" * 500 + "]" * 500)


def changed(path, value, payload=WHOLE):
    payload = copy.deepcopy(payload)
    *way, last = path
    inner = payload
    for key in way:
        inner = inner[key]
    inner[last] = value
    return payload


@pytest.mark.parametrize(
    ("payload", "path", "says"),
    [
        (saved(example("w-dbo")), ("state", "hyper", "jumps"), "hyper.jumps is True"),
        (AROUND, ("state", "outcomes", "p99", "hyper", "jumps"), "jumps of .*p99.* is True"),
    ],
    ids=["a published algorithm", "a value under a constraint"],
)
def test_only_an_objective_that_is_asked_about_jumps_has_any(payload, path, says):
    with pytest.raises(eb.SnapshotError, match=says):
        loaded(changed(path, True, payload))


def test_the_example_is_a_good_one():
    assert saved(loaded(WHOLE)) == WHOLE
    assert saved(loaded(AROUND)) == AROUND
    assert WHOLE["trials"]
    assert len(WHOLE["pending"]) == 2
    assert WHOLE["state"]["policy"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("history",), None, "in the log: TypeError.*NoneType"),
        (("history", 0), [], "in the log: .*missing"),
        (("history", 2, 0, "x"), 1.5, r"line 2 of the history: .*'x' is 1.5, outside \[0.0, 1.0\]"),
        (("history", 2, 0, "n"), 10**400, "line 2 of the history: .*'n'"),
        (("history", 2, 0), DEEP, "line 2 of the history"),
        (("history", 2, 1), "noon", "the time in line 2 of the history is 'noon'"),
        (("history", 2, 1), 1e200, r"the time in line 2 of the history is 1e\+200"),
        (("history", 2, 2), "big", "value in line 2 of the history is 'big'"),
        (("history", 2, 3), "1", "the trial in line 2 of the history, which is there twice"),
        (("history", 2, 3), "900", "the trial in line 2 of the history is '900'"),
        (("history", 2, 4), True, "removed_at in line 2 of the history is True"),
        (("pending", 0, "id"), "x", "the id of a trial is 'x'"),
        (("pending", 0, "params", "codec"), "z", "'codec' is 'z'"),
        (("pending", 0, "expires"), [], r"expires of trial '\d+' is \[\]"),
        (("in_force",), {"x": 0.5}, "in_force: .*'rate' is missing"),
        (("start", 0, "x"), 7, r"start\[0\]: .*'x' is 7.0, outside"),
        (("baseline", "codec"), "z", "baseline: .*'codec' is 'z'"),
        (("movement", "limit", "x"), "far", "limit of 'x' is 'far'"),
        (("movement", "limit"), {"z": 1.0}, "'z', which is not in the space"),
        (("space", "x", "low"), 5.0, "above the upper one"),
        (("space", "x"), DEEP, "'x' is "),
        (("algorithm", "staleness", "alpha"), "much", "alpha='much'"),
        (("algorithm", "staleness", "speed"), 3, "speed"),
        (("algorithm", "spatial"), 3, "int"),
        (("algorithm", "spatial", "nu"), 2**63, "nu=9223372036854775808"),
        (("seed",), -1, "seed=-1"),
        (("state", "asks"), -1, "asks is -1"),
        (("state", "asks"), 10**400, "asks is 1000"),
        (("state", "hyper", "noise"), 0.0, "a hyperparameter is 0.0"),
        (("state", "hyper", "lengthscale"), [0.1, 0.1], "hyper.lengthscale"),
        (("state", "hyper", "jumps"), "often", "hyper.jumps is 'often'"),
        (("state", "hyper", "timescale"), None, "hyper.timescale is None"),
        (("state", "standardization", "scale"), 0.0, "standardization.scale"),
        (("state", "standardization", "power"), 0.3, "standardization"),
        (("state", "standardization", "knee"), "high", "standardization.knee"),
        (("state", "standardization", "span"), None, "standardization.span"),
        (("state", "standardization", "span"), 5e-324, "standardization.span"),
        (("state", "standardization", "span"), 1.0, "standardization.span"),  # the better side: it minimizes
        (("state", "policy"), {"log_budget": 0.0}, r"policy\['time'\] is None"),
        (("state", "policy"), [], r"policy is \[\]"),
        (("state", "policy", "timescale"), 0.0, r"policy\['timescale'\] is 0.0"),
        (("state", "responses"), ["long"], "responses is"),
        (("state", "latest_reading"), "now", "latest_reading is 'now'"),
        (("state", "guards"), {"jitter": -1}, "guards is"),
        (("state",), DEEP, "dictionary update"),
        (("state",), 3, "in the state: TypeError"),
    ],
)
def test_what_is_wrong_is_named(path, value, says):
    with pytest.raises(eb.SnapshotError, match=says):
        loaded(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("context", "load", "low"), 500.0, "above the upper one"),
        (("context",), 3, "context=3"),
        (("cycles", "day"), 0.0, "period of 'day' is 0.0"),
        (("constraints", "p99"), {"at_most": "x"}, "constraint 'p99'"),
        (("violation_rate",), 2.0, "violation_rate=2.0"),
        (("failures_violate",), 3, "failures_violate=3"),
        (("history", 2, 9), None, "line 2 of the history: .*missing"),
        (("history", 2, 9), {"load": 1.0}, "line 2 of the history: .*'codec'.* missing"),
        (("history", 2, 9, "codec"), "z", "line 2 of the history: .*'codec' is 'z'"),
        (("history", 2, 10), {"p98": 1.0}, "line 2 of the history: .*'p98' is unknown"),
        (("history", 2, 11), ["other"], r"filled in line 2 of the history is \('other',\)"),
        (("pending", 0, "context", "load"), "much", "trial '6': .*'load' is 'much'"),
        (("pending", 0, "filled"), ["other"], "filled in trial '6'"),
        (("trials", "0", 2, "load"), [], "trial '0': .*'load'"),
        (("state", "contexts", 0), [0.5], "a row of contexts"),
        (("state", "contexts", 0, 0), "x", "a row of contexts"),
        (("state", "context_lines", 0), -1, "context_lines"),
        (("state", "context_lines"), [1], "contexts is"),
        (("state", "latest", "load", 3), "x", "latest: .*'load' is 'x'"),
        (("state", "latest", "load", 0), "x", "latest is"),
        (("state", "latest"), {"other": [0.0, 1, 0, 1.0]}, "'other' is unknown"),
        (("state", "outcomes"), 3, "outcomes is 3"),
        (("state", "level"), "x", "level is 'x'"),
    ],
)
def test_what_is_wrong_with_conditions_is_named(path, value, says):
    with pytest.raises(eb.SnapshotError, match=says):
        loaded(changed(path, value, AROUND))


def test_deeper_than_python_can_read(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"format": "ebbtide-snapshot", "version": 1, "payload": ' + "[" * 10**5 + "]" * 10**5 + "}")
    with pytest.raises(eb.SnapshotError, match="not a complete snapshot"):
        eb.Optimizer.load(path)


# --- anything at all ----------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-3, 40), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, 1e308, 5e-324, 2**63])
)
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.text(max_size=3),
    st.sampled_from(["0", "13", "worst", "UCB", "KeepAll", "hold", "SystemClock", "mine.Clock"]),
    st.lists(NUMBERS, max_size=3),
    st.dictionaries(st.sampled_from(["type", "x", "time", "mean", ""]), NUMBERS, max_size=2),
    st.just(DEEP),
)


def places(value, way=()):
    """Every place in a document."""
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*way, key))


PLACES = [(payload, place) for payload in (WHOLE, AROUND) for place in places(payload) if place]


@st.composite
def damaged(draw):
    whole = draw(st.sampled_from([WHOLE, AROUND]))
    payload = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from([place for of, place in PLACES if of is whole]))
        inner = payload
        try:
            for key in way:
                inner = inner[key]
            match draw(st.sampled_from(["replace", "replace", "delete", "twice"])):
                case "replace":
                    inner[last] = draw(ANYTHING)
                case "delete":
                    del inner[last]
                case "twice" if isinstance(inner, list):
                    inner.append(inner[last])
        except (KeyError, IndexError, TypeError):
            pass  # the first change has removed the place of the second
    return payload


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_it_is_refused_or_it_works(payload):
    try:
        opt = loaded(payload)
    except eb.SnapshotError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.EbbtideWarning)
        context = {"load": 1.0, "codec": "b"} if opt.definition.conditions.variables else None
        try:
            trial = opt.ask(context=context)
        except eb.ObservationError:  # the variables of the context are others
            return
        opt.space.check(trial.params)
        if opt.clock.now() >= trial.time:
            opt.tell(trial, 1.0)
        if len(opt.dataset):
            opt.recommend(context=context)
        opt.ask(context=context)
        saved(opt)


@pytest.mark.parametrize("algorithm", named(quick=["w-dbo", "et-gp-ucb", "r-gp-ucb", "abo"]))
def test_what_is_saved_can_be_loaded(algorithm):
    opt = eb.Optimizer(UNIT_SQUARE, algorithm=algorithm, clock=eb.ManualClock(), seed=1, n_initial=3)
    for _ in range(4):
        drive(opt, moving_bump, 4)
        assert loaded(saved(opt)).ask() == opt.ask()
