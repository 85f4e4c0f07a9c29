"""The past of a study, and the model over time, against the optimizer's own numbers."""

from contextlib import closing, contextmanager

import numpy as np
import pytest
from helpers.stories import N_INITIAL, SPACE, looking_at, made, trail_of, url
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.dashboard import excerpt as excerpt_module
from ebbtide.dashboard import followed as followed_module
from ebbtide.dashboard import views as views_module
from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.study.storage import Storage

# --- past recommendations ---------------------------------------------------------------------------------------------


def agree(worked_out, said):
    assert worked_out.params == pytest.approx(said.params, rel=0.0, abs=1e-9)
    assert worked_out.mean == pytest.approx(said.mean, rel=0.0, abs=1e-9)
    assert worked_out.std == pytest.approx(said.std, rel=0.0, abs=1e-9)
    assert worked_out.time == said.time


def active_after(story, ask):
    """Lines, by replaying the log."""
    gone = {line for number, line in story.removals if number <= ask}
    return {line for line in range(story.told_before[ask]) if not story.history[line].failed} - gone


def test_past_recommendations_are_what_was_recommended_then(story, stored):
    followed = FollowedStudy(stored.log("edge"))
    numbers = [N_INITIAL, N_INITIAL + 1, 57, 58, 59, 80, 100, 101, 140, 166, 167]
    assert all(len(active_after(story, number)) == story.asked[number].active for number in numbers)
    wholly_gone = [number for number in numbers if not active_after(story, number) & set(story.active)]
    assert wholly_gone  # nothing is left of what the model knew then
    followed.recommend_after(stored.log("edge").asks_numbered(numbers))
    for number in numbers:
        agree(followed.recommended(number), story.recommended[number])
    assert followed.recommended(N_INITIAL + 2) is None


def test_working_out_the_past_does_not_touch_the_present(story, stored):
    followed, fresh = FollowedStudy(stored.log("edge")), FollowedStudy(stored.log("edge"))
    before = followed.engine.recommend(followed.moment)
    followed.recommend_after(stored.log("edge").asks_numbered([60, 100]))
    assert followed.engine.recommend(followed.moment) == before == fresh.engine.recommend(fresh.moment)
    assert followed.engine.state == fresh.engine.state
    assert followed.engine.active.lines.tolist() == fresh.engine.active.lines.tolist() == story.active


def test_only_so_many_past_recommendations_are_remembered(stored, monkeypatch):
    monkeypatch.setattr(followed_module, "REMEMBERED", 2)
    followed = FollowedStudy(stored.log("edge"))
    for number in (50, 51, 52):
        log = stored.log("edge")
        followed.recommend_after(log.asks_numbered([number]))
    assert [followed.recommended(number) is None for number in (50, 51, 52)] == [True, False, False]


@pytest.mark.parametrize("last", [None, 100, 3])
def test_the_trail_holds_past_recommendations(story, views, last):
    trail, missing = trail_of(views, last)
    first = story.asked_before[len(story.history) - last] if last else 0
    modelled = [number for number in range(first, len(story.asked)) if number >= N_INITIAL]
    assert missing == sorted(missing, reverse=True)
    assert max(-np.diff(missing), default=0) <= views_module.TRAIL_AT_ONCE
    stride = next(2**k for k in range(20) if len(modelled) <= 2**k * views_module.TRAIL)
    said = [story.recommended[number] for number in modelled if number % stride == 0]
    assert trail["time"] == [best.time for best in said]
    assert trail["params"].keys() == SPACE.keys()
    for name in SPACE:
        assert trail["params"][name] == pytest.approx([best.params[name] for best in said], rel=0.0, abs=1e-9)
    assert len(said) <= views_module.TRAIL
    assert views.trail("edge", last) == trail


