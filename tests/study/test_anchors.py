"""Between two anchors an ask only changes the model of the one before, and still depends on nothing but the record."""

import pickle
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.studies import Tables, url

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.gp import inference
from ebbtide.gp.posterior import condition
from ebbtide.study.outcomes import Outcomes
from ebbtide.study.schedule import LONGEST
from ebbtide.study.warm import caught_up

HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))
EXACT = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=8.0, min_active=5, method="exact"))
SQUARED = eb.Algorithm(temporal=eb.SquaredExponential(), staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))
ARD = eb.Algorithm(spatial=eb.Matern(2.5, (1.0, 1.0)), staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))
WINDOW = eb.Algorithm(staleness=eb.SlidingWindow(25))
ALGORITHMS = {
    "hasty": HASTY,
    "exact": EXACT,
    "squared": SQUARED,
    "ard": ARD,
    "window": WINDOW,
    **{name: name for name in ("tide", "keep-all", "gp-ucb", "tv-gp-ucb", "et-gp-ucb", "abo", "random-removal")},
}


def begun(algorithm, **where):
    return eb.Optimizer(
        UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(), seed=5, algorithm=algorithm, n_initial=4, **where
    )


def go_on(opt, steps, rng):
    """Asks with whatever happens in between: late values, failures, several trials at once, values from outside."""
    asked = []
    for _ in range(steps):
        opt.clock.advance(float(rng.uniform(0.2, 2.0)))
        trials = opt.ask(n=2) if rng.random() < 0.2 else [opt.ask()]
        asked += trials
        for trial in trials:
            wait_until(opt.clock, trial.time)
            if rng.random() < 0.1:
                continue  # told later, or never
            if rng.random() < 0.05:
                opt.tell(trial, failed=True)
            else:
                opt.tell(trial, moving_bump(trial.params, trial.time) + 0.1 * float(rng.standard_normal()))
        late = [trial for trial in asked[-12:-4] if trial.id in {each.id for each in opt.pending_trials}]
        if late and rng.random() < 0.5:
            opt.tell(late[0], 0.5)
        if rng.random() < 0.1:
            opt.tell({"x": float(rng.random()), "y": 0.5}, float(rng.random()), time=opt.clock.now() - 3.0)
    return asked


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_a_study_that_is_interrupted_again_and_again_asks_the_same(algorithm, tmp_path):
    rng, twin_rng = np.random.default_rng(1), np.random.default_rng(1)
    opt, stored = begun(algorithm), begun(algorithm, storage=url(tmp_path / "s.db"), name="edge")
    given = None if isinstance(algorithm, str) else algorithm
    for k in range(12):
        asked = go_on(opt, 4, rng)
        assert asked == go_on(stored, 4, twin_rng)
        clock = opt.clock
        if k % 3 == 0:
            opt.save(tmp_path / "s.json")
            opt = eb.Optimizer.load(tmp_path / "s.json", clock=clock, algorithm=given)
        if k % 2 == 0:
            clock = stored.clock
            stored.close()
            stored = eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=clock, algorithm=given)
    stored.close()


CONDITIONS = {
    "context": {"load": eb.Float(0.0, 1.0), "backend": eb.Categorical(["a", "b"])},
    "cycles": {"day": 12.0},
    "constraints": {"p99": eb.AtMost(0.6), "hits": eb.AtLeast(0.2)},
}


def go_on_in_the_world(opt, steps, rng):
    """The same with a context, a cycle and constraints; one of the two values is often missing."""
    asked = []
    for _ in range(steps):
        opt.clock.advance(float(rng.uniform(0.2, 2.0)))
        context = {"load": float(rng.random()), "backend": "ab"[int(rng.integers(2))]}
        trial = opt.ask(context=context)
        asked.append(trial)
        if rng.random() < 0.1:
            opt.tell(trial, failed=True)
            continue
        value = moving_bump(trial.params, trial.time) + 0.1 * float(rng.standard_normal())
        outcomes = {"p99": trial.params["x"] + 0.1 * float(rng.standard_normal())}
        if rng.random() < 0.5:
            outcomes["hits"] = value
        opt.tell(trial, value, constraints=outcomes)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [HASTY, EXACT, "tide"], ids=["hasty", "exact", "tide"])
