import numpy as np
import pytest
from helpers.drifting import observations
from scipy.optimize import minimize

import ebbtide as eb
from ebbtide.errors import NumericalError
from ebbtide.gp import inference
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.inference import (
    TOLERANCE,
    Standing,
    ascend,
    elsewhere,
    fit,
    is_worth_a_refit,
    promise,
)
from ebbtide.gp.kernels import Cycle, Cyclic
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.priors import TimeLimits, weak_prior

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = Families(eb.Matern(2.5), eb.Matern(1.5))
LIMITS = TimeLimits.of(interval=0.02, span=1.0)
START = Hyperparameters(1.0, 0.5, 0.5, 0.05)
PRIOR = weak_prior(ard=False, dim=2, limits=LIMITS, method="map")


def from_the_prior(rng, n=80, hyper=None):
    hyper = hyper or Hyperparameters(1.0, 0.4, 0.3, 0.05)
    X, t = rng.random((n, 2)), np.sort(rng.random(n))
    covariance = FAMILIES.kernel(hyper)(X, t) + hyper.noise * np.eye(n)
    return X, t, rng.multivariate_normal(np.zeros(n), covariance)


@pytest.mark.parametrize("method", ["map", "mle"])
@pytest.mark.parametrize("seed", range(6))
def test_the_ascent_arrives_where_scipy_does(method, seed):
    """Another optimizer, from the same start, finds nothing better."""
    data = from_the_prior(np.random.default_rng(seed))
    likelihood = Likelihood(FAMILIES, *data)
    prior = weak_prior(ard=False, dim=2, limits=LIMITS, method=method)

    def negative(theta):
        evaluation = likelihood(theta)
        gradient = evaluation.derivatives()[0] - prior.precision(theta) * (theta - prior.center)
        return -(evaluation.value + prior.log_density(theta)), -gradient

    bounds = list(zip(prior.lower, prior.upper, strict=True))
    theirs = minimize(negative, START.to_vector(), jac=True, method="L-BFGS-B", bounds=bounds)
    ours = ascend(likelihood, START.to_vector(), prior, max_steps=60)
    assert ours.value > -theirs.fun - 0.1


def test_a_refit_that_would_change_nothing_costs_one_evaluation(rng, monkeypatch):
    data = from_the_prior(rng)
    prior = weak_prior(ard=False, dim=2, limits=LIMITS, method="map")
    settled = ascend(Likelihood(FAMILIES, *data), START.to_vector(), prior, max_steps=60)
    calls = []
    original = Likelihood.__call__

    def counted(self, theta):
        calls.append(theta)
        return original(self, theta)

    monkeypatch.setattr(Likelihood, "__call__", counted)
    again = fit(FAMILIES, settled.evaluation.hyperparameters, data, prior, search=False, rng=rng)
    assert len(calls) == 1
    assert np.allclose(again.hyper.to_vector(), settled.evaluation.theta)


def test_hyperparameters_are_recovered(rng):
    truth = Hyperparameters(1.0, 0.4, 0.3, 0.05)
    data = from_the_prior(rng, n=250, hyper=truth)
    prior = weak_prior(ard=False, dim=2, limits=LIMITS, method="mle")
    found = fit(FAMILIES, START, data, prior, search=True, rng=rng).hyper
    assert np.abs(found.to_vector() - truth.to_vector()).max() < 0.7


def test_white_noise_is_explained_by_noise_not_by_a_function_that_changes_at_once(rng):
    """A few values of pure noise must not drive l_T to a few samples: that empties the active set for good."""
    found = []
    for seed in range(20):
        draws = np.random.default_rng(seed)
        n = 12
        data = (draws.random((n, 3)), np.arange(float(n)), draws.normal(size=n))
        limits = TimeLimits.of(interval=1.0, span=600.0)
        prior = weak_prior(ard=False, dim=3, limits=limits, method="map")
        start = Hyperparameters(1.0, 0.8, 50.0, 0.05)
        found.append(fit(FAMILIES, start, data, prior, search=True, rng=draws).hyper.timescale)
    assert np.sum(np.array(found) < 20.0) <= 4  # samples


