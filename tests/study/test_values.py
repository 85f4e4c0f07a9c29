"""What a user sees of the transform of values and of outliers."""

import json
import math

import numpy as np
import pytest

import ebbtide as eb
from ebbtide.gp.standardization import PLAIN
from ebbtide.study import codec

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def smooth(params, t):
    return -((params["x"] - 0.5 - 0.3 * math.sin(t / 30.0)) ** 2) - (params["y"] - 0.4) ** 2


def multiplied(params, t):
    return math.exp(30.0 * smooth(params, t) + 5.0)


def steep(params, t):
    """Far from its best place it falls by multiples."""
    return 7.0 - math.exp(-8.0 * smooth(params, t))


def study(objective, steps, algorithm="tide", wrong=(), direction="maximize", **options):
    clock = eb.ManualClock()
    opt = eb.Optimizer(SPACE, direction=direction, algorithm=algorithm, clock=clock, seed=2, **options)
    for step in range(steps):
        trial = opt.ask()
        opt.tell(trial, objective(trial.params, trial.time) if step not in wrong else 1e4)
        clock.advance(1.0)
    return opt


def test_values_that_change_by_multiples_are_modelled_as_logarithms():
    opt = study(multiplied, 25)
    assert opt.model.power == 0.0
    best = opt.recommend()
    assert best.mean == pytest.approx(multiplied(best.params, opt.clock.now()), rel=0.1)
    assert 0.0 < best.std < best.mean
    mean, std = opt.predict([{"x": 0.0, "y": 1.0}, {"x": 0.5, "y": 0.4}])
    assert (mean > 0.0).all()
    assert (std > 0.0).all()


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_where_values_are_far_worse_than_usual_they_are_bent(direction):
    sign = 1.0 if direction == "maximize" else -1.0
    opt = study(lambda params, t: sign * steep(params, t), 30, direction=direction)
    model, best = opt.model, opt.recommend()
    assert model.power == 1.0
    assert sign * model.span > 0.0
    assert best.mean == pytest.approx(sign * steep(best.params, opt.clock.now()), abs=0.3)
    assert 0.0 < best.std < 1.0
    mean, std = opt.predict([{"x": 1.0, "y": 1.0}, {"x": 0.5, "y": 0.4}])
    assert sign * mean[0] < 0.0
    assert std[0] > std[1] > 0.0


def test_maximizing_values_and_minimizing_their_opposites_asks_the_same():
    clock = eb.ManualClock()
    both = {
        1.0: eb.Optimizer(SPACE, direction="maximize", clock=clock, seed=2),
        -1.0: eb.Optimizer(SPACE, direction="minimize", clock=clock, seed=2),
    }
    spans = []
    for _ in range(40):
        for sign, opt in both.items():
            trial = opt.ask()
            opt.tell(trial, sign * steep(trial.params, trial.time))
        spans.append((both[1.0].model.span, both[-1.0].model.span))
        clock.advance(1.0)
    assert all(one == -other for one, other in spans)
    assert sum(one > 0.0 for one, _ in spans) > 5
    assert [o.params for o in both[1.0].history] == [o.params for o in both[-1.0].history]


def test_a_gross_error_on_the_bent_side_is_set_aside():
    def level(params, t):
        return 10.0 - math.exp(10.0 * abs(params["x"] - 0.4 - 0.1 * math.sin(t / 20.0)) ** 1.5)

    for seed in range(4):
        clock = eb.ManualClock()
        opt = eb.Optimizer({"x": SPACE["x"]}, direction="maximize", clock=clock, seed=seed)
        for step in range(38):
            trial = opt.ask()
            opt.tell(trial, -20.0 if step == 35 else level(trial.params, trial.time))
            clock.advance(1.0)
        assert opt.dataset.y[opt.set_aside].tolist() == [-20.0]
        assert level(opt.recommend().params, clock.now()) > 8.9


def test_a_bent_study_without_an_active_observation_still_asks(monkeypatch):
    ahead, now = 1e6, eb.SystemClock.now
    monkeypatch.setattr(eb.SystemClock, "now", lambda clock: now(clock) + ahead)
    opt = eb.Optimizer(SPACE, direction="maximize", seed=2)
    for _ in range(30):
        trial = opt.ask()
        opt.tell(trial, steep(trial.params, 0.0))
        ahead += 1.0
    assert opt.model.span > 0.0
    ahead = 0.0
    assert opt.forget_future() == 30
    assert len(opt.dataset) == 0
    assert set(opt.ask().params) == set(SPACE)


def test_where_moving_costs_nothing_is_bent():
    movement = eb.Movement(cost=40.0)
    opt = study(steep, 30, movement=movement, start=[{"x": 0.9, "y": 0.9}])
    assert opt.model.span == 0.0


def test_without_a_transform_nothing_is_bent():
    assert study(steep, 30, eb.Algorithm()).model.span == 0.0


@pytest.mark.parametrize(("objective", "wrong"), [(multiplied, (20,)), (steep, ())])
def test_relevance_can_be_reproduced_from_the_model(objective, wrong):
    opt = study(objective, 30, wrong=wrong)
    model, data, modelled = opt.model, opt.dataset, ~opt.set_aside
    assert model.standardization.form != PLAIN
    scores = opt.relevance()
    expected = eb.relevance(
        data.x[modelled],
        data.t[modelled],
        model.standardized(data.y[modelled]),
        kernel=model.kernel,
        noise=model.noise,
        now=opt.clock.now(),
    )
    assert scores[modelled] == pytest.approx(expected, rel=1e-9)
    assert (scores[~modelled] == 0.0).all()


