"""How a study behaves on a live system, whatever its algorithm.

| option           | meaning                                                                                 |
|------------------|-----------------------------------------------------------------------------------------|
| `on_failure`     | what a failed evaluation counts as: "worst" of the active values, a value, or "ignore"    |
| `explore`        | the share of the asks that probe; the others hold the recommended setting               |
| `start`          | settings to ask first                                                                   |
| `movement`       | how far a parameter may move in one step, and what moving costs                         |
| `baseline`       | the setting that would be used otherwise; asked once in `baseline_every` asks            |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError, ParameterError
from ebbtide.records import Kind
from ebbtide.space import Params, Space
from ebbtide.study.movement import Movement

OnFailure = Literal["worst", "ignore"] | float
WORDS = ("on_failure", "explore", "start", "movement", "baseline", "baseline_every")
BASELINE_EVERY = 20
MAX_STARTS = 1000


@dataclass(frozen=True)
class LiveOptions:
    """See the table at the top of this file."""

    on_failure: OnFailure = "worst"
    explore: float = 1.0
    start: tuple[Params, ...] = ()
    movement: Movement | None = None
    baseline: Params | None = None
    baseline_every: int = BASELINE_EVERY

    @classmethod
    def of(cls, space: Space, **given: Any) -> "LiveOptions":
        """From what a user gave; None means that it was not given."""
        said = {name: value for name, value in given.items() if value is not None}
        if "start" in said:
            said["start"] = _settings(space, said["start"])
        if "baseline" in said:
            said["baseline"] = _checked(space, "baseline", said["baseline"])
        elif "baseline_every" in said:
            raise ConfigurationError("baseline_every needs a baseline, the setting that you would use otherwise")
        if isinstance(movement := said.get("movement"), Mapping):
            said["movement"] = _movement(movement)
        options = cls(**said)
        if options.movement is not None:
            options.movement.check(space)
        return options

    def __post_init__(self) -> None:
        if self.on_failure not in ("worst", "ignore"):
            value = None if isinstance(self.on_failure, str) else as_finite(self.on_failure)
            if value is None:
                raise ConfigurationError(
                    f'on_failure={self.on_failure!r}: choose "worst" or "ignore", or give the value of a failure'
                )
            object.__setattr__(self, "on_failure", value)
        share = as_finite(self.explore)
        if share is None or not 0.0 <= share <= 1.0:
            raise ConfigurationError(f"explore={self.explore!r}: give a share between 0 and 1, such as 0.2")
        object.__setattr__(self, "explore", share)
        if not (self.movement is None or isinstance(self.movement, Movement)):
            raise ConfigurationError(f"movement={self.movement!r}: give an eb.Movement")
        if not is_whole(self.baseline_every) or self.baseline_every < 2:
            raise ConfigurationError(f"baseline_every={self.baseline_every!r}: give a whole number ≥ 2")

    def kind(self, number: int, known: bool) -> Kind:
        """What the ask with this number is for; as long as nothing is known, there is nothing to hold."""
        number -= len(self.start)
        if number < 0:
            return "start"
        if self.baseline is not None and number % self.baseline_every == 1:
            return "baseline"
        if not known or _probes(number + 1, self.explore) > _probes(number, self.explore):
            return "explore"
        return "hold"

    def setting(self, number: int, kind: Kind) -> Params | None:
        """The setting of an ask that needs no model."""
        return self.start[number] if kind == "start" else self.baseline if kind == "baseline" else None

    def to_json(self) -> dict[str, Any]:
        movement = self.movement
        return {
            "on_failure": self.on_failure,
            "explore": self.explore,
            "start": [dict(setting) for setting in self.start],
            "movement": None if movement is None else {"limit": dict(movement.limit), "cost": movement.cost},
            "baseline": None if self.baseline is None else dict(self.baseline),
            "baseline_every": self.baseline_every,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LiveOptions":
        """A study from before these options ignored failures, and still does."""
        if "on_failure" not in data:
            return cls(on_failure="ignore")
        movement = data["movement"]
        return cls(
            on_failure=data["on_failure"],
            explore=data["explore"],
            start=tuple(data["start"]),
            movement=None if movement is None else _movement(movement),
            baseline=data["baseline"],
            baseline_every=data["baseline_every"],
        )


def _probes(asks: int, share: float) -> int:
    """How many of the first asks probe; the first one does."""
    return math.ceil(asks * share - 1e-9)


def _settings(space: Space, start: Any) -> tuple[Params, ...]:
    """One setting, or several."""
    settings = [start] if isinstance(start, Mapping) else start
    if not isinstance(settings, Sequence) or isinstance(settings, str) or len(settings) > MAX_STARTS:
        raise ConfigurationError(f"start={start!r}: give a setting, or a list of at most {MAX_STARTS} settings")
    return tuple(_checked(space, "start", setting) for setting in settings)


def _checked(space: Space, option: str, setting: Any) -> Params:
    try:
        return space.check(setting)
    except ParameterError as error:
        raise ConfigurationError(f"{option}={setting!r}: {error}") from None


def _movement(description: Mapping[str, Any]) -> Movement:
    unknown = [key for key in description if key not in ("limit", "cost")]
    if unknown:
        raise ConfigurationError(f"movement={dict(description)!r}: it has no {unknown}; give limit and cost")
    return Movement(**description)
