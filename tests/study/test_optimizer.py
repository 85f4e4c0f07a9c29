import io
import math
import sys
import time
import warnings
from statistics import median

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.studies import contents, named

import ebbtide as eb
from ebbtide.clock import wait_until

MIXED = {"power": eb.Float(1.26, 316, log=True), "width": eb.Int(1, 8), "codec": eb.Categorical(["a", "b"])}


def mixed_value(params, t):
    return math.log10(params["power"]) + params["width"] * (0.3 if params["codec"] == "a" else -0.1) + math.sin(t / 20)


@pytest.fixture
def clock():
    return eb.ManualClock()


@pytest.fixture
def opt(clock):
    return eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=3)


# --- ask and tell -----------------------------------------------------------------------------------------


GRID = {"share": eb.Float(0.0, 1.0, step=0.1), "cache": eb.Int(8, 64, step=8), "block": eb.Ordinal([4, 16, 64, 1024])}


def test_asks_are_on_the_grid_and_find_its_best_point(clock):
    def value(params):
        return -((params["share"] - 0.7) ** 2) - abs(params["cache"] - 24) / 56 - (params["block"] != 64)

    opt = eb.Optimizer(GRID, direction="maximize", clock=clock, seed=0)
    for _ in range(30):
        trial = opt.ask()
        assert trial.params["share"] in [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
        assert trial.params["cache"] in range(8, 65, 8)
        assert trial.params["block"] in (4, 16, 64, 1024)
        opt.tell(trial, value(trial.params))
        clock.advance(0.1)
    best = opt.recommend().params
    assert abs(best["share"] - 0.7) <= 0.1001
    assert (best["cache"], best["block"]) == (24, 64)
    opt.tell({"share": 0.1 + 0.2, "cache": 8, "block": 4}, 0.0)
    assert opt.history[-1].params == {"share": 0.3, "cache": 8, "block": 4}
    with pytest.raises(eb.ParameterError, match="'cache' is 10, between two steps of 8 from 8; the nearest is 8"):
        opt.tell({"share": 0.3, "cache": 10, "block": 4}, 0.0)


def test_a_study_without_steps_is_the_same_with_the_default_step_and_not_with_another(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    eb.Optimizer({"n": eb.Int(1, 9), "x": eb.Float(0.0, 1.0)}, storage=url, name="s").close()
    eb.Optimizer({"n": eb.Int(1, 9, step=1), "x": eb.Float(0.0, 1.0, step=None)}, storage=url, name="s").close()
    with pytest.raises(eb.StudyError):
        eb.Optimizer({"n": eb.Int(1, 9, step=2), "x": eb.Float(0.0, 1.0)}, storage=url, name="s")


def test_asks_are_trials_inside_the_space(clock):
    opt = eb.Optimizer(MIXED, direction="maximize", clock=clock, seed=0)
    for k in range(30):
        trial = opt.ask()
        assert trial.id == str(k)
        assert trial.time == clock.now()
        assert opt.space.check(trial.params) == trial.params
        opt.tell(trial, mixed_value(trial.params, clock.now()))
        clock.advance(1.0)
    best = opt.recommend().params
    assert (best["codec"], best["width"]) == ("a", 8)
    assert best["power"] > 200


# Without ABO, which waits when it knows its optimum, and algorithms without a model of time, which cannot track.
TRACKING = [
    *("w-dbo", "tv-gp-ucb", "r-gp-ucb", "w-dbo-exact"),
    *("keep-all", "sliding-window", "oldest-first", "random-removal"),
]


@pytest.mark.parametrize("algorithm", TRACKING)
@pytest.mark.parametrize("direction", ["minimize", pytest.param("maximize", marks=pytest.mark.slow)])
def test_all_tracking_algorithms_in_both_directions(algorithm, direction, clock):
    sign = 1.0 if direction == "maximize" else -1.0
    opt = eb.Optimizer(UNIT_SQUARE, direction=direction, algorithm=algorithm, clock=clock, seed=1)
    values = drive(opt, lambda params, t: sign * moving_bump(params, t), 60)
    assert (sign * values)[-20:].mean() > 0.4  # a random point has 0.2


@pytest.mark.parametrize(
    "acquisition", [eb.EI(), *(pytest.param(other, marks=pytest.mark.slow) for other in (eb.UCB(), eb.PI()))], ids=repr
)
@pytest.mark.parametrize(
    "staleness",
    [
        eb.WassersteinBudget(),
        eb.WassersteinBudget(method="exact"),
        eb.KeepAll(),
        eb.SlidingWindow(size=30),
        eb.OldestFirst(),
        eb.RandomRemoval(),
        eb.EventTriggeredReset(),
    ],
    ids=repr,
)
def test_any_acquisition_with_any_policy(acquisition, staleness, clock):
    """The paper's claim that removal works with any acquisition."""
    algorithm = eb.Algorithm(acquisition=acquisition, staleness=staleness)
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", algorithm=algorithm, clock=clock, seed=1)
    assert drive(opt, moving_bump, 60)[-20:].mean() > 0.4


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        eb.Algorithm(spatial=eb.SquaredExponential((1.0, 1.0)), temporal=eb.SquaredExponential()),
        eb.Algorithm(spatial=eb.Matern(1.5), temporal=eb.Matern(0.5)),
        eb.Algorithm(inference="mle"),
        eb.Algorithm(timing=eb.Immediate(aim="now")),
        eb.Algorithm(mean="weighted"),
    ],
    ids=["ard-se", "matern-half", "mle", "aim-now", "weighted-mean"],
)
def test_other_kernels_and_inference(algorithm, clock):
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", algorithm=algorithm, clock=clock, seed=1)
    assert drive(opt, moving_bump, 60)[-20:].mean() > 0.5


