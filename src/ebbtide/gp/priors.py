"""What is known about hyperparameters before the data is looked at.

| name   | meaning                                                                                   |
|--------|-------------------------------------------------------------------------------------------|
| θ      | hyperparameters as a vector of logarithms (hyperparameters.py)                            |
| ν      | degrees of freedom of a Student t: the smaller, the easier it is to be far from the centre  |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ebbtide.gp.arrays import Array

InferenceMethod = Literal["map", "mle"]

NORMAL = 1e9  # degrees of freedom with which a Student t is as good as a normal


@dataclass(frozen=True)
class TimeLimits:
    """The values that l_T may take, given the sampling interval and the span of the whole history.

    A function that changes within ten samples cannot be tracked, but white noise can be mistaken for one.
    `spread_above` is the spread (log) of the prior above `typical`; infinite means that any value is plausible.
    """

    floor: float
    ceiling: float
    typical: float
    spread_above: float = 1.0

    @classmethod
    def of(cls, interval: float, span: float) -> "TimeLimits":
        """The limits of W-DBO. They do not depend on the span of the active set, which would feed back into removal."""
        floor = 10.0 * interval
        ceiling = 10.0 * max(span, floor)
        return cls(floor, ceiling, 5.0 * floor)

    @classmethod
    def in_steps(cls) -> "TimeLimits":
        """For ε, which may be as small as the data says: the ceiling of `of` only protects the budget of W-DBO."""
        return cls(floor=10.0, ceiling=1e7, typical=50.0)


@dataclass(frozen=True)
class Prior:
    """Independent normals on θ, inside a box. Precision may differ below and above the centre; 0 is flat.

    With `freedom` (ν, one per hyperparameter), Student t instead, whose pull ends where the data is clearly elsewhere.
    """

    center: Array
    precision_below: Array
    precision_above: Array
    lower: Array
    upper: Array
    freedom: Array | None = None

    def precision(self, theta: Array) -> Array:
        """Of the normal with the same slope here: of a Student t, it falls with the distance from the centre."""
        precision = self._precision(theta)
        if self.freedom is None:
            return precision
        weakened: Array = precision * (self.freedom + 1.0) / (self.freedom + precision * (theta - self.center) ** 2)
        return weakened

    def log_density(self, theta: Array) -> float:
        distance = (theta - self.center) ** 2
        if self.freedom is None:
            return -0.5 * float(self._precision(theta) @ distance)
        return -0.5 * float((self.freedom + 1.0) @ np.log1p(self._precision(theta) * distance / self.freedom))

    def _precision(self, theta: Array) -> Array:
        return np.where(theta < self.center, self.precision_below, self.precision_above)

    def clip(self, theta: Array) -> Array:
        return np.minimum(np.maximum(theta, self.lower), self.upper)

    def limited(self, limits: TimeLimits, position: int) -> "Prior":
        """The same with other limits of l_T, which is at this position. Its spread does not depend on them."""
        center, lower, upper = self.center.copy(), self.lower.copy(), self.upper.copy()
        center[position], lower[position], upper[position] = np.log([limits.typical, limits.floor, limits.ceiling])
        return Prior(center, self.precision_below, self.precision_above, lower, upper, self.freedom)


def weak_prior(
    ard: bool,
    dim: int,
    limits: TimeLimits | None,
    method: InferenceMethod,
    *,
    context: int = 0,
    periods: Sequence[float] = (),
) -> Prior:
    """For standardised values in the unit cube. "mle" keeps the box and the centre, but is flat inside the box.

    | parameter | centre  | spread (log) below, above | box             |
    |-----------|---------|---------------------------|-----------------|
    | λ         | 1       | 1.5, 1.5                  | 1e-3 … 1e3      |
    | l_S       | 0.3√d   | 1.5, 0.7                  | 0.005√d … 20√d  |
    | l_T       | typical | 1, 1                      | floor … ceiling |
    | l_C       | 3       | 1.5, 2                    | 0.05 … 100      |
    | a/(1 − a) | 0.2     | 2, 2                      | e^−5 … e^5      |
    | lⱼ        | 10 P    | 1, 1                      | P … 1000 P      |
    | r         | 0.7     | 0.5, 0.7                  | 0.35 … 5        |
    | σ²/λ      | 0.05    | 2, 1                      | 1e-6 … 100      |

    The prior errs on the side of exploring. When there are few observations, a short l_S is preferred to noise, because
    a model that believes in noise on a flat function never looks elsewhere; and both are preferred to a short l_T,
    which makes W-DBO forget. Data that carries no information about l_T (noise on a flat function) leaves it typical:
    a model that took the function for static would not notice when it starts to drift (docs/results.md).
    A context is taken to matter little, and a cycle to explain little, until the data says otherwise.
    """
    root = np.sqrt(dim)
    rows = [(1.0, 1.5, 1.5, 1e-3, 1e3)] + (dim if ard else 1) * [(0.3 * root, 1.5, 0.7, 0.005 * root, 20.0 * root)]
    rows += context * [(3.0, 1.5, 2.0, 0.05, 100.0)]
    if limits is not None:
        rows.append((limits.typical, 1.0, limits.spread_above, limits.floor, limits.ceiling))
    for period in periods:
        rows.append((0.2, 2.0, 2.0, float(np.exp(-5.0)), float(np.exp(5.0))))
        rows.append((10.0 * period, 1.0, 1.0, period, 1000.0 * period))
        rows.append((0.7, 0.5, 0.7, 0.35, 5.0))
    rows.append((0.05, 2.0, 1.0, 1e-6, 100.0))
    center, below, above, lower, upper = np.array(rows).T
    weight = 1.0 if method == "map" else 0.0
    return Prior(np.log(center), weight / below**2, weight / above**2, np.log(lower), np.log(upper))
