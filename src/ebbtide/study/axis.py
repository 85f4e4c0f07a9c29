"""The temporal kernel's axis: the clock; or the order told, for kernels that count steps (TV-GP-UCB)."""

from dataclasses import dataclass

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.kernels import Stationary
from ebbtide.gp.priors import TimeLimits
from ebbtide.study.active import ActiveSet


@dataclass(frozen=True)
class TimeAxis:
    temporal: Stationary | None
    active: ActiveSet

    @property
    def by_step(self) -> bool:
        """Whether the model counts observations told instead of reading the clock."""
        return self.temporal is not None and self.temporal.by_step

    @property
    def is_clock(self) -> bool:
        """Whether the model reads the clock; a model without a temporal kernel has no axis at all."""
        return self.temporal is not None and not self.by_step

    def rows(self, rows: Rows | slice) -> Array:
        """Positions of active rows."""
        return self.active.lines[rows].astype(float) if self.by_step else self.active.dataset.t[rows]

    def place(self, time: float) -> float:
        """Position of something not yet told: counted in steps, the whole future is at the next index."""
        return float(self.active.told) if self.by_step else time

    def places(self, times: Array) -> Array:
        """Positions of arbitrary times: counted in steps, between the observations before and after."""
        if not self.by_step or not len(self.active):
            return times
        t = self.active.dataset.t
        order = np.argsort(t, kind="stable")
        known = np.interp(times, t[order], np.maximum.accumulate(self.active.lines[order]))
        return np.where(times > t.max(), float(self.active.told), known)

    def limits(self) -> TimeLimits:
        """How short and how long l_T may be."""
        return TimeLimits.in_steps() if self.by_step else TimeLimits.of(self.active.interval, self.active.span)
