"""The algorithms: each is a composition of the same kinds of parts."""

from dataclasses import dataclass, field, replace
from typing import get_args

from ebbtide.errors import ConfigurationError
from ebbtide.gp.kernels import Matern, Stationary, StepDecay
from ebbtide.gp.mean import MeanMethod
from ebbtide.gp.priors import InferenceMethod
from ebbtide.gp.standardization import Transform
from ebbtide.parts.acquisition import UCB, Acquisition, Random, TrackingUCB
from ebbtide.parts.staleness import (
    EventTriggeredReset,
    KeepAll,
    OldestFirst,
    PeriodicReset,
    RandomRemoval,
    ResponseBudget,
    SlidingWindow,
    Staleness,
    WassersteinBudget,
)
from ebbtide.parts.timing import Immediate, Timing, WithinHorizon


@dataclass(frozen=True)
class Algorithm:
    """A kernel in space, a kernel in time, an acquisition, a staleness policy and a timing; by default, W-DBO's.

    The kernels choose the family; their lengthscales are fitted. A tuple with one lengthscale per coordinate means ARD.

    `transform="log"` models the logarithms of positive values; `"auto"` chooses by the evidence between the values,
    the roots and the logarithms of positive ones, and values that are bent where they are worse than usual. With
    `robust=True`, values that contradict everything around them are left out. `mean` is what the model expects where
    nothing was measured: the `"average"` of the values, or a `"weighted"` one, in which crowded observations share
    their weight. An optimizer comes back to good places, so the average may make the unknown look better than it is.
    With `jumps=True`, an objective that seems to jump is modelled so: with Matérn-½ in time instead of `temporal`, as
    long as the evidence is for it.
    """

    spatial: Stationary = field(default_factory=lambda: Matern(2.5))
    temporal: Stationary | None = field(default_factory=lambda: Matern(1.5))
    acquisition: Acquisition = field(default_factory=UCB)
    staleness: Staleness = field(default_factory=WassersteinBudget)
    timing: Timing = field(default_factory=Immediate)
    inference: InferenceMethod = "map"
    transform: Transform = "none"
    robust: bool = False
    mean: MeanMethod = "average"
    jumps: bool = False

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
                f"staleness={self.staleness!r} has no attribute `capacity`, the most observations that may stay: "
                "derive the class from eb.Staleness, or add the attribute (None: no limit)"
            )
        if self.inference not in get_args(InferenceMethod):
            raise ConfigurationError(f'inference={self.inference!r}: choose "map" or "mle"')
        if self.transform not in get_args(Transform):
            raise ConfigurationError(f'transform={self.transform!r}: choose "none", "log" or "auto"')
        for name in ("robust", "jumps"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: give True or False")
        if self.jumps and (self.temporal is None or self.temporal.by_step):
            raise ConfigurationError(
                f"jumps=True, temporal={self.temporal!r}: only a model that reads the clock knows of jumps; give a "
                "temporal kernel such as eb.Matern(1.5), or leave jumps out"
            )
        if self.mean not in get_args(MeanMethod):
            raise ConfigurationError(f'mean={self.mean!r}: choose "average" or "weighted"')
        if self.temporal is None and isinstance(self.staleness, WassersteinBudget):
            raise ConfigurationError(
                "temporal=None: WassersteinBudget needs a temporal kernel, or no observation becomes stale; "
                "give one such as eb.Matern(1.5), or another staleness policy"
            )


# Forgetting saves time, and with fewer observations than this there is none to save: an ask takes milliseconds. At ten
# to twenty queries per l_T, W-DBO would keep about a dozen, too few to tell good settings from bad ones.
ENOUGH_TO_FORGET = 100

# Defaults: Matérn-5/2 in space, Matérn-3/2 in time, UCB, the Wasserstein budget, queries at once.
_REGISTRY = {
    # W-DBO, and what live systems need
    "tide": Algorithm(
        acquisition=TrackingUCB(),
        staleness=ResponseBudget(min_active=ENOUGH_TO_FORGET),
        transform="auto",
        robust=True,
        mean="weighted",
        jumps=True,
    ),
    # As published
    "w-dbo": Algorithm(),
    "gp-ucb": Algorithm(temporal=None, staleness=KeepAll()),
    "r-gp-ucb": Algorithm(temporal=None, staleness=PeriodicReset()),
    "tv-gp-ucb": Algorithm(temporal=StepDecay(), staleness=KeepAll()),
    "et-gp-ucb": Algorithm(temporal=None, staleness=EventTriggeredReset()),
    "abo": Algorithm(staleness=KeepAll(), timing=WithinHorizon()),
    # Our own variant, and controls that the paper does not have
    "w-dbo-exact": Algorithm(staleness=WassersteinBudget(method="exact")),
    "keep-all": Algorithm(staleness=KeepAll()),
    "sliding-window": Algorithm(staleness=SlidingWindow()),
    "oldest-first": Algorithm(staleness=OldestFirst()),
    "random-removal": Algorithm(staleness=RandomRemoval()),
    "random": Algorithm(acquisition=Random(), staleness=KeepAll()),
}


# What our own names stood for before. A stored study keeps its algorithm, and may still be opened by that name.
_SMOOTH = replace(_REGISTRY["tide"], jumps=False)
_BEFORE = {"tide": (_SMOOTH, replace(_SMOOTH, staleness=WassersteinBudget(min_active=ENOUGH_TO_FORGET)))}


DEFAULT = "tide"  # for a study whose creator names no algorithm


def names() -> list[str]:
    """The names of the built-in algorithms."""
    return list(_REGISTRY)


def get(name: str) -> Algorithm:
    """A built-in algorithm by its name."""
    if name not in _REGISTRY:
        raise ConfigurationError(f"algorithm={name!r} is unknown; choose one of {names()}, or give an eb.Algorithm")
    return _REGISTRY[name]


def forms(name: str) -> tuple[Algorithm, ...]:
    """What a name stands for, and before that what it stood for in studies that were stored earlier."""
    return (get(name), *_BEFORE.get(name, ()))
