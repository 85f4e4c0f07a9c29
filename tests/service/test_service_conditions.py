"""Context, cycles and constraints over HTTP: the library's words, and its errors."""

import math

import pytest
from helpers.serving import read_chunk, storage_of

import ebbtide as eb
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0)}
CONTEXT = {"load": eb.Float(0.0, 2000.0), "backend": eb.Categorical(["a", "b"])}
CONSTRAINTS = {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)}
OPTIONS = {"context": CONTEXT, "cycles": {"day": 86400}, "constraints": CONSTRAINTS, "violation_rate": 0.1}
MEASURED = {"load": 312.0, "backend": "a"}
LOAD = {"type": "float", "low": 0.0, "high": 2000.0}
NEW = {
    "name": "never",
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
    "context": {"load": LOAD},
    "cycles": {"day": 86400.0},
    "constraints": {"p99_ms": {"at_most": 50.0}},
}


@pytest.fixture
def study(client, request):
    return client.create(request.node.name[-90:], SPACE, seed=3, n_initial=1000, **OPTIONS)


def test_a_study_says_its_conditions(client, study):
    described = study.describe()
    assert list(described["context"]) == ["load", "backend"]
    assert described["cycles"] == {"day": 86400.0}
    assert described["constraints"] == {"p99_ms": {"at_most": 50.0}, "hits": {"at_least": 0.9}}
    assert (described["violation_rate"], described["failures_violate"]) == (0.1, False)
    assert study.violations == eb.Violations(None, 0, 0.1, {})
    assert client.create_or_open(study.name, SPACE, **OPTIONS).describe() == described
    assert client.create_or_open(study.name, SPACE).describe() == described
    with pytest.raises(eb.StudyError, match=r"its cycles is .*86400.*, not .*1800"):
        client.create_or_open(study.name, SPACE, cycles={"day": 1800.0})


def test_a_plain_study_has_none(client, request):
    plain = client.create(request.node.name, SPACE, seed=0)
    described = plain.describe()
    assert (described["context"], described["cycles"], described["constraints"]) == (None, {}, {})
    assert plain.violations is None
    assert plain.ask().context is None
    with pytest.raises(eb.ObservationError, match="this study has no context"):
        plain.ask(context=MEASURED)
    with pytest.raises(eb.ObservationError, match="this study has no constraints"):
        plain.tell({"x": 0.5}, 1.0, constraints={"p99_ms": 1.0})


def test_context_and_constraints_come_back(study, server):
    trial = study.ask(context=MEASURED)
    assert (trial.context, trial.filled) == (MEASURED, ())
    study.tell(trial, 1.0, context={"load": 2500}, constraints={"p99_ms": 60})
    later = study.ask(context={"load": 5.0})
    assert (later.context, later.filled) == ({"load": 5.0, "backend": "a"}, ("backend",))
    assert study.trial(later.id) == later
    study.tell(later, failed=True, constraints={"hits": 0.95})
    first, second = study.history
    assert (first.context, first.constraints, first.filled) == ({"load": 2500, "backend": "a"}, {"p99_ms": 60.0}, ())
    assert (second.constraints, second.filled) == ({"hits": 0.95}, ("backend",))
    assert study.violations == eb.Violations(1 / 2, 2, 0.1, {"p99_ms": 1 / 2, "hits": 0.0})
    library = Storage.of(storage_of(server.folder), read_only=True)
    assert library.log(study.name).history() == [first, second]
    library.close()
    many = study.ask(2, context=MEASURED)
    assert [trial.context for trial in many] == [MEASURED] * 2
    study.tell(trial, 1.0, context={"load": 2500}, constraints={"p99_ms": 60})  # again
    assert study.told == 2


def test_a_recommendation_for_a_context(study):
    with pytest.raises(eb.ObservationError, match="'load' of the context was not measured, and no earlier value"):
        study.recommend()
    study.tell({"x": 0.5}, 1.0, context=MEASURED)
    best = study.recommend(context={"load": 900.0}, current={"x": 0.5})
    assert 0.0 <= best.feasible <= 1.0
    study.recommend()  # with what was measured last
    study.recommend(current={"x": 0.25})
    with pytest.raises(eb.ParameterError, match="outside"):
        study.recommend(current={"x": 7.0})
    with pytest.raises(eb.ObservationError, match="'laod' is unknown"):
        study.recommend(context={"laod": 900.0})
    assert study.state()["told"] == 1


def test_an_error_leaves_no_trace(study):
    with pytest.raises(eb.ObservationError, match="no earlier value is known"):
        study.ask()
    with pytest.raises(eb.ObservationError, match="'backend' is 'c'"):
        study.ask(context={"load": 1.0, "backend": "c"})
    with pytest.raises(eb.ObservationError, match="'p98' is unknown"):
        study.tell({"x": 0.5}, 1.0, context=MEASURED, constraints={"p98": 1.0})
    for bad in (math.nan, object()):
        with pytest.raises(eb.ObservationError, match="cannot be sent as JSON"):
            study.ask(context={"load": bad})
    with pytest.raises(eb.ObservationError, match="give a dict"):
        study.tell({"x": 0.5}, 1.0, constraints=[1.0])
    assert (study.asked, study.told) == (0, 0)
    assert study.state()["asked"] == 0


def test_events_have_them_too(study, server):
    study.tell(study.ask(context=MEASURED), 1.0, constraints={"hits": 1.0})
    with server.connect() as talk:
        request = server.request("GET", f"/studies/{study.name}/events", Last_Event_ID="0.0")
        talk.say(request, head_only=True)
        text = ""
        while text.count("data: ") < 2:
            text += read_chunk(talk.stream).decode()
    assert '"context": {"load": 312.0, "backend": "a"}' in text
    assert '"constraints": {"hits": 1.0}' in text


@pytest.mark.parametrize(
    "change",
    [
        {"context": {f"c{k}": LOAD for k in range(17)}},
        {"context": {"c": {"type": "categorical", "choices": list(range(17))}}},
        {"context": {"load": {"type": "float", "low": 0.0}}},
        {"context": {"x": LOAD}},
        {"cycles": {"day": 0.0}},
        {"cycles": {"day": "24h"}},
        {"cycles": {str(k): 1.0 + k for k in range(5)}},
        {"constraints": {"p99_ms": {"at_most": 50.0, "at_least": 60.0}}},
        {"constraints": {"p99_ms": 50.0}},
        {"constraints": {"value": {"at_most": 50.0}}},
        {"constraints": {str(k): {"at_most": 1.0} for k in range(9)}},
        {"violation_rate": 0.0},
        {"violation_rate": 1.5},
        {"constraints": {}, "violation_rate": 0.1},
        {"failures_violate": 3},
    ],
)
def test_a_definition_that_cannot_be_meant_is_refused(change, server, untouched):
    answer = server.call("POST", "/studies", NEW | change)
    assert answer.status == 422
    assert answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("ask", {"context": {"load": "much"}}),
        ("ask", {"context": [1.0]}),
        ("ask", {"context": {f"c{k}": 1.0 for k in range(17)}}),
        ("tell", {"params": {"x": 0.5}, "value": 1.0, "constraints": {"p99_ms": "x"}}),
        ("tell", {"params": {"x": 0.5}, "value": 1.0, "constraints": {str(k): 1.0 for k in range(9)}}),
        ("recommend", {"contxt": {}}),
        ("recommend", {"current": {"x": 9.0}}),
    ],
)
def test_a_body_that_does_not_fit_is_refused(path, body, study, server):
    assert server.call("POST", f"/studies/{study.name}/{path}", body).status == 422
    assert (study.asked, study.told) == (0, 0)