def test_so_does_one_with_a_context_a_cycle_and_constraints(algorithm, tmp_path):
    rng, twin_rng = np.random.default_rng(1), np.random.default_rng(1)
    place = {"storage": url(tmp_path / "s.db"), "name": "edge"}
    opt, stored = begun(algorithm, **CONDITIONS), begun(algorithm, **CONDITIONS, **place)
    given = None if isinstance(algorithm, str) else algorithm
    kept = []
    for _ in range(8):
        assert go_on_in_the_world(opt, 5, rng) == go_on_in_the_world(stored, 5, twin_rng)
        kept.append(opt._engine.warm is not None and set(opt._engine.warm.models) == {None, "p99", "hits"})
        opt.save(tmp_path / "s.json")
        opt = eb.Optimizer.load(tmp_path / "s.json", clock=opt.clock, algorithm=given)
        stored.close()
        stored = eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=stored.clock, algorithm=given)
    stored.close()
    assert sum(kept) >= 4


@pytest.mark.usefixtures("one_thread")
def test_the_models_of_constraints_are_those_of_their_data_and_come_back_to_the_last_bit():
    opt, rng = begun(HASTY, **CONDITIONS), np.random.default_rng(8)
    seen = 0
    for _ in range(40):
        go_on_in_the_world(opt, 1, rng)
        engine, kept = opt._engine, opt._engine.warm
        again = caught_up(engine, None)
        if kept is None or again is None:
            continue
        for name, model in kept.models.items():
            assert np.array_equal(again.models[name].labels, model.labels)
            assert np.array_equal(again.models[name].P, model.P)
        conditioned = {outcome.name: outcome for outcome in Outcomes(engine).conditioned(np.arange(len(engine.active)))}
        for carried in Outcomes(engine).carried(kept):
            afresh = conditioned[carried.name]
            order = np.argsort(carried.rows)
            told = np.isin(afresh.rows, carried.rows)  # one was told since
            assert np.array_equal(carried.rows[order], afresh.rows[told])
            seen += carried.carried is not None
            if told.all():
                alpha = carried.posterior.alpha[order]
                np.testing.assert_allclose(alpha, afresh.posterior.alpha, atol=1e-8 * np.abs(alpha).max())
    assert seen > 20


def test_two_processes_take_turns(tmp_path):
    alone, place = begun(HASTY), url(tmp_path / "s.db")
    one = begun(HASTY, storage=place, name="edge")
    with closing(one), closing(eb.Optimizer.open(place, "edge", clock=one.clock)) as other:
        rngs = [np.random.default_rng(2) for _ in range(2)]
        for k in range(14):
            assert go_on(one if k % 2 else other, 3, rngs[0]) == go_on(alone, 3, rngs[1])


def test_what_another_process_computes_from_a_pickled_engine_is_the_same():
    opt = begun(HASTY)
    drive(opt, moving_bump, 40)
    for _ in range(10):
        plan = pickle.loads(pickle.dumps(opt._plan()))
        assert plan.engine.warm is None
        step = plan.step()
        drive(opt, moving_bump, 1)
        assert opt._log.trials()[-1].params == opt.space.decode(step.x)


def test_a_step_that_was_never_recorded_leaves_no_trace():
    opt, twin = begun(HASTY), begun(HASTY)
    for _ in range(12):
        for each in (opt, twin):
            drive(each, moving_bump, 3)
        later = opt.clock.now() + 5.0
        opt._engine.step(later)  # as for an ask that another process has overtaken
        assert opt.ask() == twin.ask()


