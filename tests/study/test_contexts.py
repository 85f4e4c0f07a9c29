"""A context is completed from what was measured last, and comes back from wherever a study was kept."""

import json
import warnings
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from helpers.studies import column, contents, python, same, tiny, url
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.study.contexts import SAMPLE, sampled
from ebbtide.study.storage import Storage

CONTEXT = {"load": eb.Float(0.0, 2000.0), "backend": eb.Categorical(["a", "b"])}
CONSTRAINTS = {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)}
MEASURED = {"load": 312.0, "backend": "a"}


def conditioned(path=None, **changes):
    return tiny(path, **{"context": CONTEXT, "cycles": {"day": 24.0}, "constraints": CONSTRAINTS} | changes)


@contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.ContextWarning)
        yield


# --- filling --------------------------------------------------------------------------------------------------------


def test_a_trial_and_its_observation_have_the_context():
    opt = conditioned()
    trial = opt.ask(context={"backend": "b", "load": np.float64(312.0)})
    assert (trial.context, trial.filled) == ({"load": 312.0, "backend": "b"}, ())
    assert opt.trial(trial.id) == trial
    opt.tell(trial, 3.2, context={"load": 2500}, constraints={"hits": 0.93, "p99_ms": 41})
    told = opt.history[-1]
    assert (told.context, told.filled) == ({"load": 2500.0, "backend": "b"}, ())
    assert told.constraints == {"p99_ms": 41.0, "hits": 0.93}
    assert opt.dataset.c.tolist() == [[1.25, 0.0, 1.0]]
    assert opt.dataset.outcomes.tolist() == [[41.0, 0.93]]
    taken = opt.dataset.take(np.array([0]))
    assert (taken.c.tolist(), taken.outcomes.tolist()) == ([[1.25, 0.0, 1.0]], [[41.0, 0.93]])


def test_several_trials_have_the_same_context():
    trials = conditioned().ask(3, context=MEASURED)
    assert [trial.context for trial in trials] == [MEASURED] * 3


def test_what_was_never_measured_is_an_error():
    opt = conditioned()
    before = contents(opt)
    for attempt in (
        lambda: opt.ask(),
        lambda: opt.ask(context={"load": 3.0}),
        lambda: opt.tell({"x": 0.5}, 1.0, context={"load": 3.0}),
    ):
        with pytest.raises(eb.ObservationError, match="not measured, and no earlier value is known: measure it"):
            attempt()
    assert contents(opt) == before


def test_what_is_missing_is_filled_from_the_latest_measurement():
    opt = conditioned()
    opt.tell(opt.ask(context=MEASURED), 1.0, context={"load": 400.0})
    opt.clock.advance(5.0)
    with pytest.warns(
        eb.ContextWarning, match="'load' of the context was not measured: its latest value is used, .* about 5 old"
    ) as said:
        trial = opt.ask(context={"backend": "b"})
    assert {warning.filename for warning in said} == {__file__}
    assert (trial.context, trial.filled) == ({"load": 400.0, "backend": "b"}, ("load",))
    opt.tell(trial, 1.0)  # nothing new is filled
    assert opt.history[-1].filled == ("load",)
    opt.tell(opt.ask(context={"load": 1.0, "backend": "a"}), 1.0, context={"load": 2.0})
    assert opt.history[-1].filled == ()
    for attempt in (
        lambda: opt.tell({"x": 0.5}, 2.0, context={"backend": "b"}),
        lambda: opt.recommend(context={"backend": "b"}),
        lambda: opt.predict({"x": 0.5}, context={"backend": "b"}),
    ):
        with pytest.warns(eb.ContextWarning, match="'load'.* about 0 old") as said:
            attempt()
        assert {warning.filename for warning in said} == {__file__}
    assert (opt.history[-1].context, opt.history[-1].filled) == ({"load": 2.0, "backend": "b"}, ("load",))


