"""What to expect of a setting, from what is known: the prediction, with failures, movement and constraints."""

import math

import numpy as np

from ebbtide.clock import FAR
from ebbtide.gp.arrays import Array
from ebbtide.gp.posterior import Interval, Moment
from ebbtide.gp.standardization import Standardization
from ebbtide.parts.feasibility import Feasibility
from ebbtide.parts.outlook import FADING, Moving, Outlook, Risk
from ebbtide.study.knowledge import Knowledge

DEEPEST = 5.0  # standard deviations by which a failure may count as worse than the worst value
DEAREST = 1e100  # standard deviations that a move costs at most: whatever it is multiplied with stays finite


def outlook(
    known: Knowledge,
    predictor: Moment | Interval,
    z: Array,
    unit: Standardization,
    now: float,
    constraints: Feasibility | None = None,
) -> Outlook:
    """The posterior, seen with the risk of failure, the cost of moving and the constraints; `z` are the values in the
    model.
    """
    risk, failure_value = None, 0.0
    if known.active.has_failures and known.definition.live.on_failure != "ignore":
        X_failed, t_failed = _failures(known, now)
        if len(t_failed):
            data = known.active.dataset
            fading = FADING * known.span_of(predictor.posterior.kernel.timescale)
            risk = Risk((X_failed, now - t_failed), (data.x, now - data.t), fading)
            failure_value = _failure_value(known, z, unit)
    return Outlook(predictor, risk, failure_value, _moving(known, unit), constraints)


def _moving(known: Knowledge, unit: Standardization) -> Moving | None:
    movement, origin = known.definition.live.movement, known.setting_in_force
    if movement is None or movement.cost <= 0.0 or origin is None:
        return None
    size = unit.unit * unit.scale  # 0 if both are tiny
    cost = min(movement.cost / size, DEAREST) if size > 0.0 else DEAREST
    return Moving(known.space.encode(origin), cost)


def _failures(known: Knowledge, now: float) -> tuple[Array, Array]:
    """Coordinates and times of the newest failures, without those from a time when the system clock was wrong."""
    X, t = known.active.failures
    credible = t <= now + (FAR if known.by_system_clock else math.inf)
    return X[credible], t[credible]


def _failure_value(known: Knowledge, z: Array, unit: Standardization) -> float:
    """What a failure counts as, to the model."""
    value, worst = known.definition.live.on_failure, min(float(z.min(initial=0.0)), -1.0)
    if not isinstance(value, float):
        return worst
    # However bad the value, the model must stay able to tell good places from better ones.
    return max(known.sign * float(unit.apply(np.array([value]))[0]), worst - DEEPEST)
