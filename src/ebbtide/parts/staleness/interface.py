"""What a staleness policy sees, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.inference import Method
from ebbtide.gp.posterior import Posterior
from ebbtide.guards import Guard

State = dict[str, float]
Index = np.ndarray[Any, np.dtype[np.integer[Any]]]


@dataclass(frozen=True)
class View:
    """The active observations, a row each in the order told, under the model just fitted."""

    posterior: Posterior  # with its kernel, noise, X (unit cube), P and alpha
    z: Array  # the standardised values; larger is better
    t: Array  # when each was made, by the clock
    index: Index  # the how-manieth told each was
    told: int  # how many were ever told: the index that comes next
    now: float
    state: State  # what the policy returned last; empty at first
    rng: np.random.Generator
    inference: Method = "map"

    def __len__(self) -> int:
        return len(self.t)

    @property
    def timescale(self) -> float | None:
        """l_T, or None for a model without time; in the clock's unit, or in steps for a kernel by steps."""
        return self.posterior.kernel.timescale

    @property
    def present(self) -> float:
        """Now, on the axis of the temporal kernel: the clock's time, or the next index for a kernel by steps."""
        temporal = self.posterior.kernel.temporal
        return float(self.told) if temporal is not None and temporal.by_step else self.now

    @property
    def ages(self) -> Array:
        """How long ago each observation was made, in the unit of `timescale`."""
        return self.present - self.posterior.t


@dataclass(frozen=True)
class Verdict:
    """Rows to remove, in order, with their scores if they have any; the policy's state after; guards that were met."""

    rows: Sequence[int] = ()
    scores: Sequence[float] = ()
    state: State = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()


class Staleness(Protocol):
    """A policy's own memory is the `state` it returned last (plain numbers, so that it can be stored)."""

    if TYPE_CHECKING:

        @property
        def capacity(self) -> int | None:
            """The most observations that may stay, or None."""
            return None
    else:
        capacity = None  # a plain default, so that a policy may have it as a field or as a property

    def review(self, view: View) -> Verdict:
        """Which rows go, and what to remember until the next ask."""
