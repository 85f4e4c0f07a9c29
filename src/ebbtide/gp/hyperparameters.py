"""The hyperparameters of a space-time kernel: by name, and as the vector θ that a fit works with.

θ = (log λ, log l_S [one or d], log l_C [one per context coordinate], log l_T [if the kernel drifts], for each cycle
    (log aⱼ/(1 − Σa), log lⱼ, log rⱼ), log σ²/λ)

The noise enters as the ratio σ²/λ, whose lower bound limits the condition number of Δ.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Cyclic, Matern, SpaceTimeKernel, Stationary


class Families(NamedTuple):
    """The kernels whose hyperparameters are fitted; the lengthscales that they have do not matter."""

    spatial: Stationary
    temporal: Stationary | None
    context: Stationary | None = None
    jumps: bool = False  # whether the temporal kernel has taken the place of another one

    @property
    def jumping(self) -> "Families":
        """The same for an objective that jumps: with Matérn-½ in time, the covariance of whatever changes at random
        moments. If the temporal kernel is one already, these families themselves.
        """
        family = self.temporal.family if isinstance(self.temporal, Cyclic) else self.temporal
        if isinstance(family, Matern) and family.nu == 0.5:
            return self
        rough = Matern(0.5)
        temporal = replace(self.temporal, family=rough) if isinstance(self.temporal, Cyclic) else rough
        return self._replace(temporal=temporal, jumps=True)

    def of(self, hyper: "Hyperparameters") -> "Families":
        """Those that these hyperparameters belong to."""
        return self.jumping if hyper.jumps else self

    @property
    def context_size(self) -> int:
        """How many coordinates the context has."""
        return 0 if self.context is None else len(np.atleast_1d(self.context.lengthscale))

    @property
    def cycles(self) -> int:
        """How many cycles there are."""
        return len(self.temporal.cycles) if isinstance(self.temporal, Cyclic) else 0

    def timescale_at(self, size: int) -> int:
        """Where log l_T is in a θ of this size, if the kernel drifts."""
        return size - 2 - 3 * self.cycles

    def hyperparameters(self, theta: Array) -> "Hyperparameters":
        """The hyperparameters with this vector."""
        sizes = {"context": self.context_size, "cycles": self.cycles}
        hyper = Hyperparameters.from_vector(theta, ard=self.spatial.ard, drifting=self.temporal is not None, **sizes)
        return replace(hyper, jumps=True) if self.jumps else hyper

    def kernel(self, hyper: "Hyperparameters") -> SpaceTimeKernel:
        """The kernel with these hyperparameters."""
        spatial, temporal, context, _ = self.of(hyper)
        if isinstance(temporal, Cyclic) and hyper.timescale is not None:
            temporal = temporal.fitted(hyper.timescale, hyper.cycles)
        elif temporal is not None and hyper.timescale is not None:
            temporal = temporal.with_lengthscale(hyper.timescale)
        context = None if context is None else context.with_lengthscale(hyper.context)
        return SpaceTimeKernel(hyper.scale, spatial.with_lengthscale(hyper.lengthscale), temporal, context)


@dataclass(frozen=True)
class Hyperparameters:
    """What a fit finds; `timescale` is None for a kernel without a temporal part.

    `context` has a lengthscale for each coordinate of the context; `cycles`, for each cycle, the share of the variance
    that comes back, for how long, and how smoothly (kernels/cyclic.py). `jumps` says whether the temporal kernel is
    that of an objective that jumps.
    """

    scale: float
    lengthscale: float | tuple[float, ...]
    timescale: float | None
    noise: float
    context: tuple[float, ...] = ()
    cycles: tuple[tuple[float, float, float], ...] = ()
    jumps: bool = False

    def to_vector(self) -> Array:
        timescale = [] if self.timescale is None else [self.timescale]
        rest = 1.0 - sum(share for share, _, _ in self.cycles)
        cycles = [value for share, length, smoothness in self.cycles for value in (share / rest, length, smoothness)]
        middle = [*np.atleast_1d(self.lengthscale), *self.context, *timescale, *cycles]
        return np.log([self.scale, *middle, self.noise / self.scale])

    @classmethod
    def from_vector(
        cls, theta: Array, *, ard: bool, drifting: bool, context: int = 0, cycles: int = 0
    ) -> "Hyperparameters":
        scale, *middle, ratio = map(float, np.exp(theta))
        middle, last = middle[: len(middle) - 3 * cycles], middle[len(middle) - 3 * cycles :]
        timescale = middle.pop() if drifting else None
        spatial, surroundings = middle[: len(middle) - context], middle[len(middle) - context :]
        total = 1.0 + sum(last[::3])
        courses = tuple((last[k] / total, last[k + 1], last[k + 2]) for k in range(0, 3 * cycles, 3))
        lengthscale = tuple(spatial) if ard else spatial[0]
        return cls(scale, lengthscale, timescale, ratio * scale, tuple(surroundings), courses)