def fitted_timescales(values, n=120):
    """In samples, for ten datasets; 50 is typical."""
    limits = TimeLimits.of(interval=1.0, span=float(n))
    prior = weak_prior(ard=False, dim=2, limits=limits, method="map")
    found = []
    for seed in range(10):
        draws = np.random.default_rng(seed)
        X = draws.random((n, 2))
        data = (X, np.arange(float(n)), values(X, draws))
        start = Hyperparameters(1.0, 0.4, 50.0, 0.05)
        found.append(fit(FAMILIES, start, data, prior, search=True, rng=draws).hyper.timescale)
    return np.array(found)


@pytest.mark.slow
def test_data_that_says_nothing_of_time_does_not_make_the_world_static():
    """Noise on a flat function for 80 s: W-DBO must not conclude that nothing will change for 800 s."""
    found = []
    for seed in range(5):
        rng, clock = np.random.default_rng(seed), eb.ManualClock()
        opt = eb.Optimizer({"a": eb.Float(0, 1), "b": eb.Float(0, 1)}, clock=clock, seed=seed)
        for _ in range(80):
            opt.tell(opt.ask(), rng.normal())
            clock.advance(1.0)
        found.append(opt.hyperparameters["timescale"])
    assert np.median(found) < 200.0


def test_data_that_shows_no_drift_is_believed():
    """The data shows that the function does not move."""
    assert np.median(fitted_timescales(lambda X, rng: np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=len(X)))) > 300.0


@pytest.mark.parametrize("periods", [(), (24.0,)])
def test_a_prior_whose_limits_have_moved_is_the_one_made_with_them(periods):
    families = FAMILIES._replace(temporal=Cyclic(1.0, eb.Matern(1.5), tuple(Cycle(p, 0.3) for p in periods)))
    before, after = (
        weak_prior(ard=True, dim=3, limits=limits, method="map", periods=periods)
        for limits in (TimeLimits(10.0, 500.0, 50.0), TimeLimits(12.0, 700.0, 60.0))
    )
    moved = before.limited(TimeLimits(12.0, 700.0, 60.0), families.timescale_at(len(before.center)))
    for name, expected in vars(after).items():
        assert np.array_equal(getattr(moved, name), expected), name


def test_guards_are_reported(rng):
    X, t, _ = observations(rng, 40)
    limits = TimeLimits(floor=0.01, ceiling=0.02, typical=0.015)
    prior = weak_prior(ard=False, dim=2, limits=limits, method="map")
    y = np.sin(6 * X[:, 0])  # does not drift at all
    assert "timescale_ceiling" in fit(FAMILIES, START, (X, t, y), prior, search=True, rng=rng).guards
    limits = TimeLimits(floor=1.0, ceiling=50.0, typical=10.0)
    prior = weak_prior(ard=False, dim=2, limits=limits, method="mle")
    y = np.sin(12 * t)  # drifts faster than the floor allows
    assert "timescale_floor" in fit(FAMILIES, START, (X, t, y), prior, search=True, rng=rng).guards


def test_limits_depend_on_the_sampling_interval_and_the_whole_span():
    limits = TimeLimits.of(interval=2.0, span=1000.0)
    assert limits.floor == 20.0
    assert limits.ceiling == 10_000.0
    assert limits.floor <= limits.typical <= limits.ceiling
    degenerate = TimeLimits.of(interval=1.0, span=0.0)
    assert degenerate.floor < degenerate.ceiling


def failing(times):
    """A likelihood that cannot be evaluated the first `times` times."""
    left = [times]

    class Broken(Likelihood):
        def __call__(self, theta):
            if left[0] > 0:
                left[0] -= 1
                raise NumericalError("no")
            return super().__call__(theta)

    return Broken


