"""What a staleness policy sees, and what it returns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.criterion import Criterion, CriterionMethod, criterion_of
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.posterior import Posterior
from ebbtide.gp.priors import InferenceMethod
from ebbtide.guards import Guard

PolicyState = dict[str, float]
Index = np.ndarray[Any, np.dtype[np.integer[Any]]]


@dataclass(frozen=True)
class View:
    """The active observations, one row each, under the model just fitted.

    Rows are in the order told, except for a `WassersteinBudget` and a `ResponseBudget`: these see them in the order of
    the model's matrices.
    """

    posterior: Posterior  # with its kernel, noise, X (unit cube), P and alpha
    z: Array  # the standardised values; larger is better
    t: Array  # when each was made, in the clock's unit
    index: Index  # its position in the order told
    told: int  # how many were told so far: the next index
    now: float
    state: PolicyState  # what the policy returned last; empty at first
    rng: np.random.Generator
    inference: InferenceMethod = "map"
    contexts: Array | None = None  # a sample of those that were ever seen, for a model with a context
    carried: Incremental | None = None  # the model that the posterior is of, if it carries the criterion along

    def __len__(self) -> int:
        return len(self.t)

    def criterion(self, method: CriterionMethod) -> Criterion:
        """How relevant each observation is now; rows can be removed from it."""
        posterior, present = self.posterior, self.present
        carried = None if self.carried is None else self.carried.criterion(posterior.alpha, present, self.contexts)
        return criterion_of(posterior, present, method, self.contexts) if carried is None else carried

    @property
    def timescale(self) -> float | None:
        """l_T in the clock's unit, or in steps for a kernel that counts steps; None for a model without time."""
        return self.posterior.kernel.timescale

    @property
    def present(self) -> float:
        """Now, as the temporal kernel sees it: the clock's time, or the next index for a kernel that counts steps."""
        temporal = self.posterior.kernel.temporal
        return float(self.told) if temporal is not None and temporal.by_step else self.now

    @property
    def ages(self) -> Array:
        """How long ago each observation was made, in the unit of `timescale`."""
        return self.present - self.posterior.t


@dataclass(frozen=True)
class Verdict:
    """The rows to remove, in order, with their scores if any; the policy's new state; the guards that were needed."""

    rows: Sequence[int] = ()
    scores: Sequence[float] = ()
    state: PolicyState = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()


class Staleness(Protocol):
    """The interface of a policy. What it remembers is the `state` it returned last: plain numbers, so that it can be
    stored.
    """

    if TYPE_CHECKING:

        @property
        def capacity(self) -> int | None:
            """The most observations that may stay, or None."""
            return None
    else:
        capacity = None  # a plain default, which a policy may override with a field or a property

    def review(self, view: View) -> Verdict:
        """Which rows to remove, and what to remember until the next ask."""
