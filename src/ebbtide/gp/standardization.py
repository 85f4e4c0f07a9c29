"""The transform and the standardisation of values before the model sees them, and the way back.

| symbol | meaning                                                                               |
|--------|---------------------------------------------------------------------------------------|
| p      | power: 1 leaves values as they are, 0 is the logarithm                                |
| g      | unit: the geometric mean of the values                                                |
| k, s   | knee and span of bent values: their median, and the distance between their           |
|        | quartiles; s is negative if smaller values are better                                 |
| u      | how much worse than usual a value is: max((k − y)/s, 0)                               |
| T      | y for p = 1, otherwise ((y/g)^p − 1)/p, at p = 0 log(y/g);                            |
|        | of bent values: y where u = 0, otherwise k − 2s (√(1 + u) − 1)                        |
| z      | (T(y) − mean)/scale                                                                   |

The first T is the family of Box and Cox (1964), for positive values. It only holds powers from 0 to 1: with a negative
power T is bounded above, and a prediction beyond the bound would have no value in the user's unit. The second is one
side of that of Yeo and Johnson (2000), for any values: where settings are bad, an objective often falls steeply, and a
stationary model that has to follow it there knows little of where it is good. Logarithms of that side were tried, too,
and made terrible places look harmless.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ebbtide.gp.arrays import Array

Transform = Literal["none", "log", "auto"]


class Form(NamedTuple):
    """Which T: the power of the values, and whether those that are worse than usual are bent."""

    power: float = 1.0
    bent: bool = False


PLAIN, BENT = Form(), Form(bent=True)
POWERS = (1.0, 0.5, 0.0)
FORMS = (*map(Form, POWERS), BENT)  # among which "auto" chooses
SWITCH_GAIN = 5.0  # nats by which another form must be better before it is used
LARGEST_EXPONENT = 700.0  # exp of it is finite
LARGEST_WORSE = 1e300  # u is at most this


@dataclass(frozen=True)
class Standardization:
    """z = (T(y) − mean)/scale, computed so that neither |y| of 1e300 nor differences of 1e-300 cause trouble."""

    mean: float = 0.0
    scale: float = 1.0
    power: float = 1.0
    unit: float = 1.0
    knee: float = 0.0
    span: float = 0.0  # 0: values are not bent

    @classmethod
    def of(cls, y: Array, form: Form = PLAIN, sign: float = 1.0) -> "Standardization":
        """Of a form, if it suits the values; `sign` is −1 if smaller values are better."""
        if form.power != 1.0 and is_positive(y):
            shape = cls(power=form.power, unit=float(np.exp(np.log(y).mean())))
        elif form.bent:
            shape = cls._bent(y, sign)
        else:
            shape = cls()
        mean, scale = _moments(shape._transformed(y))
        return replace(shape, mean=mean, scale=scale)

    @classmethod
    def _bent(cls, y: Array, sign: float) -> "Standardization":
        if not y.size:
            return cls()
        low, middle, high = np.quantile(0.5 * y, (0.25, 0.5, 0.75)).tolist()  # halves, whose differences are finite
        span = 2.0 * (high - low)
        if not float(np.finfo(float).tiny) <= span < math.inf:
            return cls()
        return cls(knee=2.0 * middle, span=sign * span)

    @classmethod
    def by_quartiles(cls, y: Array, form: Form = PLAIN, sign: float = 1.0) -> "Standardization":
        """By median and quartiles, which gross errors hardly move."""
        half = 0.5 * y  # the difference of two values may overflow, that of halves cannot
        usual = y[(half >= np.quantile(half, 0.25)) & (half <= np.quantile(half, 0.75))]
        return cls.of(usual, form if form.power == 1.0 or is_positive(y) else PLAIN, sign)

    @classmethod
    def at(cls, level: float, scale: float, power: float) -> "Standardization":
        """Around a level, with a scale, both in the unit of `level`."""
        return cls(level if power in (0.0, 1.0) else level - 1.0 / power, scale, power)

    @property
    def form(self) -> Form:
        return Form(self.power, self.span != 0.0)

    @property
    def unbent(self) -> "Standardization":
        """The same scale for values as they are."""
        return replace(self, knee=0.0, span=0.0) if self.span else self

    @property
    def factor(self) -> float:
        """By which a difference of T becomes one of what does not depend on g: y, yᵖ/p, or log y. Bent values are
        taken for what they are on the better side, where T is y.
        """
        return 1.0 if self.power in (0.0, 1.0) else self.unit**self.power

    @property
    def level(self) -> float:
        """The mean in that unit, in which studies can be compared."""
        return self.mean * self.factor + self._offset

    def of_level(self, level: float) -> float:
        """What a level is as z."""
        return float(np.clip((level - self.level) / self.factor / self.scale, -1e100, 1e100))

    @property
    def _offset(self) -> float:
        if self.power == 1.0:
            return 0.0
        return math.log(self.unit) if self.power == 0.0 else self.factor / self.power

    def around(self, z: float) -> "Standardization":
        """The same scale around another mean: the one that is `z` now becomes 0."""
        return replace(self, mean=float(_finite(np.array(self.mean + z * self.scale))))

    def apply(self, y: Array) -> Array:
        # v − mean may overflow, halves cannot. An outlier of more than 1e100 deviations, told after the scale was
        # fixed, must not overflow when the model squares it.
        v = self._transformed(y)
        with np.errstate(over="ignore"):
            z = 2.0 * ((0.5 * v - 0.5 * self.mean) / self.scale)
        return np.minimum(np.maximum(z, -1e100), 1e100)

    def back(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """A prediction in the user's unit: its median, and half the width of its central 68 % interval.

        Without a transform these are the mean and the standard deviation.
        """
        with np.errstate(over="ignore"):
            v, spread = _finite(mean * self.scale + self.mean), _finite(std * self.scale)
        if self.form == PLAIN:
            return v, spread
        with np.errstate(over="ignore"):
            ends = _finite(v - spread), v, _finite(v + spread)
        low, middle, high = map(self._inverse, ends)
        return middle, 0.5 * high - 0.5 * low

    def suits(self, y: Array) -> bool:
        """Whether it can be applied to these values: a power needs positive ones."""
        return self.power == 1.0 or is_positive(y)

    def log_slopes(self, y: Array) -> float:
        """Σ log T'(yᵢ), of the values that it was made from: T'(y) = (y/g)^(p−1)/g, and Σ log(yᵢ/g) = 0; of bent
        values, T'(y) = 1/√(1 + u).
        """
        if self.power != 1.0:
            return -len(y) * math.log(self.unit)
        return -0.5 * float(np.log1p(self._worse(y)).sum()) if self.span else 0.0

    def _transformed(self, y: Array) -> Array:
        if self.power != 1.0:
            return _powers(y, self.power, self.unit)
        if not self.span:
            return y
        u = self._worse(y)
        with np.errstate(over="ignore"):
            return np.where(u > 0.0, _finite(self.knee - self.span * (2.0 * np.sqrt(1.0 + u) - 2.0)), y)

    def _worse(self, y: Array) -> Array:
        """How much worse than usual."""
        with np.errstate(over="ignore"):  # halves, whose differences are finite
            u: Array = np.minimum(np.maximum((0.5 * self.knee - 0.5 * y) / (0.5 * self.span), 0.0), LARGEST_WORSE)
        return u

    def _inverse(self, v: Array) -> Array:
        if self.span:
            root = 1.0 + 0.5 * self._worse(v)  # √(1 + u)
            with np.errstate(over="ignore"):
                return np.where(root > 1.0, _finite(self.knee - self.span * (root * root - 1.0)), v)
        if self.power == 0.0:
            logarithm = v + math.log(self.unit)
        else:
            with np.errstate(divide="ignore"):  # below T(0), every v stands for 0
                logarithm = np.log(np.maximum(0.0, 1.0 + self.power * v)) / self.power + math.log(self.unit)
        values: Array = np.exp(np.minimum(logarithm, LARGEST_EXPONENT))
        return values


def _finite(values: Array) -> Array:
    """The same values; what is beyond the largest float is the largest float."""
    largest = float(np.finfo(float).max)
    return np.clip(values, -largest, largest)


def is_positive(y: Array) -> bool:
    """Whether there are values, all of them positive (and not so small that their digits are lost)."""
    return y.size > 0 and float(y.min()) >= float(np.finfo(float).tiny)


def chosen_form(P: Array, y: Array, current: Form, sign: float = 1.0, forms: tuple[Form, ...] = FORMS) -> Form:
    """The form with the highest evidence; the current one, unless another is clearly better, or it is none of `forms`.

    With v = T(y) − mean and the kernel of P, whose variance λ takes its best value for each form, the log evidence is
    −(n/2) log(vᵀPv) + Σ log T'(yᵢ), up to what all forms share.
    """
    scores = {form: evidence(P, y, form, sign) for form in forms}
    best = max(scores, key=lambda form: scores[form])
    return best if scores[best] > scores.get(current, -math.inf) + SWITCH_GAIN else current


def evidence(P: Array, y: Array, form: Form, sign: float = 1.0) -> float:
    """The log evidence of values under a form, up to what all forms share; −∞ if it has no meaning."""
    standardization = Standardization.of(y, form, sign)
    if standardization.form != form:
        return -math.inf  # it does not suit the values
    z = standardization.apply(y)
    fit = float(z @ P @ z)
    if not fit > 0.0:
        return -math.inf  # all values are equal
    return standardization.log_slopes(y) - len(y) * (0.5 * math.log(fit) + math.log(standardization.scale))


def _powers(y: Array, power: float, unit: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log(np.maximum(y, 0.0)) - math.log(unit)
    if power == 0.0:
        return logarithm
    values: Array = np.expm1(np.minimum(power * logarithm, LARGEST_EXPONENT)) / power
    return values


def _moments(v: Array) -> tuple[float, float]:
    """Mean and standard deviation; a scale of 1 if all values are equal up to rounding, which must not be magnified."""
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0.0:
        return 0.0, 1.0
    unit = v / largest
    mean = float(unit.sum()) / len(v)
    unit -= mean
    deviation = math.sqrt(float(unit @ unit) / len(v))
    scale = deviation * largest
    if deviation <= 1e-14 or scale == 0.0:
        return mean * largest, max(1.0, 1e-8 * largest)
    return mean * largest, scale
