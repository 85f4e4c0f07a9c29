"""Checks that every algorithm, policy, acquisition, timing, benchmark and storage must pass: the built-in ones do, and
yours should.

    from ebbtide import testing

    testing.check_staleness(MyPolicy())                 # runs all checks; the first failure raises

    @pytest.mark.parametrize("check", testing.STALENESS_CHECKS, ids=testing.name_of)
    def test_my_policy(check):                          # or one test per check
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
from ebbtide.testing.logs import LOG_CHECKS, InMemory, Opened
from ebbtide.testing.staleness import STALENESS_CHECKS
from ebbtide.testing.storages import STORAGE_CHECKS, Opening
from ebbtide.testing.timings import TIMING_CHECKS

__all__ = [
    "ACQUISITION_CHECKS",
    "ALGORITHM_CHECKS",
    "BENCHMARK_CHECKS",
    "LOG_CHECKS",
    "STALENESS_CHECKS",
    "STORAGE_CHECKS",
    "TIMING_CHECKS",
    "ConformanceError",
    "InMemory",
    "check_acquisition",
    "check_algorithm",
    "check_benchmark",
    "check_log",
    "check_staleness",
    "check_storage",
    "check_timing",
    "name_of",
]


def check_algorithm(algorithm: Algorithm) -> None:
    """Asks are feasible, finite and repeatable; reads change nothing; snapshots resume; bad data is survived.

    And so it is with a context, a cycle and constraints.
    """
    _run(ALGORITHM_CHECKS, algorithm)


def check_staleness(policy: Staleness) -> None:
    """Valid rows, a plain state, inputs unchanged, repeatable, within its capacity."""
    _run(STALENESS_CHECKS, policy)


def check_acquisition(acquisition: Acquisition) -> None:
    """Finite, correct derivatives, a higher mean is never worse, inputs unchanged."""
    _run(ACQUISITION_CHECKS, acquisition)


def check_timing(timing: Timing) -> None:
    """A window that is not in the past, a plain memory, inputs unchanged, repeatable."""
    _run(TIMING_CHECKS, timing)


def check_benchmark(problem: Problem) -> None:
    """Finite, vectorised, repeatable, and no sampled value that meets the constraints exceeds the optimum."""
    _run(BENCHMARK_CHECKS, problem)


def check_log(opened: Opened) -> None:
    """Everything told is there once, to the last bit, and asks follow from it, also after the study was opened again.

    `opened(name, space, **options)` opens a study by its name, or creates it; `InMemory()` is one such function.
    """
    _run(LOG_CHECKS, opened)


def check_storage(opening: Opening) -> None:
    """As for a log; and names, pages, transactions, several who use it at once, deletions and tokens.

    `opening()` opens the storage anew, for writing; it is empty at first. SQLite and PostgreSQL pass, and so must a
    `Storage` of another database.
    """
    _run(STORAGE_CHECKS, opening)


def _run(checks: Sequence[Callable[[Any], None]], subject: Any) -> None:
    for check in checks:
        check(subject)


def name_of(check: Callable[..., None]) -> str:
    """A readable name for pytest."""
    return check.__name__.replace("_", " ")
