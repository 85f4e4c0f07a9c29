"""When to query: a timing sees the occasion of an ask and returns a window, in which the acquisition chooses."""

from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError

TimingMemory = dict[str, float]


@dataclass(frozen=True)
class Occasion:
    """What a timing may know about an ask; times are the clock's."""

    now: float  # when the ask began
    landing: float  # when it is expected to return
    timescale: float | None = None  # l_T; None if the model has none in the clock's unit
    until: float = inf  # the latest time that the query may have
    told: int = 0  # how many observations were told so far
    memory: TimingMemory = field(default_factory=dict)  # what the timing returned last


@dataclass(frozen=True)
class Window:
    """The times that the acquisition may choose from, and what the timing wants to remember (plain numbers).

    A time up to the landing means at once; for a later one, the trial waits.
    """

    earliest: float
    latest: float
    memory: TimingMemory = field(default_factory=dict)


class Timing(Protocol):
    """The interface of a timing."""

    def window(self, occasion: Occasion) -> Window:
        """The times that the query may have."""


@dataclass(frozen=True)
class Immediate:
    """Query at once. The acquisition is evaluated for the time when the ask is expected to return; with `aim="now"`,
    as in Algorithm 1 of the paper, for the time when the ask begins.
    """

    aim: Literal["landing", "now"] = "landing"

    def __post_init__(self) -> None:
        if self.aim not in ("landing", "now"):
            raise ConfigurationError(f'aim={self.aim!r}: choose "landing" or "now"')

    def window(self, occasion: Occasion) -> Window:
        """A single time: the landing, or now."""
        moment = occasion.now if self.aim == "now" else occasion.landing
        return Window(moment, moment)


@dataclass(frozen=True)
class WithinHorizon:
    """ABO (Nyikosa, Osborne and Roberts, 2018): find the best time up to a fraction of l_T ahead, and wait for it.

    This starts once l_T has settled: from the fifth ask with new observations on, when it has changed by less than a
    tenth per ask, |l_T(k) − l_T(k−4)|/4 < 0.1·l_T(k), three times in a row. Before that, queries are made at once. An
    ask that holds its hyperparameters counts, too, with the l_T that it holds.
    """

    fraction: float = 1.0 / 3.0

    def __post_init__(self) -> None:
        fraction = as_finite(self.fraction)
        if fraction is None or fraction <= 0.0:
            raise ConfigurationError(
                f"fraction={self.fraction!r}: give the share of l_T to look ahead, a finite number > 0"
            )
        object.__setattr__(self, "fraction", fraction)

    def window(self, occasion: Occasion) -> Window:
        """From the landing to the horizon, once l_T has settled."""
        now, landing, timescale = occasion.now, occasion.landing, occasion.timescale
        if timescale is None:
            return Window(landing, landing, occasion.memory)
        known = occasion.memory.get("told") == occasion.told
        memory = occasion.memory if known else _with_fit(occasion.memory, timescale) | {"told": float(occasion.told)}
        latest = now + self.fraction * timescale if memory["calm"] >= CALM_ASKS else landing
        return Window(landing, max(landing, latest), memory)


CALM_ASKS, LAG = 3, 4


def _with_fit(memory: TimingMemory, timescale: float) -> TimingMemory:
    """The last fits of l_T (lag_0 is the newest), and the number of calm asks in a row, which stays once settled."""
    fits = [timescale] + [memory[f"lag_{i}"] for i in range(LAG) if f"lag_{i}" in memory]
    calm = memory.get("calm", 0.0)
    if calm < CALM_ASKS:
        settling = len(fits) > LAG and abs(fits[0] - fits[LAG]) / LAG < 0.1 * timescale
        calm = calm + 1.0 if settling else 0.0
    return {"calm": calm} | {f"lag_{i}": fit for i, fit in enumerate(fits)}
