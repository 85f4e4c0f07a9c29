"""The models of the last ask, kept for the next one. They follow from what is recorded, whoever has them.

There is one of the objective and one of each value under a constraint. All are made afresh in the same ask, their
*anchor*, and then go through the same turns; a row that lacks a value is not in its model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Mask, Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.likelihood import Evaluation, Likelihood
from ebbtide.parts.staleness import WassersteinBudget
from ebbtide.study.course import Turn
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.state import State, tuples

DRIFT = 1e-8  # how far P may be from an inverse
LARGEST = 512 << 20  # bytes: larger models are not kept between two asks

Held = dict[str | None, Hyperparameters]  # by constraint; None: of the objective


@dataclass
class Warm:
    """Models, and the turns that they have been through. Their rows have their lines for labels."""

    models: dict[str | None, Incremental]  # as in `Held`
    held: Held
    turns: tuple[Turn, ...] = ()

    @property
    def model(self) -> Incremental:
        """That of the objective."""
        return self.models[None]

    def come(self, known: Knowledge, told: int) -> None:
        """Add the lines that came until so many were told."""
        lines, X, t = known.inputs_between(self.turns[-1].told, told)
        if not len(lines):
            return
        for name, model in self.models.items():
            has = _has(known, name, lines).tolist()
            for x, moment, label in compress(zip(X, t, lines.tolist(), strict=True), has):
                model.add(x, moment, label)

    def go(self, turn: Turn) -> None:
        """Remove the lines of a turn, which is now complete."""
        for model in self.models.values() if turn.removed else ():
            # In the order of the turn. Few lines go, so comparing them with all costs less than a search.
            rows = (np.array(turn.removed)[:, None] == model.labels).nonzero()[1]
            if len(rows):
                model.remove(rows.tolist())
        self.turns = (*self.turns, turn)

    def rows(self, known: Knowledge, name: str | None = None) -> Rows:
        """The active rows, in the order of a model."""
        return known.active.lines.searchsorted(self.models[name].labels)

    @property
    def nbytes(self) -> int:
        """How much memory the models take."""
        return sum(model.nbytes for model in self.models.values())

    @property
    def is_accurate(self) -> bool:
        return all(model.drift() <= DRIFT for model in self.models.values() if len(model))


@dataclass
class Anchor:
    """What an ask has fitted afresh, from which later asks may go on. A value that no row has yet has no model."""

    held: Held = field(default_factory=dict)
    fitted: dict[str | None, Evaluation] = field(default_factory=dict)
    lines: dict[str | None, Rows] = field(default_factory=dict)

    def add(self, name: str | None, fitted: Evaluation, lines: Rows) -> None:
        self.held[name], self.fitted[name], self.lines[name] = fitted.hyperparameters, fitted, lines

    @property
    def is_sound(self) -> bool:
        """Whether no matrix needed jitter, and all are small enough to be kept: P, Δ, C_S and one per parameter."""
        size = sum(8 * len(each.alpha) ** 2 * (len(each.theta) + 1) for each in self.fitted.values())
        return size <= LARGEST and not any(each.factor.jitter_rungs for each in self.fitted.values())

    def warm(self, known: Knowledge) -> Warm:
        """The models, which carry along the form of the criterion that the algorithm needs."""
        models = {name: Incremental(fitted, self.lines[name]) for name, fitted in self.fitted.items()}
        if isinstance(policy := known.algorithm.staleness, WassersteinBudget):
            for model in models.values():
                model.carry(policy.method)
        return Warm(models, self.held)


def caught_up(known: Knowledge, warm: Warm | None) -> Warm | None:
    """The models that the last ask left behind, from whatever is still warm; None if the next ask must make them."""
    course, held = known.course, held_by(known.state)
    if course is None or None not in held:
        return None
    try:
        if warm is None or warm.held != held or warm.turns != course.turns[: len(warm.turns)]:
            warm = _anchor_again(known, held, course.turns[0])
        for turn in course.turns[len(warm.turns) :]:
            warm.come(known, turn.told)
            warm.go(turn)
    except NumericalError:
        return None
    return warm


def held_by(state: State) -> Held:
    """The hyperparameters that a state holds, of every model that has been fitted."""
    held: Held = {} if state.hyper is None else {None: state.hyper}
    for name, outcome in state.outcomes.items():
        if outcome["hyper"] is not None:
            held[name] = outcome_hyper(outcome["hyper"])
    return held


def outcome_hyper(stored: Mapping[str, object]) -> Hyperparameters:
    """Hyperparameters as the state has them for a value under a constraint."""
    return Hyperparameters(**{key: tuples(value) for key, value in stored.items()})


def _anchor_again(known: Knowledge, held: Held, turn: Turn) -> Warm:
    """The models as the anchor left them."""
    (lines, X, t), anchor = known.inputs_between(0, turn.told), Anchor(held)
    for name, hyper in held.items():
        has = _has(known, name, lines)
        if has.any():
            families = known.families.of(hyper)
            # From the hyperparameters themselves: the exponentials of their logarithms may differ in the last digit.
            fitted = Evaluation(Likelihood(families, X[has], t[has], np.zeros(int(has.sum()))), hyper)
            anchor.add(name, fitted, lines[has])
    warm = anchor.warm(known)
    warm.go(turn)
    return warm


def _has(known: Knowledge, name: str | None, lines: Rows) -> Mask:
    """Which lines belong into a model."""
    if name is None:
        return np.ones(len(lines), dtype=bool)
    has: Mask = known.measured(lines)[:, list(known.definition.conditions.constraints).index(name)]
    return has
