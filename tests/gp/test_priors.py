"""Priors of hyperparameters: normals, and Student t whose pull ends."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ebbtide.gp.priors import NORMAL, TimeLimits, weak_prior

WEAK = weak_prior(ard=False, dim=2, limits=TimeLimits.of(interval=1.0, span=100.0), method="map")
HEAVY = replace(WEAK, freedom=np.full(4, 4.0))
POINTS = [WEAK.center + shift for shift in ([0.3, -0.2, 1.0, 2.0], [-1.0, 3.0, -4.0, 0.1], [8.0, -8.0, 5.0, -6.0])]


@pytest.mark.parametrize("theta", POINTS)
def test_a_heavy_prior_has_the_density_of_a_student_t(theta):
    sided = np.where(theta < WEAK.center, WEAK.precision_below, WEAK.precision_above)
    z = (theta - WEAK.center) * np.sqrt(sided)
    expected = stats.t.logpdf(z, 4.0).sum() - stats.t.logpdf(np.zeros(4), 4.0).sum()
    assert HEAVY.log_density(theta) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("theta", POINTS)
@pytest.mark.parametrize("prior", [WEAK, HEAVY])
def test_the_precision_times_the_distance_is_the_slope(prior, theta):
    moves = 1e-6 * np.eye(4)
    slopes = [(prior.log_density(theta + move) - prior.log_density(theta - move)) / 2e-6 for move in moves]
    assert -prior.precision(theta) * (theta - prior.center) == pytest.approx(np.array(slopes), rel=1e-5)


def test_the_pull_of_a_heavy_prior_ends():
    far = WEAK.center + 50.0
    assert np.abs(HEAVY.precision(far) * 50.0).max() < 0.11
    assert np.abs(WEAK.precision(far) * 50.0).min() > 10.0


def test_very_many_degrees_of_freedom_make_a_normal():
    normal = replace(WEAK, freedom=np.full(4, NORMAL))
    for theta in POINTS:
        assert normal.log_density(theta) == pytest.approx(WEAK.log_density(theta), rel=1e-6)
        assert normal.precision(theta) == pytest.approx(WEAK.precision(theta), rel=1e-6)
