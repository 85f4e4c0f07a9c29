"""The values under a constraint: one process each, over the same settings, contexts and times as the objective.

Each is modelled as the excess over its limit in its own unit: at most 0 is fine, and where nothing was measured it is
0, as likely fine as not. So only what was learned makes a place acceptable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.inference import MIN_ROWS, Standing, fit, reconsidered
from ebbtide.gp.likelihood import Evaluation, Likelihood
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.parts.feasibility import Feasibility, calibrated, first_level
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.schedule import is_searching
from ebbtide.study.warm import Anchor, Warm, outcome_hyper

IN_TURN = 5  # asks between two looks whether the hyperparameters of the same value still fit
SPREAD = 256  # random places among which the safest is looked for
DOUBTFUL = 0.4  # probability of meeting a constraint; it is 0.5 where nothing is known, or no longer
LARGEST = 5.0  # excess in its own unit: how far beyond a limit does not matter, and must not flatten the model


@dataclass(frozen=True)
class Outcome:
    """The model of one value under a constraint; `rows` are those of the active set that have it."""

    name: str
    rows: Rows
    posterior: Posterior
    excess: Array
    hyper: Hyperparameters | None = None
    unit: float = 1.0
    policy: dict[str, float] = field(default_factory=dict)  # what the staleness policy remembers for it
    carried: Incremental | None = None  # the model that the posterior is of, if it is kept between two asks

    def without(self, gone: Rows) -> "Outcome":
        """The model without these active rows."""
        numbers = np.flatnonzero(np.isin(self.rows, gone)).tolist()
        return replace(
            self,
            rows=np.delete(self.rows, numbers),
            posterior=self.posterior.without(numbers),
            excess=np.delete(self.excess, numbers),
            carried=None,
        )

    def to_json(self) -> dict[str, Any]:
        """What the next ask starts from."""
        hyper = None if self.hyper is None else asdict(self.hyper)
        if hyper is not None:
            del hyper["jumps"]  # only the objective is asked whether it jumps
        return {
            "hyper": hyper,
            "unit": self.unit,
            "policy": self.policy,
        }


class Outcomes:
    """The values under a constraint, and what the last ask has left of their models."""

    def __init__(self, known: Knowledge) -> None:
        self.known, self.limits = known, known.definition.conditions.constraints

    def conditioned(self, rows: Rows) -> list[Outcome]:
        """The models of these active rows, with the hyperparameters that are held."""
        return [self._conditioned(name, rows) for name in self.limits]

    def carried(self, warm: Warm) -> list[Outcome]:
        """The same, from models that were kept."""
        return [self._carried(name, warm) for name in self.limits]

    def after(self, outcome: Outcome, warm: Warm) -> Outcome:
        """A model after rows have gone."""
        return replace(self._carried(outcome.name, warm, outcome.unit), hyper=outcome.hyper, policy=outcome.policy)

    def unfit(self, outcomes: Sequence[Outcome], rng: np.random.Generator) -> dict[str, Array | None]:
        """The values whose hyperparameters no longer fit, and what a search has found for them, if it has."""
        found = {}
        for number, outcome in enumerate(outcomes):
            fresh, fits = self._reconsidered(number, outcome, rng)
            if not fits:
                found[outcome.name] = fresh
        return found

    def fitted(
        self, rows: Rows, unfit: Mapping[str, Array | None] | None, rng: np.random.Generator, anchor: Anchor
    ) -> list[Outcome]:
        """Models made afresh from these active rows. Those named in `unfit` are fitted, or in turn if it is None."""
        return [self._fitted(number, name, rows, unfit, rng, anchor) for number, name in enumerate(self.limits)]

    def _held(self, name: str) -> tuple[Hyperparameters | None, float, dict[str, float]]:
        """Hyperparameters, unit, and what the staleness policy remembers."""
        held: Mapping[str, Any] = self.known.state.outcomes.get(name) or {"hyper": None, "unit": 0.0, "policy": {}}
        hyper = None if held["hyper"] is None else outcome_hyper(held["hyper"])
        return hyper, held["unit"], dict(held["policy"])

    def _excess(self, name: str, rows: Rows) -> Array:
        """By how much values break the limit; NaN where none was told."""
        column = self.known.active.dataset.outcomes[rows, list(self.limits).index(name)]
        return self.limits[name].excess(column)

    def _conditioned(self, name: str, rows: Rows) -> Outcome:
        known, (hyper, unit, policy) = self.known, self._held(name)
        rows, excess = _told(rows, self._excess(name, rows))
        unit = unit or _unit(excess)
        excess = _in_unit(excess, unit)
        start = hyper or known.default_hyperparameters()
        X, t = known.inputs(known.active.dataset.take(rows)), known.axis.rows(rows)
        posterior = condition(known.families.kernel(start), start.noise, X, t, excess)
        return Outcome(name, rows, posterior, excess, hyper, unit, policy)

    def _carried(self, name: str, warm: Warm, unit: float | None = None) -> Outcome:
        if name not in warm.models:  # it was told too rarely
            return self._conditioned(name, warm.rows(self.known))
        hyper, held_unit, policy = self._held(name)
        unit = held_unit if unit is None else unit
        rows, model = warm.rows(self.known, name), warm.models[name]
        excess = _in_unit(self._excess(name, rows), unit)
        return Outcome(name, rows, model.posterior(excess), excess, hyper, unit, policy, model)

    def _reconsidered(self, number: int, outcome: Outcome, rng: np.random.Generator) -> tuple[Array | None, bool]:
        model, hyper = outcome.carried, outcome.hyper
        if model is None or hyper is None:
            return None, len(outcome.rows) < MIN_ROWS
        looking, searching = self._due(number)
        standing = Standing(model, outcome.excess, outcome.posterior.alpha)
        return reconsidered(standing, hyper, self.known.prior(), rng, looking=looking, searching=searching)

    def _due(self, number: int) -> tuple[bool, bool]:
        """Whether this ask looks at the hyperparameters of a value, and whether it searches for better ones."""
        return self.known.state.asks % IN_TURN == (number + 1) % IN_TURN, is_searching(self.known)

    def _fitted(
        self,
        number: int,
        name: str,
        rows: Rows,
        unfit: Mapping[str, Array | None] | None,
        rng: np.random.Generator,
        anchor: Anchor,
    ) -> Outcome:
        known, (hyper, unit, policy) = self.known, self._held(name)
        rows, excess = _told(rows, self._excess(name, rows))
        looking, searching = self._due(number)
        due = hyper is None or (looking or searching if unfit is None else name in unfit)
        if len(rows) < MIN_ROWS and (due or not len(rows)):
            return self._conditioned(name, rows)
        unit = _unit(excess) if due or not unit else unit
        excess = _in_unit(excess, unit)
        values = (known.inputs(known.active.dataset.take(rows)), known.axis.rows(rows), excess)
        if due:
            fresh = None if unfit is None else unfit.get(name)
            start, search = hyper or known.default_hyperparameters(), hyper is None or (searching and fresh is None)
            found = fit(known.families, start, values, known.prior(), search=search, rng=rng, fresh=fresh)
            hyper, posterior, evaluation = found.hyper, found.posterior, found.evaluation
        elif hyper is not None:
            evaluation = Evaluation(Likelihood(known.families, *values), hyper)
            posterior = evaluation.posterior()
        if evaluation is not None:
            anchor.add(name, evaluation, known.active.lines[rows])
        return Outcome(name, rows, posterior, excess, hyper, unit, policy)


def _told(rows: Rows, excess: Array) -> tuple[Rows, Array]:
    """Without the rows that lack the value."""
    told = np.isfinite(excess)
    return rows[told], excess[told]


def _in_unit(excess: Array, unit: float) -> Array:
    return np.clip(excess / unit, -LARGEST, LARGEST)


def _unit(excess: Array) -> float:
    """The typical distance from the limit."""
    typical = float(np.sqrt(np.mean(np.square(excess)))) if len(excess) else 0.0
    return typical if np.isfinite(typical) and typical > 0.0 else 1.0


def feasibility(
    known: Knowledge, outcomes: Sequence[Outcome], time: float, context: Array | None
) -> Feasibility | None:
    """Where the constraints are met at this time and in this context; None without constraints."""
    if not outcomes:
        return None
    moments = [outcome.posterior.at(known.axis.place(time), context) for outcome in outcomes]
    return Feasibility(moments, level(known)["odds"])


def level(known: Knowledge) -> dict[str, float]:
    """The level that is required now, and the counts that it follows from; an ask records it."""
    rate = known.definition.conditions.violation_rate
    before = known.state.level or {"odds": first_level(rate), "kept": 0, "broken": 0}
    counts = known.active.broken
    now = {"kept": counts.get(0, 0), "broken": sum(counts.values()) - counts.get(0, 0)}
    # A dashboard that looks back at an ask knows only what the ask recorded: then nothing is new.
    new = {word: max(0, now[word] - int(before[word])) for word in now}
    return {"odds": calibrated(before["odds"], new["broken"], new["kept"], rate), **now}


def safest(constraints: Feasibility, x: Array, known: Knowledge, measured: Array, rng: np.random.Generator) -> Array:
    """A start setting, unless it seems to break a constraint; otherwise the likeliest place in sight."""
    bounds = known.bounds
    starts = [known.space.encode(setting) for setting in known.definition.live.start]
    spread = known.space.spread(rng.random((SPREAD, known.space.dim)))
    places = np.vstack([np.reshape(starts, (-1, known.space.width)), x[None], measured, spread])
    places = places if bounds is None else np.clip(places, *bounds)
    log_p = constraints.log_probability(places)
    known_good = int(np.argmax(log_p[: len(starts)])) if starts else 0
    if starts and log_p[known_good] >= len(constraints.outcomes) * np.log(DOUBTFUL):
        good: Array = places[known_good]
        return good
    best: Array = places[int(np.argmax(log_p))]
    return best
