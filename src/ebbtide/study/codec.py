"""Algorithms and clocks as JSON, and back."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from ebbtide import algorithms
from ebbtide.algorithms import Algorithm
from ebbtide.clock import Clock, ManualClock, SystemClock
from ebbtide.errors import SnapshotError
from ebbtide.gp.kernels import Matern, SquaredExponential, StepDecay
from ebbtide.parts.acquisition import EI, PI, UCB, Random, TrackingUCB
from ebbtide.parts.staleness import (
    EventTriggeredReset,
    KeepAll,
    OldestFirst,
    PeriodicReset,
    RandomRemoval,
    ResponseBudget,
    SlidingWindow,
    WassersteinBudget,
)
from ebbtide.parts.timing import Immediate, WithinHorizon

# The parts that can be rebuilt from JSON; a user's own classes are passed again.
PARTS: dict[str, Callable[..., Any]] = {
    cls.__name__: cls
    for cls in (
        *(Matern, SquaredExponential, StepDecay),
        *(UCB, TrackingUCB, EI, PI, Random),
        *(WassersteinBudget, ResponseBudget, OldestFirst, RandomRemoval),
        *(KeepAll, SlidingWindow, PeriodicReset, EventTriggeredReset),
        *(Immediate, WithinHorizon),
    )
}

# Fields that stored algorithms did not always have, and what they mean where they are missing.
ADDED: dict[str, Any] = {"transform": "none", "robust": False, "mean": "average", "jumps": False}


def describe(part: Any) -> Any:
    """A part of an algorithm as JSON: its class, and those of its fields that JSON can hold."""
    if part is None or isinstance(part, str | bool):
        return part
    cls = type(part)
    known = PARTS.get(cls.__name__) is cls
    name = cls.__name__ if known else f"{cls.__module__}.{cls.__qualname__}"
    fields = {key: list(v) if isinstance(v, tuple) else v for key, v in getattr(part, "__dict__", {}).items()}
    return {"type": name} | {key: value for key, value in fields.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def describe_clock(clock: Clock) -> str:
    """The kind of a clock: its class, without the module if it is one of ebbtide's."""
    cls = type(clock)
    return cls.__name__ if cls in (SystemClock, ManualClock) else f"{cls.__module__}.{cls.__qualname__}"


def restore_clock(recorded: str, given: Clock | None, latest: float | None) -> Clock:
    """A clock of the recorded kind (the given one, if any) that continues from the latest reading."""
    if given is None and recorded not in ("SystemClock", "ManualClock"):
        raise SnapshotError(
            f"the study uses a {recorded}, your own class of clock, which cannot be stored; "
            "pass the clock again: Optimizer.load or Optimizer.open with clock=..."
        )
    if given is not None and describe_clock(given) != recorded:
        raise SnapshotError(
            f"the study uses a {recorded}, but clock= is a {describe_clock(given)}; pass a clock of the same kind"
        )
    if given is None and recorded == "ManualClock":
        return ManualClock(start=0.0 if latest is None else latest)
    clock = SystemClock() if given is None else given
    if isinstance(clock, SystemClock) and latest is not None:
        clock.never_before(latest)
    return clock


def algorithm_to_json(algorithm: Algorithm) -> dict[str, Any]:
    fields = {f.name: describe(getattr(algorithm, f.name)) for f in dataclasses.fields(algorithm)}
    return {name: part for name, part in fields.items() if name not in ADDED or part != ADDED[name]}


def name_of(algorithm: Algorithm) -> str | None:
    """The name of an algorithm, if it is one of the table's."""
    return name_described(algorithm_to_json(algorithm))


def name_described(description: Mapping[str, Any]) -> str | None:
    """The same, for an algorithm described as JSON, which may be what the name stood for before."""
    forms = ((name, form) for name in algorithms.names() for form in algorithms.forms(name))
    return next((name for name, form in forms if algorithm_to_json(form) == description), None)


def is_same_algorithm(stored: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether two descriptions are equal, or what is given is what the name of the stored one stands for now: a stored
    study keeps what it was created with.
    """
    name = None if stored == given else name_described(stored)
    return stored == given or (name is not None and given == algorithm_to_json(algorithms.get(name)))


def algorithm_from_json(description: Mapping[str, Any], given: Algorithm | None) -> Algorithm:
    """The algorithm described; the given one, if any, which must be the same."""
    if given is not None:
        described = algorithm_to_json(given)
        if described == description:
            return given
        if not is_same_algorithm(description, described):
            raise SnapshotError(
                f"the study was made with another algorithm: {dict(description)}, "
                f"but algorithm= is {described}; pass the one it was made with"
            )
    return Algorithm(**{name: _rebuild(name, part) for name, part in description.items()})


def _rebuild(name: str, part: Any) -> Any:
    if part is None or isinstance(part, str | bool):
        return part
    fields = dict(part)
    kind = fields.pop("type")
    if kind not in PARTS:
        raise SnapshotError(
            f"the algorithm's {name} is a {kind}, your own class, which cannot be stored; "
            "pass the algorithm again: Optimizer.load or Optimizer.open with algorithm=..."
        )
    return PARTS[kind](**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})
