"""The baselines against literal transcriptions of their sources."""

import itertools
import math
import warnings

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump, observations, product_kernel, view_of

import ebbtide as eb
from ebbtide.gp.hyperparameters import Families
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.posterior import condition
from ebbtide.parts.acquisition import Context
from ebbtide.parts.maximization import maximize_over
from ebbtide.parts.timing import Occasion
from ebbtide.space import Space

pytestmark = pytest.mark.usefixtures("one_thread")

SPACE_ONLY = eb.SpaceTimeKernel(1.3, eb.Matern(2.5, 0.4))


@pytest.fixture
def clock():
    return eb.ManualClock()


def optimizer(algorithm, clock, **options):
    return eb.Optimizer(UNIT_SQUARE, direction="maximize", algorithm=algorithm, clock=clock, seed=1, **options)


# --- GP-UCB ---------------------------------------------------------------------------------------------------


def test_gp_ucb_knows_no_time(clock):
    opt = optimizer("gp-ucb", clock)
    drive(opt, moving_bump, 30)
    assert len(opt.dataset) == 30
    assert "timescale" not in opt.hyperparameters
    point = {"x": 0.3, "y": 0.4}
    assert opt.predict(point, time=0.0) == opt.predict(point, time=1e6)
    with pytest.raises(eb.ConfigurationError, match="no temporal kernel"):
        opt.relevance()


# --- TV-GP-UCB ------------------------------------------------------------------------------------------------


def test_tv_gp_ucb_is_its_formula_on_the_order_told(clock, rng):
    """Prediction at the next index, by (1 − ε)^{|i−j|/2} written out; the times told are in random order."""
    opt = optimizer("tv-gp-ucb", clock, n_initial=0)
    clock.advance(100.0)
    X, y = rng.random((20, 2)), rng.normal(size=20)
    for x, value in zip(X, y, strict=True):
        opt.tell({"x": float(x[0]), "y": float(x[1])}, float(value), time=float(rng.uniform(0, 100)))
    opt.ask()
    model, steps = opt.model, opt.hyperparameters["timescale"]
    epsilon = 1.0 - math.exp(-2.0 / steps)
    i = np.arange(21)  # the prediction is at index 20
    correlation = (1.0 - epsilon) ** (np.abs(i[:, None] - i) / 2.0)
    query = np.array([0.3, 0.6])
    K = model.kernel.scale * eb.Matern(2.5, model.kernel.spatial.lengthscale)(np.vstack([X, query])) * correlation
    weights = np.linalg.solve(K[:20, :20] + model.noise * np.eye(20), K[:20, 20])
    mean = weights @ (y - model.mean) / model.scale * model.scale + model.mean
    std = math.sqrt(K[20, 20] - weights @ K[:20, 20]) * model.scale
    assert opt.predict({"x": 0.3, "y": 0.6}) == pytest.approx((mean, std), rel=1e-9)
    assert opt.predict({"x": 0.3, "y": 0.6}, time=5.0) == opt.predict({"x": 0.3, "y": 0.6})
    assert opt.relevance().shape == (20,)


@pytest.mark.parametrize("epsilon", [0.03, 0.1])
def test_tv_gp_ucb_fits_epsilon(epsilon, clock):
    """Steps of a known process: f ← √(1−ε) f + √ε g (Bogunovic et al., eq. 2), here at one point."""
    rng = np.random.default_rng(5)
    f, values = rng.normal(), []
    for _ in range(400):
        f = math.sqrt(1.0 - epsilon) * f + math.sqrt(epsilon) * rng.normal()
        values.append(f + 0.1 * rng.normal())
    opt = optimizer("tv-gp-ucb", clock, n_initial=0)
    for value in values:
        opt.tell({"x": 0.5, "y": 0.5}, value)
        clock.advance(rng.uniform(0.0, 50.0))  # the clock must not matter
    opt.ask()
    assert eb.StepDecay(opt.hyperparameters["timescale"]).epsilon == pytest.approx(epsilon, rel=0.65)


# --- R-GP-UCB -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 22), (0.01, 38), (1e-4, 120)])
def test_the_period_of_the_squared_exponential(epsilon, n):
    assert eb.PeriodicReset().period(epsilon, eb.SquaredExponential(), d=3) == n == math.ceil(12 * epsilon**-0.25)


