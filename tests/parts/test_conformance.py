"""All built-in parts pass the checks that come with the package, and the checks can fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ebbtide as eb
from ebbtide import testing
from ebbtide.study.codec import PARTS

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = eb.WassersteinBudget(max_active=40)  # a thousand observations take a second
ALGORITHMS = {name: eb.algorithms.get(name) for name in eb.algorithms.names()} | {
    "ard-se-ei": eb.Algorithm(spatial=eb.SquaredExponential((1.0, 1.0)), acquisition=eb.EI(), staleness=SMALL),
    "ard-in-3-d": eb.Algorithm(spatial=eb.Matern(2.5, (1.0, 1.0, 1.0)), staleness=SMALL),
    "mle-pi": eb.Algorithm(inference="mle", acquisition=eb.PI(), staleness=SMALL),
    "tv-w-dbo": eb.Algorithm(temporal=eb.StepDecay(), staleness=SMALL),
    "abo-w-dbo": eb.Algorithm(timing=eb.WithinHorizon(), staleness=SMALL),
}
# In `make quick`: a kernel in time, and none; a budget, and resets.
QUICK = ("w-dbo", "et-gp-ucb")
POLICIES = [
    eb.KeepAll(),
    eb.WassersteinBudget(),
    eb.WassersteinBudget(method="exact"),
    eb.WassersteinBudget(max_active=30),
    eb.ResponseBudget(),
    eb.OldestFirst(),
    eb.RandomRemoval(),
    eb.SlidingWindow(size=12),
    eb.SlidingWindow(size=None, duration=9.0),
    eb.PeriodicReset(),
    eb.PeriodicReset(multiplier=4.0),
    eb.EventTriggeredReset(),
]
ACQUISITIONS = [eb.UCB(), eb.UCB(beta=2.0), eb.TrackingUCB(), eb.EI(), eb.PI(), eb.Random()]
TIMINGS = [eb.Immediate(), eb.Immediate(aim="now"), eb.WithinHorizon()]


@pytest.mark.parametrize("check", testing.ALGORITHM_CHECKS, ids=testing.name_of)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALGORITHMS]
)
def test_algorithms(name, check):
    check(ALGORITHMS[name])


@pytest.mark.parametrize("check", testing.STALENESS_CHECKS, ids=testing.name_of)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policies(policy, check):
    check(policy)


@pytest.mark.parametrize("check", testing.ACQUISITION_CHECKS, ids=testing.name_of)
@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=repr)
def test_acquisitions(acquisition, check):
    check(acquisition)


@pytest.mark.parametrize("check", testing.TIMING_CHECKS, ids=testing.name_of)
@pytest.mark.parametrize("timing", TIMINGS, ids=repr)
def test_timings(timing, check):
    check(timing)


@pytest.mark.slow
@pytest.mark.parametrize("name", eb.benchmarks.names())
def test_benchmarks(name):
    testing.check_benchmark(eb.benchmarks.get(name))


def test_no_part_was_left_out():
    tested = {type(part) for part in [*POLICIES, *ACQUISITIONS, *TIMINGS]}
    assert tested | {eb.Matern, eb.SquaredExponential, eb.StepDecay} == set(PARTS.values())


# --- the checks can fail --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Misbehaving(eb.Staleness):
    """A policy with one thing wrong."""

    rows: Sequence[int] | str = ()
    scores: Sequence[float] = ()
    state: Any = None
    scribbles: bool = False
    limit: int | None = None

    @property
    def capacity(self):
        return self.limit

    def review(self, view):
        if self.scribbles:
            view.z[:] = 0.0
        rows = {"twice": [0, 0], "beyond": [len(view)]}[self.rows] if isinstance(self.rows, str) else self.rows
        return eb.Verdict(rows, self.scores, self.state or {})


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (Misbehaving(rows="twice"), "twice"),
        (Misbehaving(rows="beyond"), "whole numbers from 0"),
        (Misbehaving(rows=(0,), scores=(1.0, 2.0)), "2 scores"),
        (Misbehaving(rows=(0,), scores=(np.nan,)), "finite"),
        (Misbehaving(state={"a": [1.0]}), "dict of numbers"),
        (Misbehaving(state={"a": np.nan}), "JSON"),
        (Misbehaving(scribbles=True), "z was changed"),
        (Misbehaving(limit=10), "capacity is 10"),
    ],
)
def test_a_wrong_policy_is_told_what_is_wrong(policy, complaint):
    with pytest.raises(testing.ConformanceError, match=complaint):
        testing.check_staleness(policy)


@pytest.mark.parametrize(
    "algorithm",
    [
        eb.Algorithm(staleness=Misbehaving(rows="twice")),
        eb.Algorithm(staleness=Misbehaving(rows="beyond")),
        eb.Algorithm(staleness=Misbehaving(rows=(0,), scores=(1.0, 2.0))),
        eb.Algorithm(staleness=Misbehaving(rows=(0,), scores=(np.nan,))),
        eb.Algorithm(staleness=Misbehaving(state={"a": np.nan})),
        eb.Algorithm(timing=type("Late", (), {"window": lambda self, occasion: eb.Window(0.0, np.inf)})()),
        eb.Algorithm(timing=type("Back", (), {"window": lambda self, occasion: eb.Window(1.0, 0.0)})()),
    ],
)
def test_an_optimizer_says_what_is_wrong_with_a_part_and_changes_nothing(algorithm):
    opt = eb.Optimizer({"x": eb.Float(0, 1)}, algorithm=algorithm, clock=eb.ManualClock(), seed=0, n_initial=0)
    opt.tell({"x": 0.3}, 1.0)
    with pytest.raises(eb.ConfigurationError, match=r"rows|two finite times|remember"):
        opt.ask()
    assert len(opt.dataset) == 1
    assert opt.history[0].active


class Forgetful(eb.KeepAll):
    """It remembers something outside its state, so it cannot be resumed."""

    calls = 0

    def review(self, view):
        type(self).calls += 1
        return eb.Verdict([0] if type(self).calls % 7 == 0 else [])


def test_hidden_memory_is_found():
    with pytest.raises(testing.ConformanceError, match="judged twice"):
        testing.check_staleness(Forgetful())
    with pytest.raises(testing.ConformanceError, match="same seed"):
        testing.check_algorithm(eb.Algorithm(staleness=Forgetful()))


@pytest.mark.parametrize(
    ("acquisition", "complaint"),
    [
        (lambda mean, std, context: (mean, mean), "2 things"),
        (lambda mean, std, context: (mean.sum(), mean, std), "shape"),
        (lambda mean, std, context: (np.log(mean), 1 / mean, 0 * std), "not finite"),
        (lambda mean, std, context: (mean + std, np.ones_like(mean), np.zeros_like(std)), "derivative by std"),
        (lambda mean, std, context: (-mean, -np.ones_like(mean), np.zeros_like(std)), "higher mean scores less"),
    ],
)
def test_a_wrong_acquisition_is_told_what_is_wrong(acquisition, complaint):
    with np.errstate(all="ignore"), pytest.raises(testing.ConformanceError, match=complaint):
        testing.check_acquisition(acquisition)


@pytest.mark.parametrize(
    ("window", "complaint"),
    [
        (lambda o: eb.Window(o.now - 1.0, o.landing), "earliest"),
        (lambda o: eb.Window(np.inf, np.inf), "finite"),
        (lambda o: eb.Window(o.landing, o.landing, {"a": "b"}), "dict of numbers"),  # type: ignore[dict-item]
    ],
)
def test_a_wrong_timing_is_told_what_is_wrong(window, complaint):
    timing = type("Wrong", (), {"window": lambda self, occasion: window(occasion)})()
    with pytest.raises(testing.ConformanceError, match=complaint):
        testing.check_timing(timing)


class Broken(eb.benchmarks.Problem):
    name = "broken"
    bounds = np.array([[0.0, 1.0]])

    def values(self, X, t):
        return -((X[:, 0] - t) ** 2)

    def best(self, t):
        return np.full((len(t), 1), 0.5)  # it moves


def test_a_wrong_optimum_is_found():
    with pytest.raises(testing.ConformanceError, match="above the optimum"):
        testing.check_benchmark(Broken())


@pytest.mark.slow
def test_a_problem_of_ones_own_passes():
    class Mended(Broken):
        name = "mended"

        def best(self, t):
            return t[:, None]

    class Traced(Broken):
        name = "traced"

        def best(self, t):
            return None

    testing.check_benchmark(Mended())
    testing.check_benchmark(Traced())


@pytest.mark.slow
def test_an_algorithm_of_ones_own_passes():
    testing.check_algorithm(eb.Algorithm(acquisition=eb.EI(), staleness=eb.SlidingWindow(size=12)))
