"""The algorithms, as compositions of the same parts."""

from dataclasses import dataclass, field
from typing import get_args

from ebbtide.errors import ConfigurationError
from ebbtide.gp.inference import Method
from ebbtide.gp.kernels import Matern, Stationary, StepDecay
from ebbtide.parts.acquisition import UCB, Acquisition, Random
from ebbtide.parts.staleness import (
    EventTriggeredReset,
    KeepAll,
    OldestFirst,
    PeriodicReset,
    RandomRemoval,
    SlidingWindow,
    Staleness,
    WassersteinBudget,
)
from ebbtide.parts.timing import Immediate, Timing, WithinHorizon


@dataclass(frozen=True)
class Algorithm:
    """A kernel in space and one in time, an acquisition, a staleness policy and a timing; the default is W-DBO.

    Kernels name the family; their lengthscales are fitted. One lengthscale a coordinate makes it ARD.
    """

    spatial: Stationary = field(default_factory=lambda: Matern(2.5))
    temporal: Stationary | None = field(default_factory=lambda: Matern(1.5))
    acquisition: Acquisition = field(default_factory=UCB)
    staleness: Staleness = field(default_factory=WassersteinBudget)
    timing: Timing = field(default_factory=Immediate)
    inference: Method = "map"

    def __post_init__(self) -> None:
        if not isinstance(self.spatial, Stationary):
            raise ConfigurationError(f"spatial={self.spatial!r}: give a kernel such as eb.Matern(2.5)")
        if not (self.temporal is None or isinstance(self.temporal, Stationary)):
            raise ConfigurationError(f"temporal={self.temporal!r}: give a kernel such as eb.Matern(1.5), or None")
        for name, method in (("acquisition", "__call__"), ("staleness", "review"), ("timing", "window")):
            part = getattr(self, name)
            if isinstance(part, type | str) or not callable(getattr(part, method, None)):
                raise ConfigurationError(f"{name}={part!r}: give an object with the method {method}, such as eb.UCB()")
        if not hasattr(self.staleness, "capacity"):
            raise ConfigurationError(
                f"staleness={self.staleness!r} does not say how much it lets stay: derive it from eb.Staleness, "
                "or give it a `capacity` (None: no limit)"
            )
        if self.inference not in get_args(Method):
            raise ConfigurationError(f'inference={self.inference!r}: choose "map" or "mle"')
        if self.temporal is None and isinstance(self.staleness, WassersteinBudget):
            raise ConfigurationError(
                "WassersteinBudget needs a temporal kernel: without one no observation is ever stale"
            )


# What is not named is the default: Matérn-5/2 in space, Matérn-3/2 in time, UCB, the Wasserstein budget, at once.
_REGISTRY = {
    "w-dbo": Algorithm(),
    "gp-ucb": Algorithm(temporal=None, staleness=KeepAll()),
    "r-gp-ucb": Algorithm(temporal=None, staleness=PeriodicReset()),
    "tv-gp-ucb": Algorithm(temporal=StepDecay(), staleness=KeepAll()),
    "et-gp-ucb": Algorithm(temporal=None, staleness=EventTriggeredReset()),
    "abo": Algorithm(staleness=KeepAll(), timing=WithinHorizon()),
    # Ours, and the controls that the paper lacks
    "w-dbo-exact": Algorithm(staleness=WassersteinBudget(method="exact")),
    "keep-all": Algorithm(staleness=KeepAll()),
    "sliding-window": Algorithm(staleness=SlidingWindow()),
    "oldest-first": Algorithm(staleness=OldestFirst()),
    "random-removal": Algorithm(staleness=RandomRemoval()),
    "random": Algorithm(acquisition=Random(), staleness=KeepAll()),
}


def names() -> list[str]:
    """The algorithms that can be asked for by name."""
    return list(_REGISTRY)


def get(name: str) -> Algorithm:
    """An algorithm by its name."""
    if name not in _REGISTRY:
        raise ConfigurationError(f"algorithm={name!r} is unknown; choose one of {names()}, or give an eb.Algorithm")
    return _REGISTRY[name]