def test_the_start_fills_the_space(clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=5, n_initial=16)
    cells = set()
    for trial in opt.ask(16):
        opt.tell(trial, 0.0)
        cells.add((int(4 * trial.params["x"]), int(4 * trial.params["y"])))
    assert len(cells) == 16  # a Sobol net: one point in each cell of a 4 × 4 grid


def test_outside_data_shortens_the_start(clock):
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=5, n_initial=10)
    rng = np.random.default_rng(0)
    for x, y in rng.random((30, 2)):
        opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, 0.0), time=0.0)
    assert moving_bump(opt.ask().params, 0.0) > 0.7


def test_several_asks_before_a_tell_are_distinct_and_can_be_told_in_any_order(opt, clock):
    drive(opt, moving_bump, 30)
    trials = opt.ask(4)
    points = np.array([list(trial.params.values()) for trial in trials])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)[np.triu_indices(4, 1)]
    assert distances.min() > 1e-3
    assert distances.max() > 0.05
    clock.advance(3.0)
    for trial in reversed(trials):
        opt.tell(trial, moving_bump(trial.params, trial.time))
    assert len(opt.history) == 34
    assert opt.history[-1].time == trials[0].time


def test_pending_trials_stop_counting_after_a_lease(opt, clock, tmp_path):
    """A lost client's point must not repel queries forever."""
    drive(opt, moving_bump, 30)
    lost = opt.ask()
    sparse = opt.ask().params
    assert sparse != lost.params
    clock.advance(100.0 * opt.hyperparameters["timescale"])
    opt.save(tmp_path / "both pending.json")
    opt.tell(lost, failed=True)
    alone = opt.ask()
    assert eb.Optimizer.load(tmp_path / "both pending.json", clock=clock).ask().params == alone.params


def test_clients_that_never_answer_do_not_slow_down_an_ask(opt, monkeypatch):
    from ebbtide.gp.posterior import Posterior

    drive(opt, moving_bump, 20)
    opt.ask(100)
    believed = []
    original = Posterior.believing
    monkeypatch.setattr(Posterior, "believing", lambda self, *a: believed.append(a[1]) or original(self, *a))
    opt.ask()
    assert [len(times) for times in believed] == [64]


def test_failed_evaluations_are_recorded_but_not_modelled(opt):
    trial = opt.ask()
    opt.tell(trial, failed=True)
    assert len(opt.dataset) == 0
    assert opt.history[0].failed
    assert not opt.history[0].active
    assert opt.ask().id == "1"


