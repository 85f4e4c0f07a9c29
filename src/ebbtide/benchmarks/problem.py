"""A benchmark: an objective on space × time whose moving optimum is known."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebbtide.benchmarks.optima import Trajectory, shipped, trace
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Matern
from ebbtide.gp.quasirandom import sobol
from ebbtide.space import Float

NOISE_FRACTION = 0.05  # of the signal's variance
SIGNAL_SAMPLE = 2**14


class Problem(ABC):
    """f(x, t), to be maximized over x at every t. Time runs from 0 to 1; x is in the function's own units.

    A subclass gives `bounds` (d, 2) and `values`, `best` too where the maximizer is known, and perhaps a `name`.
    """

    name: str
    bounds: Array
    log: bool = False  # whether the parameters are searched on a logarithmic scale
    temporal: Matern = Matern(1.5)  # the kernel in time that the paper uses for it

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
        x, t = self._checked(x, t)
        shape = np.broadcast_shapes(x.shape[:-1], t.shape)
        X = np.broadcast_to(x, (*shape, self.dim)).reshape(-1, self.dim)
        f = self.values(X, np.broadcast_to(t, shape).ravel()).reshape(shape)
        return float(f) if shape == () else f

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
        """max_x f(x, t), for a time or an array of them."""
        times = _checked_time(t)
        flat = times.ravel()
        known = self.best(flat)
        f = self._trajectory.highest(self, flat) if known is None else self.values(known, flat)
        return float(f[0]) if times.ndim == 0 else f.reshape(times.shape)

    @cached_property
    def _trajectory(self) -> Trajectory:
        """The maximizer on a grid of times: shipped with the package, or traced now (up to half a minute)."""
        return shipped(self.instance, self) or trace(self)

    @cached_property
    def signal(self) -> Array:
        """f at points spread over space × time, for its variance and range."""
        Z = sobol(self.dim + 1, SIGNAL_SAMPLE, rng=0)
        return self.values(self.from_unit(Z[:, :-1]), Z[:, -1])

    @property
    def noise_std(self) -> float:
        """The deviation of observation noise whose variance is 5 % of the signal's."""
        return float(np.sqrt(NOISE_FRACTION) * self.signal.std())

    def __repr__(self) -> str:
        return f"<benchmark {self.instance}, d = {self.dim}>"


def _checked_time(t: ArrayLike) -> Array:
    times = np.asarray(t, dtype=float)
    if not ((times >= 0.0) & (times <= 1.0)).all():
        raise ConfigurationError(f"t={t!r}: a benchmark's time runs from 0 to 1, give times in that range")
    return times
