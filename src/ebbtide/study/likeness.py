"""How alike two studies are, by their definitions: how much the fit of one says about the other.

Nothing, if their hyperparameters have other meanings: another kernel, transform, clock or direction. Otherwise the
share of what they are defined over (parameters, variables of the context, cycles) that is the same. Of two ranges, the
share that they have in common.
"""

import math
from collections.abc import Mapping
from typing import Any

KERNELS = ("spatial", "temporal")


def likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """From 0 to 1; of definitions as JSON."""
    if _meaning(one) != _meaning(other):
        return 0.0
    mine, theirs = _parts(one), _parts(other)
    names = mine.keys() | theirs.keys()
    return sum(_shared(mine.get(name), theirs.get(name)) for name in names) / len(names)


def _meaning(definition: Mapping[str, Any]) -> tuple[Any, ...]:
    """What must be the same for hyperparameters to be comparable."""
    algorithm = definition["algorithm"]
    kernels = [_family(algorithm[kernel], width(definition["space"])) for kernel in KERNELS]
    return definition["direction"], definition["clock"], algorithm.get("transform"), *kernels


def _family(kernel: Any, coordinates: int) -> Any:
    """A kernel without its lengthscale, which is fitted; one per coordinate (ARD) can only be compared one by one."""
    if kernel is None:
        return None
    return {key: value for key, value in kernel.items() if key != "lengthscale"}, coordinates if is_ard(
        kernel
    ) else None


def is_ard(kernel: Mapping[str, Any]) -> bool:
    return isinstance(kernel.get("lengthscale"), list)


def width(space: Mapping[str, Any]) -> int:
    """Coordinates: one for each parameter, of a categorical one for each choice."""
    return sum(len(part["choices"]) if part["type"] == "categorical" else 1 for part in space.values())


def _parts(definition: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """What a study is defined over, by kind and name."""
    kinds = {kind: definition.get(kind) or {} for kind in ("space", "context", "cycles")}
    return {(kind, name): part for kind, parts in kinds.items() for name, part in parts.items()}


def _shared(one: Any, other: Any) -> float:
    if one == other:
        return 1.0
    if not isinstance(one, dict) or not isinstance(other, dict) or not _is_range(one) or not _is_range(other):
        return 0.0
    if any(one.get(key) != other.get(key) for key in ("type", "log")):
        return 0.0
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    common = min(high, other_high) - max(low, other_low)
    return max(0.0, common) / (max(high, other_high) - min(low, other_low))


def _is_range(part: Mapping[str, Any]) -> bool:
    return "low" in part and "high" in part


def _ends(part: Mapping[str, Any]) -> tuple[float, float]:
    low, high = float(part["low"]), float(part["high"])
    return (math.log(low), math.log(high)) if part.get("log") else (low, high)
