"""Far more is told than may stay active: an ask models only a little more than that, and so do reads.

Seconds are measured in perf/first_ask.py.
"""

import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, moving_bump
from helpers.studies import contents

import ebbtide as eb


@dataclass(frozen=True)
class Watched(eb.WassersteinBudget):
    """Notes the times of the observations that it is shown: those that the model was fitted to."""

    max_active: int = 60
    seen: list[list[float]] = field(default_factory=list)

    def review(self, view):
        self.seen.append(view.t.tolist())
        return super().review(view)


def tell_many(opt, n, wrong=()):
    for t, (x, y) in enumerate(np.random.default_rng(0).random((n, 2)).tolist()):
        value = 1e6 if t in wrong else moving_bump({"x": x, "y": y}, t)
        opt.tell({"x": x, "y": y}, value, time=float(t))


@pytest.mark.parametrize("n", [189, 1000])
def test_only_a_few_more_are_fitted_than_may_stay(n):
    policy = Watched()
    opt = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(n), seed=0, algorithm=eb.Algorithm(staleness=policy))
    tell_many(opt, n)
    opt.ask()
    (fitted,) = policy.seen
    assert 60 <= len(fitted) <= 60 + 128
    assert set(range(n - 60, n)) <= set(fitted)  # the newest are all there,
    assert min(fitted) < n - 60  # and those of the older ones that matter most
    assert len(opt.dataset) == 60
    removed = [o for o in opt.history if not o.active]
    assert all(o.relevance is not None and o.removed_at == n for o in removed)


def test_what_may_stay_is_fitted_as_it_is():
    policy = Watched()
    opt = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(188), seed=0, algorithm=eb.Algorithm(staleness=policy))
    tell_many(opt, 188)
    opt.ask()
    assert [len(fitted) for fitted in policy.seen] == [188]


@pytest.mark.slow
def test_outliers_are_sought_among_the_newest_only():
    """Among all of them it would take a matrix of 4,000 × 4,000 numbers, 128 MB."""
    algorithm = eb.Algorithm(robust=True, transform="auto", staleness=eb.WassersteinBudget(max_active=100))
    opt = eb.Optimizer(
        UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(4000), seed=0, algorithm=algorithm, n_initial=0
    )
    tell_many(opt, 4000, wrong=(5, 3950))
    before = contents(opt)
    tracemalloc.start()
    assert opt.dataset.y[opt.set_aside].tolist() == [1e6]
    assert opt.recommend().mean < 10.0
    opt.relevance()
    assert contents(opt) == before
    opt.ask()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    assert len(opt.dataset) <= 100
