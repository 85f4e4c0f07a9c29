"""The numbers of the figures, as JSON: only what a page shows."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite, sqrt
from typing import Any

import numpy as np

from ebbtide import wire
from ebbtide.dashboard.excerpt import Excerpt, thinned
from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.dashboard.maps import COLUMNS, Choice, map_of
from ebbtide.dashboard.numbers import short
from ebbtide.errors import NumericalError, SnapshotError
from ebbtide.gp.arrays import Array
from ebbtide.guards import MEANING
from ebbtide.records import Observation
from ebbtide.study.advice import advice
from ebbtide.study.conditions import Conditions
from ebbtide.study.gain import AROUND, COMPARED, gain
from ebbtide.study.limits import AtLeast, AtMost
from ebbtide.study.reads import cycles_of
from ebbtide.study.state import State
from ebbtide.study.storage import Storage, StoredLog, Summary

AHEAD = 0.06  # how far a figure looks ahead, as a share of the time shown
MAX_MODELLED = 2000  # active observations; a model of more would take too long to draw
MAX_FOLLOWED = 32  # studies
TRAIL = 64  # past recommendations on a map,
TRAIL_AT_ONCE = 8  # and how many are computed per call, so that no other viewer waits long


class Views:
    """The views of the studies in a database, each of which is followed from its first view on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._followed: OrderedDict[int, FollowedStudy] = OrderedDict()

    def study(
        self,
        name: str,
        last: int | None,
        parameter: str | None,
        across: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Everything on the page of a study except the trail; the map is as chosen (see `Choice`)."""
        with self.storage.database.reading():  # as of one moment
            summary = self.storage.summary(name)
            choice = Choice.of(summary.definition, parameter, across, context)
            log = self.storage.log(name)
            followed, why = self._follow(name)
            active = log.numbered(followed.engine.active.lines.tolist()) if followed and not why else {}
            excerpt = Excerpt.of(log, summary, last, active)
            compared = None if summary.definition["baseline"] is None else _gain(log, summary)
        conditions = Conditions.from_json(summary.definition)
        fitted = [ask.state.hyper for ask in excerpt.asks if ask.state.hyper is not None]
        shown = {
            "study": wire.study(summary),
            "stride": excerpt.lines.step,
            "observations": _observations(excerpt.observations, summary.definition["space"], conditions),
            "asks": _asks(excerpt),
            "cycles": {} if not fitted else cycles_of(fitted[-1], conditions),
            "advice": [] if followed is None else advice(followed.engine),
            "gain": compared,
            "siblings": _siblings(followed),
        }
        if followed is None or why is not None:
            return shown | {"model": None, "why": why}
        try:
            return shown | {"model": _model(followed, excerpt, active, choice), "why": why}
        except NumericalError as error:
            return shown | {"model": None, "why": f"The model cannot be computed: {error}"}

    def trail(self, name: str, last: int | None) -> dict[str, Any]:
        """Past recommendations; `missing` are still to be computed, by calling again."""
        with self.storage.database.reading():
            followed, why = self._follow(name)
            if followed is None or why is not None:
                return {"missing": 0, "time": [], "params": {}}
            excerpt = Excerpt.of(followed.log, self.storage.summary(name), last, ())
            modelled = [ask for ask in excerpt.asks if ask.state.hyper is not None]
            numbers = [int(ask.trial.id) for ask in modelled]
            wanted = set(thinned(numbers[0], numbers[-1] + 1, TRAIL)) if numbers else set()
            asks = [ask for ask, number in zip(modelled, numbers, strict=True) if number in wanted]
            unknown = [ask for ask in asks if followed.recommended(int(ask.trial.id)) is None]
            newest = unknown[-TRAIL_AT_ONCE:]
            if newest:
                followed.recommend_after(newest)
        known = [best for ask in asks if (best := followed.recommended(int(ask.trial.id))) is not None]
        names = followed.engine.space.parameters
        return {
            "missing": len(unknown) - len(newest),
            "time": [best.time for best in known],
            "params": {name: [best.params[name] for best in known] for name in names},
        }

    def _follow(self, name: str) -> tuple[FollowedStudy | None, str | None]:
        """A study, or None if its algorithm is not known here; and why the page shows no model."""
        study = self.storage.identify(name)
        followed = self._followed.pop(study, None)
        try:
            if followed is None:
                followed = FollowedStudy(self.storage.log(name))
                self._drop_deleted()
            else:
                followed.catch_up()
        except SnapshotError as error:
            return None, f"The model cannot be drawn here: {error}"
        self._followed[study] = followed  # the one used last
        while len(self._followed) > MAX_FOLLOWED:
            self._followed.popitem(last=False)
        n = len(followed.engine.active)
        if n > MAX_MODELLED:
            why = (
                f"A model of {n:,} observations takes too long to draw; an algorithm that forgets (W-DBO) keeps fewer."
            )
            return followed, why
        if n == 0:
            return followed, "Nothing is known yet, because no value was told, so nothing can be recommended."
        return followed, None

    def _drop_deleted(self) -> None:
        stored = set(self.storage.numbers())
        self._followed = OrderedDict((study, each) for study, each in self._followed.items() if study in stored)


def _siblings(followed: FollowedStudy | None) -> int | None:
    """How many the prior of the last ask was learned from; None if that is not known here."""
    if followed is None:
        return None
    family = followed.engine.family
    return 0 if family is None else family.siblings


# --- the log ------------------------------------------------------------------------------------------------------


def _observations(
    observations: Mapping[int, Observation], names: Iterable[str], conditions: Conditions
) -> dict[str, Any]:
    told = list(observations.values())
    return {
        "line": list(observations),
        "time": [o.time for o in told],
        "value": short(o.value for o in told),
        "kind": [o.kind for o in told],
        "abandoned": [o.abandoned for o in told],
        "active": [o.active for o in told],
        "removed_at": [o.removed_at for o in told],
        "relevance": short(o.relevance for o in told),
        "params": {name: [o.params[name] for o in told] for name in names},
        "context": {name: _measured(name, told) for name in conditions.variables},
        "constraints": {name: _limited(name, limit, told) for name, limit in conditions.constraints.items()},
    }


def _measured(name: str, told: Sequence[Observation]) -> dict[str, Any]:
    """A variable of the context; `filled` if it was not measured, but taken from earlier, None if neither."""
    return {
        "value": [None if o.context is None else o.context[name] for o in told],
        "filled": [None if o.context is None else name in o.filled for o in told],
    }


def _limited(name: str, limit: AtMost | AtLeast, told: Sequence[Observation]) -> dict[str, Any]:
    """The values that are under a constraint, and which of them break it."""
    values = [(o.constraints or {}).get(name) for o in told]
    return {"value": short(values), "broken": [value is not None and limit.is_broken(value) for value in values]}


def _asks(excerpt: Excerpt) -> dict[str, Any]:
    fitted = [ask.state.hyper for ask in excerpt.asks]
    noise = [_noise(ask.state) for ask in excerpt.asks]
    return {
        "time": [ask.now for ask in excerpt.asks],
        "active": excerpt.active,
        "removed": excerpt.removed,
        "response": short(max(0.0, ask.landed - ask.now) for ask in excerpt.asks),
        "timescale": short(None if hyper is None else hyper.timescale for hyper in fitted),
        "lengthscale": _columns([None if hyper is None else hyper.lengthscale for hyper in fitted]),
        "context": _columns([None if hyper is None else hyper.context for hyper in fitted]),
        "noise": short(noise),
    }


def _noise(state: State) -> float | None:
    """The deviation of the noise in the objective's unit; of transformed values, where they are usual."""
    if state.hyper is None:
        return None
    _, deviation = state.standardization.back(np.zeros(1), np.array([sqrt(state.hyper.noise)]))
    return float(deviation[0])


def _columns(fitted: Sequence[float | tuple[float, ...] | None]) -> list[list[float | None]]:
    """Lengthscales: one per coordinate, or one for all; None where nothing was fitted yet."""
    rows = [() if each is None else each if isinstance(each, tuple) else (each,) for each in fitted]
    width = max(map(len, rows), default=0)
    return [short(part) for part in zip(*(row or (None,) * width for row in rows), strict=True)]


def _gain(log: StoredLog, summary: Summary) -> dict[str, Any] | None:
    """The gain over the baseline; None while there is too little to compare."""
    found = gain(log.baseline_and_holds(COMPARED, AROUND), summary.definition["direction"])
    return None if found is None else asdict(found) | {"relative": found.relative}


# --- the model ----------------------------------------------------------------------------------------------------


def _model(
    followed: FollowedStudy, excerpt: Excerpt, active: Mapping[int, Observation], choice: Choice
) -> dict[str, Any]:
    engine, now = followed.engine, followed.moment
    context = followed.coordinates(followed.context)
    best = engine.recommend(now, context)
    if not isfinite(best.mean):
        raise NumericalError("the values told are too large for a finite mean")
    times = _times(excerpt, now)
    mean, std = engine.field([best.params], times, now, context)
    return {
        "recommendation": wire.recommendation(best),
        "prediction": {"time": times.tolist(), "mean": short(mean[:, 0].tolist()), "std": short(std[:, 0].tolist())},
        "context": {
            name: {"value": engine.state.latest[name][-1], "time": engine.state.latest[name][0]}
            for name in followed.context
        },
        "map": map_of(followed, best, choice, times, now, active.values()),
        "relevance": _relevance(followed, active, now),
        "guards": engine.state.guards,
        "meanings": {name: text for name, text in MEANING.items() if name in engine.state.guards},
    }


def _times(excerpt: Excerpt, now: float) -> Array:
    earliest = min((o.time for o in excerpt.observations.values()), default=now)
    first = earliest if earliest < now else now - 1.0
    return np.linspace(first, now + AHEAD * (now - first), COLUMNS)


def _relevance(followed: FollowedStudy, active: Mapping[int, Observation], now: float) -> dict[str, Any] | None:
    """How much each active observation still matters, and when it is expected to be removed, if that is foreseen; None
    if the model has no kernel in time.
    """
    engine = followed.engine
    if engine.algorithm.temporal is None:
        return None
    scores = engine.relevance(now) if active else np.empty(0)  # in the order of the lines
    departures = engine.departures(now) if active else None
    leaves = np.full(len(active), np.inf) if departures is None else departures
    return _observations(active, engine.space.parameters, engine.definition.conditions) | {
        "score": short(scores.tolist()),
        "leaves": [time if np.isfinite(time) else None for time in leaves.tolist()],
    }