def test_the_trail_counts_down_to_nothing_missing_the_newest_first(story, views, monkeypatch):
    monkeypatch.setattr(views_module, "TRAIL", 12)
    monkeypatch.setattr(views_module, "TRAIL_AT_ONCE", 5)
    times, missing = [], None
    while missing != 0:
        trail = views.trail("edge", None)
        assert len(trail["time"]) + trail["missing"] == 9  # the multiples of 16 from 30 to 167
        assert trail["time"][len(trail["time"]) - len(times) :] == times  # older ones come before
        assert missing is None or trail["missing"] == max(0, missing - 5)
        times, missing = trail["time"], trail["missing"]
    assert times == [story.recommended[number].time for number in range(32, 168, 16)]


def test_a_thinned_excerpt_still_has_a_trail(story, views, monkeypatch):
    """A figure shows fewer asks than a trail may choose from."""
    monkeypatch.setattr(excerpt_module, "STEPS", 20)
    trail, _ = trail_of(views)
    assert trail["time"] == [story.recommended[number].time for number in range(32, 168, 16)]


def test_a_study_without_a_fitted_model_has_no_trail(tmp_path):
    made(tmp_path / "s.db", steps=5, n_initial=100)
    with looking_at(tmp_path / "s.db") as views:
        assert views.trail("edge", None) == {"missing": 0, "time": [], "params": {"x": []}}


# --- fields: what the model predicts over time ------------------------------------------------------------------------


def by_hand(opt, points, moments, lines):
    """Mean and deviation (moments × points) by the textbook: eq. 3 and 4, solved densely."""
    model, data = opt.model, opt.dataset
    sign = 1.0 if opt.direction == "maximize" else -1.0
    t = lines if lines is not None else data.t
    X = np.array([opt.space.encode(point) for point in points])
    K = model.kernel(data.x, t, data.x, t) + model.noise * np.eye(len(data))
    z = sign * (data.y - model.mean) / model.scale
    k = np.array([model.kernel(X, np.full(len(X), moment), data.x, t) for moment in moments])
    mean = k @ np.linalg.solve(K, z)
    variance = model.kernel.scale - np.einsum("tmn,nk,tmk->tm", k, np.linalg.inv(K), k)
    return sign * mean * model.scale + model.mean, np.sqrt(variance) * model.scale


@pytest.fixture(params=["minimize", "maximize"])
def direction(request):
    return request.param


@contextmanager
def field_of(opt, path):
    """The field of a stored study, by the engine that follows it."""
    with closing(Storage.of(url(path), read_only=True)) as storage:
        engine = FollowedStudy(storage.log("edge")).engine
        yield lambda points, times: engine.field(points, times, opt.clock.now())


def optimizer_of(path, algorithm, direction):
    """12 observations, one more out of order unless steps are counted, and a clock that has gone on since."""
    opt = made(path, 12, algorithm, SPACE, direction=direction, seed=2, close=False)
    if not opt.algorithm.temporal or not opt.algorithm.temporal.by_step:
        opt.tell({"x": 0.9, "k": 2}, -0.4, time=1.3)
    opt.ask()
    assert isinstance(opt.clock, eb.ManualClock)
    opt.clock.advance(2.0)
    return opt


PLACES = [{"x": x, "k": k} for x in (0.0, 0.31, 1.0) for k in (1, 4)]