def test_the_same_value_twice_changes_nothing_and_another_value_is_an_error(opt):
    trial = opt.ask()
    opt.tell(trial, 1.0)
    opt.tell(trial, 1.0)
    assert len(opt.history) == 1
    with pytest.raises(eb.TrialError, match=r"was told 1.0 before and 2.0 now"):
        opt.tell(trial, 2.0)
    with pytest.raises(eb.TrialError, match="that it failed"):
        opt.tell(trial, failed=True)


def test_repeated_points_are_new_information(opt, clock):
    for k in range(20):
        opt.tell({"x": 0.5, "y": 0.5}, float(k))
        clock.advance(1.0)
    assert len(opt.dataset) == 20
    assert opt.predict({"x": 0.5, "y": 0.5})[0] > 15


def test_tells_out_of_order_are_fine(opt, clock):
    clock.advance(100.0)
    rng = np.random.default_rng(1)
    for t in rng.permutation(100)[:40]:
        params = {"x": rng.random(), "y": rng.random()}
        opt.tell(params, moving_bump(params, t), time=float(t))
    assert opt.space.check(opt.ask().params)
    assert len(opt.dataset) <= 40


def test_a_trial_that_was_changed_is_refused_and_the_log_keeps_the_original(opt, tmp_path):
    trial = opt.ask()
    trial.params["x"] = math.nan
    with pytest.raises(eb.TrialError, match="parameters that you have changed"):
        opt.tell(trial, 1.0)
    trial.params.clear()
    with pytest.raises(eb.TrialError):
        opt.tell(trial, 1.0)
    assert opt.history == []
    drive(opt, moving_bump, 12)
    opt.save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json").ask() == opt.ask()


def test_an_objective_may_change_its_parameters(clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0)

    def objective(params, t):
        clock.advance(1.0)
        return params.pop("x") + params.pop("y")

    opt.optimize(objective, duration=5)
    assert len(opt.dataset) == 5


@pytest.mark.slow
@pytest.mark.parametrize("temporal", [eb.Matern(1.5), None], ids=["drifting", "static"])
def test_large_batches(temporal, clock):
    """Thirty at once, eight times: there is no overflow (a warning would be an error), and they find the valley."""
    algorithm = eb.Algorithm(temporal=temporal, staleness=eb.KeepAll())
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0, algorithm=algorithm)
    for _ in range(8):
        trials = opt.ask(n=30)
        for trial in trials:
            opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
        clock.advance(1.0)
    assert opt.recommend().params["x"] == pytest.approx(0.3, abs=0.02)


class Failing:
    """An acquisition that raises once."""

    def __init__(self):
        self.left = 0

    def __call__(self, mean, std, context):
        if self.left:
            self.left -= 1
            raise RuntimeError("out of order")
        return eb.UCB()(mean, std, context)


def test_an_ask_that_fails_leaves_no_trace():
    asks = []
    for fail in (False, True):
        acquisition = Failing()
        opt = eb.Optimizer(
            UNIT_SQUARE,
            direction="maximize",
            clock=eb.ManualClock(),
            seed=2,
            algorithm=eb.Algorithm(acquisition=acquisition),
        )
        drive(opt, moving_bump, 40)
        before = repr((contents(opt), opt.predict({"x": 0.1, "y": 0.9})))
        if fail:
            acquisition.left = 1
            with pytest.raises(RuntimeError, match="out of order"):
                opt.ask()
            assert repr((contents(opt), opt.predict({"x": 0.1, "y": 0.9}))) == before
        asks.append(opt.ask())
    assert asks[0] == asks[1]


def test_once_started_the_space_is_not_filled_again(clock):
    """Removal may leave fewer observations than `n_initial`: that does not start the study again."""
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(max_active=10))
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=0, n_initial=15, algorithm=algorithm)
    rng = np.random.default_rng(0)
    for x, y in rng.random((20, 2)):
        opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, 0.0))
    starting = [trial.params for trial in eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, n_initial=15).ask(15)]
    for _ in range(3):
        trial = opt.ask()
        assert trial.params not in starting
        opt.tell(trial, 0.5)
    assert len(opt.dataset) < 15


# --- removal and its record -------------------------------------------------------------------------------


