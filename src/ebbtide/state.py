"""What an optimizer must remember, and the versioned JSON file that holds it.

Every ask starts from this state and from nothing else, so an optimizer that was saved and loaded asks what the
uninterrupted one would have asked. JSON keeps every float exactly. A checksum tells a file that was torn or
edited; a file of a newer version is refused. Reading never touches the file; writing replaces it atomically.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.acquisition import EI, PI, UCB, Random
from ebbtide.algorithms import Algorithm
from ebbtide.clock import Clock, ManualClock, SystemClock
from ebbtide.dataset import Standardization
from ebbtide.errors import EbbtideError, SnapshotError
from ebbtide.kernels import Matern, SquaredExponential, StepDecay
from ebbtide.likelihood import Hyperparameters
from ebbtide.staleness import (
    EventTriggeredReset,
    KeepAll,
    OldestFirst,
    PeriodicReset,
    RandomRemoval,
    SlidingWindow,
    WassersteinBudget,
)
from ebbtide.timing import Immediate, WithinHorizon

FORMAT, VERSION = "ebbtide-snapshot", 1

# The parts that JSON can rebuild; a user's own classes are passed to `load` again.
PARTS: dict[str, Callable[..., Any]] = {
    cls.__name__: cls
    for cls in (
        *(Matern, SquaredExponential, StepDecay),
        *(UCB, EI, PI, Random),
        *(WassersteinBudget, OldestFirst, RandomRemoval, KeepAll, SlidingWindow, PeriodicReset, EventTriggeredReset),
        *(Immediate, WithinHorizon),
    )
}


@dataclass
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
        """The same, with a reading of the clock that may be the latest."""
        latest = reading if self.latest_reading is None else max(self.latest_reading, reading)
        return dataclasses.replace(self, latest_reading=latest)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "State":
        fields = dict(data)
        if fields["hyper"] is not None:
            lengthscale = fields["hyper"]["lengthscale"]
            lengthscale = tuple(lengthscale) if isinstance(lengthscale, list) else lengthscale
            fields["hyper"] = Hyperparameters(**{**fields["hyper"], "lengthscale": lengthscale})
        fields["standardization"] = Standardization(**fields["standardization"])
        return cls(**fields)


def describe(part: Any) -> Any:
    """A part of an algorithm as JSON: its class, and those of its fields that JSON can hold."""
    if part is None or isinstance(part, str):
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
    """The kind of a clock; ours by their plain names."""
    cls = type(clock)
    return cls.__name__ if cls in (SystemClock, ManualClock) else f"{cls.__module__}.{cls.__qualname__}"


def restore_clock(recorded: str, given: Clock | None, latest: float | None) -> Clock:
    """The clock of a snapshot, going on from its latest reading; the given one if it is of the same kind."""
    if given is None and recorded not in ("SystemClock", "ManualClock"):
        raise SnapshotError(
            f"the snapshot was made with a {recorded}, a clock of your own, which a snapshot cannot hold; "
            "pass it again: Optimizer.load(path, clock=...)"
        )
    if given is not None and describe_clock(given) != recorded:
        raise SnapshotError(
            f"the snapshot was made with a {recorded}, and clock= is a {describe_clock(given)}; "
            "pass a clock of the same kind"
        )
    if given is None and recorded == "ManualClock":
        return ManualClock(start=0.0 if latest is None else latest)
    clock = SystemClock() if given is None else given
    if isinstance(clock, SystemClock) and latest is not None:
        clock.never_before(latest)
    return clock


def algorithm_to_json(algorithm: Algorithm) -> dict[str, Any]:
    return {f.name: describe(getattr(algorithm, f.name)) for f in dataclasses.fields(algorithm)}


def algorithm_from_json(description: Mapping[str, Any], given: Algorithm | None) -> Algorithm:
    """The algorithm described; the given one if it is the same, which it must be."""
    if given is not None:
        if algorithm_to_json(given) != description:
            raise SnapshotError(
                f"the snapshot was made with another algorithm: it holds {dict(description)}, "
                f"and algorithm= is {algorithm_to_json(given)}; pass the one it was made with"
            )
        return given
    return Algorithm(**{name: _rebuild(name, part) for name, part in description.items()})


def _rebuild(name: str, part: Any) -> Any:
    if part is None or isinstance(part, str):
        return part
    fields = dict(part)
    kind = fields.pop("type")
    if kind not in PARTS:
        raise SnapshotError(
            f"{name} of the algorithm is {kind}, a class of your own, which a snapshot cannot hold; "
            "pass the algorithm again: Optimizer.load(path, algorithm=...)"
        )
    return PARTS[kind](**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})


def write(path: str | os.PathLike[str], payload: Mapping[str, Any]) -> None:
    """Write to a neighbour, flush it to the disk, then put it in place: the old file or the new one, never half."""
    path = Path(path).resolve()  # through a link, to the file itself
    body = _canonical(payload)
    document = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "payload": payload}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(document, file, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The payload of a snapshot that is whole, unedited and of a version we know."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except ValueError as error:  # what the decoders of JSON and of UTF-8 raise
        raise SnapshotError(f"{path} is not a whole snapshot ({error}); use an earlier copy") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{path} is not an ebbtide snapshot; it was made by something else")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise SnapshotError(
            f"{path} has snapshot version {version!r}, and this ebbtide reads 1 to {VERSION}; "
            "if it comes from a newer ebbtide, upgrade this one"
        )
    payload = document.get("payload")
    if not isinstance(payload, dict) or document.get("sha256") != _digest(_canonical(payload)):
        raise SnapshotError(f"{path} was edited or damaged: its checksum does not match; use an earlier copy")
    return payload


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _canonical(payload: Mapping[str, Any]) -> str:
    try:
        return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EbbtideError(f"the state cannot be written as JSON: {error}") from error


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
