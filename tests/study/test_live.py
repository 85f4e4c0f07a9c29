"""On live systems: failures teach, recommendations hold, most asks hold a good setting, settings move slowly."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.study.live import LiveOptions

SQUARE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def hill(params, t):
    """A hill that goes round in a circle."""
    x, y = 0.5 + 0.3 * math.sin(t / 24.0), 0.5 + 0.3 * math.cos(t / 24.0)
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08)


def in_the_corner(params):
    """A tenth of the square."""
    return params["x"] > 0.684 and params["y"] > 0.684


def at_the_edge(params):
    return params["x"] > 0.9


def optimizer(**given: Any) -> Any:
    defaults: dict[str, Any] = {"direction": "maximize", "clock": eb.ManualClock(), "seed": 0, "algorithm": "w-dbo"}
    return eb.Optimizer(SQUARE, **defaults | given)


def drive(opt, steps, fails=lambda params: False, noise=0.05, value=hill):
    rng = np.random.default_rng(opt.seed)
    trials = []
    for _ in range(steps):
        trial = opt.ask()
        trials.append(trial)
        if fails(trial.params):
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, value(trial.params, trial.time) + noise * rng.normal())
        opt.clock.advance(1.0)
    return trials


# --- failures -------------------------------------------------------------------------------------------------


def failures_of(opt):
    failed = [observation.failed for observation in opt.history]
    longest, run = 0, 0
    for each in failed:
        run = run + 1 if each else 0
        longest = max(longest, run)
    return sum(failed), longest


@pytest.mark.slow
@pytest.mark.parametrize("fails", [in_the_corner, at_the_edge])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.very_slow) for seed in (2, 3))])
def test_places_that_fail_are_left_alone(fails, seed):
    opt = optimizer(seed=seed, algorithm="tide")
    drive(opt, 150, fails)
    failed, longest = failures_of(opt)
    assert failed <= 10
    assert longest <= 3


@pytest.mark.slow
@pytest.mark.parametrize("fails", [in_the_corner, at_the_edge])
def test_failures_that_are_ignored_are_repeated(fails):
    learns, ignores = optimizer(), optimizer(on_failure="ignore")
    for opt in (learns, ignores):
        drive(opt, 80, fails)
    assert failures_of(ignores)[0] > 3 * failures_of(learns)[0]
    values = [np.mean([o.value for o in opt.history if not o.failed]) for opt in (learns, ignores)]
    assert values[0] > values[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_place_that_has_recovered_is_asked_again(seed):
    """The best place fails until t = 100; it is found within two l_T of its recovery."""
    opt = optimizer(seed=seed)

    def peak(params, t):
        corner = 2.0 * math.exp(-((params["x"] - 0.85) ** 2 + (params["y"] - 0.85) ** 2) / 0.05)
        drifting = 0.5 + 0.3 * math.sin(t / 24.0)
        return corner + math.exp(-((params["x"] - drifting) ** 2 + (params["y"] - 0.3) ** 2) / 0.2)

    drive(opt, 100, in_the_corner, value=peak)
    assert failures_of(opt)[0] <= 10
    back = 0
    while not in_the_corner(opt.history[-1].params) or opt.history[-1].failed:
        drive(opt, 1, value=peak)
        back += 1
    assert back <= 2.0 * opt.hyperparameters["timescale"]


@pytest.mark.parametrize("on_failure", ["worst", -5.0, "ignore"])
def test_a_failure_counts_as_said(on_failure):
    opt = optimizer(on_failure=on_failure)
    drive(opt, 30)
    before = opt.recommend().params
    for _ in range(20):
        opt.tell(before, failed=True)
    after = opt.recommend()
    moved = math.dist(before.values(), after.params.values())
    if on_failure == "ignore":
        assert (moved, after.failure) == (0.0, 0.0)
    else:
        assert moved > 0.05
        assert after.failure < 0.5
    assert opt.definition.live.on_failure == on_failure


def test_what_fails_when_nothing_else_is_known():
    """Every place fails but one: the asks go on, and spread."""
    opt = optimizer(n_initial=2)
    trials = drive(opt, 20, lambda params: True)
    X = np.array([list(trial.params.values()) for trial in trials])
    assert len({tuple(x) for x in X}) == 20
    assert np.ptp(X, axis=0).min() > 0.5
    with pytest.raises(eb.NothingKnownError):
        opt.recommend()


def test_what_was_called_off_says_nothing():
    called_off, untouched = optimizer(), optimizer()
    for opt in (called_off, untouched):
        drive(opt, 20)
    trial = called_off.ask()
    called_off.tell(trial, abandoned=True)
    called_off.tell(trial, abandoned=True)  # telling it again changes nothing
    untouched.ask()
    untouched.clock.advance(1e3)
    called_off.clock.advance(1e3)
    assert called_off.recommend() == untouched.recommend()
    last = called_off.history[-1]
    assert (last.abandoned, last.failed, last.active, last.value) == (True, False, False, None)
    assert called_off.pending == 0
    with pytest.raises(eb.TrialError, match="was told that it was abandoned before and that it failed now"):
        called_off.tell(trial, failed=True)
    with pytest.raises(eb.ObservationError, match="an evaluation that was called off has no value"):
        called_off.tell(trial, 1.0, abandoned=True)
    with pytest.raises(eb.ObservationError, match="was called off did not fail"):
        called_off.tell(trial, failed=True, abandoned=True)


def test_ctrl_c_in_optimize_is_not_held_against_the_setting():
    opt = optimizer()

    def interrupted(params, t):
        if t > 3.0:
            raise KeyboardInterrupt
        opt.clock.advance(1.0)
        return hill(params, t)

    with pytest.raises(KeyboardInterrupt):
        opt.optimize(interrupted, duration=100.0)
    assert [o.abandoned for o in opt.history] == [False] * 4 + [True]
    assert not any(o.failed for o in opt.history)


# --- recommendations ------------------------------------------------------------------------------------------


def test_a_recommendation_is_near_what_was_measured():
    opt = optimizer(n_initial=0)
    rng = np.random.default_rng(0)
    for _ in range(12):
        x, y = rng.uniform(0.0, 0.4, 2)
        opt.tell({"x": x, "y": y}, x + y + 0.01 * rng.normal())  # rises towards what was never measured
        opt.clock.advance(1.0)
    opt.ask()
    best = opt.recommend()
    assert max(best.params.values()) < 0.75
    assert best.support > 0.0
    assert best.failure == 0.0


def test_support_counts_fresh_measurements():
    opt = optimizer(n_initial=0)
    drive(opt, 40)
    place = opt.recommend()
    for _ in range(20):
        opt.tell(place.params, place.mean)
    assert opt.recommend().support > place.support + 5.0


# --- hold and probe -------------------------------------------------------------------------------------------


@given(share=st.floats(0.0, 1.0), starts=st.integers(0, 3), asks=st.integers(1, 300))
@settings(max_examples=200, deadline=None)
def test_the_share_of_probes_is_kept(share, starts, asks):
    live = LiveOptions(explore=share, start=({},) * starts)
    kinds = [live.kind(number, known=True) for number in range(starts + asks)]
    assert kinds[:starts] == ["start"] * starts
    assert kinds.count("explore") == pytest.approx(share * asks, abs=1.0)


def test_most_asks_hold_the_recommended_setting():
    opt = optimizer(explore=0.2)
    trials = drive(opt, 100, value=lambda params, t: hill(params, t / 5.0))
    kinds = [trial.kind for trial in trials]
    assert kinds.count("explore") == 20
    assert kinds.count("hold") == 80
    assert [o.kind for o in opt.history] == kinds
    good = {kind: np.mean([hill(t.params, t.time / 5.0) for t in trials[40:] if t.kind == kind]) for kind in set(kinds)}
    assert good["hold"] > good["explore"]
    assert good["hold"] > 0.8


def test_the_start_comes_first_and_the_baseline_now_and_then():
    start = [{"x": 0.2, "y": 0.3}, {"x": 0.5, "y": 0.9}]
    opt = optimizer(explore=0.5, start=start, baseline={"x": 0.1, "y": 0.1}, baseline_every=5)
    trials = drive(opt, 22)
    assert [(t.kind, t.params) for t in trials[:2]] == [("start", start[0]), ("start", start[1])]
    assert [k for k, t in enumerate(trials) if t.kind == "baseline"] == [3, 8, 13, 18]
    assert all(t.params == {"x": 0.1, "y": 0.1} for t in trials if t.kind == "baseline")


def test_nothing_known_means_nothing_to_hold():
    opt = optimizer(explore=0.0)
    first, second = opt.ask(), opt.ask()
    assert (first.kind, second.kind) == ("explore", "explore")
    opt.tell(first, 1.0)
    assert opt.ask().kind == "hold"


# --- movement -------------------------------------------------------------------------------------------------

MIXED = {
    "power": eb.Float(1.0, 100.0, log=True),
    "width": eb.Int(1, 50),
    "codec": eb.Categorical(["a", "b"]),
    "ratio": eb.Float(0.1, 1.0, step=0.25),
    "buffer": eb.Ordinal([512, 256, 128, 64, 32]),
}


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    power=st.floats(0.5, 200.0),
    width=st.integers(1, 60),
    explore=st.sampled_from([1.0, 0.3]),
)
@settings(max_examples=15, deadline=None)
def test_no_step_is_longer_than_the_limit(seed, power, width, explore):
    clock = eb.ManualClock()
    movement = eb.Movement(limit={"power": power, "width": width, "ratio": 0.3, "buffer": 2})
    start = {"power": 10.0, "width": 25, "codec": "a", "ratio": 0.35, "buffer": 64}
    opt = eb.Optimizer(MIXED, clock=clock, seed=seed, movement=movement, start=start, explore=explore)
    here = start
    rng = np.random.default_rng(seed)
    for k in range(14):
        trial = opt.ask()
        assert abs(trial.params["power"] - here["power"]) <= power * (1.0 + 1e-9)
        assert abs(trial.params["width"] - here["width"]) <= width
        assert abs(trial.params["ratio"] - here["ratio"]) <= 0.3
        assert here["buffer"] / 4 <= trial.params["buffer"] <= here["buffer"] * 4
        here = trial.params
        opt.tell(trial, float(rng.normal()))
        if k == 9:  # somebody else has changed the setting
            here = {"power": 90.0, "width": 50, "codec": "b", "ratio": 0.85, "buffer": 512}
            opt.tell(here, 0.0)
        clock.advance(1.0)


def test_a_move_that_costs_more_than_it_gains_is_not_made():
    def lengths(cost):
        opt = optimizer(movement=eb.Movement(cost=cost), n_initial=4)
        trials = drive(opt, 60)
        X = np.array([list(trial.params.values()) for trial in trials[10:]])
        return np.abs(np.diff(X, axis=0)).sum(axis=1).mean()

    assert lengths(5.0) < 0.2 * lengths(0.0)


# --- durability -----------------------------------------------------------------------------------------------

LIVE = {
    "explore": 0.4,
    "start": {"x": 0.3, "y": 0.3},
    "movement": eb.Movement(limit={"x": 0.2}, cost=0.01),
    "baseline": {"x": 0.5, "y": 0.5},
    "baseline_every": 6,
    "on_failure": -1.0,
}


@pytest.mark.parametrize("how", ["stored", "saved"])
def test_a_resumed_study_asks_the_same(how, tmp_path):
    plain, kept = optimizer(**LIVE), optimizer(**LIVE)
    if how == "stored":
        kept = optimizer(**LIVE, storage=f"sqlite:///{tmp_path}/s.db", name="edge")
    asked = ([], [])
    for k in range(30):
        for opt, trials in zip((plain, kept), asked, strict=True):
            trials += drive(opt, 1, at_the_edge)
            if k % 7 == 3:
                opt.tell({"x": 0.4, "y": 0.6}, failed=True)
            if k % 7 == 5:
                opt.tell(opt.ask(), abandoned=True)
        if how == "stored":
            kept.close()
            kept = optimizer(**LIVE, clock=kept.clock, storage=f"sqlite:///{tmp_path}/s.db", name="edge")
        else:
            kept.save(tmp_path / "s.json")
            kept = eb.Optimizer.load(tmp_path / "s.json")
    assert asked[0] == asked[1]
    assert plain.history == kept.history
    assert plain.recommend() == kept.recommend()
    kept.close()


def test_a_study_opened_again_keeps_what_is_not_said_and_refuses_what_differs(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    optimizer(**LIVE, storage=url, name="edge").close()
    with eb.Optimizer(SQUARE, direction="maximize", clock=eb.ManualClock(), storage=url, name="edge") as again:
        assert again.definition.live == LiveOptions.of(again.space, **LIVE)
    with pytest.raises(eb.StudyError, match=r"its explore is 0\.4, not 0\.5"):
        optimizer(**LIVE | {"explore": 0.5}, storage=url, name="edge")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"explore": 1.5}, "explore=1.5: give a share between 0 and 1"),
        ({"explore": "20%"}, "explore='20%': give a share"),
        ({"start": {"x": 2.0, "y": 0.0}}, "start=.*'x' is 2.0, outside"),
        ({"start": "x"}, "start='x': give a setting"),
        ({"baseline": {"x": 0.1}}, "baseline=.*'y' is missing"),
        ({"baseline_every": 5}, "baseline_every needs a baseline"),
        ({"baseline": {"x": 0.1, "y": 0.1}, "baseline_every": 1}, "baseline_every=1: give a whole number"),
        ({"movement": {"limits": {}}}, "movement=.*it has no .'limits'."),
        ({"movement": 3}, "movement=3: give an eb.Movement"),
        ({"movement": {"limit": {"z": 1.0}}}, "a limit for 'z', which is not in the space"),
        ({"movement": {"limit": {"n": 0.5}}}, "the limit of 'n' is 0.5: it could never move; give 2 or more"),
        ({"movement": {"limit": {"x": -1.0}}}, "limit of 'x' is -1.0: give a positive number"),
        ({"movement": {"cost": -1.0}}, "cost=-1.0: give a number ≥ 0"),
        ({"on_failure": "bad"}, 'on_failure=\'bad\': choose "worst" or "ignore"'),
        ({"on_failure": math.nan}, "on_failure=nan"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, complaint):
    space = SQUARE | ({"n": eb.Int(2, 8, step=2)} if "'n'" in complaint else {})
    with pytest.raises(eb.ConfigurationError, match=complaint):
        eb.Optimizer(space, **options)
