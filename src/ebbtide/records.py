"""What an optimizer returns, and what callbacks receive."""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import SpaceTimeKernel
from ebbtide.gp.standardization import Standardization

# What a trial is for: to learn, to keep the recommended setting in force, to begin with what the user knows, or to
# measure the setting that would be used otherwise.
Kind = Literal["explore", "hold", "start", "baseline"]


@dataclass(frozen=True)
class Trial:
    """A query: measure the objective with `params`, which were chosen for `time`; `kind` says what it is for.

    Later queries keep away from it until it is told or `expires` (by default one l_T after its time). `context` is what
    it was chosen for; those of its variables that are in `filled` were not measured, but taken from earlier.
    """

    id: str
    params: dict[str, Any]
    time: float
    expires: float | None = None
    kind: Kind = "explore"
    context: dict[str, Any] | None = None
    filled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """One line of the history; `removed_at` is when it left the active set, `relevance` its score at that time."""

    params: dict[str, Any]
    time: float
    value: float | None
    trial_id: str | None = None
    removed_at: float | None = None
    relevance: float | None = None
    key: str | None = None  # the idempotency key that it was told with
    abandoned: bool = False  # called off: it has no value, and says nothing about the setting
    kind: Kind | None = None  # of its trial; None for what was measured elsewhere
    context: dict[str, Any] | None = None
    constraints: dict[str, float] | None = None  # the values measured that are under a constraint
    filled: tuple[str, ...] = ()  # variables of the context that were not measured, but taken from earlier

    @property
    def failed(self) -> bool:
        """Whether the evaluation failed; then there is no value."""
        return self.value is None and not self.abandoned

    @property
    def active(self) -> bool:
        """Whether the model still uses its value."""
        return self.value is not None and self.removed_at is None


Record = TypeVar("Record")


def changed(record: Record, **fields: Any) -> Record:
    """A dataclass with some other fields: `dataclasses.replace` takes twice as long."""
    return type(record)(**(vars(record) | fields))


def copied(record: Record) -> Record:
    """A copy whose dicts can be changed without changing the study."""
    return changed(record, **{name: dict(value) for name, value in vars(record).items() if isinstance(value, dict)})


@dataclass(frozen=True)
class Recommendation:
    """A setting that is good now, beyond reasonable doubt: near what was measured, and not where evaluations fail.

    `mean` and `std` are the model's prediction, in the objective's unit. `support` says how many fresh measurements of
    the setting itself what is known about it is worth; `failure` is the probability that it fails, `feasible` the
    probability that it meets all constraints.
    """

    params: dict[str, Any]
    mean: float
    std: float
    time: float
    support: float = 0.0
    failure: float = 0.0
    feasible: float = 1.0


@dataclass(frozen=True)
class Violations:
    """How often asks broke a constraint, over the whole history: their share among those that `counted`.

    A trial counts once it is told with a value that is under a constraint, whatever its kind. `rate` is None as long as
    none counts; `target` is the `violation_rate` of the study. `per_constraint` is the share of each constraint.
    """

    rate: float | None
    counted: int
    target: float
    per_constraint: dict[str, float]


@dataclass(frozen=True)
class Model:
    """The model as last fitted. It sees (T(y) − mean)/scale, with the opposite sign when minimizing.

    T(y) is y itself if `power` is 1, log(y/unit) if it is 0, and ((y/unit)^power − 1)/power otherwise. With a `span`
    other than 0, values that are worse than the `knee` are bent: T(y) = knee − 2 span (√(1 + u) − 1), where
    u = (knee − y)/span.
    """

    kernel: SpaceTimeKernel
    noise: float
    mean: float
    scale: float
    power: float = 1.0
    unit: float = 1.0
    knee: float = 0.0
    span: float = 0.0

    @property
    def standardization(self) -> Standardization:
        """The transform and the scale, as one object."""
        return Standardization(self.mean, self.scale, self.power, self.unit, self.knee, self.span)

    def standardized(self, y: ArrayLike) -> Array:
        """(T(y) − mean)/scale: what the model sees instead of the values y (see the sign above)."""
        return self.standardization.apply(np.asarray(y, dtype=float))


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