def test_a_filled_value_does_not_become_younger():
    opt = conditioned()
    opt.ask(context=MEASURED)
    for _ in range(3):
        opt.clock.advance(1.0)
        with quietly():
            opt.tell(opt.ask(context={"load": 1.0}), 1.0)
    opt.clock.advance(1.0)
    with pytest.warns(eb.ContextWarning, match="'backend'.* about 4 old"):
        opt.ask(context={"load": 1.0})


def test_telling_the_same_value_again_is_a_measurement():
    opt = conditioned()
    opt.ask(context=MEASURED)
    for _ in range(3):
        opt.clock.advance(1.0)
        with quietly():
            trial = opt.ask()
        opt.tell(trial, 1.0, context=MEASURED)
    with pytest.warns(eb.ContextWarning, match="'backend'.* about 0 old"):
        opt.ask(context={"load": 1.0})


def test_a_value_from_long_ago_is_not_used_once_l_t_is_known():
    opt = conditioned(n_initial=4, algorithm="w-dbo", constraints=None)
    for k in range(12):
        opt.tell(opt.ask(context=MEASURED), float(k % 3))
        opt.clock.advance(1.0)
    opt.ask(context=MEASURED)
    span = opt.hyperparameters["timescale"]
    opt.clock.advance(0.9 * span)
    with pytest.warns(eb.ContextWarning, match="'backend'"):
        opt.recommend(context={"load": 1.0})
    opt.clock.advance(0.2 * span)
    before = contents(opt)
    for attempt in (lambda: opt.ask(context={"load": 1.0}), lambda: opt.tell({"x": 0.5}, 1.0, context={"load": 1.0})):
        with pytest.raises(eb.ObservationError, match=r"'backend'.*old, more than one l_T.*: measure it"):
            attempt()
    assert contents(opt) == before
    assert opt.ask(context={"load": 1.0, "backend": "b"}).filled == ()


def test_an_old_measurement_told_late_does_not_count_as_the_latest():
    opt = conditioned()
    opt.clock.advance(10.0)
    opt.tell({"x": 0.1}, 1.0, context=MEASURED)
    opt.tell({"x": 0.2}, 1.0, context={"load": 999.0, "backend": "b"}, time=3.0)
    with quietly():
        assert opt.ask().context == MEASURED


def test_without_a_value_the_context_may_be_unknown():
    opt = conditioned()
    opt.tell({"x": 0.5}, failed=True, constraints={"p99_ms": 90.0})
    opt.tell({"x": 0.5}, abandoned=True, context={"load": 3.0})
    assert [told.context for told in opt.history] == [None, None]
    trial = opt.ask(context=MEASURED)
    opt.tell(trial, failed=True, context={"load": 3.0})
    assert opt.history[-1].context == {"load": 3.0, "backend": "a"}


def test_returned_contexts_cannot_change_the_study():
    opt = conditioned()
    trial = opt.ask(context=MEASURED)
    for given_out in (trial, opt.trial(trial.id), opt.pending_trials[0]):
        given_out.context["load"] = -1.0
    assert opt.trial(trial.id).context == MEASURED


def test_an_observation_dated_in_the_future_is_set_aside_without_a_context(tmp_path):
    clock = eb.SystemClock()
    clock.never_before(clock.now() + 3600.0)
    opt = conditioned(tmp_path / "s.db", clock=clock)
    opt.tell(opt.ask(context=MEASURED), 1.0)
    assert opt.forget_future() == 1
    assert opt.trial("1").context is None
    with pytest.raises(eb.ObservationError, match="no earlier value is known"):
        opt.ask()
    later = opt.ask(context={"load": 9.0, "backend": "b"})
    assert later.time < clock.now() - 3000.0
    with quietly():
        assert opt.ask().context == later.context
    opt.close()
    assert len(eb.Optimizer.open(url(tmp_path / "s.db"), "edge").history) == 2


# --- the sample -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 500), max_size=300), st.randoms())
def test_the_sample_depends_only_on_which_lines_there_are(lines, random):
    def sample(sequence):
        kept, rows = [], []
        for line in sequence:
            kept, rows = sampled(kept, rows, line, np.array([line / 1000]), seed=3)
        assert rows == [[line / 1000] for line in kept]
        return kept

    first = sample(lines)
    assert len(first) == min(SAMPLE, len(set(lines)))
    assert set(first) <= set(lines)
    random.shuffle(lines)
    assert sample(lines) == first


