"""The standardisation of values before the model sees them."""

from dataclasses import dataclass, replace

import numpy as np

from ebbtide.gp.arrays import Array


@dataclass(frozen=True)
class Standardization:
    """z = (y − mean)/scale, computed so that neither |y| of 1e300 nor differences of 1e-300 cause trouble."""

    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: Array) -> "Standardization":
        largest = float(np.abs(y).max(initial=0.0))
        if largest == 0.0:
            return cls()
        unit = y / largest
        mean, deviation = float(unit.mean()), float(unit.std())
        scale = deviation * largest
        if deviation <= 1e-14 or scale == 0.0:  # all equal up to rounding, which must not be magnified
            return cls(mean * largest, max(1.0, 1e-8 * largest))
        return cls(mean * largest, scale)

    def around(self, z: float) -> "Standardization":
        """The same scale around another mean: the one that is `z` now becomes 0."""
        return replace(self, mean=self.mean + z * self.scale)

    def apply(self, y: Array) -> Array:
        # y − mean may overflow, halves cannot. An outlier of more than 1e100 deviations, told after the scale was
        # fixed, must not overflow when the model squares it.
        with np.errstate(over="ignore"):
            z = 2.0 * ((0.5 * y - 0.5 * self.mean) / self.scale)
        return np.clip(z, -1e100, 1e100)
