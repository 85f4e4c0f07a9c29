"""Whether the constraints of a study are broken so often that no rate can be promised, and what to do about it."""

import math

import numpy as np

from ebbtide.gp.arrays import Array, Mask
from ebbtide.records import Violations
from ebbtide.study.engine import Engine

LATELY = 20  # measurements of which most must meet the constraints
COUNTED = 30  # asks without which a rate of violations says little
FAR_ABOVE = 1.5  # times the rate that is wanted; and by more than two standard deviations


def broken_limits(engine: Engine) -> str | None:
    """What to say if the constraints cannot be met, or are broken far more often than wanted."""
    conditions = engine.definition.conditions
    if (seen := conditions.violations(engine.active.broken)) is None:
        return None
    data, limits = engine.active.dataset, conditions.constraints.values()
    rows = np.isfinite(data.outcomes).any(axis=1)
    excess = [limit.excess(values) for limit, values in zip(limits, data.outcomes[rows].T, strict=True)]
    broken = np.any(np.array(excess) > 0.0, axis=0)
    return _by_the_start(engine, data.x[rows], broken) or _lately(broken) or _too_often(seen)


def _by_the_start(engine: Engine, X: Array, broken: Mask) -> str | None:
    """Whether a start setting, which should be acceptable, is not: most of its measurements break a limit."""
    for setting in engine.definition.live.start:
        found = broken[(engine.space.encode(setting) == X).all(axis=1)]
        if 2 * found.sum() > len(found):
            return (
                f"The start setting {setting!r} itself broke a limit in {found.sum()} of {len(found)} measurements: no "
                "rate of violations can be promised. Give a start that meets the constraints, or looser limits."
            )
    return None


def _lately(broken: Mask) -> str | None:
    """Whether the latest measurements show that nothing in sight meets the constraints."""
    latest = broken[-LATELY:]
    if len(latest) < LATELY or 2 * latest.sum() <= LATELY:
        return None
    return (
        f"{latest.sum()} of the last {LATELY} measurements broke a limit: no setting in sight is likely to meet the "
        "constraints, and no rate can be promised. Give a start that meets them, wider ranges, or looser limits."
    )


def _too_often(seen: Violations) -> str | None:
    """Whether the rate observed is far above the one that is wanted, and not by chance."""
    if seen.rate is None or seen.counted < COUNTED or seen.rate <= FAR_ABOVE * seen.target:
        return None
    if seen.rate - seen.target <= 2.0 * math.sqrt(seen.target * (1.0 - seen.target) / seen.counted):
        return None
    each = ", ".join(f"{name} {share:.0%}" for name, share in seen.per_constraint.items() if share)
    return (
        f"{seen.rate:.0%} of {seen.counted} asks broke a constraint, and at most {seen.target:.0%} were wanted "
        f"({each or 'failures'}). What is limited changes faster than it can be learned, or its measurements are "
        "mostly noise: measure more often or for longer, begin with a setting that meets all constraints (start), or "
        "allow more."
    )