def test_the_period_of_a_matern():
    c = 12.0 / (5.0 + 12.0)  # d(d+1)/(2ν + d(d+1)), ν = 5/2, d = 3
    assert eb.PeriodicReset(24.0).period(0.01, eb.Matern(2.5), d=3) == math.ceil(24 * 0.01 ** (-1.0 / (4.0 - c)))


def test_r_gp_ucb_drops_everything_when_full_and_holds_what_it_knew(clock):
    opt = optimizer("r-gp-ucb", clock)
    sizes, hypers = [], []
    for _ in range(90):
        trial = opt.ask()
        sizes.append(len(opt.dataset))
        hypers.append(opt.hyperparameters)
        opt.tell(trial, moving_bump(trial.params, clock.now()))
        clock.advance(1.0)
    resets = [k for k in range(1, 90) if sizes[k] < sizes[k - 1]]
    assert resets
    for k in resets:
        assert sizes[k] == 0
        assert hypers[k + 1] == hypers[k + 3] == hypers[k]  # three observations are too few for a fit
        assert opt.history[k - 1].removed_at == opt.history[k - sizes[k - 1] - 1].removed_at


def test_r_gp_ucbs_epsilon_is_the_maximum_of_the_tv_likelihood(rng):
    """The policy's fit against a fine scan of ε, with the other hyperparameters at their best for each."""
    X, t, y = observations(rng, 40)
    view = view_of(SPACE_ONLY, X, t, y, 1.0, {})
    view = eb.View(**{**vars(view), "inference": "mle"})
    epsilon = eb.PeriodicReset().review(view).state["epsilon"]

    def best_likelihood(steps):
        likelihood = Likelihood(Families(eb.Matern(2.5), eb.StepDecay()), X, np.arange(40.0), y)
        values = []
        for length, ratio in itertools.product(np.geomspace(0.1, 2.0, 12), np.geomspace(0.005, 0.5, 8)):
            theta = np.log([1.0, length, steps, ratio])
            theta[0] = math.log(y @ likelihood(theta).alpha / 40)  # the best λ has a closed form
            values.append(likelihood(theta).value)
        return max(values)

    fitted = best_likelihood(-2.0 / math.log(1.0 - epsilon))
    assert fitted >= max(best_likelihood(steps) for steps in np.geomspace(10.0, 400.0, 9)) - 0.3


def test_r_gp_ucbs_epsilon_is_fitted_when_the_data_have_grown_and_before_they_are_dropped(rng):
    X, t, y = observations(rng, 60)
    state, fitted_at, dropped_at = {}, [], None
    for n in range(1, 61):
        verdict = eb.PeriodicReset(multiplier=6.0).review(view_of(SPACE_ONLY, X[:n], t[:n], y[:n], t[n - 1], state))
        fitted_at += [n] if verdict.state is not state else []
        state = verdict.state
        if len(verdict.rows):
            dropped_at = n
            break
    assert fitted_at[:8] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert fitted_at[-1] == state["rows"] == dropped_at > 20
    assert len(fitted_at) < dropped_at - 5
    again = eb.PeriodicReset().review(view_of(SPACE_ONLY, X[:5], t[:5], y[:5], t[4], state))
    assert again.state["rows"] == 5.0, "new data"


# --- ET-GP-UCB ------------------------------------------------------------------------------------------------


def literal_event_triggers(kernel, noise, X, y, delta=0.1, initial=3):
    """Algorithm 1 of Brunzema et al.: the test before each observation is added, with a new model each time."""
    dataset, tau, resets = list(range(initial)), 1, []
    for k in range(initial, len(y)):
        K = kernel(X[dataset], np.zeros(len(dataset))) + noise * np.eye(len(dataset))
        cross = kernel(X[dataset], np.zeros(len(dataset)), X[k][None], np.zeros(1))[:, 0]
        mean = cross @ np.linalg.solve(K, y[dataset])
        std = math.sqrt(kernel.scale - cross @ np.linalg.solve(K, cross))
        pi_t = math.pi**2 * tau**2 / 6.0
        rho = 2.0 * math.log(2.0 * pi_t / delta)
        threshold = math.sqrt(rho) * std + math.sqrt(2.0 * noise * math.log(2.0 * pi_t / delta))
        if abs(y[k] - mean) > threshold:
            dataset, tau = [k], 1
            resets.append(k)
        else:
            dataset.append(k)
            tau += 1
    return dataset, resets


