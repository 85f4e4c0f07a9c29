"""What an ask has computed, before it is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.standardization import Standardization
from ebbtide.guards import Guard
from ebbtide.parts.staleness import Verdict
from ebbtide.records import Kind, changed
from ebbtide.space import Params
from ebbtide.study.state import State

RESPONSES = 9  # response times whose median is the expected one


@dataclass
class Step:
    """What an ask has computed; recorded only when all of it has succeeded."""

    x: Array = field(default_factory=lambda: np.empty(0))
    kind: Kind = "explore"
    params: Params | None = None  # a setting that was given, instead of x
    z: Array = field(default_factory=lambda: np.empty(0))  # the standardised values of the rows that are modelled
    hyper: Hyperparameters | None = None
    standardization: Standardization | None = None
    policy: dict[str, float] | None = None
    timing: dict[str, float] | None = None
    wait: float | None = None  # a time after the landing, if the timing chose one
    behind_since: int | None = None
    clock_was_wrong: bool = False  # when the latest reading was noted, which is therefore forgotten
    guards: tuple[Guard, ...] = ()
    outcomes: dict[str, Any] | None = None  # models of the values under a constraint
    level: dict[str, float] | None = None
    modelled: bool = False  # whether the model was needed at all; if so, which ask it is anchored at:
    anchor: int | None = None
    family: dict[str, Any] | None = None  # of a look at the siblings; None: nobody has looked
    rows: list[int] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)

    def remove(self, rows: Rows, scores: Sequence[float | None]) -> None:
        self.rows += rows.tolist()
        self.scores += scores

    def after(self, state: State, now: float, landed: float) -> State:
        """The state that this step leaves behind."""
        guards = dict(state.guards)
        for guard in self.guards:
            guards[guard] = guards.get(guard, 0) + 1
        latest = None if self.clock_was_wrong else state.latest_reading
        return changed(
            state,
            latest_reading=landed if latest is None else max(latest, landed),
            asks=state.asks + 1,
            hyper=self.hyper or state.hyper,
            standardization=self.standardization or state.standardization,
            policy=state.policy if self.policy is None else self.policy,
            timing=state.timing if self.timing is None else self.timing,
            behind_since=self.behind_since,
            guards=guards,
            outcomes=state.outcomes if self.outcomes is None else self.outcomes,
            level=state.level if self.level is None else self.level,
            anchor=self.anchor if self.modelled or self.rows else state.anchor,
            family=state.family if self.family is None else self.family,
            latest={} if "clock_went_back" in self.guards else state.latest,
            responses=[*state.responses, max(0.0, landed - now)][-RESPONSES:],
        )


def checked_verdict(verdict: Verdict, n: int) -> tuple[list[int], list[float | None]]:
    """The rows and scores of a policy, which may be the user's own."""
    if not isinstance(verdict, Verdict):
        raise ConfigurationError(f"the staleness policy returned {verdict!r}: return an eb.Verdict")
    rows, scores = list(verdict.rows), list[float | None](verdict.scores)
    if len(set(rows)) < len(rows) or not all(is_whole(row) and 0 <= row < n for row in rows):
        raise ConfigurationError(
            f"the staleness policy removed the rows {rows}: return numbers from 0 to {n - 1}, each at most once"
        )
    if len(scores) not in (0, len(rows)) or not all(as_finite(score) is not None for score in scores):
        raise ConfigurationError(
            f"the staleness policy scored {len(rows)} rows {scores}: return one finite number per row, or none at all"
        )
    return rows, scores or [None] * len(rows)


def checked_memory(memory: Any, owner: str) -> dict[str, float]:
    """What a part wants to remember; a snapshot must be able to hold it."""
    pairs: list[tuple[Any, Any]] = list(memory.items()) if isinstance(memory, dict) else [(None, None)]
    if not all(isinstance(key, str) and as_finite(value) is not None for key, value in pairs):
        raise ConfigurationError(f"the {owner} wants to remember {memory!r}: return a dict of names and finite numbers")
    return {key: float(value) for key, value in pairs}
