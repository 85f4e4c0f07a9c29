"""The world around a study: what is measured but not chosen, what comes back, and which limits hold.

| option             | meaning                                                                              |
|--------------------|--------------------------------------------------------------------------------------|
| `context`          | variables that are measured, not chosen; a range is for scaling, not a limit           |
| `cycles`           | names and periods, in the clock's unit                                               |
| `constraints`      | limits of other values that are measured with the objective                          |
| `violation_rate`   | the share of the asks that may break a limit, in the long run                        |
| `failures_violate` | whether a failed evaluation counts as one that broke a limit                         |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError, ObservationError
from ebbtide.gp.arrays import Array
from ebbtide.records import Observation, Violations
from ebbtide.space import Parameter, Params, Space
from ebbtide.space.description import parameter_from_json
from ebbtide.study import variables
from ebbtide.study.limits import AtLeast, AtMost, constraints_of, is_name

WORDS = ("context", "cycles", "constraints", "violation_rate", "failures_violate")
VIOLATION_RATE = 0.05
MAX_WIDTH = 16  # coordinates of the context
MAX_CYCLES = 4
MAX_CONSTRAINTS = 8


@dataclass(frozen=True)
class Conditions:
    """See the table at the top of this file."""

    context: Space | None = None
    cycles: Mapping[str, float] = field(default_factory=dict)
    constraints: Mapping[str, AtMost | AtLeast] = field(default_factory=dict)
    violation_rate: float = VIOLATION_RATE
    failures_violate: bool = False

    @classmethod
    def of(cls, **given: Any) -> "Conditions":
        """From what a user gave, as objects or as JSON; None means that it was not given."""
        said = {name: value for name, value in given.items() if value is not None}
        if "context" in said:
            said["context"] = _context(said["context"])
        if "constraints" in said:
            said["constraints"] = constraints_of(said["constraints"])
        if not said.get("constraints"):
            for word in ("violation_rate", "failures_violate"):
                if said.get(word, False) is not False:
                    raise ConfigurationError(f"{word}={said[word]!r} needs constraints, such as eb.AtMost(50.0)")
        return cls(**said)

    def __post_init__(self) -> None:
        if self.context is not None and self.context.width > MAX_WIDTH:
            raise ConfigurationError(
                f"the context has {self.context.width} coordinates (one for each variable, of a categorical one for "
                f"each choice): give at most {MAX_WIDTH}, those that matter most"
            )
        object.__setattr__(self, "cycles", _cycles(self.cycles))
        if len(self.constraints) > MAX_CONSTRAINTS:
            raise ConfigurationError(f"{len(self.constraints)} constraints: give at most {MAX_CONSTRAINTS}")
        rate = as_finite(self.violation_rate)
        if rate is None or not 0.0 < rate < 1.0:
            raise ConfigurationError(
                f"violation_rate={self.violation_rate!r}: give a share above 0 and below 1, such as {VIOLATION_RATE}"
            )
        object.__setattr__(self, "violation_rate", rate)
        if not isinstance(self.failures_violate, bool):
            raise ConfigurationError(f"failures_violate={self.failures_violate!r}: give True or False")

    def check(self, space: Space) -> None:
        """Raise an error if a name is used twice, or is one that cannot be used."""
        used = dict.fromkeys(space.parameters, "a parameter")
        for name in self.variables:
            if name in used:
                raise ConfigurationError(
                    f"{name!r} is {used[name]} and in the context: it is either chosen or measured; rename one"
                )
            used[name] = "in the context"
        for name in self.constraints:
            if name == "value":
                raise ConfigurationError(f"a constraint is named {name!r}, as the objective is: choose another name")
            if name in used:
                raise ConfigurationError(f"{name!r} is {used[name]} and has a constraint: rename one")

    @property
    def given(self) -> bool:
        """Whether the study has any."""
        return bool(self.variables or self.cycles or self.constraints)

    # --- context ------------------------------------------------------------------------------------------

    @property
    def variables(self) -> Mapping[str, Parameter]:
        """The variables of the context, by name."""
        return {} if self.context is None else self.context.parameters

    @property
    def width(self) -> int:
        """How many coordinates the context has."""
        return 0 if self.context is None else self.context.width

    def measured(self, context: Any) -> Params:
        """What was measured of the context, as plain Python values; one error lists everything that is wrong."""
        if context is None:
            return {}
        if self.context is None:
            raise ObservationError(
                f"context={context!r}: this study has no context; define it when the study is created, or leave it out"
            )
        if not isinstance(context, Mapping):
            raise ObservationError(f"context={context!r}: give a dict of what was measured: {list(self.variables)}")
        problems, plain = [], {}
        for name, value in context.items():
            if name not in self.variables:
                problems.append(f"{name!r} is unknown (the context has {list(self.variables)})")
            elif complaint := variables.complaint(self.variables[name], value):
                problems.append(f"{name!r} {complaint}")
            else:
                plain[name] = variables.plain(self.variables[name], value)
        if problems:
            raise ObservationError("the context cannot be used: " + "; ".join(problems))
        return {name: plain[name] for name in self.variables if name in plain}

    def encode(self, context: Mapping[str, Any]) -> Array:
        """Coordinates of a complete context: as those of parameters, but a value may lie outside its range."""
        return np.array(
            [u for name, v in self.variables.items() for u in variables.coordinates(v, context[name])], dtype=float
        )

    def check_complete(self, context: Any) -> None:
        """Raise an error unless this is a complete context."""
        missing = [name for name in self.variables if name not in self.measured(context)]
        if missing:
            raise ObservationError(f"context={context!r}: {missing} are missing")

    # --- constraints --------------------------------------------------------------------------------------

    def outcomes(self, values: Any) -> dict[str, float] | None:
        """Measured values that are under a constraint, as plain numbers; None if none were measured."""
        if not values and (values is None or isinstance(values, Mapping)):
            return None
        if not self.constraints:
            raise ObservationError(
                f"constraints={values!r}: this study has no constraints; define them when the study is created, or "
                "leave them out"
            )
        if not isinstance(values, Mapping):
            raise ObservationError(
                f"constraints={values!r}: give a dict of what was measured: {list(self.constraints)}"
            )
        problems = [
            f"{name!r} is unknown (the study has {list(self.constraints)})"
            for name in values
            if name not in self.constraints
        ]
        plain = {name: as_finite(values[name]) for name in self.constraints if name in values}
        for name, number in plain.items():
            if number is None:
                problems.append(f"{name!r} is {values[name]!r}; tell a finite number, or leave it out")
        if problems:
            raise ObservationError("the constraints cannot be recorded: " + "; ".join(problems))
        return {name: number for name, number in plain.items() if number is not None}

    def row(self, values: Mapping[str, float] | None) -> Array:
        """Measured values in the order of the constraints; NaN where one is missing."""
        return np.array([(values or {}).get(name, math.nan) for name in self.constraints], dtype=float)

    def broken(self, told: Observation) -> int | None:
        """Which constraints a told trial broke: bit k is the k-th, and the bit after the last one a failure.

        None if it does not count: it was not asked for, or nothing was measured.
        """
        failure = self.failures_violate and told.failed
        if told.trial_id is None or not (told.constraints or failure):
            return None
        values = told.constraints or {}
        limits = enumerate(self.constraints.items())
        bits = [1 << k for k, (name, limit) in limits if name in values and limit.is_broken(values[name])]
        return sum(bits) + (failure << len(self.constraints))

    def violations(self, counts: Mapping[int, int]) -> Violations | None:
        """How often constraints were broken, from the counts of what `broken` returns; None without constraints."""
        if not self.constraints:
            return None
        if not (counted := sum(counts.values())):
            return Violations(None, 0, self.violation_rate, {})
        each = {
            name: sum(count for bits, count in counts.items() if bits >> k & 1) / counted
            for k, name in enumerate(self.constraints)
        }
        return Violations(1.0 - counts.get(0, 0) / counted, counted, self.violation_rate, each)

    # --- JSON ---------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "context": None if self.context is None else self.context.to_json(),
            "cycles": dict(self.cycles),
            "constraints": {name: limit.to_json() for name, limit in self.constraints.items()},
            "violation_rate": self.violation_rate,
            "failures_violate": self.failures_violate,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Conditions":
        """A study from before these options, or without them, has none."""
        if WORDS[0] not in data:
            return cls()
        return cls(
            context=None if data["context"] is None else _context(data["context"]),
            cycles=data["cycles"],
            constraints=constraints_of(data["constraints"]),
            violation_rate=data["violation_rate"],
            failures_violate=data["failures_violate"],
        )


def _context(given: Any) -> Space | None:
    if isinstance(given, Space):
        return given
    if not isinstance(given, Mapping):
        raise ConfigurationError(f'context={given!r}: give a dict such as {{"load": eb.Float(0.0, 2000.0)}}')
    if not given:
        return None
    return Space({name: parameter_from_json(name, v) if isinstance(v, Mapping) else v for name, v in given.items()})


def _cycles(given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping) or not all(map(is_name, given)):
        raise ConfigurationError(f'cycles={given!r}: give names and periods, such as {{"day": 86400.0}}')
    if len(given) > MAX_CYCLES:
        raise ConfigurationError(f"{len(given)} cycles: give at most {MAX_CYCLES}, those that matter most")
    cycles: dict[str, float] = {}
    for name, period in given.items():
        length = as_finite(period)
        if length is None or length <= 0.0:
            raise ConfigurationError(f"the period of {name!r} is {period!r}: give a time above 0, in the clock's unit")
        if length in cycles.values():
            raise ConfigurationError(f"the period of {name!r} is {period!r}, as that of another cycle: leave one out")
        cycles[name] = length
    return cycles
