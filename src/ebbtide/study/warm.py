"""The model of the last ask, kept for the next one. It follows from what is recorded, whoever has it and since when."""

from dataclasses import dataclass

import numpy as np

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.likelihood import Evaluation, Likelihood
from ebbtide.parts.staleness import WassersteinBudget
from ebbtide.study.course import Turn
from ebbtide.study.knowledge import Knowledge

LONGEST = 64  # asks from one anchor to the next, which also bounds rounding errors
DRIFT = 1e-8  # how far P may be from an inverse
LARGEST = 512 << 20  # bytes: a larger model is not kept between two asks


@dataclass
class Warm:
    """A model, and the turns that it has been through. Its rows have their lines for labels."""

    model: Incremental
    hyper: Hyperparameters
    turns: tuple[Turn, ...] = ()

    def come(self, known: Knowledge, told: int) -> None:
        """Add the lines that came until so many were told."""
        lines = known.lines_between(self.turns[-1].told, told)
        for line, x, t in zip(lines.tolist(), *known.inputs_of(lines), strict=True):
            self.model.add(x, t, line)

    def go(self, turn: Turn) -> None:
        """Remove the lines of a turn, which is now complete."""
        if turn.removed:
            order = np.argsort(self.model.labels)
            self.model.remove(order[np.searchsorted(self.model.labels[order], turn.removed)].tolist())
        self.turns = (*self.turns, turn)

    def rows(self, known: Knowledge) -> Rows:
        """The active rows, in the order of the model."""
        rows: Rows = np.searchsorted(known.active.lines, self.model.labels)
        return rows

    @property
    def is_accurate(self) -> bool:
        return self.model.drift() <= DRIFT


def caught_up(known: Knowledge, warm: Warm | None) -> Warm | None:
    """The model that the last ask left behind, from whatever is still warm; None if the next ask must make one."""
    course, hyper = known.course, known.state.hyper
    if course is None or hyper is None:
        return None
    try:
        if warm is None or warm.hyper != hyper or warm.turns != course.turns[: len(warm.turns)]:
            warm = _anchor_again(known, hyper, course.turns[0])
        for turn in course.turns[len(warm.turns) :]:
            warm.come(known, turn.told)
            warm.go(turn)
    except NumericalError:
        return None
    return warm


def is_affordable(fitted: Evaluation) -> bool:
    """Whether a model is small enough to be kept: P, Δ, C_S and a matrix for each parameter but scale and noise."""
    return 8 * len(fitted.alpha) ** 2 * (len(fitted.theta) + 1) <= LARGEST


def anchored(known: Knowledge, fitted: Evaluation, lines: Rows) -> Warm:
    """A model made afresh, which carries along the form of the criterion that the algorithm needs."""
    model = Incremental(fitted, lines)
    if isinstance(policy := known.algorithm.staleness, WassersteinBudget):
        model.carry(policy.method)
    return Warm(model, fitted.hyperparameters)


def _anchor_again(known: Knowledge, hyper: Hyperparameters, anchor: Turn) -> Warm:
    """The model as the anchor left it."""
    lines = known.lines_between(0, anchor.told)
    X, t = known.inputs_of(lines)
    # From the hyperparameters themselves: the exponentials of their logarithms may differ in the last digit.
    fitted = Evaluation(Likelihood(known.families, X, t, np.zeros(len(lines))), hyper)
    warm = anchored(known, fitted, lines)
    warm.go(anchor)
    return warm