def test_the_sample_is_of_the_whole_history():
    kept, rows = [], []
    for line in range(2000):
        kept, rows = sampled(kept, rows, line, np.zeros(1), seed=1)
    assert len(kept) == SAMPLE
    assert 700 < np.mean(kept) < 1300  # uniform: 1000 ± 4 × 72
    assert min(kept) < 300
    assert max(kept) > 1700


# --- everything comes back ------------------------------------------------------------------------------------------

ACTIONS = st.tuples(
    st.sampled_from(["ask", "ask", "tell", "tell", "fail", "outside", "time"]),
    st.fixed_dictionaries({}, optional={"load": st.floats(-1e4, 1e4), "backend": st.sampled_from("ab")}),
    st.fixed_dictionaries({}, optional={"p99_ms": st.floats(0.0, 100.0), "hits": st.floats(0.0, 1.0)}),
    st.integers(0, 9),
)


def happen(opt, action):
    kind, context, constraints, number = action
    waiting = opt.pending_trials
    with quietly():
        if kind == "time":
            opt.clock.advance(float(number))
        elif kind == "ask":
            opt.ask(context=context, lease=None if number < 7 else 5.0)
        elif kind == "outside":
            opt.tell({"x": number / 9}, float(number), time=opt.clock.now() * number / 9, context=context)
        elif waiting:
            outcome = {"failed": True} if kind == "fail" else {"value": float(number)}
            opt.tell(waiting[number % len(waiting)], **outcome, context=context, constraints=constraints)


def all_same(one, other):
    same(one, other)
    assert one.violations == other.violations
    assert np.array_equal(one.dataset.c, other.dataset.c)
    assert np.array_equal(one.dataset.outcomes, other.dataset.outcomes, equal_nan=True)
    assert one.pending_trials == other.pending_trials
    assert [one.trial(k) for k in range(one.asked)] == [other.trial(k) for k in range(other.asked)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))  # to shrink it takes minutes
@given(st.lists(ACTIONS, max_size=25), st.booleans())
def test_a_study_is_the_same_wherever_it_was_kept(tmp_path_factory, actions, failures_violate):
    folder = tmp_path_factory.mktemp("s")
    options = {"algorithm": "sliding-window", "n_initial": 10_000, "failures_violate": failures_violate}
    memory, stored, other = (conditioned(path, **options) for path in (None, folder / "a.db", folder / "b.db"))
    partner = conditioned(folder / "b.db", **options)
    for number, action in enumerate([("ask", MEASURED, {}, 0), *actions]):
        if number % 4 == 1:
            stored.close()
            stored = eb.Optimizer.open(url(folder / "a.db"), "edge", clock=stored.clock)
            memory.save(folder / "s.json")
            memory = eb.Optimizer.load(folder / "s.json")
        if number % 3 == 2:  # another process goes on
            other, partner = partner, other
            other.clock = partner.clock
            other._catch_up()
        for opt in (memory, stored, other):
            happen(opt, action)
    all_same(memory, stored)
    partner._catch_up()
    for opt in (other, partner):
        all_same(memory, opt)
        opt.close()
    summary = Storage.of(url(folder / "a.db"), read_only=True).summary("edge")
    assert summary.violations == memory.violations
    stored.close()


def test_a_stored_study_comes_back_to_the_last_bit(tmp_path):
    with closing(conditioned(tmp_path / "s.db", n_initial=4)) as opt:
        for k in range(10):
            trial = opt.ask(context={"load": 100.0 * k, "backend": "ab"[k % 2]})
            opt.tell(trial, float(k % 4), constraints={"p99_ms": 45.0 + k})
            opt.clock.advance(1.0)
        expected, now = contents(opt), opt.clock.now()
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=eb.ManualClock(now))) as again:
        assert contents(again) == expected
        assert len(expected["state"]["contexts"]) == 10
        assert again.violations == eb.Violations(4 / 10, 10, 0.05, {"p99_ms": 4 / 10, "hits": 0.0})
        trial = again.ask(context=MEASURED)
        with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=eb.ManualClock(now))) as third:
            assert third.pending_trials == [trial]