@pytest.mark.parametrize("algorithm", ["w-dbo", "gp-ucb"])
def test_a_field_is_what_is_predicted_at_each_time(algorithm, direction, tmp_path):
    opt = optimizer_of(tmp_path / "s.db", algorithm, direction)
    times = np.linspace(-3.0, opt.clock.now() + 5.0, 23)
    with field_of(opt, tmp_path / "s.db") as field:
        mean, std = field(PLACES, times)
    assert mean.shape == std.shape == (len(times), len(PLACES))
    for column, moment in enumerate(times):
        one_mean, one_std = opt.predict(PLACES, time=float(moment))
        np.testing.assert_allclose(mean[column], one_mean, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(std[column], one_std, rtol=0.0, atol=1e-9)
    their_mean, their_std = by_hand(opt, PLACES, times, None)
    np.testing.assert_allclose(mean, their_mean, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(std, their_std, rtol=0.0, atol=1e-6)
    if algorithm == "gp-ucb":
        assert np.ptp(mean, axis=0).max() < 1e-9  # to it all times are alike


def test_a_field_by_steps_is_what_is_predicted_from_the_newest_observation_on(direction, tmp_path):
    opt = optimizer_of(tmp_path / "s.db", "tv-gp-ucb", direction)
    newest = float(opt.dataset.t.max())
    times = newest + np.array([1e-9, 0.1, 1.0, 100.0])
    with field_of(opt, tmp_path / "s.db") as field:
        mean, std = field(PLACES, times)
    for column, moment in enumerate(times):
        one_mean, one_std = opt.predict(PLACES, time=float(moment))
        np.testing.assert_allclose(mean[column], one_mean, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(std[column], one_std, rtol=0.0, atol=1e-9)


def test_a_field_by_steps_goes_from_step_to_step_in_between(direction, tmp_path):
    """Observations were told in order: at the time of the i-th it is step i, half-way to the next i + ½."""
    opt = optimizer_of(tmp_path / "s.db", "tv-gp-ucb", direction)
    t, steps = opt.dataset.t, np.arange(12.0)
    assert (np.diff(t) > 0.0).all()
    times = np.concatenate([t, (t[1:] + t[:-1]) / 2.0, [t[0] - 5.0]])
    moments = np.concatenate([steps, steps[:-1] + 0.5, [0.0]])
    with field_of(opt, tmp_path / "s.db") as field:
        mean, std = field(PLACES, times)
    their_mean, their_std = by_hand(opt, PLACES, moments, steps)
    np.testing.assert_allclose(mean, their_mean, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(std, their_std, rtol=0.0, atol=1e-6)


def step_at(moment, told):
    """By hand: as many steps as the newest observation told by then, and in between in proportion to time."""
    values = sorted((time, line) for line, time in enumerate(told) if time is not None)
    if moment > values[-1][0]:
        return float(len(told))
    before = [line for time, line in values if time <= moment]
    if not before:
        return float(values[0][1])
    start, low = max(time for time, _ in values if time <= moment), max(before)
    later = [(time, line) for time, line in values if time > moment]
    if not later:
        return float(low)
    end = later[0][0]
    high = max(low, next(line for time, line in later if time == end))
    return low + (high - low) * (moment - start) / (end - start)


@settings(max_examples=20)
@given(
    told=st.lists(st.integers(0, 60) | st.none(), min_size=1, max_size=12),
    times=st.lists(st.integers(-5, 70).map(lambda time: time + 0.37), min_size=2, max_size=8),
)
def test_steps_never_go_back_while_time_goes_on(told, times, tmp_path_factory):
    """However the observations came: out of order, at the same time, with failures in between."""
    path = tmp_path_factory.mktemp("steps") / "s.db"
    opt = made(path, 0, "tv-gp-ucb", SPACE, clock=eb.ManualClock(60.0), n_initial=100, close=False)
    for moment in told:
        if moment is None:
            opt.tell(opt.ask(), failed=True)
        else:
            opt.tell({"x": 0.5, "k": 3}, 1.0 + moment, time=float(moment))
    with field_of(opt, path) as field:
        if not any(moment is not None for moment in told):
            return
        mean, std = field(PLACES, np.array(times))
        lines = np.array([line for line, moment in enumerate(told) if moment is not None], dtype=float)
        steps = [step_at(moment, told) for moment in times]
        their_mean, their_std = by_hand(opt, PLACES, steps, lines)
        np.testing.assert_allclose(mean, their_mean, rtol=0.0, atol=1e-6)
        np.testing.assert_allclose(std, their_std, rtol=0.0, atol=1e-5)
