"""Checks that every algorithm, policy, acquisition, timing and benchmark must pass: ours do, and so should yours.

    from ebbtide import testing

    testing.check_staleness(MyPolicy())                 # all checks, or the first that fails

    @pytest.mark.parametrize("check", testing.STALENESS_CHECKS, ids=testing.name_of)
    def test_my_policy(check):                          # or one test each
        check(MyPolicy())

A check raises `ConformanceError`, which says what was expected and what happened.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem
from ebbtide.parts.acquisition import Acquisition
from ebbtide.parts.staleness import Staleness
from ebbtide.parts.timing import Timing
from ebbtide.testing.acquisitions import ACQUISITION_CHECKS
from ebbtide.testing.algorithms import ALGORITHM_CHECKS
from ebbtide.testing.benchmarks import BENCHMARK_CHECKS
from ebbtide.testing.expectations import ConformanceError
from ebbtide.testing.staleness import STALENESS_CHECKS
from ebbtide.testing.timings import TIMING_CHECKS

__all__ = [
    "ACQUISITION_CHECKS",
    "ALGORITHM_CHECKS",
    "BENCHMARK_CHECKS",
    "STALENESS_CHECKS",
    "TIMING_CHECKS",
    "ConformanceError",
    "check_acquisition",
    "check_algorithm",
    "check_benchmark",
    "check_staleness",
    "check_timing",
    "name_of",
]


def check_algorithm(algorithm: Algorithm) -> None:
    """Feasible and finite asks, repeatable ones, pure reads, snapshots, a complete history, hard times."""
    _run(ALGORITHM_CHECKS, algorithm)


def check_staleness(policy: Staleness) -> None:
    """Valid rows, plain state, no mutation, repeatable, within its capacity."""
    _run(STALENESS_CHECKS, policy)


def check_acquisition(acquisition: Acquisition) -> None:
    """Finite, true derivatives, never against a higher mean, no mutation."""
    _run(ACQUISITION_CHECKS, acquisition)


def check_timing(timing: Timing) -> None:
    """A window that is not in the past, plain memory, no mutation, repeatable."""
    _run(TIMING_CHECKS, timing)


def check_benchmark(problem: Problem) -> None:
    """Finite, vectorised, repeatable, and an optimum that no sampled value exceeds."""
    _run(BENCHMARK_CHECKS, problem)


def _run(checks: Sequence[Callable[[Any], None]], subject: Any) -> None:
    for check in checks:
        check(subject)


def name_of(check: Callable[..., None]) -> str:
    """A readable name for pytest."""
    return check.__name__.replace("_", " ")
