"""When the query is made."""

from dataclasses import dataclass
from typing import Literal, Protocol

from ebbtide.errors import ConfigurationError


class Timing(Protocol):
    def moment(self, now: float, landing: float) -> float:
        """The time that the acquisition looks at: `now` is when ask began, `landing` when it is expected to return."""
        ...


@dataclass(frozen=True)
class Immediate:
    """Query at once. The acquisition looks at the moment when the answer will land; Algorithm 1 of the paper
    looks at the moment when the computation starts: `aim="now"`.
    """

    aim: Literal["landing", "now"] = "landing"

    def __post_init__(self) -> None:
        if self.aim not in ("landing", "now"):
            raise ConfigurationError(f'aim={self.aim!r}: choose "landing" or "now"')

    def moment(self, now: float, landing: float) -> float:
        return now if self.aim == "now" else landing
