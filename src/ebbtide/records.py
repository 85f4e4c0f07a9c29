"""The small things that an optimizer hands out."""

from dataclasses import dataclass
from typing import Any

from ebbtide.gp.kernels import SpaceTimeKernel


@dataclass(frozen=True)
class Trial:
    """A query: measure the objective with `params`; `time` is the moment that it is for.

    Until it is told, or until it `expires` (by default one l_T after its time), later queries keep away from it.
    """

    id: str
    params: dict[str, Any]
    time: float
    expires: float | None = None


@dataclass(frozen=True)
class Observation:
    """One line of the history; `removed_at` and `relevance` tell when it left the active set, and its score then."""

    params: dict[str, Any]
    time: float
    value: float | None
    trial_id: str | None = None
    removed_at: float | None = None
    relevance: float | None = None
    key: str | None = None  # under which it was told, if it had to be told once only

    @property
    def failed(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    @property
    def active(self) -> bool:
        """Whether the model still sees it."""
        return not self.failed and self.removed_at is None


@dataclass(frozen=True)
class Recommendation:
    """The best parameters now, by the model; `mean` and `std` are its belief, in the objective's unit."""

    params: dict[str, Any]
    mean: float
    std: float
    time: float


@dataclass(frozen=True)
class Model:
    """What was last fitted. The model sees (y − mean)/scale, with its sign changed when minimizing."""

    kernel: SpaceTimeKernel
    noise: float
    mean: float
    scale: float


@dataclass(frozen=True)
class Asked:
    """What a callback receives after each ask; `response` is in the clock's unit."""

    trial: Trial
    response: float
    active: int
    removed: tuple[Observation, ...]


@dataclass(frozen=True)
class Told:
    """What a callback receives after each tell."""

    observation: Observation


Event = Asked | Told
