"""Context, cycles and constraints in Optuna studies."""

import math

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

import ebbtide as eb
from ebbtide.integrations.optuna import EbbtideSampler, recommend
from ebbtide.integrations.optuna_record import NOTE

optuna.logging.set_verbosity(optuna.logging.ERROR)
CONTEXT = {"load": eb.Float(0.0, 2000.0), "backend": eb.Categorical(["a", "b"])}
X = {"x": FloatDistribution(0.0, 1.0)}


def measured(k):
    return {"load": 100.0 * k, "backend": "ab"[k % 2]}


def too_slow(trial):
    """As Optuna's own samplers have it: above 0 is a violation."""
    return (trial.params["x"] - 0.5, 0.1)


def study_of(storage=None, clock=None, **options):
    sampler = EbbtideSampler("w-dbo", clock=clock or eb.ManualClock(), seed=0, n_initial=3, **options)
    return optuna.create_study(study_name="s", storage=storage, sampler=sampler, load_if_exists=True)


def go(study, clock, numbers):
    for k in numbers:
        study.set_user_attr("context", measured(k))
        trial = study.ask()
        x = trial.suggest_float("x", 0.0, 1.0)
        if k % 4 == 3:
            trial.set_user_attr("context", {"load": 7.0})
        if k % 5 == 4:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, (x - 0.3) ** 2)
        clock.advance(1.0)


def belief(study):
    recommend(study)
    return study.sampler._belief


def test_the_context_is_a_user_attribute(tmp_path):
    clock = eb.ManualClock()
    study = study_of(clock=clock, context=CONTEXT, cycles={"day": 24.0})
    go(study, clock, range(8))
    notes = [trial.system_attrs[NOTE] for trial in study.trials]
    assert [note["context"] for note in notes] == [measured(k) for k in range(8)]
    active = belief(study).engine.active
    told = [measured(k) | ({"load": 7.0} if k % 4 == 3 else {}) for k in range(8) if k % 5 != 4]
    assert active.dataset.c.tolist() == [[c["load"] / 2000, *({"a": [1, 0], "b": [0, 1]}[c["backend"]])] for c in told]
    assert belief(study).engine.definition.conditions.cycles == {"day": 24.0}


def test_a_resumed_study_asks_what_it_would_have_asked(tmp_path):
    storage, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "other"))
    options = {"context": CONTEXT, "constraints_func": too_slow}
    clocks = eb.ManualClock(), eb.ManualClock()
    whole, parts = study_of(storage, clocks[0], **options), study_of(other, clocks[1], **options)
    go(whole, clocks[0], range(12))
    for numbers in (range(5), range(5, 9), range(9, 12)):
        parts = study_of(other, clocks[1], **options)
        go(parts, clocks[1], numbers)
    assert [trial.params for trial in parts.trials] == [trial.params for trial in whole.trials]
    for one, two in zip(whole.trials, parts.trials, strict=True):
        assert one.system_attrs[NOTE] == two.system_attrs[NOTE]
    states = [belief(study).engine.state for study in (whole, study_of(other, clocks[1], **options))]
    assert states[0].contexts == states[1].contexts
    assert states[0].latest == states[1].latest


def test_what_is_missing_is_filled_or_an_error():
    clock = eb.ManualClock()
    study = study_of(clock=clock, context=CONTEXT)
    study.add_trial(
        optuna.create_trial(
            params={"x": 0.5}, distributions=X, value=1.0, user_attrs={"ebbtide:time": 0.0, "context": measured(3)}
        )
    )
    study.set_user_attr("context", {"load": 5.0})
    with pytest.warns(eb.ContextWarning, match="'backend'"):
        trial = study.ask(X)
    assert study.trials[trial.number].system_attrs[NOTE]["context"] == {"load": 5.0, "backend": "b"}
    study.set_user_attr("context", {"laod": 5.0})
    with pytest.raises(eb.ObservationError, match="'laod' is unknown"):
        study.ask(X)


