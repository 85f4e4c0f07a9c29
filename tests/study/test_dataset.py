import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.gp.standardization import Standardization
from ebbtide.study.active import Table


def test_append_and_keep():
    table = Table(2, context=1, constraints=2)
    for i in range(40):
        around = np.array([i / 40.0]), np.array([np.nan, -i])
        table.append(np.array([i, -i]), float(i), 10.0 * i, *around, i)
    table.keep(np.array([1, 5, 39]))
    data, lines = table.copies()
    assert data.t.tolist() == [1.0, 5.0, 39.0]
    assert data.x.tolist() == [[1, -1], [5, -5], [39, -39]]
    assert data.y.tolist() == [10.0, 50.0, 390.0]
    assert data.c.tolist() == [[1 / 40], [5 / 40], [39 / 40]]
    assert np.array_equal(data.outcomes, [[np.nan, -1], [np.nan, -5], [np.nan, -39]], equal_nan=True)
    assert lines.tolist() == [1, 5, 39]
    assert len(table) == len(data) == 3


def test_a_dataset_cannot_change_the_table():
    table = Table(1)
    table.append(np.array([0.5]), 0.0, 1.0, np.empty(0), np.empty(0), 0)
    data, _ = table.copies()
    with pytest.raises(ValueError, match="read-only"):
        data.x[0] = 9.0
    table.keep(np.array([], dtype=int))
    assert data.y.tolist() == [1.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_standardised_values_have_mean_0_and_deviation_1(values):
    y = np.array(values)
    z = Standardization.of(y).apply(y)
    if np.ptp(y) > 1e-9 * np.abs(y).max():
        assert abs(z.mean()) < 1e-6
        assert abs(z.std() - 1.0) < 1e-6
    else:
        assert np.isfinite(z).all()


@pytest.mark.parametrize(
    "y",
    [
        [1e300, -1e300, 3e299],
        [1e-300, 2e-300, 0.0],
        [5e-324, 0.0],
        [1.7e308, -1.7e308],
        [7.0, 7.0, 7.0],
        [1e300, 1e300 * (1 + 2.3e-16), 1e300],
        [0.0, 0.0],
        [3.0],
    ],
)
def test_standardisation_survives_any_magnitude(y):
    y = np.array(y)
    standard = Standardization.of(y)
    z = standard.apply(y)
    assert np.isfinite(z).all()
    assert np.abs(z).max() <= len(y)
    assert standard.scale > 0
