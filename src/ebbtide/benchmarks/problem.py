"""A benchmark: an objective on space × time whose moving optimum is known."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.benchmarks.optima import Objective, Trajectory, shipped, trace
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Matern
from ebbtide.gp.quasirandom import sobol
from ebbtide.space import Float
from ebbtide.study.limits import AtLeast, AtMost

NOISE_FRACTION = 0.05  # of the signal's variance
SIGNAL_SAMPLE = 2**14


class Problem(ABC):
    """f(x, t), to be maximized over x at every t. Time runs from 0 to 1; x is in the function's own units.

    A subclass gives `bounds` (d, 2) and `values`, `best` too where the maximizer is known, and perhaps a `name`. Some
    have a `context` that can be measured, `cycles`, or `constraints` on other outcomes: then the optimum is the best of
    the settings that meet them.
    """

    name: str
    bounds: Array
    log: bool = False  # whether the parameters are searched on a logarithmic scale
    temporal: Matern = Matern(1.5)  # the kernel in time that the paper uses for it
    context_space: Mapping[str, Float] = MappingProxyType({})  # what can be measured of the moment
    cycles: Mapping[str, float] = MappingProxyType({})  # what comes back, and its period in the problem's time
    constraints: Mapping[str, AtMost | AtLeast] = MappingProxyType({})  # of the outcomes
    acceptable: Mapping[str, float] | None = None  # a setting that meets the constraints at all times

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "bounds" in vars(cls):
            cls.bounds = np.asarray(cls.bounds, dtype=float)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__.lower()

    @abstractmethod
    def values(self, X: Array, t: Array) -> Array:
        """f at the rows of X (m, d) at the times t (m,)."""

    def best(self, t: Array) -> Array | None:
        """argmax_x f(x, t) at the times t, (m, d), where it is known in closed form."""
        return None

    def context(self, t: float) -> dict[str, float]:
        """What is measured at time t, a value for each name of `context_space`."""
        return {}

    def outcome_values(self, X: Array, t: Array) -> dict[str, Array]:
        """What is measured beside f at the rows of X at the times t: a value for each name of `constraints`."""
        return {}

    @property
    def dim(self) -> int:
        """Number of parameters, without time."""
        return len(self.bounds)

    @property
    def instance(self) -> str:
        """Name of this instance of the problem, the key of its tabulated optimum."""
        return self.name

    @property
    def space(self) -> dict[str, Float]:
        """The parameters, for an optimizer."""
        return {f"x{i}": Float(float(low), float(high), log=self.log) for i, (low, high) in enumerate(self.bounds)}

    def __call__(self, x: ArrayLike, t: ArrayLike) -> Any:
        """f(x, t): x is (d,) or (..., d), t a number or an array that goes with it."""
        X, times, shape = self._rows(x, t)
        f = self.values(X, times).reshape(shape)
        return float(f) if shape == () else f

    def outcomes(self, x: ArrayLike, t: ArrayLike) -> dict[str, Any]:
        """What is measured beside f(x, t), by name; x and t as in a call."""
        X, times, shape = self._rows(x, t)
        found = {name: values.reshape(shape) for name, values in self.outcome_values(X, times).items()}
        return {name: float(values) if shape == () else values for name, values in found.items()}

    def feasible(self, x: ArrayLike, t: ArrayLike) -> Any:
        """Whether all constraints are met; x and t as in a call."""
        X, times, shape = self._rows(x, t)
        met = (self.excess(X, times) <= 0.0).reshape(shape)
        return bool(met) if shape == () else met

    def excess(self, X: Array, t: Array) -> Array:
        """By how much the worst outcome of each row is beyond its limit; negative where all are met."""
        found, beyond = self.outcome_values(X, t), [np.full(len(X), -np.inf)]
        for name, constraint in self.constraints.items():
            sign = 1.0 if isinstance(constraint, AtMost) else -1.0
            beyond.append(sign * (found[name] - constraint.limit))
        worst: Array = np.max(beyond, axis=0)
        return worst

    def _rows(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
        """Points and times one by one, and the shape of what is found there."""
        x, t = self._checked(x, t)
        shape = np.broadcast_shapes(x.shape[:-1], t.shape)
        X = np.broadcast_to(x, (*shape, self.dim)).reshape(-1, self.dim)
        return X, np.broadcast_to(t, shape).ravel(), shape

    def _checked(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, Array]:
        x, t = np.asarray(x, dtype=float), _checked_time(t)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ConfigurationError(
                f"x has shape {x.shape}, but {self.name} has {self.dim} parameters: give (..., {self.dim})"
            )
        low, high = self.bounds.T
        slack = 1e-9 * (high - low)
        if not ((x >= low - slack) & (x <= high + slack)).all():
            raise ConfigurationError(f"x is outside the domain of {self.name}: stay within {self.bounds.tolist()}")
        return x, t

    def from_unit(self, U: Array) -> Array:
        """Points of the unit cube, in the function's units."""
        low, high = self.bounds.T
        X: Array = low * (high / low) ** U if self.log else low + (high - low) * U
        return np.clip(X, low, high)

    def optimum(self, t: ArrayLike) -> Any:
        """max_x f(x, t), for a time or an array of them; of the feasible x, if there are constraints."""
        times = _checked_time(t)
        flat = times.ravel()
        known = self.best(flat)
        f = self._trajectory.highest(self.searched, flat) if known is None else self.values(known, flat)
        return float(f[0]) if times.ndim == 0 else f.reshape(times.shape)

    @cached_property
    def _trajectory(self) -> Trajectory:
        """The maximizer on a grid of times: shipped with the package, or traced now (up to half a minute)."""
        return shipped(self.instance, self.searched) or trace(self.searched)

    @property
    def searched(self) -> Objective:
        """What is maximized over the whole cube to find the optimum: f itself, if there are no constraints."""
        return self

    @cached_property
    def signal(self) -> Array:
        """f at points spread over space × time, for its variance and range."""
        Z = sobol(self.dim + 1, SIGNAL_SAMPLE, rng=0)
        return self.values(self.from_unit(Z[:, :-1]), Z[:, -1])

    @property
    def noise_std(self) -> float:
        """The deviation of observation noise whose variance is 5 % of the signal's."""
        return float(np.sqrt(NOISE_FRACTION) * self.signal.std())

    @cached_property
    def outcome_noise_std(self) -> dict[str, float]:
        """The same for each outcome."""
        Z = sobol(self.dim + 1, SIGNAL_SAMPLE, rng=0)
        found = self.outcome_values(self.from_unit(Z[:, :-1]), Z[:, -1])
        return {name: float(np.sqrt(NOISE_FRACTION) * values.std()) for name, values in found.items()}

    def __repr__(self) -> str:
        return f"<benchmark {self.instance}, d = {self.dim}>"


def _checked_time(t: ArrayLike) -> Array:
    times = np.asarray(t, dtype=float)
    if not ((times >= 0.0) & (times <= 1.0)).all():
        raise ConfigurationError(f"t={t!r}: a benchmark's time runs from 0 to 1, give times in that range")
    return times
