"""The simplest policies: keep everything, or only the newest observations."""

from dataclasses import dataclass

import numpy as np

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.parts.staleness.interface import Staleness, Verdict, View


@dataclass(frozen=True)
class KeepAll(Staleness):
    """Never forget."""

    def review(self, view: View) -> Verdict:
        return Verdict()


@dataclass(frozen=True)
class SlidingWindow(Staleness):
    """Keep the newest `size` observations, and of those only the ones made within the last `duration`."""

    size: int | None = 100
    duration: float | None = None

    def __post_init__(self) -> None:
        if self.size is None and self.duration is None:
            raise ConfigurationError("size=None, duration=None: give a size, a duration, or both")
        if self.size is not None:
            if not (is_whole(self.size) and self.size > 0):
                raise ConfigurationError(f"size={self.size!r}: give a whole number > 0, or None")
            object.__setattr__(self, "size", int(self.size))
        if self.duration is not None:
            if (as_finite(self.duration) or 0.0) <= 0.0:
                raise ConfigurationError(f"duration={self.duration!r}: give a time > 0 in the clock's unit, or None")
            object.__setattr__(self, "duration", float(self.duration))

    @property
    def capacity(self) -> int | None:
        """The most observations that may stay, or None."""
        return self.size

    def review(self, view: View) -> Verdict:
        newest_first = np.argsort(-view.t, kind="stable")
        outside = np.zeros(len(view), dtype=bool)
        if self.size is not None:
            outside[newest_first[self.size :]] = True
        if self.duration is not None:
            outside |= view.t < view.now - self.duration
        return Verdict(np.flatnonzero(outside).tolist())