def test_a_snapshot_with_conditions_has_another_version(tmp_path):
    opt = conditioned()
    opt.tell(opt.ask(context=MEASURED), 1.0, context={"load": 1.0}, constraints={"hits": 0.8})
    with quietly():
        opt.ask(context={"load": 2.0})
    opt.save(tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text())["version"] == 2
    again = eb.Optimizer.load(tmp_path / "s.json")
    all_same(opt, again)
    assert again.trial("0").context == MEASURED
    plain = tiny()
    plain.tell(plain.ask(), 1.0)
    plain.save(tmp_path / "plain.json")
    assert json.loads((tmp_path / "plain.json").read_text())["version"] == 1


def test_a_stored_study_has_the_same_conditions(tmp_path):
    conditioned(tmp_path / "s.db").close()
    conditioned(tmp_path / "s.db").close()
    tiny(tmp_path / "s.db").close()  # what is not given is as it was stored
    with pytest.raises(eb.StudyError, match=r"its cycles is {'day': 24.0}, not {'day': 12.0}"):
        conditioned(tmp_path / "s.db", cycles={"day": 12.0})
    with pytest.raises(eb.StudyError, match=r"its violation_rate is 0.05, not 0.1"):
        conditioned(tmp_path / "s.db", violation_rate=0.1)


TELLING = """
    import sys
    import ebbtide as eb
    opt = eb.Optimizer.open(sys.argv[1], "edge", clock=eb.ManualClock(3.0))
    trial = opt.ask(context={"load": 700.0, "backend": "b"})
    opt.tell(trial, 2.0, context={"load": 800.0}, constraints={"p99_ms": 51.0})
"""


@pytest.mark.slow
def test_another_process_is_heard(tmp_path):
    with closing(conditioned(tmp_path / "s.db")) as opt:
        opt.tell(opt.ask(context=MEASURED), 1.0, constraints={"p99_ms": 10.0})
        process = python(TELLING, url(tmp_path / "s.db"))
        process.communicate(timeout=120)
        assert process.returncode == 0
        opt.clock.advance(5.0)
        with pytest.warns(eb.ContextWarning, match="'load'.* about 2 old"):
            trial = opt.ask(context={"backend": "b"})
        assert trial.context == {"load": 800.0, "backend": "b"}
        assert opt.violations.rate == 1 / 2
        assert opt.dataset.c.tolist() == [[0.156, 1.0, 0.0], [0.4, 0.0, 1.0]]
        assert column(tmp_path / "s.db", "SELECT broken FROM tells ORDER BY line") == [0, 1]


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tells SET context = '{\"load\": 1.0}'",
        "UPDATE tells SET context = NULL",
        "UPDATE tells SET context = 'x'",
        "UPDATE tells SET constraints = '{\"other\": 1.0}'",
        "UPDATE tells SET constraints = '{\"hits\": 1e999}'",
    ],
)
def test_a_damaged_line_is_named(damage, tmp_path):
    import sqlite3

    with closing(conditioned(tmp_path / "s.db")) as opt:
        opt.tell(opt.ask(context=MEASURED), 1.0, constraints={"p99_ms": 10.0})
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(eb.DamagedError, match="line 0 of the log is damaged"):
        eb.Optimizer.open(url(tmp_path / "s.db"), "edge")


def test_a_callback_gets_the_context():
    seen = []
    opt = conditioned(callbacks=[seen.append])
    opt.tell(opt.ask(context=MEASURED), 1.0, constraints={"hits": 1.0})
    asked, told = seen
    assert asked.trial.context == told.observation.context == MEASURED
    assert told.observation.constraints == {"hits": 1.0}
    assert replace(told.observation) == opt.history[0]
