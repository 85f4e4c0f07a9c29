"""The gain over the baseline, against the truth of made-up histories."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ebbtide.records import Observation
from ebbtide.study.gain import gain


def history(difference: float, n: int = 400, every: int = 10, seed: int = 0, noise: float = 0.3) -> Any:
    """Holds and, now and then, the baseline, under a load that comes and goes."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        kind: Any = "baseline" if k % every == 1 else "explore" if k % every == 5 else "hold"
        value = 10.0 + 5.0 * math.sin(k / 30.0) + noise * rng.normal() + (difference if kind == "hold" else 0.0)
        yield Observation({"x": 0.0}, float(k), -3.0 if kind == "explore" else value, str(k), kind=kind)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_drift_cancels(direction):
    sign = 1.0 if direction == "maximize" else -1.0
    found = gain(history(sign * 2.0), direction)
    assert found is not None
    assert found.mean == pytest.approx(2.0, abs=0.2)
    assert found.low < 2.0 < found.high
    assert found.comparisons == 40
    assert found.relative == pytest.approx((found.mean / 10.0, found.low / 10.0, found.high / 10.0), rel=0.2)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    covered = [found.low <= 0.5 <= found.high for found in (gain(history(0.5, seed=s), "maximize") for s in range(200))]
    assert 0.85 <= np.mean(covered) <= 1.0


def test_too_little_to_compare():
    told = list(history(1.0, n=20))
    assert gain(told, "maximize") is None
    assert gain([o for o in history(1.0) if o.kind != "hold"], "maximize") is None
    assert gain([], "maximize") is None


def test_failures_and_what_was_called_off_have_no_value_to_compare():
    told = list(history(1.0))
    broken = [replace(o, value=None, abandoned=k % 2 == 0) for k, o in enumerate(told)]
    mixed = [b if k % 7 == 0 else o for k, (o, b) in enumerate(zip(told, broken, strict=True))]
    assert gain(mixed, "maximize").mean == pytest.approx(1.0, abs=0.3)
    assert gain(broken, "maximize") is None


def test_values_too_large_to_subtract_have_no_gain():
    told = [replace(o, value=1.7e308 * (-1) ** k) for k, o in enumerate(history(1.0, n=100, every=9))]
    assert gain(told, "maximize") is None


def test_a_baseline_of_next_to_nothing_has_no_share():
    told = [replace(o, value=1e-320 if o.kind == "baseline" else 1.0) for o in history(1.0)]
    found = gain(told, "maximize")
    assert found.mean == pytest.approx(1.0)
    assert found.relative is None
