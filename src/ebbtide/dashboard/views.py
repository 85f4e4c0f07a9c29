"""The numbers of the figures, as JSON: only what a page shows."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import ceil, inf, isfinite, log10, sqrt
from typing import Any

import numpy as np

from ebbtide import wire
from ebbtide.dashboard.excerpt import Excerpt, thinned
from ebbtide.dashboard.followed import FollowedStudy
from ebbtide.errors import ConfigurationError, NumericalError, SnapshotError
from ebbtide.gp.arrays import Array
from ebbtide.gp.likelihood import Hyperparameters
from ebbtide.guards import MEANING
from ebbtide.records import Observation, Recommendation
from ebbtide.space import Categorical, Int, Parameter
from ebbtide.space.parameter import OneColumn
from ebbtide.space.scales import Evenly
from ebbtide.study.advice import advice
from ebbtide.study.gain import AROUND, COMPARED, gain
from ebbtide.study.state import State
from ebbtide.study.storage import SqliteLog, Storage, Summary

COLUMNS, ROWS = 72, 40  # of a map
AHEAD = 0.06  # how far a figure looks ahead, as a share of the time shown
MAX_MODELLED = 2000  # active observations; a model of more would take too long to draw
MAX_DIGITS = 15
MAX_FOLLOWED = 32  # studies
TRAIL = 64  # past recommendations on a map,
TRAIL_AT_ONCE = 8  # and how many are computed per call, so that no other viewer waits long


class Views:
    """The views of the studies in a database, each of which is followed from its first view on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._followed: OrderedDict[int, FollowedStudy] = OrderedDict()

    def study(self, name: str, last: int | None, parameter: str | None) -> dict[str, Any]:
        """Everything on the page of a study except the trail."""
        with self.storage.database.reading():  # as of one moment
            summary = self.storage.summary(name)
            if parameter is not None and parameter not in summary.definition["space"]:
                raise ConfigurationError(
                    f"parameter={parameter!r}: choose one of {', '.join(summary.definition['space'])}"
                )
            log = self.storage.log(name)
            followed, why = self._follow(name)
            active = log.numbered(followed.engine.active.lines.tolist()) if followed and not why else {}
            excerpt = Excerpt.of(log, summary, last, active)
            compared = None if summary.definition["baseline"] is None else _gain(log, summary)
        shown = {
            "study": wire.study(summary),
            "stride": excerpt.lines.step,
            "observations": _observations(excerpt.observations, summary.definition["space"]),
            "asks": _asks(excerpt),
            "advice": [] if followed is None else advice(followed.engine),
            "gain": compared,
        }
        if followed is None or why is not None:
            return shown | {"model": None, "why": why}
        try:
            return shown | {"model": _model(followed, excerpt, active, parameter), "why": why}
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


# --- the log ------------------------------------------------------------------------------------------------------


def _observations(observations: Mapping[int, Observation], names: Iterable[str]) -> dict[str, Any]:
    told = observations.values()
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
    }


def _asks(excerpt: Excerpt) -> dict[str, Any]:
    fitted = [ask.state.hyper for ask in excerpt.asks]
    noise = [_noise(ask.state) for ask in excerpt.asks]
    return {
        "time": [ask.now for ask in excerpt.asks],
        "active": excerpt.active,
        "removed": excerpt.removed,
        "response": short(max(0.0, ask.landed - ask.now) for ask in excerpt.asks),
        "timescale": short(None if hyper is None else hyper.timescale for hyper in fitted),
        "lengthscale": [short(part) for part in zip(*_lengthscales(fitted), strict=True)],
        "noise": short(noise),
    }


def _noise(state: State) -> float | None:
    """The deviation of the noise in the objective's unit; of transformed values, where they are usual."""
    if state.hyper is None:
        return None
    _, deviation = state.standardization.back(np.zeros(1), np.array([sqrt(state.hyper.noise)]))
    return float(deviation[0])


def _lengthscales(fitted: Sequence[Hyperparameters | None]) -> list[tuple[float | None, ...]]:
    """One per coordinate, or one for all; None where nothing was fitted yet."""
    known = [None if hyper is None else hyper.lengthscale for hyper in fitted]
    as_tuples = [each if isinstance(each, tuple) else (each,) for each in known]
    width = max(map(len, as_tuples), default=0)
    return [each if len(each) == width else (None,) * width for each in as_tuples]