@pytest.mark.parametrize("batch", [1, 4, 37])
def test_et_gp_ucb_is_its_trigger(batch, rng):
    """However many observations came since the last ask, each is tested in order."""
    X = rng.random((40, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=40)
    y[14:] += 4.0  # the function jumps, twice
    y[30:] -= 6.0
    noise = 0.02
    expected, resets = literal_event_triggers(SPACE_ONLY, noise, X, y)
    assert resets[0] == 14
    assert 30 in resets
    policy, kept = eb.EventTriggeredReset(), np.arange(3)
    verdict = policy.review(view_of(SPACE_ONLY, X[:3], np.arange(3.0), y[:3], 3.0, {}, noise=noise))
    assert verdict.rows == []
    state = verdict.state
    for start in range(3, 40, batch):
        rows = np.append(kept, np.arange(start, min(start + batch, 40)))
        view = view_of(SPACE_ONLY, X[rows], rows.astype(float), y[rows], float(rows[-1]), state, rows, noise)
        verdict = policy.review(view)
        kept, state = np.delete(rows, verdict.rows), verdict.state
    assert kept.tolist() == expected
    assert state["since_reset"] == len(expected)


def test_et_gp_ucb_keeps_the_one_observation_that_surprised(clock):
    opt = optimizer("et-gp-ucb", clock)
    drive(opt, lambda params, t: params["x"] + (0.0 if t < 40 else 50.0), 41)
    assert len(opt.dataset) == 41
    opt.ask()
    assert len(opt.dataset) == 1
    assert opt.dataset.y[0] > 49.0


# --- ABO ------------------------------------------------------------------------------------------------------


def windows(timescales, fraction=1.0 / 3.0):
    timing, found = eb.WithinHorizon(fraction), []
    memory: dict[str, float] = {}
    for k, timescale in enumerate(timescales):
        window = timing.window(Occasion(float(k), k + 0.5, timescale, told=k, memory=memory))
        memory = window.memory
        found.append(window)
    return found


def test_abo_starts_to_wait_once_the_timescale_has_settled():
    settled = windows([90.0] * 12)
    assert [w.latest > w.earliest for w in settled].index(True) == 6  # fits 5, 6 and 7 are the first three calm ones
    assert settled[6].latest == 6.0 + 30.0
    assert settled[6].earliest == 6.5
    growing = windows([1.8**k for k in range(12)])
    assert all(w.latest == w.earliest for w in growing)


def test_abo_settles_as_the_rule_says(rng):
    """|l_T(k) − l_T(k−4)|/4 < 0.1·l_T(k) on three asks in a row, for random walks of l_T."""
    for _ in range(50):
        fits = np.exp(np.cumsum(0.25 * rng.normal(size=40)))
        calm = [k >= 4 and abs(fits[k] - fits[k - 4]) / 4.0 < 0.1 * fits[k] for k in range(40)]
        starts = [k for k in range(2, 40) if all(calm[k - 2 : k + 1])]
        opened = [k for k, w in enumerate(windows(fits)) if w.memory["calm"] >= 3]
        assert opened == (list(range(starts[0], 40)) if starts else [])


def test_an_ask_without_new_data_is_no_new_fit(clock):
    """A batch of asks must not make l_T look settled, nor must asks before anything was told."""
    opt = optimizer("abo", clock, n_initial=0)
    assert {trial.time for trial in opt.ask(n=12)} == {0.0}
    for trial in opt.ask(n=6):
        opt.tell(trial, moving_bump(trial.params, 0.0))
    clock.advance(1.0)
    assert {trial.time for trial in opt.ask(n=12)} == {1.0}


def test_a_waiting_trial_can_be_called_off(clock):
    opt = optimizer("abo", clock)
    drive(opt, moving_bump, 20)
    for _ in range(20):
        trial = opt.ask()
        if trial.time > clock.now():
            break
        opt.tell(trial, moving_bump(trial.params, trial.time))
        clock.advance(1.0)
    assert trial.time > clock.now()
    opt.tell(trial, failed=True)
    assert opt.history[-1].failed
    assert opt.history[-1].time == clock.now()


def test_until_is_kept_by_a_timing_of_ones_own(clock):
    class OnTheMinute:
        def window(self, occasion):
            return eb.Window(60.0, 60.0)

    opt = optimizer(eb.Algorithm(timing=OnTheMinute()), clock, n_initial=0)
    opt.tell({"x": 0.5, "y": 0.5}, 1.0)
    assert opt.ask(until=10.0).time == 10.0
    assert opt.ask().time == 60.0


def test_a_lost_trial_is_forgotten_by_a_model_without_time():
    """After fifty sampling intervals it counts as abandoned."""

    def next_after(wait, *, lost):
        opt = optimizer("gp-ucb", eb.ManualClock())
        drive(opt, moving_bump, 20)
        trial = opt.ask()
        if not lost:
            opt.tell(trial, abandoned=True)
        opt.clock.advance(wait)
        return opt.ask().params

    assert next_after(1.0, lost=True) != next_after(1.0, lost=False)
    assert next_after(60.0, lost=True) == next_after(60.0, lost=False)


def test_r_gp_ucbs_period_is_not_bounded_by_the_history(rng):
    """A function that does not drift is never forgotten, however little was told."""
    X = rng.random((60, 2))
    view = view_of(SPACE_ONLY, X, np.arange(60.0), np.sin(5.0 * X[:, 0]), 60.0, {}, noise=1e-4)
    verdict = eb.PeriodicReset().review(view)
    assert eb.PeriodicReset().period(verdict.state["epsilon"], eb.Matern(2.5), d=2) > 300


def test_abos_moment_is_the_trials_time(clock):
    opt = optimizer("abo", clock)
    waits = []
    for _ in range(60):
        trial = opt.ask(until=70.0)
        assert trial.time <= max(70.0, clock.now())
        waits.append(trial.time - clock.now())
        if waits[-1] > 0:
            with pytest.raises(eb.ObservationError, match="wait until then"):
                opt.tell(trial, 0.0)
        if trial.time >= 70.0:
            break
        clock.advance(waits[-1])
        opt.tell(trial, moving_bump(trial.params, trial.time))
        clock.advance(1.0)
    assert waits[:6] == [0.0] * 6
    assert max(waits) > 1.0


def test_optimize_waits_for_abos_moment(clock):
    opt = optimizer("abo", clock)
    asked = []

    def measure(params, t):
        assert t == clock.now()
        asked.append(t)
        clock.advance(1.0)
        return moving_bump(params, t)

    opt.optimize(measure, duration=60.0)
    assert max(np.diff(asked)) > 1.5
    assert asked[-1] <= 60.0


def test_optimize_does_not_wait_for_a_clock_that_went_back():
    class Stumbling(eb.ManualClock):
        """Every third reading is an hour behind."""

        readings = 0

        def now(self):
            self.readings += 1
            return super().now() - (3600.0 if self.readings % 3 == 0 else 0.0)

    clock = Stumbling(start=1e6)
    opt = optimizer("keep-all", clock, n_initial=3)

    def measure(params, t):
        clock.advance(1.0)
        return params["x"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.ClockWarning)
        opt.optimize(measure, duration=20.0)
    assert eb.ManualClock.now(clock) < 1e6 + 4000.0


def test_the_posterior_over_an_interval_and_its_gradient(rng):
    interval = condition(product_kernel(), 0.05, *observations(rng)).during(1.1, 1.6)
    Z = rng.random((5, 3))
    mean, std, gradient = interval.predict_with_gradient(Z)
    mean_z, std_z = gradient(np.ones(5), np.zeros(5)), gradient(np.zeros(5), np.ones(5))
    for row in range(5):
        at = interval.posterior.at(1.1 + 0.5 * Z[row, -1]).predict(Z[row : row + 1, :-1])
        assert np.allclose((mean[row], std[row]), np.ravel(at))
    for j in range(3):
        h = np.zeros(3)
        h[j] = 1e-6
        (m1, s1), (m0, s0) = interval.predict(Z + h), interval.predict(Z - h)
        assert np.allclose(mean_z[:, j], (m1 - m0) / 2e-6, atol=1e-6)
        assert np.allclose(std_z[:, j], (s1 - s0) / 2e-6, atol=1e-6)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_best_moment_against_a_grid(discrete):
    parameter = eb.Int(0, 10) if discrete else eb.Float(0.0, 1.0)
    space = Space({"x": parameter})
    gaps = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, t, y = observations(rng, 30, d=1)
        interval = condition(product_kernel(0.3, 0.4), 0.02, space.snap(X), t, y).during(1.0, 1.4)
        x, share = maximize_over(eb.UCB(), interval, space, rng, 30)
        assert 0.0 <= share <= 1.0
        assert np.allclose(space.snap(x[None])[0], x)
        xs = space.snap(np.linspace(0.0, 1.0, 201)[:, None])[:, 0]
        grid = np.array([(x, u) for x in xs for u in np.linspace(0.0, 1.0, 41)])
        best = eb.UCB()(*interval.predict(grid), Context(30, 1, 0.0))[0].max()
        found = eb.UCB()(*interval.predict(np.array([[*x, share]])), Context(30, 1, 0.0))[0][0]
        gaps.append(best - found)
    assert max(gaps) < 0.02
    assert np.median(gaps) < 1e-3


# --- controls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", [eb.OldestFirst, eb.RandomRemoval])
def test_the_controls_forget_at_w_dbos_rate(control, rng):
    X, t, y = observations(rng, 40)
    order = rng.permutation(40)  # told in another order than measured
    state = {"log_budget": 0.4, "time": 1.0, "timescale": 1.0}
    view = view_of(product_kernel(), X[order], t[order], y[order], 1.0, state)
    theirs, ours = eb.WassersteinBudget(min_active=0).review(view), control(min_active=0).review(view)
    assert len(ours.rows) == len(set(ours.rows)) == len(theirs.rows) > 1
    assert ours.state == theirs.state
    if control is eb.OldestFirst:
        assert sorted(t[order][ours.rows]) == sorted(t)[: len(ours.rows)]
    else:
        assert ours.rows != theirs.rows


def test_a_window_of_observations_and_a_window_of_time(rng):
    X, t, y = observations(rng, 40)
    view = view_of(product_kernel(), X, t, y, 1.0, {})
    assert list(eb.SlidingWindow(size=12).review(view).rows) == list(range(28))
    in_time = eb.SlidingWindow(size=None, duration=0.25).review(view)
    assert list(in_time.rows) == np.flatnonzero(t < 0.75).tolist()


def test_a_window_is_exact_however_much_is_told_at_once(clock, rng):
    opt = optimizer(eb.Algorithm(staleness=eb.SlidingWindow(size=50)), clock)
    clock.advance(4000.0)
    for t in rng.permutation(1500):
        opt.tell({"x": float(rng.random()), "y": float(rng.random())}, float(rng.normal()), time=float(t))
    opt.ask()
    assert sorted(opt.dataset.t) == list(range(1450, 1500))


def test_random_search_is_uniform(clock):
    opt = optimizer("random", clock, n_initial=0)
    points = []
    for k in range(200):
        trial = opt.ask()
        points.append((trial.params["x"], trial.params["y"]))
        if k < 8:
            opt.tell(trial, moving_bump(trial.params, clock.now()))
        clock.advance(1.0)
    X = np.array(points)
    counts, _, _ = np.histogram2d(X[:, 0], X[:, 1], bins=4, range=[[0, 1], [0, 1]])
    assert ((counts - 12.5) ** 2 / 12.5).sum() < 35.0  # χ² of 15 degrees of freedom: 99.8 %


@pytest.mark.parametrize(
    "make",
    [
        lambda: eb.SlidingWindow(size=None),
        lambda: eb.SlidingWindow(size=0),
        lambda: eb.SlidingWindow(duration=-1.0),
        lambda: eb.PeriodicReset(multiplier=0.0),
        lambda: eb.EventTriggeredReset(delta=1.0),
        lambda: eb.WithinHorizon(fraction=0.0),
        lambda: eb.StepDecay(nu=1.5),
        lambda: eb.Algorithm(staleness=type("Bare", (), {"review": lambda self, view: eb.Verdict()})()),
    ],
)
def test_wrong_parts_are_refused(make):
    with pytest.raises(eb.ConfigurationError):
        make()


def test_a_wrong_until_is_refused(clock):
    with pytest.raises(eb.ConfigurationError, match="until"):
        optimizer("abo", clock).ask(until=math.nan)
