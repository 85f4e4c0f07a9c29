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
from ebbtide.gp.inference import MIN_ROWS, fit
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.parts.feasibility import Feasibility, calibrated, first_level
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.state import tuples

IN_TURN = 5  # asks between two fits of the same value, as the hyperparameters hardly change meanwhile
SEARCH_EVERY = 3  # of these fits, one searches from scratch
SPREAD = 256  # random places among which the safest is looked for
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

    def without(self, gone: Rows) -> "Outcome":
        """The model without these active rows."""
        numbers = np.flatnonzero(np.isin(self.rows, gone)).tolist()
        return replace(
            self,
            rows=np.delete(self.rows, numbers),
            posterior=self.posterior.without(numbers),
            excess=np.delete(self.excess, numbers),
        )

    def to_json(self) -> dict[str, Any]:
        """What the next ask starts from."""
        return {
            "hyper": None if self.hyper is None else asdict(self.hyper),
            "unit": self.unit,
            "policy": self.policy,
        }


def modelled(known: Knowledge, rows: Rows, rng: np.random.Generator | None = None) -> list[Outcome]:
    """The models of all values under a constraint, from these active rows.

    For an ask, which gives its `rng`, they are fitted in turn; others are conditioned on what was told since.
    """
    return [_modelled(known, number, rows, rng) for number in range(len(known.definition.conditions.constraints))]


def _modelled(known: Knowledge, number: int, rows: Rows, rng: np.random.Generator | None) -> Outcome:
    name, limit = list(known.definition.conditions.constraints.items())[number]
    data = known.active.dataset
    rows = rows[np.isfinite(data.outcomes[rows, number])]
    excess = limit.excess(data.outcomes[rows, number])
    held: Mapping[str, Any] = known.state.outcomes.get(name) or {"hyper": None, "unit": 0.0, "policy": {}}
    hyper = None if held["hyper"] is None else Hyperparameters(**{k: tuples(v) for k, v in held["hyper"].items()})
    turn, asks = rng is not None and known.state.asks % IN_TURN == number % IN_TURN, known.state.asks // IN_TURN
    fits = rng is not None and (turn or hyper is None)
    unit = _unit(excess) if fits or not held["unit"] else held["unit"]
    excess = np.clip(excess / unit, -LARGEST, LARGEST)
    start = hyper or known.default_hyperparameters()
    inputs = (known.inputs(data.take(rows)), known.axis.rows(rows), excess)
    if rng is None or not fits or len(rows) < MIN_ROWS:
        posterior = condition(start.kernel(*known.families), start.noise, *inputs)
    else:
        fitted = fit(
            known.families, start, inputs, known.prior(), search=hyper is None or asks % SEARCH_EVERY == 0, rng=rng
        )
        hyper, posterior = fitted.hyper, fitted.posterior
    return Outcome(name, rows, posterior, excess, hyper, unit, dict(held["policy"]))


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
    """A start setting that is more likely than not to meet the constraints; otherwise the likeliest place in sight."""
    bounds = known.bounds
    starts = [known.space.encode(setting) for setting in known.definition.live.start]
    spread = known.space.spread(rng.random((SPREAD, known.space.dim)))
    places = np.vstack([np.reshape(starts, (-1, known.space.width)), x[None], measured, spread])
    places = places if bounds is None else np.clip(places, *bounds)
    log_p = constraints.log_probability(places)
    known_good = int(np.argmax(log_p[: len(starts)])) if starts else 0
    if starts and log_p[known_good] >= np.log(0.5):
        good: Array = places[known_good]
        return good
    best: Array = places[int(np.argmax(log_p))]
    return best