def test_an_error_in_the_middle_of_an_ask_leaves_no_trace(monkeypatch):
    opt, twin = begun(HASTY), begun(HASTY)
    for each in (opt, twin):
        drive(each, moving_bump, 30)
    with monkeypatch.context() as patch:
        patch.setattr("ebbtide.study.model_step.maximize", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            opt.ask()
    assert opt.ask() == twin.ask()


@pytest.mark.parametrize("algorithm", ["w-dbo", "keep-all"])
def test_most_asks_need_no_anchor_but_none_is_older_than_allowed(algorithm, tmp_path):
    with closing(begun(algorithm, storage=url(tmp_path / "s.db"), name="edge")) as opt:
        rng = np.random.default_rng(3)
        for _ in range(150):
            opt.clock.advance(0.02)
            x, y = rng.random(2).tolist()
            opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, opt.clock.now()) + 0.1 * rng.standard_normal())
        drive(opt, lambda p, t: moving_bump(p, t) + 0.1 * float(rng.standard_normal()), 80, dt=0.1)
    anchors = [ask.get("anchor") for ask in (state for *_, state in map(Tables(tmp_path / "s.db").recorded, range(80)))]
    ages = [number - anchor for number, anchor in enumerate(anchors)]
    assert max(ages) <= LONGEST
    assert np.count_nonzero(ages) > 40
    assert all(later == earlier or later == number + 1 for number, (earlier, later) in enumerate(pairwise(anchors)))


def test_the_model_that_is_kept_is_the_one_of_the_data():
    opt = begun(HASTY)
    rng = np.random.default_rng(4)
    for _ in range(20):
        go_on(opt, 3, rng)
        opt.ask()
        warm, engine = opt._engine.warm, opt._engine
        data, rows = opt.dataset, warm.rows(engine)
        fresh = condition(opt.model.kernel, opt.model.noise, data.x[rows], data.t[rows], data.y[rows])
        assert sorted(warm.model.labels.tolist()) == engine.active.lines.tolist()
        np.testing.assert_allclose(warm.model.P, fresh.P, atol=1e-9 * np.abs(fresh.P).max())


@pytest.mark.usefixtures("one_thread")
def test_what_is_recorded_gives_the_model_back_to_the_last_bit():
    opt = begun(HASTY)
    rng = np.random.default_rng(6)
    for _ in range(30):
        go_on(opt, 1, rng)
        kept, again = opt._engine.warm, caught_up(opt._engine, None)
        if kept is None:
            continue
        assert again.held == kept.held
        assert np.array_equal(again.model.labels, kept.model.labels)
        assert np.array_equal(again.model.P, kept.model.P)


def test_rounding_that_adds_up_is_noticed_and_counted(monkeypatch):
    monkeypatch.setattr("ebbtide.study.warm.DRIFT", -1.0)
    opt = begun(HASTY)
    drive(opt, moving_bump, 20)
    assert opt.guards["drift"] > 5
    assert opt._engine.state.anchor == opt._engine.state.asks - 1


def test_a_model_that_is_too_large_is_made_afresh_by_every_ask(monkeypatch, tmp_path):
    monkeypatch.setattr("ebbtide.study.warm.LARGEST", 20_000)
    opt = begun("keep-all")
    drive(opt, moving_bump, 40)
    assert opt._engine.warm is None
    assert opt._engine.state.anchor is None
    opt.save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json").ask() == opt.ask()


def test_a_clock_that_goes_back_makes_the_model_afresh(tmp_path):
    opt = begun(HASTY)
    drive(opt, moving_bump, 30)
    opt.clock = eb.ManualClock(opt.clock.now() - 1000.0)
    with pytest.warns(eb.ClockWarning):
        drive(opt, moving_bump, 15)
    opt.save(tmp_path / "s.json")
    assert opt.guards["clock_went_back"] == 1
    assert eb.Optimizer.load(tmp_path / "s.json", clock=eb.ManualClock(opt.clock.now())).ask() == opt.ask()


@pytest.mark.parametrize(("rows", "every"), [(8, 1), (35, 4)])
def test_the_fit_is_checked_when_a_tenth_of_the_rows_may_be_new(rows, every, monkeypatch):
    opt = begun(eb.Algorithm(staleness=eb.WassersteinBudget(min_active=rows, max_active=rows)))
    drive(opt, moving_bump, rows + 5)
    looks = []
    monkeypatch.setattr(inference, "is_worth_a_refit", lambda *_: looks.append(opt._engine.state.asks))
    drive(opt, moving_bump, 24)
    # An ask that makes the model afresh anyway checks nothing.
    assert set(np.diff(looks)) <= {every, 2 * every}
    assert len(looks) >= 24 // every - 2