def test_a_trial_may_bring_its_own_context():
    clock = eb.ManualClock()
    study = study_of(clock=clock, context=CONTEXT)
    go(study, clock, range(2))
    study.enqueue_trial({}, user_attrs={"context": {"load": 1234.0}})
    trial = study.ask(X)
    assert study.trials[trial.number].system_attrs[NOTE]["context"] == {"load": 1234.0, "backend": "b"}


@pytest.mark.filterwarnings("ignore::ebbtide.errors.EbbtideWarning")
def test_a_trial_without_a_context_is_not_modelled():
    clock = eb.ManualClock()
    study = study_of(clock=clock, context=CONTEXT)
    go(study, clock, range(3))
    for attributes in ({}, {"context": {"load": 1.0}}, {"context": {"load": "x", "backend": "a"}}):
        study.add_trial(
            optuna.create_trial(
                params={"x": 0.5}, distributions=X, value=1.0, user_attrs=attributes | {"ebbtide:time": 1.0}
            )
        )
    with pytest.warns(eb.EbbtideWarning, match="3 trials without a known context are not modelled"):
        recommend(study)
    assert len(study.sampler._belief.engine.active) == 3


def test_constraints_are_at_most_zero():
    clock = eb.ManualClock()
    study = study_of(clock=clock, constraints_func=too_slow, violation_rate=0.2)
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
        clock.advance(1.0)
    engine = belief(study).engine
    conditions = engine.definition.conditions
    assert conditions.constraints == {"constraint 0": eb.AtMost(0.0), "constraint 1": eb.AtMost(0.0)}
    xs = [trial.params["x"] for trial in study.trials]
    assert engine.active.dataset.outcomes[:, 0].tolist() == [x - 0.5 for x in xs]
    seen = conditions.violations(engine.active.broken)
    assert seen.target == 0.2
    assert seen.counted == len([trial for trial in study.trials if "state" in trial.system_attrs[NOTE]])
    assert seen.per_constraint["constraint 1"] == 1.0


def test_violations_of_forgotten_trials_are_still_counted(tmp_path):
    clock, window = eb.ManualClock(), eb.Algorithm(staleness=eb.SlidingWindow(size=3))

    def opened():
        sampler = EbbtideSampler(window, clock=clock, seed=0, n_initial=2, constraints_func=too_slow)
        storage = f"sqlite:///{tmp_path}/s.db"
        return optuna.create_study(study_name="s", storage=storage, sampler=sampler, load_if_exists=True)

    study = opened()
    for _ in range(9):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
        clock.advance(1.0)
    whole, resumed = belief(study).engine.active, belief(opened()).engine.active
    assert len(whole) < 9
    assert whole.broken == resumed.broken
    assert whole.broken.total() == 8  # the first was sampled before there was a model


def test_a_recommendation_for_a_context():
    clock = eb.ManualClock()
    study = study_of(clock=clock, context=CONTEXT)
    go(study, clock, range(6))
    best = recommend(study, context={"load": 900.0, "backend": "a"}, current={"x": 0.5})
    assert 0.0 <= best.feasible <= 1.0
    with pytest.raises(eb.ParameterError, match="does not fit"):
        recommend(study, current={"x": 7.0})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"context": {"load": 3}}, "'load' is 3"),
        ({"cycles": {"day": -1.0}}, "period of 'day'"),
        ({"violation_rate": 0.1}, "violation_rate=0.1 needs constraints"),
        ({"violation_rate": math.nan, "constraints_func": too_slow}, "violation_rate=nan"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, says):
    with pytest.raises((eb.ConfigurationError, eb.SpaceError), match=says):
        EbbtideSampler(**options)


def test_a_study_without_conditions_leaves_the_notes_that_it_always_left():
    clock = eb.ManualClock()
    study = study_of(clock=clock)
    for _ in range(4):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
        clock.advance(1.0)
    note = study.trials[-1].system_attrs[NOTE]
    assert set(note) == {"time", "params", "forgot", "told", "state", "of"}
    assert not {"contexts", "latest", "outcomes", "level"} & set(note["state"])
