"""How compute time passes on an experiment's clock: measured, modelled, or real.

A query computed at t lands at t + Δt. Δt decides how often an algorithm may query in its 600 s, so it is half of the
result. Measured times hold for one machine only; modelled times are the same everywhere.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError

Stopwatch = Callable[[], float]


class ExperimentClock:
    """Seconds since the experiment began. They pass when told to, and during a computation."""

    def __init__(self) -> None:
        self._settled = 0.0
        self._elapsed: Stopwatch | None = None

    def now(self) -> float:
        return self._settled + (self._elapsed() if self._elapsed else 0.0)

    def wait_until(self, moment: float) -> None:
        self._settled = max(self._settled, moment)

    @contextmanager
    def computing(self, elapsed: Stopwatch) -> Iterator[None]:
        self._elapsed = elapsed
        try:
            yield
        finally:
            self._settled += elapsed()
            self._elapsed = None


class WallClock(ExperimentClock):
    """Real seconds: they pass by themselves, and waiting sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._start

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))


class Pace(Protocol):
    def clock(self) -> ExperimentClock:
        """The clock of a run."""

    def stopwatch(self, n: int) -> Stopwatch:
        """Started when an ask begins with n active observations; gives the seconds since then."""


@dataclass(frozen=True)
class Modelled:
    """Δt(n) = Σ_k coefficients[k]·n^k seconds, n being the observations that the ask starts with."""

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = tuple(map(as_finite, self.coefficients)) if isinstance(self.coefficients, Iterable) else ()
        if not numbers or any(c is None or c < 0.0 for c in numbers) or not any(numbers):
            raise ConfigurationError(f"coefficients={self.coefficients!r}: give finite numbers ≥ 0, not all 0")

    def clock(self) -> ExperimentClock:
        """Simulated seconds."""
        return ExperimentClock()

    def seconds(self, n: int) -> float:
        """Δt(n)."""
        return float(sum(c * n**k for k, c in enumerate(self.coefficients)))

    def stopwatch(self, n: int) -> Stopwatch:
        """0 at the first reading, when the ask begins; all of Δt at any later one."""
        readings = chain([0.0], repeat(self.seconds(n)))
        return lambda: next(readings)


@dataclass(frozen=True)
class Measured:
    """The real response time, times a speed factor: at 30, twenty seconds here stand for 600 of a slower machine."""

    speed: float = 1.0

    def __post_init__(self) -> None:
        if (as_finite(self.speed) or 0.0) <= 0.0:
            raise ConfigurationError(f"speed={self.speed!r}: give a finite number > 0")

    def clock(self) -> ExperimentClock:
        """Simulated seconds."""
        return ExperimentClock()

    def stopwatch(self, n: int) -> Stopwatch:
        """Real seconds, times the factor."""
        start = time.perf_counter()
        return lambda: self.speed * (time.perf_counter() - start)


@dataclass(frozen=True)
class Wall:
    """Real time, for demonstrations: 600 s take 600 s."""

    def clock(self) -> ExperimentClock:
        """Real seconds."""
        return WallClock()

    def stopwatch(self, n: int) -> Stopwatch:
        """Nothing to add: time passes by itself."""
        return lambda: 0.0


CALIBRATIONS = {
    # Fit and acquisition with the usual software, fitted by `make perf-pace-botorch` (docs/data/pace-botorch.csv).
    # The reference's O(n⁴) criterion is left out: it would slow down only W-DBO, and only because of how it was
    # implemented.
    "botorch": Modelled((0.13, 0.0, 3e-6)),
    # What this engine takes, fitted by `make perf-pace`.
    "ebbtide": Modelled((0.004, 0.0, 1.6e-7)),
}


def pace(name: str) -> Pace:
    """`modelled:botorch`, `modelled:ebbtide`, `measured`, `measured:SPEED` or `wall`."""
    kind, _, detail = name.partition(":")
    if kind == "modelled" and detail in CALIBRATIONS:
        return CALIBRATIONS[detail]
    if kind == "measured":
        try:
            return Measured(float(detail or 1.0))
        except ValueError:
            pass
    if name == "wall":
        return Wall()
    known = [f"modelled:{calibration}" for calibration in CALIBRATIONS]
    raise ConfigurationError(f"compute={name!r}: choose one of {known}, measured, measured:SPEED, wall")
