import numpy as np
import pytest

from ebbtide.gp.kernels import Matern, SpaceTimeKernel
from ebbtide.gp.outliers import LIMIT, outliers

pytestmark = pytest.mark.usefixtures("one_thread")

KERNEL = SpaceTimeKernel(1.0, Matern(2.5, 0.4), Matern(1.5, 50.0))
NOISE = 0.05


def wave(rng, n=40):
    X, t = rng.random((n, 2)), np.arange(float(n))
    return X, t, np.sin(5.0 * X[:, 0]) + np.cos(3.0 * X[:, 1]) + 0.2 * rng.normal(size=n)


def found(X, t, z, **options):
    return np.flatnonzero(outliers(KERNEL, NOISE, X, t, z, np.arange(len(z)), **options)).tolist()


def test_usual_values_are_all_modelled(rng):
    for _ in range(50):
        assert found(*wave(rng)) == []


def test_lone_gross_errors_are_outliers_on_either_side(rng):
    X, t, z = wave(rng)
    z[12] += 100.0
    z[30] -= 60.0
    assert found(X, t, z) == [12, 30]
    assert found(X, t, z, rescale=True) == [12, 30]


@pytest.mark.parametrize(("deviations", "expected"), [(0.95 * LIMIT, []), (1.05 * LIMIT, [7])])
def test_a_suspect_is_judged_by_the_model_without_it(deviations, expected, rng):
    """A literal leave-one-out: solve for the others, predict the one."""
    X, t, z = wave(rng, 20)
    z = 0.1 * (z - z.mean())  # a small body, so that 0.95 · LIMIT deviations are outside it
    others = np.arange(20) != 7
    K = KERNEL(X, t) + NOISE * np.eye(20)
    weights = np.linalg.solve(K[others][:, others], K[others, 7])
    deviation = np.sqrt(K[7, 7] - K[7, others] @ weights)
    z[7] = weights @ z[others] + deviations * deviation
    assert z[7] > z[others].max() + 2.0 * np.ptp(z[others])
    assert found(X, t, z) == expected


def test_a_jump_is_believed_with_its_second_value(rng):
    X, t, z = wave(rng)
    z[-1] += 50.0
    assert found(X, t, z) == [39]
    z[-2] += 50.0
    assert found(X, t, z) == []


def test_a_cliff_is_believed_when_its_place_was_measured_twice(rng):
    X, t, z = wave(rng)
    X[:, 0] *= 0.7
    X[25], X[33] = [0.95, 0.5], [0.97, 0.52]
    z[25] -= 40.0
    assert found(X, t, z) == [25]
    z[33] -= 45.0
    assert found(X, t, z) == []


def test_two_errors_among_usual_values_at_one_place_do_not_confirm_each_other(rng):
    X, t, z = wave(rng)
    X[20:] = 0.5 + 0.01 * rng.random((20, 2))
    z[20:] = 0.5 + 0.2 * rng.normal(size=20)
    z[[24, 31]] += 40.0
    assert found(X, t, z) == [24, 31]


def test_errors_of_different_size_or_side_do_not_confirm_each_other(rng):
    X, t, z = wave(rng)
    z[10], z[11] = 40.0, -40.0
    assert found(X, t, z) == [10, 11]
    z[10], z[11] = 40.0, 4000.0
    assert found(X, t, z) == [10, 11]


@pytest.mark.parametrize("z", [[1.0] * 20, [0.0] * 19 + [1e100], [5.0], []])
def test_values_without_a_range_and_few_values_are_not_judged(z):
    z = np.array(z)
    X = np.linspace(0.0, 1.0, len(z))[:, None]
    assert found(X, np.arange(float(len(z))), z) == []
