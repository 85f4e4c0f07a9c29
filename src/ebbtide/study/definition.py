"""What stays the same throughout a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ebbtide import algorithms
from ebbtide.algorithms import Algorithm
from ebbtide.checks import is_plain_name, is_whole
from ebbtide.clock import Clock, SystemClock
from ebbtide.errors import ConfigurationError, StudyError
from ebbtide.space import Parameter, Space
from ebbtide.study import codec, conditions
from ebbtide.study.conditions import Conditions
from ebbtide.study.live import LiveOptions

Direction = Literal["minimize", "maximize"]
MAX_FAMILY = 100


@dataclass(frozen=True)
class Definition:
    """What a study optimizes, how, and by which kind of clock; the seed makes it repeatable."""

    space: Space
    direction: Direction
    algorithm: Algorithm
    clock: str
    seed: int
    n_initial: int
    live: LiveOptions = field(default_factory=LiveOptions)
    conditions: Conditions = field(default_factory=Conditions)
    family: str | None = None

    def __post_init__(self) -> None:
        if self.direction not in ("minimize", "maximize"):
            raise ConfigurationError(f'direction={self.direction!r}: choose "minimize" or "maximize"')
        self.algorithm.spatial.check_coordinates(self.space.width)
        temporal = self.algorithm.temporal
        if self.conditions.cycles and (temporal is None or temporal.by_step):
            raise ConfigurationError(
                f"cycles={dict(self.conditions.cycles)!r}: this algorithm does not read the clock, so nothing can come "
                'back at its time; choose one that does, such as "tide"'
            )
        self.conditions.check(self.space)
        self._check_family()
        object.__setattr__(self, "seed", checked_count("seed", self.seed))
        object.__setattr__(self, "n_initial", checked_count("n_initial", self.n_initial))

    def _check_family(self) -> None:
        if self.family is None:
            return
        plain = is_plain_name(self.family)
        if not plain or not 0 < len(self.family) <= MAX_FAMILY or not self.family.strip():
            raise ConfigurationError(
                f'family={self.family!r}: give 1 to {MAX_FAMILY} printable characters without /, such as "edge"'
            )
        if self.algorithm.inference != "map":
            raise ConfigurationError(
                f"family={self.family!r}: what siblings know is a prior, and this algorithm fits without one; "
                'choose inference="map", or leave the family out'
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "space": self.space.to_json(),
            "direction": self.direction,
            "algorithm": codec.algorithm_to_json(self.algorithm),
            "clock": self.clock,
            "seed": self.seed,
            "n_initial": self.n_initial,
            **self.live.to_json(),
            **(self.conditions.to_json() if self.conditions.given else {}),  # as studies were stored before
            **({} if self.family is None else {"family": self.family}),  # the same
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], algorithm: Algorithm | None = None) -> "Definition":
        """The definition that `to_json` describes; an algorithm with the user's own classes is passed again."""
        return cls(
            space=Space.from_json(data["space"]),
            direction=data["direction"],
            algorithm=codec.algorithm_from_json(data["algorithm"], algorithm),
            clock=data["clock"],
            seed=data["seed"],
            n_initial=data["n_initial"],
            live=LiveOptions.from_json(data),
            conditions=Conditions.from_json(data),
            family=data.get("family"),
        )


def define(
    space: Mapping[str, Parameter] | Space,
    direction: Direction = "minimize",
    algorithm: str | Algorithm | None = None,
    clock: Clock | None = None,
    seed: int | None = None,
    n_initial: int | None = None,
    **more: Any,
) -> Definition:
    """A definition from the user's arguments; without a seed, a random one is drawn.

    `more` is for the family, LiveOptions and Conditions.
    """
    searched = space if isinstance(space, Space) else Space(space)
    family = more.pop("family", None)
    around = {word: more.pop(word, None) for word in conditions.WORDS}
    options = LiveOptions.of(searched, **more)
    # What is asked first is asked instead of points that fill the space.
    usual = len(options.start) or usual_start(searched)
    return Definition(
        space=searched,
        direction=direction,
        algorithm=checked_algorithm(algorithms.DEFAULT if algorithm is None else algorithm),
        clock=codec.describe_clock(SystemClock() if clock is None else clock),
        seed=int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed,
        n_initial=usual if n_initial is None else n_initial,
        live=options,
        conditions=Conditions.of(**around),
        family=family,
    )


def usual_start(space: Space) -> int:
    """How many asks fill the space, unless the user says otherwise."""
    return 2 * (space.dim + 1)


def check_same(name: str, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise an error if the definition of a stored study differs from the given one."""
    different = [key for key in given if stored[key] != given[key]]
    if different:
        raise StudyError(
            f"the study {name!r} has another definition: "
            + "; ".join(f"its {key} is {stored[key]!r}, not {given[key]!r}" for key in different)
            + "; use the stored values, or another name"
        )


def checked_algorithm(algorithm: Any) -> Algorithm:
    found = algorithms.get(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(found, Algorithm):
        raise ConfigurationError(f"algorithm={algorithm!r}: give a name or an eb.Algorithm")
    return found


def checked_count(name: str, value: Any, least: int = 0) -> int:
    if not is_whole(value) or value < least:
        raise ConfigurationError(f"{name}={value!r}: give a whole number ≥ {least}")
    return int(value)
