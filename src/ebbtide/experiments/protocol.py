"""The terms on which algorithms are compared (Appendix H.1 of the paper)."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.experiments.pace import Measured, Modelled, Pace, Wall, pace

NoiseOf = Literal["variance", "deviation"]


@dataclass(frozen=True)
class Protocol:
    """The paper's by default, with a modelled compute time, so that a result is the same on every machine.

    >>> Protocol(duration=60.0, compute="measured:30").pace
    Measured(speed=30.0)
    """

    duration: float = 600.0  # seconds in which the problem's time sweeps from 0 to 1
    n_initial: int = 15  # random observations before the first query,
    initial_share: float = 1.0 / 40.0  # made in this share of the duration
    noise: float = 0.05  # of the observations, as a share of the signal's
    noise_of: NoiseOf = "variance"  # what is shared: "noise of 5 %" can be read as of the variance or the deviation
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
        if self.noise_of not in get_args(NoiseOf):
            raise ConfigurationError(f"noise_of={self.noise_of!r}: choose one of {list(get_args(NoiseOf))}")
        if not (is_whole(self.n_initial) and self.n_initial >= 0):
            raise ConfigurationError(f"n_initial={self.n_initial!r}: give a whole number ≥ 0")
        if not all(callable(getattr(self.pace, method, None)) for method in ("clock", "stopwatch")):
            raise ConfigurationError(f"compute={self.compute!r}: give a name, such as 'measured', or a Modelled(...)")

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"compute": str(self.compute)}

    def noise_std(self, signal_std: float) -> float:
        """The deviation of the noise, given the signal's.

        >>> Protocol(noise=0.04).noise_std(10.0), Protocol(noise=0.04, noise_of="deviation").noise_std(10.0)
        (2.0, 0.4)
        """
        return float(signal_std * (self.noise**0.5 if self.noise_of == "variance" else self.noise))

    @property
    def terms(self) -> str:
        """For captions: how long, which noise, which pace."""
        return f"{self.duration:g} s, noise {100.0 * self.noise:g} % of the {self.noise_of}, {self.compute}"

    @property
    def pace(self) -> Pace:
        """How compute time passes on the clock."""
        return pace(self.compute) if isinstance(self.compute, str) else self.compute