def test_every_removal_is_recorded_with_its_time_and_score(opt, clock):
    removed = []
    opt.callbacks = (lambda event: removed.extend(event.removed) if isinstance(event, eb.Asked) else None,)
    drive(opt, moving_bump, 150)
    gone = [o for o in opt.history if o.removed_at is not None]
    assert len(gone) == len(removed) > 20
    assert all(o.removed_at >= o.time and o.relevance >= 0 for o in gone)
    assert len(opt.history) == 150
    assert len(opt.dataset) == sum(o.active for o in opt.history)


def test_the_dataset_stays_bounded_whatever_the_model_believes(clock):
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=0.0, max_active=40))
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, algorithm=algorithm)
    drive(opt, lambda params, t: params["x"], 70)  # nothing ever drifts, so there is no budget
    assert len(opt.dataset) <= 41
    assert opt.guards["max_active"] > 0


# --- reads ------------------------------------------------------------------------------------------------


def test_reads_leave_no_trace():
    asks = []
    for poll in (False, True):
        clock = eb.ManualClock()
        opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=11)
        mine = []
        for _ in range(40):
            trial = opt.ask()
            mine.append(trial)
            if poll:
                opt.predict({"x": 0.1, "y": 0.2}), opt.relevance(), opt.hyperparameters, opt.model
            opt.tell(trial, moving_bump(trial.params, trial.time))
            if poll:
                opt.recommend(), opt.relevance(), opt.history, opt.dataset.x
            clock.advance(1.0)
        asks.append(mine)
    assert asks[0] == asks[1]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("method", ["bound", "exact"])
def test_relevance_is_reproduced_from_the_model(direction, method, clock):
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(method=method))
    opt = eb.Optimizer(UNIT_SQUARE, direction=direction, clock=clock, seed=2, algorithm=algorithm)
    drive(opt, moving_bump, 40)
    model, data = opt.model, opt.dataset
    z = (data.y - model.mean) / model.scale
    again = eb.relevance(data.x, data.t, z, kernel=model.kernel, noise=model.noise, now=clock.now(), method=method)
    assert np.allclose(again, opt.relevance(), rtol=1e-12)
    assert len(again) == len(data)


def test_predictions_are_in_the_objectives_unit(clock):
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)
    for x in np.linspace(0, 1, 25):
        opt.tell({"x": x}, 1e6 + 1e4 * (x - 0.4) ** 2)
    for _ in range(5):
        trial = opt.ask()
        opt.tell(trial, 1e6 + 1e4 * (trial.params["x"] - 0.4) ** 2)
    mean, std = opt.predict({"x": 0.9})
    assert mean == pytest.approx(1e6 + 2500.0, abs=300.0)
    assert 0 < std < 2000
    means, stds = opt.predict([{"x": 0.1}, {"x": 0.9}])
    assert means[1] == pytest.approx(mean)
    assert stds.shape == (2,)
    assert opt.recommend().params["x"] == pytest.approx(0.4, abs=0.05)
    later = opt.predict({"x": 0.9}, time=1e9)
    assert later[1] > std  # far in the future, nothing is known


def test_pure_reads_before_anything_was_told(opt):
    with pytest.raises(eb.NothingKnownError, match="nothing is known yet"):
        opt.recommend()
    assert opt.predict({"x": 0.5, "y": 0.5})[0] == 0.0
    assert opt.relevance().shape == (0,)
    assert opt.hyperparameters.keys() == {"scale", "lengthscale", "timescale", "noise"}
    assert opt.history == []
    assert opt.guards == {}


def test_the_timescale_is_in_the_clocks_unit():
    """The same history in seconds and in minutes: l_T differs by the factor 60."""
    scales = []
    for unit in (1.0, 60.0):
        clock = eb.ManualClock()
        opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=4)
        drive(opt, lambda params, t, unit=unit: moving_bump(params, t / unit), 60, dt=unit)  # type: ignore[misc]
        scales.append(opt.hyperparameters["timescale"])
    assert scales[1] / scales[0] == pytest.approx(60.0, rel=0.02)


def test_algorithms_without_a_temporal_kernel_have_no_relevance(clock):
    algorithm = eb.Algorithm(temporal=None, staleness=eb.KeepAll())
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=0, algorithm=algorithm)
    drive(opt, lambda params, t: moving_bump(params, 0.0), 30)
    assert opt.recommend().mean > 0.8
    assert "timescale" not in opt.hyperparameters
    with pytest.raises(eb.ConfigurationError, match="no temporal kernel"):
        opt.relevance()


