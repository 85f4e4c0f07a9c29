"""Which setting to recommend: one that is good beyond reasonable doubt."""

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.posterior import Moment
from ebbtide.parts.acquisition import LowerBound
from ebbtide.parts.maximization import Bounds, maximize
from ebbtide.parts.outlook import Outlook
from ebbtide.space import Space

DOUBT = 1.0  # deviations by which a setting must be better, to be preferred to one that is known for sure
MEASURED = 64  # measured settings that are considered, those with the best predictions now


def recommended(outlook: Outlook, space: Space, rng: np.random.Generator, *, bounds: Bounds | None = None) -> Array:
    """The setting with the largest lower bound of what to expect; not where failures are likely."""
    acquisition = LowerBound(DOUBT)
    measured = outlook.posterior.points
    near = measured[np.argsort(-outlook.predict(measured)[0], kind="stable")[:MEASURED]] if len(measured) else measured
    x = maximize(acquisition, outlook, space, rng, len(measured), bounds=bounds, near=near)
    if outlook.risk is None or not outlook.risk.likely(x[None])[0]:
        return x
    near = near if bounds is None else np.clip(near, *bounds)
    near = near[~outlook.risk.likely(near)]
    if not len(near):
        return x
    mean, std = outlook.predict(near)
    best: Array = near[int(np.argmax(mean - DOUBT * std))]
    return best


def unless_better(x: Array, current: Array, outlook: Outlook, moment: Moment) -> Array:
    """The current setting, unless x is better beyond doubt, or the current one probably fails or breaks a limit."""
    if outlook.risk is not None and outlook.risk.likely(current[None])[0]:
        return x
    if outlook.feasibility is not None and not outlook.feasibility.met(current[None])[0]:
        return x
    mean = outlook.predict(np.array([x, current]))[0]
    return x if mean[0] - mean[1] > DOUBT * moment.deviation_of_difference(x, current) else current


def support(outlook: Outlook, x: Array) -> float:
    """How many fresh measurements of a setting what is known about it is worth.

    m measurements with noise σₙ² leave a prior variance λ at λσₙ²/(mλ + σₙ²); solved for m.
    """
    prior, noise = outlook.posterior.kernel.scale, outlook.posterior.noise
    variance = float(outlook.predictor.predict(x[None])[1][0]) ** 2
    return max(0.0, noise * (1.0 / variance - 1.0 / prior))