def _gain(log: SqliteLog, summary: Summary) -> dict[str, Any] | None:
    """The gain over the baseline; None while there is too little to compare."""
    found = gain(log.baseline_and_holds(COMPARED, AROUND), summary.definition["direction"])
    return None if found is None else asdict(found) | {"relative": found.relative}


# --- the model ----------------------------------------------------------------------------------------------------


def _model(
    followed: FollowedStudy, excerpt: Excerpt, active: Mapping[int, Observation], parameter: str | None
) -> dict[str, Any]:
    engine, now = followed.engine, followed.moment
    best = engine.recommend(now)
    if not isfinite(best.mean):
        raise NumericalError("the values told are too large for a finite mean")
    times = _times(excerpt, now)
    mean, std = engine.field([best.params], times, now)
    return {
        "recommendation": wire.recommendation(best),
        "prediction": {"time": times.tolist(), "mean": short(mean[:, 0].tolist()), "std": short(std[:, 0].tolist())},
        "map": _map(followed, best, parameter or next(iter(engine.space.parameters)), times, now),
        "relevance": _relevance(followed, active, now),
        "guards": engine.state.guards,
        "meanings": {name: text for name, text in MEANING.items() if name in engine.state.guards},
    }


def _times(excerpt: Excerpt, now: float) -> Array:
    earliest = min((o.time for o in excerpt.observations.values()), default=now)
    first = earliest if earliest < now else now - 1.0
    return np.linspace(first, now + AHEAD * (now - first), COLUMNS)


def _map(followed: FollowedStudy, best: Recommendation, name: str, times: Array, now: float) -> dict[str, Any]:
    """The posterior over time and one parameter, with the others at the current recommendation."""
    values = scale_of(followed.engine.space.parameters[name])
    points = [best.params | {name: value} for value in values]
    mean, std = followed.engine.field(points, times, now)
    return {
        "parameter": name,
        "time": times.tolist(),
        "value": values,
        "mean": _short_rows(mean.T),
        "std": _short_rows(std.T),
    }


def scale_of(parameter: Parameter) -> list[Any]:
    """Values of a parameter from one end of its range to the other."""
    match parameter:
        case Categorical():
            return list(parameter.choices)
        case OneColumn(scale=Evenly() as scale) if scale.count <= ROWS:
            return [scale.value(index) for index in range(scale.count)]
        case Int() if parameter.high - parameter.low < ROWS:
            return list(range(parameter.low, parameter.high + 1))
        case OneColumn():
            return list(dict.fromkeys(parameter.decode(np.array([u])) for u in np.linspace(0.0, 1.0, ROWS)))
    raise ConfigurationError(f"{parameter!r} cannot be drawn")


def _relevance(followed: FollowedStudy, active: Mapping[int, Observation], now: float) -> dict[str, Any] | None:
    """How much each active observation still matters; None if the model has no kernel in time."""
    engine = followed.engine
    if engine.algorithm.temporal is None:
        return None
    scores = engine.relevance(now) if active else np.empty(0)  # in the order of the lines
    return _observations(active, engine.space.parameters) | {"score": short(scores.tolist())}


def short(values: Iterable[float | None], kept: int | None = None) -> list[float | None]:
    """With as many digits as a figure can show; None for what is not finite."""
    given = [None if value is None or not isfinite(value) else value for value in values]
    kept = kept or digits(value for value in given if value is not None)
    return [None if value is None else _rounded(value, kept) for value in given]


def _rounded(value: float, kept: int) -> float:
    rounded = float(f"{value:.{kept}g}")
    return rounded if isfinite(rounded) else value  # the largest float cannot be rounded up


def _short_rows(matrix: Array) -> list[list[float | None]]:
    kept = digits(matrix[np.isfinite(matrix)].tolist())
    return [short(row, kept) for row in matrix.tolist()]


def digits(values: Iterable[float]) -> int:
    """How many digits it takes to tell the values apart, to six digits of their spread."""
    known = list(values)
    spread = max(known, default=0.0) - min(known, default=0.0)
    if not 0.0 < spread < inf:
        return MAX_DIGITS
    return min(MAX_DIGITS, 6 + max(0, ceil(log10(max(map(abs, known)) / spread))))
