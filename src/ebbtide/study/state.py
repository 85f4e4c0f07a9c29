"""What an optimizer must remember between two asks.

Every ask starts from this state and from nothing else, so an optimizer that was saved and loaded asks what the
uninterrupted one would have asked.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ebbtide.gp.likelihood import Hyperparameters
from ebbtide.gp.standardization import Standardization


@dataclass(frozen=True)
class State:
    """The canonical state between two asks, besides the observations and the pending trials."""

    asks: int = 0
    hyper: Hyperparameters | None = None
    standardization: Standardization = field(default_factory=Standardization)
    policy: dict[str, float] = field(default_factory=dict)
    timing: dict[str, float] = field(default_factory=dict)
    latest_reading: float | None = None  # the latest time that the clock ever showed
    responses: list[float] = field(default_factory=list)  # the last few, in the clock's unit
    behind_since: int | None = None  # lines of history when the clock was first seen behind the newest observation
    guards: dict[str, int] = field(default_factory=dict)

    def noting(self, reading: float) -> "State":
        """The same state after a reading of the clock, which may be the latest."""
        latest = reading if self.latest_reading is None else max(self.latest_reading, reading)
        return dataclasses.replace(self, latest_reading=latest)

    def to_json(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        if self.standardization.power == 1.0:  # as studies were stored before values could be transformed
            data["standardization"] = {"mean": self.standardization.mean, "scale": self.standardization.scale}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "State":
        fields = dict(data)
        if fields["hyper"] is not None:
            lengthscale = fields["hyper"]["lengthscale"]
            lengthscale = tuple(lengthscale) if isinstance(lengthscale, list) else lengthscale
            fields["hyper"] = Hyperparameters(**{**fields["hyper"], "lengthscale": lengthscale})
        fields["standardization"] = Standardization(**fields["standardization"])
        return cls(**fields)
