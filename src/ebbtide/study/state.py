"""What an optimizer must remember between two asks.

Every ask starts from this state, the active set and the turns since the model's anchor (course.py), and from nothing
else, so an optimizer that was saved and loaded asks what the uninterrupted one would have asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.gp.arrays import Array
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.standardization import Standardization
from ebbtide.records import changed
from ebbtide.study import contexts

# Fields that stored states did not always have; they are left out while they are empty.
ADDED = ("contexts", "context_lines", "latest", "outcomes", "level", "anchor", "family")
ADDED_HYPERPARAMETERS = ("context", "cycles", "jumps")
UNTRANSFORMED = vars(Standardization())


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
    contexts: list[list[float]] = field(default_factory=list)  # a sample of all that were told, as coordinates
    context_lines: list[int] = field(default_factory=list)  # where they are in the history
    latest: dict[str, Any] = field(default_factory=dict)  # measurement of each variable of the context
    outcomes: dict[str, Any] = field(default_factory=dict)  # by constraint: what the model knows about its value
    level: dict[str, float] = field(default_factory=dict)  # required of a setting, and the counts that it follows from
    anchor: int | None = None  # the ask whose model later ones have changed row by row (course.py); None: there is none

    family: dict[str, Any] = field(default_factory=dict)  # what siblings are like, as of the latest look at them

    def noting(self, reading: float) -> "State":
        """The same state after a reading of the clock, which may be the latest."""
        if self.latest_reading is not None and reading <= self.latest_reading:
            return self
        return changed(self, latest_reading=reading)

    def measured(self, context: Mapping[str, Any], filled: Sequence[str], when: Sequence[float]) -> "State":
        """The same state after a context was measured: at a time; told (1) or asked with (0), under a number."""
        return changed(self, latest=contexts.updated(self.latest, context, filled, when))

    def sampling(self, line: int, context: Array, seed: int) -> "State":
        """The same state after a context was told, which may become a part of the sample."""
        lines, rows = contexts.sampled(self.context_lines, self.contexts, line, context, seed)
        return changed(self, context_lines=lines, contexts=rows)

    def to_json(self) -> dict[str, Any]:
        # Not dataclasses.asdict, whose copies would take most of the time in which an ask is recorded.
        data: dict[str, Any] = dict(vars(self))
        data["hyper"] = None if self.hyper is None else dict(vars(self.hyper))
        data["standardization"] = _stored(self.standardization)
        for name in ADDED:
            if data[name] in ([], {}, None):
                del data[name]
        for name in ADDED_HYPERPARAMETERS:
            if data["hyper"] is not None and not data["hyper"].get(name, True):
                del data["hyper"][name]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "State":
        fields = dict(data)
        if fields["hyper"] is not None:
            fields["hyper"] = Hyperparameters(**{name: tuples(value) for name, value in fields["hyper"].items()})
        fields["standardization"] = Standardization(**fields["standardization"])
        return cls(**fields)


def _stored(standardization: Standardization) -> dict[str, float]:
    """Without what it always is as long as values are not transformed, and did not have before they could be."""
    found = vars(standardization).items()
    return {name: value for name, value in found if name in ("mean", "scale") or value != UNTRANSFORMED[name]}


def tuples(value: Any) -> Any:
    """Tuples instead of the lists of JSON."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value
