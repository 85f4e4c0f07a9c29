"""Optuna's distributions as parameters."""

from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ebbtide.errors import SpaceError
from ebbtide.space import Categorical, Float, Int, Parameter

SearchSpace = dict[str, BaseDistribution]


@dataclass(frozen=True)
class Axis:
    """A distribution, and the parameter that represents it: steps are counted, and choices are numbered."""

    distribution: BaseDistribution
    parameter: Parameter

    @property
    def _counted(self) -> bool:
        return isinstance(self.parameter, Int) and self.distribution.step is not None and not self.distribution.log

    def ours(self, value: Any) -> Any:
        """None if the value does not belong to the distribution."""
        try:
            internal = self.distribution.to_internal_repr(value)
        except ValueError:
            return None
        if not self.distribution._contains(internal):
            return None
        if self._counted:
            return round((internal - self.distribution.low) / self.distribution.step)
        return internal if isinstance(self.parameter, Float) else int(internal)

    def theirs(self, value: Any) -> Any:
        if isinstance(self.parameter, Categorical):
            return self.distribution.choices[value]
        if not self._counted:
            return value
        placed = self.distribution.low + value * self.distribution.step
        return min(placed, self.distribution.high)


def axes_of(search_space: SearchSpace) -> dict[str, Axis]:
    found = {name: axis_of(distribution) for name, distribution in search_space.items()}
    return {name: axis for name, axis in found.items() if axis is not None}


def axis_of(distribution: BaseDistribution) -> Axis | None:
    """None if there is only one value, or more than an `Int` can count."""
    if distribution.single():
        return None
    try:
        return Axis(distribution, _parameter(distribution))
    except SpaceError:
        return None


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(range(len(distribution.choices)))
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        return Float(distribution.low, distribution.high, distribution.log)
    if isinstance(distribution, IntDistribution) and distribution.log:
        return Int(distribution.low, distribution.high, log=True)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        return Int(0, round((distribution.high - distribution.low) / distribution.step))
    raise SpaceError(f"{distribution!r} is not a known kind of distribution")
