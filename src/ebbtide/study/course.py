"""What became of the active set since the model was last made afresh, at its *anchor*.

Between two anchors the hyperparameters are held, and each ask changes the model of the one before by the rows that came
and went (`ebbtide.gp.incremental`). The last bits of the result depend on the order of these changes. So the order is
recorded, and a process that resumes a study makes the anchor's model again and repeats them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.gp.arrays import Array, Mask


class Turn(NamedTuple):
    """One ask: the lines told since the one before came, then some lines went, in the order told."""

    told: int  # how many lines of the history it had seen
    removed: tuple[int, ...]

    @classmethod
    def of(cls, told: int, removed: Sequence[int]) -> "Turn":
        return cls(told, tuple(sorted(removed)))


class Input(NamedTuple):
    """Where and when an observation was made."""

    x: Array  # with the coordinates of its context
    time: float
    measured: Mask  # which values under a constraint were told with it


@dataclass(frozen=True)
class Course:
    """The turns since the anchor, which is the first of them, and the observations that went."""

    turns: tuple[Turn, ...] = ()
    gone: Mapping[int, Input] = field(default_factory=dict)  # by line

    def after(self, turn: Turn, gone: Mapping[int, Input]) -> "Course":
        return Course((*self.turns, turn), {**self.gone, **gone})