def test_a_value_that_is_not_positive_ends_the_transform_at_once_and_quietly():
    opt = study(multiplied, 25)
    assert opt.model.power == 0.0
    opt.tell({"x": 0.1, "y": 0.1}, 0.0)
    assert opt.model.power == 1.0
    assert np.isfinite(opt.predict({"x": 0.5, "y": 0.5})).all()
    assert np.isfinite(opt.relevance()).all()
    opt.ask()
    assert opt.model.power == 1.0


def test_logarithms_that_the_user_wants_are_given_up_with_one_warning():
    opt = study(multiplied, 12, eb.Algorithm(transform="log"))
    assert opt.model.power == 0.0
    opt.tell({"x": 0.1, "y": 0.1}, -1.0)
    with pytest.warns(eb.EbbtideWarning, match="needs positive values, but -1.0 was told") as warned:
        opt.ask()
    assert len(warned) == 1
    assert opt.model.power == 1.0
    opt.ask()  # a warning would be an error here


def test_an_outlier_is_set_aside_counted_and_removed_in_the_end():
    opt = study(smooth, 24, wrong=(20,))
    assert opt.dataset.y[opt.set_aside].tolist() == [1e4]
    assert opt.guards["outlier"] >= 3
    assert abs(opt.recommend().mean) < 1.0
    assert opt.model.scale < 10.0
    later = study(smooth, 54, wrong=(20,))
    assert 1e4 not in later.dataset.y
    gone = next(o for o in later.history if o.value == 1e4)
    assert gone.relevance == 0.0
    assert not later.set_aside.any()


def test_an_outlier_before_the_first_fit_is_seen_too():
    opt = study(smooth, 12, wrong=(3,), n_initial=12)
    assert opt.dataset.y[opt.set_aside].tolist() == [1e4]
    assert abs(opt.recommend().mean) < 5.0


def test_a_jump_of_all_values_is_followed():
    opt = study(lambda params, t: smooth(params, t) + (50.0 if t >= 20.0 else 0.0), 30)
    assert not opt.set_aside.any()
    assert opt.recommend().mean > 25.0


def test_without_robust_nothing_is_set_aside():
    opt = study(smooth, 15, "w-dbo", wrong=(10,))
    assert not opt.set_aside.any()
    assert "outlier" not in opt.guards


@pytest.mark.parametrize(("objective", "wrong"), [(multiplied, (20,)), (steep, ())])
@pytest.mark.parametrize("moment", [21, 33])
def test_a_loaded_study_asks_what_the_saved_one_would_have_asked(moment, objective, wrong, tmp_path):
    whole = study(objective, moment, wrong=wrong)
    assert whole.model.standardization.form != PLAIN
    whole.save(tmp_path / "study.json")
    again = eb.Optimizer.load(tmp_path / "study.json")
    assert again.model == whole.model
    for opt in (whole, again):
        for _ in range(3):
            trial = opt.ask()
            opt.tell(trial, objective(trial.params, trial.time))
            opt.clock.advance(1.0)
    assert [o.params for o in again.history] == [o.params for o in whole.history]


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_extreme_magnitudes_stay_finite(size):
    opt = study(lambda params, t: size * (2.0 + smooth(params, t)), 15)
    best = opt.recommend()
    assert math.isfinite(best.mean)
    assert math.isfinite(best.std)


def test_equal_values_and_a_single_one_stay_finite():
    for steps in (1, 15):
        opt = study(lambda params, t: 3.0, steps)
        mean, std = opt.predict({"x": 0.5, "y": 0.5})
        assert mean == pytest.approx(3.0)
        assert math.isfinite(std)


# --- stored -------------------------------------------------------------------------------------------------------


def test_published_algorithms_are_stored_as_before():
    stored = codec.algorithm_to_json(eb.algorithms.get("w-dbo"))
    assert list(stored) == ["spatial", "temporal", "acquisition", "staleness", "timing", "inference"]
    assert codec.algorithm_from_json(stored, None) == eb.Algorithm()
    assert codec.name_described(stored) == "w-dbo"


def test_tide_is_stored_with_what_it_adds():
    stored = json.loads(json.dumps(codec.algorithm_to_json(eb.algorithms.get("tide"))))
    assert (stored["transform"], stored["robust"]) == ("auto", True)
    assert codec.algorithm_from_json(stored, None) == eb.algorithms.get("tide")
    assert codec.name_described(stored) == "tide"


def test_the_state_of_a_study_without_a_transform_is_stored_as_before(tmp_path):
    study(smooth, 12, "w-dbo").save(tmp_path / "s.json")
    state = json.loads((tmp_path / "s.json").read_text())["payload"]["state"]
    assert set(state["standardization"]) == {"mean", "scale"}


@pytest.mark.parametrize(("field", "value"), [("transform", "sqrt"), ("robust", "yes"), ("jumps", 1)])
def test_a_mistyped_field_is_refused(field, value):
    with pytest.raises(eb.ConfigurationError, match=f"{field}={value!r}"):
        eb.Algorithm(**{field: value})