# --- callbacks and the ready-made loop --------------------------------------------------------------------


def test_callbacks_see_every_ask_and_tell_and_cannot_break_the_loop(clock):
    seen = []

    def broken(event):
        raise RuntimeError("oops")

    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, callbacks=[seen.append, broken])
    with pytest.warns(eb.CallbackWarning, match="oops"):
        trial = opt.ask()
    with pytest.warns(eb.CallbackWarning, match="oops"):
        opt.tell(trial, 1.0)
    assert isinstance(seen[0], eb.Asked)
    assert seen[0].trial == trial
    assert isinstance(seen[1], eb.Told)
    assert seen[1].observation.value == 1.0


def test_optimize_runs_for_a_duration(clock, capsys):
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=0)

    def objective(params, t):
        clock.advance(1.0)
        return moving_bump(params, t)

    best = opt.optimize(objective, duration=40, progress=True)
    assert 40 <= clock.now() < 42
    assert len(opt.history) == 40
    assert best.mean > 0.5
    assert "active" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["closed at the start", "gone"])
def test_optimize_goes_on_if_its_progress_cannot_be_shown(clock, monkeypatch, how):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone() if how == "gone" else None)
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0)
    opt.optimize(lambda params, t: clock.advance(1.0) or 1.0, duration=3, progress=True)
    assert opt.told == 3


def test_optimize_records_failures(clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0)

    def objective(params, t):
        clock.advance(1.0)
        if t == 3.0:
            raise OSError("link down")
        return math.nan if t == 5.0 else 1.0

    with pytest.warns(eb.EbbtideWarning, match="failed evaluation"):
        opt.optimize(objective, duration=8, catch=(OSError,))
    assert [o.failed for o in opt.history] == [False] * 3 + [True, False, True] + [False] * 2
    with pytest.raises(OSError, match="link down"):
        eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(3.0), seed=0).optimize(objective, duration=8)


@pytest.mark.parametrize("duration", [0.0, -5.0, math.nan, math.inf, "1 min"])
def test_optimize_for_no_time_is_refused(opt, duration):
    with pytest.raises(eb.ConfigurationError, match="positive time"):
        opt.optimize(moving_bump, duration=duration)


def test_optimize_with_a_clock_that_does_not_move_is_an_error(clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, n_initial=2000)
    with pytest.raises(eb.ConfigurationError, match="let the objective advance it"):
        opt.optimize(lambda params, t: 1.0, duration=10)


def test_with_the_system_clock_the_query_is_for_the_time_when_it_lands():
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", seed=0)
    seen = []
    opt.callbacks = (lambda event: seen.append(event.response) if isinstance(event, eb.Asked) else None,)
    for _ in range(12):
        before = time.time()
        trial = opt.ask()
        assert before - 1.0 <= trial.time <= time.time() + 1.0
        opt.tell(trial, moving_bump(trial.params, 0.0))
    assert max(seen) > 0
    assert opt.response == median(seen[-9:])


class Stepping:
    """A clock that moves at every reading: computing takes time."""

    def __init__(self, step):
        self.t, self.step = 0.0, step

    def now(self):
        self.t += self.step
        return self.t


def test_the_acquisition_aims_at_the_landing(monkeypatch):
    from ebbtide.gp.posterior import Posterior

    moments = []
    original = Posterior.at
    monkeypatch.setattr(Posterior, "at", lambda self, time, *rest: moments.append(time) or original(self, time, *rest))
    for aim in ("landing", "now"):
        clock = Stepping(0.5)
        algorithm = eb.Algorithm(timing=eb.Immediate(aim=aim))
        opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, algorithm=algorithm, n_initial=3)
        for _ in range(6):
            trial = opt.ask()
            if aim == "landing" and moments:
                assert moments[-1] == pytest.approx(trial.time)
            elif moments:
                assert moments[-1] == pytest.approx(trial.time - 0.5)
            opt.tell(trial, 1.0, time=trial.time)
        moments.clear()


# --- repeatability ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_asks_and_another_seed_does_not():
    def asks(seed):
        opt = eb.Optimizer(MIXED, clock=eb.ManualClock(), seed=seed)
        drive(opt, mixed_value, 25)
        return [o.params for o in opt.history]

    assert asks(1) == asks(1)
    assert asks(1) != asks(2)