def test_second_rung_a_search_when_the_warm_start_fails(rng, monkeypatch):
    monkeypatch.setattr(inference, "Likelihood", failing(1))
    prior = weak_prior(ard=False, dim=2, limits=LIMITS, method="map")
    found = fit(FAMILIES, START, from_the_prior(rng), prior, search=False, rng=rng)
    assert found.hyper != START
    assert "fit_fallback" not in found.guards


def test_last_rung_the_last_good_hyperparameters_with_a_warning(rng, monkeypatch):
    monkeypatch.setattr(inference, "Likelihood", failing(10**9))
    prior = weak_prior(ard=False, dim=2, limits=LIMITS, method="map")
    with pytest.warns(eb.FitWarning, match="the last good ones are kept"):
        found = fit(FAMILIES, START, from_the_prior(rng), prior, search=False, rng=rng)
    assert found.hyper == START
    assert "fit_fallback" in found.guards
    assert np.isfinite(found.posterior.alpha).all()


def test_the_promise_of_a_model_is_that_of_newtons_first_step(rng):
    X, t, y = observations(rng, 40)
    hyper = Hyperparameters(1.0, 0.5, 0.6, 0.1)
    fitted = Likelihood(FAMILIES, X, t, y)(hyper.to_vector())
    model, prior = Incremental(fitted, np.arange(40)), PRIOR
    promised, change = promise(Standing(model, y, model.P @ y), prior)
    reached = ascend(fitted.likelihood, hyper.to_vector(), prior, 25)
    gained = reached.value - fitted.value - prior.log_density(fitted.theta)
    assert 0.3 * gained < promised < 3.0 * gained
    assert change > 0.1
    there = Incremental(reached.evaluation, np.arange(40))
    assert promise(Standing(there, y, there.P @ y), prior)[0] < TOLERANCE


def test_an_ascent_from_a_model_that_is_kept_reaches_what_one_from_its_hyperparameters_does(rng):
    X, t, y = observations(rng, 40)
    hyper = Hyperparameters(1.0, 0.5, 0.6, 0.1)
    likelihood = Likelihood(FAMILIES, X, t, y)
    model = Incremental(likelihood(hyper.to_vector()), np.arange(40))
    kept = ascend(likelihood, hyper.to_vector(), PRIOR, 25, Standing(model, y, model.P @ y))
    np.testing.assert_allclose(kept.evaluation.theta, ascend(likelihood, hyper.to_vector(), PRIOR, 25).evaluation.theta)
    best = Incremental(kept.evaluation, np.arange(40))
    again = ascend(likelihood, START.to_vector(), PRIOR, 25, Standing(best, y, best.P @ y))  # nothing is left to gain
    np.testing.assert_allclose(again.evaluation.theta, best.theta)


def test_many_observations_do_not_make_a_small_change_worth_a_refit(rng, monkeypatch):
    X, t, y = observations(rng, 300)
    likelihood = Likelihood(FAMILIES, X, t, y)
    best = ascend(likelihood, START.to_vector(), PRIOR, 60).evaluation
    scale = best.theta + np.array([0.09, 0.0, 0.0, 0.0])
    off = Incremental(likelihood(scale), np.arange(300))
    standing = Standing(off, y, off.P @ y)
    assert promise(standing, PRIOR)[0] > 0.4
    assert not is_worth_a_refit(standing, PRIOR)
    monkeypatch.setattr(inference, "NOTABLE", 0.05)
    assert is_worth_a_refit(standing, PRIOR)


def test_a_search_finds_better_hyperparameters_only_if_there_are_any(rng):
    data = observations(rng, 60)
    likelihood = Likelihood(FAMILIES, *data)
    found = elsewhere(FAMILIES, Hyperparameters(1.0, 5.0, 0.6, 1.0), data, PRIOR, rng)
    assert found is not None
    best = ascend(likelihood, found, PRIOR, 100).evaluation.hyperparameters
    again = elsewhere(FAMILIES, best, data, PRIOR, rng)
    assert again is None or np.allclose(again, best.to_vector(), atol=0.1)
