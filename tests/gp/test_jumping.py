"""Whether the objective changes smoothly or jumps: two kernels in time, of which the evidence chooses one."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import ebbtide as eb
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.inference import LIKELIER, SEARCH_ROWS, WARM_STEPS, ascend, fit, likelier
from ebbtide.gp.kernels import Cycle, Cyclic
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.priors import TimeLimits, weak_prior

pytestmark = pytest.mark.usefixtures("one_thread")

SMOOTH = Families(eb.Matern(2.5), eb.Matern(1.5))
JUMPING = SMOOTH.jumping
HYPER = Hyperparameters(1.0, 1.0, 20.0, 0.003)
PRIOR = weak_prior(ard=False, dim=1, limits=TimeLimits.of(interval=1.0, span=100.0), method="map")


def test_what_changes_at_random_moments_has_the_covariance_of_a_jumping_objective(rng):
    """Levels that are drawn anew at the moments of a Poisson process, once in l_T on average."""
    timescale, delays = 5.0, np.array([0.0, 1.0, 3.0, 10.0])
    changes = np.cumsum(rng.exponential(timescale, (4000, 40)), axis=1)
    levels = rng.normal(size=(4000, 41))
    changed = (changes[:, :, None] <= 2.0 + delays).sum(axis=1)
    seen = np.take_along_axis(levels, changed, axis=1)
    covariance = (seen[:, :1] * seen).mean(axis=0)
    kernel = JUMPING.kernel(Hyperparameters(1.0, 0.4, timescale, 0.01, jumps=True))
    expected = kernel(np.zeros((1, 1)), np.zeros(1), np.zeros((4, 1)), delays)[0]
    assert covariance == pytest.approx(expected, abs=0.08)


def test_hyperparameters_know_which_kernel_they_belong_to():
    jumping = JUMPING.hyperparameters(HYPER.to_vector())
    assert jumping.jumps
    assert not SMOOTH.hyperparameters(HYPER.to_vector()).jumps
    for families in (SMOOTH, JUMPING):
        temporal = families.kernel(jumping).temporal
        assert isinstance(temporal, eb.Matern)
        assert (temporal.nu, temporal.lengthscale) == (0.5, jumping.timescale)
    assert SMOOTH.kernel(HYPER).temporal == eb.Matern(1.5, 20.0)
    assert SMOOTH.of(jumping) == JUMPING.of(jumping) == JUMPING


def test_cycles_stay():
    cycles = (Cycle(24.0),)
    families = Families(eb.Matern(2.5), Cyclic(1.0, eb.Matern(1.5), cycles))
    jumping = families.jumping.kernel(Hyperparameters(1.0, 0.4, 20.0, 0.01, (), ((0.3, 200.0, 0.7),), jumps=True))
    assert jumping.temporal == Cyclic(20.0, eb.Matern(0.5), (Cycle(24.0, 0.3, 200.0, 0.7),))
    assert families.jumping.cycles == 1


def test_a_kernel_that_is_rough_already_stays():
    for temporal in (eb.Matern(0.5, 3.0), Cyclic(1.0, eb.Matern(0.5), (Cycle(24.0),))):
        families = Families(eb.Matern(2.5), temporal)
        assert families.jumping is families


def drawn(families, rng, n):
    hyper = families.hyperparameters(HYPER.to_vector())
    X, t = rng.random((n, 1)), np.arange(float(n))
    covariance = families.kernel(hyper)(X, t) + hyper.noise * np.eye(n)
    return X, t, rng.multivariate_normal(np.zeros(n), covariance)


def density(families, hyper, data):
    """The log posterior density, up to what both kernels share, by SciPy."""
    X, t, y = data
    covariance = families.kernel(hyper)(X, t) + hyper.noise * np.eye(len(y))
    return multivariate_normal(cov=covariance).logpdf(y) + PRIOR.log_density(hyper.to_vector())


@pytest.mark.parametrize("n", [100, SEARCH_ROWS + 60], ids=["all rows", "a sample"])
def test_the_evidence_finds_the_kernel_that_the_data_were_drawn_with(n):
    """From either side in most cases; where it is not clear, everything stays as it is."""
    left = {}
    for truth in (SMOOTH, JUMPING):
        for start in (SMOOTH, JUMPING):
            others = JUMPING if start is SMOOTH else SMOOTH
            found = []
            for seed in range(12):
                rng = np.random.default_rng([seed, 4])
                data = drawn(truth, rng, n)
                fitted = fit(start, start.hyperparameters(HYPER.to_vector()), data, PRIOR, search=True, rng=rng)
                found.append(likelier(start, others, fitted.hyper, data, PRIOR, rng))
                if n <= SEARCH_ROWS and found[-1] is not None:
                    gained = density(others, found[-1], data) - density(start, fitted.hyper, data)
                    assert gained > LIKELIER - 0.1  # a little may be gained where the fit had stopped
            assert all(hyper is None or hyper.jumps == others.jumps for hyper in found)
            left[truth.jumps, start.jumps] = sum(hyper is not None for hyper in found)
    assert left[False, True] >= 6
    assert left[True, False] >= 6
    assert left[False, False] <= 1
    assert left[True, True] <= 1


def test_a_known_value_need_not_be_computed_again(rng):
    data = drawn(JUMPING, rng, 80)
    best = ascend(Likelihood(SMOOTH, *data), HYPER.to_vector(), PRIOR, WARM_STEPS)
    hyper = best.evaluation.hyperparameters
    assert likelier(SMOOTH, JUMPING, hyper, data, PRIOR, rng, best.value) is not None
    assert likelier(SMOOTH, JUMPING, hyper, data, PRIOR, rng, best.value + 100.0) is None


def test_values_that_no_kernel_explains_change_nothing(rng):
    X, t, y = drawn(SMOOTH, rng, 20)
    y[3] = np.nan
    assert likelier(SMOOTH, JUMPING, HYPER, (X, t, y), PRIOR, rng) is None