@pytest.mark.parametrize("algorithm", named(quick=("w-dbo", "abo", "et-gp-ucb")))
def test_save_and_load_at_any_moment_changes_nothing(algorithm, tmp_path):
    path = tmp_path / "study.json"

    def run(interrupted):
        opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(), seed=8, algorithm=algorithm)
        trials = []
        for k in range(40):
            trial = opt.ask()
            if interrupted and k % 7 == 3:  # with a trial pending
                opt.save(path)
                opt = eb.Optimizer.load(path)
            wait_until(opt.clock, trial.time)
            opt.tell(trial, moving_bump(trial.params, trial.time))
            assert isinstance(opt.clock, eb.ManualClock)
            opt.clock.advance(1.0)
            if interrupted and k % 5 == 2:
                opt.save(path)
                opt = eb.Optimizer.load(path)
            trials.append(trial)
        return trials, opt

    (plain, opt_plain), (resumed, opt_resumed) = run(False), run(True)
    assert plain == resumed
    assert opt_plain.history == opt_resumed.history
    assert opt_plain.guards == opt_resumed.guards
    assert opt_plain.recommend() == opt_resumed.recommend()


def test_results_do_not_depend_on_the_number_of_blas_threads():
    from threadpoolctl import threadpool_limits

    def asks():
        opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(), seed=1)
        rng = np.random.default_rng(0)
        for x, y in rng.random((150, 2)):
            opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, 0.0))
        return [opt.ask().params for _ in range(3)]

    with threadpool_limits(1):
        one = asks()
    with threadpool_limits(2):
        assert asks() == one


# --- robustness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_hardly_any_data(n, clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0, n_initial=0)
    for k in range(n):
        opt.tell({"x": 0.1 * k, "y": 0.5}, float(k))
    assert opt.space.check(opt.ask().params)
    if n:
        assert opt.space.check(opt.recommend().params)
    assert np.isfinite(opt.relevance()).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        [7.0] * 30,
        [0.0] * 30,
        [1e300 * (-1) ** k for k in range(30)],
        [1e-300 * k for k in range(30)],
        [5e-324 * (k % 2) for k in range(30)],
        [1.0] * 29 + [1e300],
        [1e9 + 1e-6 * k for k in range(30)],
    ],
    ids=["equal", "zero", "huge", "tiny", "subnormal", "outlier", "offset"],
)
def test_values_of_any_magnitude(values, clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0)
    for value in values:
        trial = opt.ask()
        assert opt.space.check(trial.params)
        opt.tell(trial, value)
        clock.advance(1.0)
    best = opt.recommend()
    assert math.isfinite(best.mean)
    assert math.isfinite(best.std)
    assert np.isfinite(opt.relevance()).all()


def test_a_thousand_observations_at_one_point(clock):
    opt = eb.Optimizer(UNIT_SQUARE, clock=clock, seed=0)
    for _ in range(1000):
        opt.tell({"x": 0.5, "y": 0.5}, 1.0)
    assert opt.space.check(opt.ask().params)
    assert opt.predict({"x": 0.5, "y": 0.5})[0] == pytest.approx(1.0)


@pytest.mark.slow
def test_ten_thousand_observations_at_once(clock):
    clock.advance(10_000.0)
    opt = eb.Optimizer(
        UNIT_SQUARE,
        direction="maximize",
        clock=clock,
        seed=0,
        algorithm=eb.Algorithm(staleness=eb.WassersteinBudget(max_active=300)),
    )
    rng = np.random.default_rng(0)
    for t, (x, y) in enumerate(rng.random((10_000, 2))):
        opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, t), time=float(t))
    assert opt.space.check(opt.ask().params)
    assert len(opt.dataset) <= 300
    removed = [o for o in opt.history if not o.active]
    assert len(removed) >= 9700
    assert all(o.relevance is not None for o in removed)
    drive(opt, moving_bump, 6)
    assert moving_bump(opt.recommend().params, clock.now()) > 0.8


