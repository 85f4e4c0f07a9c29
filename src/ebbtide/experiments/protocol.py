"""The terms on which algorithms are compared (Appendix H.1 of the paper)."""

from dataclasses import asdict, dataclass
from typing import Any

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.experiments.pace import Measured, Modelled, Pace, Wall, pace


@dataclass(frozen=True)
class Protocol:
    """The paper's by default, with a modelled compute time, so that a result is the same on every machine.

    >>> Protocol(duration=60.0, compute="measured:30").pace
    Measured(speed=30.0)
    """

    duration: float = 600.0  # seconds in which the problem's time sweeps from 0 to 1
    n_initial: int = 15  # random observations before the first query,
    initial_share: float = 1.0 / 40.0  # made in this share of the duration
    noise: float = 0.05  # variance of the observation noise, as a share of the signal's
    evaluation: float = 0.0  # seconds that the objective takes before its value is known
    compute: str | Modelled | Measured | Wall = "modelled:botorch"  # how compute time passes

    def __post_init__(self) -> None:
        for name in ("duration", "initial_share", "noise", "evaluation"):
            value = as_finite(getattr(self, name))
            if value is None or value < 0.0:
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: give a finite number that is not negative")
        if self.duration == 0.0 or self.initial_share >= 1.0:
            raise ConfigurationError(
                f"duration={self.duration!r}, initial_share={self.initial_share!r}: this leaves no time for a query; "
                "give a duration > 0 and a share < 1"
            )
        if not (is_whole(self.n_initial) and self.n_initial >= 0):
            raise ConfigurationError(f"n_initial={self.n_initial!r}: give a whole number ≥ 0")
        if not all(callable(getattr(self.pace, method, None)) for method in ("clock", "stopwatch")):
            raise ConfigurationError(f"compute={self.compute!r}: give a name, such as 'measured', or a Modelled(...)")

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"compute": str(self.compute)}

    @property
    def pace(self) -> Pace:
        """How compute time passes on the clock."""
        return pace(self.compute) if isinstance(self.compute, str) else self.compute
