"""A budget that counts what memory costs in time."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from helpers.drifting import observations, product_kernel, view_of
from hypothesis import given
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.experiments import Modelled, Protocol
from ebbtide.parts.staleness.response import ENOUGH, KEPT, LONGEST, SURE, WORTH, Intervals

pytestmark = pytest.mark.usefixtures("one_thread")

NOISE = 0.05


def learned(sizes, seconds):
    intervals = Intervals()
    for size, interval in zip(sizes, seconds, strict=True):
        intervals = intervals.after(int(size), float(interval))
    return intervals


def review(policy, n, state, rng, now=1.0):
    X, t, y = observations(rng, n)
    kernel = product_kernel()
    return policy.review(view_of(kernel, X, t, y, now, state)), eb.relevance(
        X, t, y, kernel=kernel, noise=NOISE, now=now
    )


def settled(n, a, b):
    """The state after many asks with about n observations, at a pace of a + b n²."""
    sizes = np.linspace(0.5 * n, 1.5 * n, 80)
    intervals = asdict(learned(sizes, a + b * np.floor(sizes) ** 2))
    return {"log_budget": 0.0, "time": 1.0, "timescale": 1.0, "told": 0.0} | intervals


def test_the_slope_is_that_of_least_squares_in_which_old_intervals_count_less(rng):
    sizes, noise = rng.integers(20, 200, 150), 0.05 * rng.normal(size=150)
    seconds = 1.0 + 2e-5 * sizes**2 + noise
    found, weights = learned(sizes, seconds), KEPT ** np.arange(149, -1, -1.0)
    A = np.column_stack([np.ones(150), sizes.astype(float) ** 2])
    gram = A.T @ (weights[:, None] * A)
    (a, b), left = np.linalg.solve(gram, A.T @ (weights * seconds)), weights.sum() - 2.0
    residuals = seconds - A @ (a, b)
    error = math.sqrt((weights * residuals**2).sum() / left * np.linalg.inv(gram)[1, 1])
    assert found.slope == pytest.approx(b - SURE * error, rel=1e-9)
    assert found.mean_interval == pytest.approx((weights * seconds).sum() / weights.sum())


@given(st.floats(0.0, 10.0), st.floats(1e-7, 1e-3), st.integers(2, 1000))
def test_what_one_less_saves_is_the_derivative_of_the_logarithm(a, b, n):
    sizes = np.arange(30, 90)
    share = learned(sizes, a + b * sizes**2).share(n)
    step = 1e-4 * n
    slope = (math.log(a + b * (n + step) ** 2) - math.log(a + b * (n - step) ** 2)) / (2.0 * step)
    assert share == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        (np.arange(100) % 60, np.ones(100)),  # the size does not matter
        (np.full(100, 60), 1.0 + np.arange(100) % 2),  # nor can one know if it would
        (np.arange(60), 100.0 - np.arange(60)),  # less takes longer
        (np.arange(ENOUGH - 1), np.arange(ENOUGH - 1) ** 2),  # too few to say
        (np.arange(100) % 60, np.zeros(100)),  # a clock that stands still meanwhile
    ],
)
def test_nothing_is_saved_if_the_size_does_not_matter_or_nobody_can_say(sizes, seconds):
    assert learned(sizes, seconds).share(100) == 0.0


def test_what_may_be_chance_saves_nothing():
    """Of intervals that do not depend on the size, hardly any seem to."""
    saved = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        saved.append(learned(rng.integers(90, 110, 200), rng.exponential(1.0, 200)).share(100) > 0.0)
    assert np.mean(saved) < 0.06


def test_a_pause_counts_as_three_intervals():
    before = learned(range(20, 60), np.full(40, 2.0))
    assert before.after(40, 1e9) == before.after(40, LONGEST * 2.0)
    assert before.after(40, -5.0) == before.after(40, 0.0)  # a clock that went back


def test_what_slows_down_more_than_it_is_worth_goes_without_a_budget(rng):
    policy, state = eb.ResponseBudget(min_active=0), settled(40, 0.001, 1e-4)
    verdict, first = review(policy, 40, state, rng)
    share = Intervals.of(verdict.state).share
    assert len(verdict.rows) > 3
    assert verdict.rows[0] == int(np.argmin(first))
    assert verdict.state["log_budget"] == 0.0
    assert all(math.log1p(score) <= WORTH * share(40 - gone) for gone, score in enumerate(verdict.scores))
    at_least, _ = review(eb.ResponseBudget(min_active=38), 40, state, np.random.default_rng(3))
    assert len(at_least.rows) == 2


def test_the_budget_pays_the_rest():
    poor, rich = settled(40, 0.001, 1e-5), settled(40, 0.001, 1e-5) | {"log_budget": 0.2}
    policy = eb.ResponseBudget(alpha=0.0, min_active=0)
    few, _ = review(policy, 40, poor, np.random.default_rng(3))
    many, _ = review(policy, 40, rich, np.random.default_rng(3))
    assert list(many.rows[: len(few.rows)]) == list(few.rows)
    assert len(many.rows) > len(few.rows)
    share = Intervals.of(many.state).share
    paid = sum(max(0.0, math.log1p(score) - WORTH * share(40 - gone)) for gone, score in enumerate(many.scores))
    assert many.state["log_budget"] == pytest.approx(0.2 - paid)


def test_without_a_price_it_is_the_budget_of_w_dbo():
    mine: list[float] = []
    theirs: list[float] = []
    for staleness, asked in ((eb.ResponseBudget(), mine), (eb.WassersteinBudget(), theirs)):
        clock, algorithm = eb.ManualClock(), eb.Algorithm(staleness=staleness)
        opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=1, algorithm=algorithm)
        for _ in range(40):
            trial = opt.ask()
            opt.tell(trial, (trial.params["x"] - 0.5 - 0.3 * math.sin(trial.time / 8.0)) ** 2)
            clock.advance(1.0)
            asked.append(trial.params["x"])
        assert len(opt.dataset) < 40
    assert mine == theirs


@pytest.mark.slow
@pytest.mark.parametrize(("coefficients", "fewer"), [((0.1, 0.0, 3e-5), True), ((0.4,), False)])
def test_it_remembers_less_where_memory_takes_time(coefficients, fewer):
    protocol = Protocol(duration=60.0, compute=Modelled(coefficients))
    sizes = [
        eb.experiments.run("hartmann3", eb.Algorithm(staleness=staleness), 0, protocol).columns["n"].mean()
        for staleness in (eb.ResponseBudget(), eb.WassersteinBudget())
    ]
    assert sizes[0] < 0.7 * sizes[1] if fewer else sizes[0] == sizes[1]


def slowed(opt, clock, steps):
    """Asks that take the longer, the more is remembered; the settings asked for."""
    asked = []
    for _ in range(steps):
        trial = opt.ask()
        off = trial.params["x"] - 0.5 - 0.3 * math.sin(trial.time / 9.0)
        opt.tell(
            trial, off**2, constraints={"heat": trial.params["x"]} if opt.definition.conditions.constraints else None
        )
        asked.append(trial.params["x"])
        clock.advance(0.05 + 2e-4 * len(opt.dataset) ** 2)
    return asked


def begun(clock, staleness=None, **options):
    algorithm = eb.Algorithm(staleness=staleness or eb.ResponseBudget())
    return eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=4, algorithm=algorithm, **options)


def test_a_study_that_is_loaded_again_and_again_asks_the_same(tmp_path):
    clock = eb.ManualClock()
    whole = begun(clock)
    expected = slowed(whole, clock, 60)
    assert Intervals.of(whole._engine.state.policy).slope == pytest.approx(2e-4, rel=0.2)  # with one more than it kept
    assert len(whole.dataset) < 40
    clock = eb.ManualClock()
    opt, asked = begun(clock), []
    for _ in range(10):
        asked += slowed(opt, clock, 6)
        opt.save(tmp_path / "study.json")
        opt = eb.Optimizer.load(tmp_path / "study.json", clock=clock)
    assert asked == expected


def test_a_value_under_a_constraint_counts_the_time_too():
    sizes = []
    for staleness in (eb.ResponseBudget(), eb.WassersteinBudget()):
        opt = begun(clock := eb.ManualClock(), staleness, constraints={"heat": eb.AtMost(0.95)})
        slowed(opt, clock, 60)
        sizes.append(len(opt.dataset))
    assert sizes[0] < sizes[1]