@pytest.mark.slow
def test_reads_of_ten_thousand_observations(clock):
    """Before the next ask has removed most of them: reads are bounded too, and change nothing."""
    clock.advance(6000.0)
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(max_active=100))
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=0, algorithm=algorithm)
    rng = np.random.default_rng(0)
    for t, (x, y) in enumerate(rng.random((6000, 2))):
        opt.tell({"x": x, "y": y}, moving_bump({"x": x, "y": y}, t), time=float(t))
    before = contents(opt)
    assert opt.space.check(opt.recommend().params)
    assert opt.relevance().shape == (6000,)
    assert contents(opt) == before
    assert len(opt.dataset) == 6000


def test_a_space_of_two_hundred_categories(clock):
    opt = eb.Optimizer({"c": eb.Categorical(list(range(200)))}, clock=clock, seed=0)
    drive(opt, lambda params, t: abs(params["c"] - 17.0), 15)
    assert opt.relevance().shape == (len(opt.dataset),)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_any_unit_of_time(unit):
    clock = eb.ManualClock()
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=clock, seed=1)
    values = drive(opt, lambda params, t: moving_bump(params, t / unit), 60, dt=unit)
    assert values[-20:].mean() > 0.5


def test_the_sampling_interval_distinguishes_batches_from_pauses(clock):
    from ebbtide.space import Space
    from ebbtide.study.active import ActiveSet

    def interval(times):
        active = ActiveSet(Space(UNIT_SQUARE))
        for t in times:
            active.record(eb.Observation({"x": 0.5, "y": 0.5}, float(t), 0.0))
        return active.interval

    assert interval(range(100)) == pytest.approx(1.0)
    nights = [t + 28_800.0 * (t // 40) for t in range(128)]
    assert interval(nights) == pytest.approx(1.0)
    batches = [60.0 * (k // 4) + 0.002 * (k % 4) for k in range(128)]
    assert 7.0 < interval(batches) < 15.0
    assert interval([5.0] * 20) == 1.0
    assert interval([]) == 1.0


YEAR = 3.15e7


class Jumping:
    def __init__(self):
        self.t = 1000.0

    def now(self):
        return self.t


@pytest.mark.slow
@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600.0, -3600.0])
def test_a_clock_that_jumps(jump):
    clock = Jumping()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)

    def step():
        trial = opt.ask()
        opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
        clock.t += 1.0

    for _ in range(30):
        step()
    pending = opt.ask()
    clock.t += jump
    opt.tell(pending, 0.5)  # asked before the jump, told after it
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(30):
            step()
    assert [w.category for w in caught] == [eb.ClockWarning] * (jump < 0)
    assert opt.recommend().params["x"] == pytest.approx(0.3, abs=0.1)
    assert len(opt.dataset) >= 10


def test_one_wrong_reading_costs_nothing():
    clock = Jumping()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0, algorithm="keep-all")
    for _ in range(60):
        trial = opt.ask()
        opt.tell(trial, math.sin(10 * trial.params["x"] + clock.t / 5.0))
        clock.t += 1.0
    clock.t -= 500.0
    opt.ask()
    clock.t += 500.0
    opt.ask()
    assert len(opt.dataset) == 60


def test_after_the_clock_went_back_only_a_trials_own_time_may_lie_ahead():
    clock = Jumping()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)
    first, second = opt.ask(2)
    clock.t -= 500.0
    opt.tell(first, 1.0)
    assert opt.history[0].time == first.time
    with pytest.raises(eb.ObservationError, match="future"):
        opt.tell(second, 1.0, time=clock.t + 400.0)
    opt.tell(eb.Trial(second.id, second.params, -1e9), 1.0)  # the trial's time is the one on record
    assert opt.history[1].time == second.time


def test_a_clock_that_returns_nonsense_is_ignored():
    clock = Jumping()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0)
    opt.tell(opt.ask(), 1.0)
    clock.t = math.nan
    with pytest.warns(eb.ClockWarning, match="latest reading"):
        assert opt.ask().time == 1000.0


def test_standardisation_is_frozen_between_asks(opt, clock):
    drive(opt, moving_bump, 20)
    before = opt.model
    opt.tell({"x": 0.5, "y": 0.5}, 1.5)
    assert opt.model == before
    opt.ask()
    assert opt.model != before
    assert np.std(opt.model.standardized(opt.dataset.y)) == pytest.approx(1.0, abs=0.1)
