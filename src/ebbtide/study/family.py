"""What the siblings of a study are like: a prior for its hyperparameters, learned from the fits of theirs.

| symbol | meaning                                                                                        |
|--------|------------------------------------------------------------------------------------------------|
| v      | traits of a fit: log deviation of the signal, log l_S/√d, log l_T, log σ²/λ, in the user's units |
| level  | the mean of the process, in the user's unit                                                    |
| w      | weight of a sibling: how alike its definition is, times how much its fit is worth              |
| m, τ   | weighted median of the siblings' traits, and their spread                                      |
| W      | Σw, the number of siblings that the weights amount to                                          |

The prior is what to expect of the next sibling. Its centre lies between the median and the centre c of the weak prior
(with spread s), which counts as one more, vague sibling; its spread is that of the siblings, and the doubt about m:

    centre = (m W/τ² + c/s²) / (W/τ² + 1/s²)        spread² = τ² + 1/(W/τ² + 1/s²)

Medians are robust to an odd sibling. A Student t is robust to being the odd one: its pull ends where the data is
clearly elsewhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbtide.checks import as_finite, is_whole
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.priors import NORMAL, Prior
from ebbtide.gp.standardization import POWERS, Standardization

FREEDOM = 4.0  # of the Student t
HALF = 30  # lines told after which a fit is worth half as much as one after very many
VAGUE = 3.0  # siblings that the following spread counts as:
USUAL_SPREAD = 0.7  # (log) of traits, before siblings show theirs; of levels: in deviations of the signal
LEAST_SPREAD = 0.2  # siblings whose data says nothing agree with the prior that they were given, and so with each other
ENOUGH = 3.0  # W from which on half as many asks fill the space before the model is asked
COMPATIBLE = 4.0  # spreads from the level of the siblings within which the first few values must lie
MOST_LOG = 300.0  # of a deviation or a level that can be squared
DEVIATION, LENGTHSCALE = 0, 1  # where they are among the traits; then come l_T, if there is one, and the noise


@dataclass(frozen=True)
class Relative:
    """The latest fit of a sibling."""

    likeness: float  # 0 … 1
    told: int  # how many lines it had seen
    hyper: Hyperparameters
    standardization: Standardization
    width: int  # coordinates of its space

    @property
    def weight(self) -> float:
        return self.likeness * self.told / (self.told + HALF)

    @property
    def traits(self) -> Array:
        theta = self.hyper.to_vector()
        deviation = 0.5 * theta[0] + math.log(self.standardization.scale) + math.log(self.standardization.factor)
        timescale = [] if self.hyper.timescale is None else [math.log(self.hyper.timescale)]
        lengthscales = np.log(np.atleast_1d(self.hyper.lengthscale)) - 0.5 * math.log(self.width)
        return np.array([deviation, *lengthscales, *timescale, theta[-1]])

    @property
    def is_sound(self) -> bool:
        """Whether the traits are numbers to compute with."""
        traits, level = self.traits, self.standardization.level
        return bool(
            np.isfinite(traits).all() and abs(traits[DEVIATION]) <= MOST_LOG and abs(level) <= math.exp(MOST_LOG)
        )


@dataclass(frozen=True)
class Family:
    """What siblings have in common; recorded with each ask that it was used for."""

    siblings: int
    weight: float  # W
    power: float  # of the transform of values in which deviation and level are
    center: tuple[float, ...]  # m of the traits
    spread: tuple[float, ...]  # τ
    level: float
    level_spread: float

    @classmethod
    def of(cls, relatives: Sequence[Relative]) -> "Family | None":
        """None if there are no siblings to learn from."""
        alike = [relative for relative in relatives if relative.weight > 0.0 and relative.is_sound]
        if not alike:
            return None
        w, traits = np.array([relative.weight for relative in alike]), np.array([relative.traits for relative in alike])
        powers = np.array([relative.standardization.power for relative in alike])
        power = max(POWERS, key=lambda candidate: float(w[powers == candidate].sum()))
        same = np.flatnonzero(powers == power)  # values in another transform cannot be compared
        columns = [_summary(traits[same, DEVIATION], w[same], 1.0)]
        columns += [_summary(column, w, 1.0) for column in traits.T[LENGTHSCALE:]]
        levels = np.array([alike[row].standardization.level for row in same])
        level, level_spread = _summary(levels, w[same], math.exp(columns[DEVIATION][0]))
        center, spread = zip(*columns, strict=True)
        return cls(len(alike), float(w.sum()), float(power), center, spread, level, level_spread)

    @property
    def is_enough(self) -> bool:
        """Whether the siblings say enough for the model to be asked earlier than usual."""
        return self.weight >= ENOUGH

    def prior(self, weak: Prior, families: Families, width: int, unit: Standardization) -> Prior:
        """For values in this unit and a space with so many coordinates."""
        where, center, spread = (
            self._positions(families, len(weak.center)),
            np.array(self.center),
            np.array(self.spread),
        )
        center[DEVIATION] = 2.0 * (center[DEVIATION] - math.log(unit.scale) - math.log(unit.factor))  # log λ
        spread[DEVIATION] *= 2.0
        center[LENGTHSCALE : LENGTHSCALE + _lengthscales(families, width)] += 0.5 * math.log(width)
        if unit.power != self.power:
            where, center, spread = where[1:], center[1:], spread[1:]
        of_siblings, weak_precision = self.weight / spread**2, weak.precision(_at(weak.center, where, center))[where]
        of_center = of_siblings + weak_precision
        center = (of_siblings * center + weak_precision * weak.center[where]) / of_center
        precision = 1.0 / (spread**2 + 1.0 / of_center)
        center = np.clip(center, weak.lower[where], None)
        return Prior(
            _at(weak.center, where, center),
            _at(weak.precision_below, where, precision),
            _at(weak.precision_above, where, precision),
            weak.lower,
            np.maximum(weak.upper, _at(weak.upper, where, center + 1.0 / np.sqrt(precision))),
            _at(np.full(len(weak.center), NORMAL), where, np.full(len(where), FREEDOM)),
        )

    def _positions(self, families: Families, size: int) -> Rows:
        """Where the traits are in θ."""
        timescale = [] if families.temporal is None else [size - 2 - 3 * families.cycles]
        lengthscales = len(self.center) - 2 - len(timescale)
        return np.array([0, *range(1, 1 + lengthscales), *timescale, size - 1])

    def mean(self, unit: Standardization) -> tuple[float, float] | None:
        """What the mean of values in this unit is expected to be, and how far it may be from that."""
        if unit.power != self.power:
            return None
        return unit.of_level(self.level), self.level_spread / (unit.scale * unit.factor)

    def standardization(self, y: Array) -> Standardization | None:
        """For values too few to be standardised by themselves; None if they are unlike those of the siblings."""
        deviation = math.exp(self.center[DEVIATION])
        unit = Standardization.at(self.level, deviation, self.power)
        far = COMPATIBLE * math.hypot(1.0, self.level_spread / deviation)
        return unit if unit.suits(y) and (np.abs(unit.apply(y)) <= far).all() else None

    # --- JSON ---------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "center": list(self.center), "spread": list(self.spread)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Family | None":
        """None for an ask that had no siblings to learn from."""
        return cls(**{**data, "center": tuple(data["center"]), "spread": tuple(data["spread"])}) if data else None

    def check(self, families: Families, width: int) -> None:
        """Raise a ValueError if this cannot be a family of such a study."""
        size = 2 + _lengthscales(families, width) + (families.temporal is not None)
        spreads = (*self.spread, self.level_spread, self.weight)
        numbers = (*self.center, self.level, *spreads)
        right = all(as_finite(number) is not None for number in numbers) and min(spreads) > 0.0
        if not (right and len(self.center) == len(self.spread) == size and self.power in POWERS):
            raise ValueError(f"family is {self}")
        large = max(abs(self.level), self.level_spread) > math.exp(MOST_LOG) or abs(self.center[DEVIATION]) > MOST_LOG
        if not is_whole(self.siblings) or self.siblings < 1 or large:
            raise ValueError(f"family is {self}")


def _summary(values: Array, weights: Array, unit: float) -> tuple[float, float]:
    """Weighted median, and spread, of which `unit` is a usual size: the median deviation, made that of a normal."""
    center = _median(values, weights)
    found = 1.4826 * _median(np.abs(values - center), weights)
    known = max(float(weights.sum()) - 1.0, 0.0)  # one sibling alone says nothing about the spread
    square = (VAGUE * (USUAL_SPREAD * unit) ** 2 + known * found**2) / (VAGUE + known)
    return center, max(math.sqrt(square), LEAST_SPREAD * unit)


def _median(values: Array, weights: Array) -> float:
    """Half of the weight is below it, and half above."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - 0.5 * weights[order]
    return float(np.interp(0.5 * weights.sum(), below, values[order]))


def _lengthscales(families: Families, width: int) -> int:
    return width if families.spatial.ard else 1


def _at(values: Array, where: Rows, replaced: Array) -> Array:
    changed = values.copy()
    changed[where] = replaced
    return changed
