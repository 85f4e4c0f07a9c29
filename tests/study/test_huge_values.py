"""Values near the limits of a float: whatever can be read of a study is finite, and valid JSON."""

import json
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from helpers.serving import served
from helpers.studies import TINY, named, url

import ebbtide as eb
from ebbtide import wire
from ebbtide.clock import wait_until
from ebbtide.dashboard.numbers import short
from ebbtide.dashboard.views import Views
from ebbtide.gp.standardization import Standardization
from ebbtide.study.storage import Storage

LARGEST = float(np.finfo(float).max)
VALUES = {
    "both ends": [1.7e308, -1.7e308],
    "the largest": [LARGEST, LARGEST, 1e308],
    "the smallest": [5e-324, 0.0, 1e-310],
    "everything": [LARGEST, 5e-324, -LARGEST, 0.0, 1.0],
    "positive": [5e-324, 1e-300, 1.7e308],
}
ALGORITHMS = named(quick=["tide", "w-dbo"])
LIVE: dict[str, Any] = {"explore": 0.5, "baseline": {"x": 0.5}, "baseline_every": 3, "movement": eb.Movement(cost=1.0)}


def as_json(answer):
    return json.dumps(answer, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "n"),
    [("tide", 3), ("w-dbo", 3), *(pytest.param(*each.values, 9, marks=each.marks) for each in ALGORITHMS)],
)
@pytest.mark.parametrize("values", VALUES)
def test_everything_that_can_be_read_is_finite(tmp_path, algorithm, values, n):
    clock = eb.ManualClock()
    told = cycle(VALUES[values])
    options = LIVE if n > 3 else {}
    opt = eb.Optimizer(
        TINY,
        algorithm=algorithm,
        clock=clock,
        seed=0,
        n_initial=3,
        storage=url(tmp_path / "s.db"),
        name="edge",
        **options,
    )
    for _ in range(n):
        trial = opt.ask()
        wait_until(clock, trial.time)
        opt.tell(trial, next(told))
        clock.advance(1.0)
    as_json(wire.recommendation(opt.recommend()))
    for moment in (None, 0.0, 1e300):
        assert np.isfinite(opt.predict({"x": 0.3}, moment)).all()
    if opt.algorithm.temporal is not None:
        assert np.isfinite(opt.relevance()).all()
    as_json(wire.model(opt))
    gain = opt.gain
    assert gain is None or np.isfinite([gain.mean, gain.low, gain.high]).all()
    views = Views(Storage.of(url(tmp_path / "s.db"), read_only=True))
    assert json.loads(as_json(views.study("edge", None, None)))["model"] is not None
    as_json(views.trail("edge", None))
    opt.space.check(opt.ask().params)


@pytest.mark.slow
def test_the_service_recommends(tmp_path):
    with served(tmp_path) as server, eb.Client(server.url, patience=60.0) as client:
        study = client.create("edge", TINY, seed=0)
        for x, value in ((0.1, 1.7e308), (0.5, -1.7e308), (0.9, 1.7e308)):
            study.tell({"x": x}, value)
        assert np.isfinite(study.recommend().mean)
        for path in ("/studies/edge/recommend", "/studies/edge/state", "/view/edge", "/metrics", "/studies/edge"):
            assert server.call("GET", path).status == 200


def test_a_prediction_beyond_the_largest_float_is_the_largest():
    mean, std = Standardization(1e308, 1e308).back(np.array([0.0, 1.0, -3.0, 1e100]), np.array([0.5, 1.0, 2.0, 9.0]))
    assert mean.tolist() == [1e308, LARGEST, -LARGEST, LARGEST]
    assert std.tolist() == [5e307, 1e308, LARGEST, LARGEST]


def test_quartiles_at_both_ends():
    assert Standardization.by_quartiles(np.array([-1.7e308, 1.7e308, 1.7e308, -1.7e308])).scale > 1e308


def test_numbers_are_not_rounded_up_to_infinity():
    assert short([LARGEST, -LARGEST, 1.0], 3) == [LARGEST, -LARGEST, 1.0]
