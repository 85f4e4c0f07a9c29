"""Whether a study has a cycle that it was not told of."""

from weakref import WeakKeyDictionary

import numpy as np

from ebbtide.clock import DAY
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.periodogram import hidden_period
from ebbtide.gp.posterior import condition
from ebbtide.study.conditions import MAX_CYCLES
from ebbtide.study.engine import Engine

CERTAIN = 30  # values without which a cycle cannot be told from chance
NEWEST = 150  # values in which it is looked for
USUAL = {"minute": 60.0, "hour": 3600.0, "half_day": DAY / 2.0, "day": DAY, "week": 7.0 * DAY}  # periods, in seconds
NEAR = 0.05  # relative difference to a usual period, which is then meant

# What was found last, with the numbers of asks and tells then: who only looks again waits for nothing.
_found: WeakKeyDictionary[Engine, tuple[tuple[int, int], float | None]] = WeakKeyDictionary()


def unknown_cycle(engine: Engine) -> str | None:
    """What to say if the values come back with a period that the study was not told."""
    if engine.state.hyper is None or not engine.axis.is_clock or engine.active.values_told < CERTAIN:
        return None
    if len(cycles := engine.definition.conditions.cycles) >= MAX_CYCLES or (period := _period(engine)) is None:
        return None
    unit, about = " s" if engine.by_system_clock else "", float(f"{period:.3g}")
    given = {**cycles, **_suggested(about, seconds=engine.by_system_clock)}
    return (
        f"The values seem to come back every {about:g}{unit}: if you know of such a cycle, create the study with "
        f"cycles={given!r}, and what was learned in one period is used in the next. The period was estimated; give the "
        "true one if you know it."
    )


def _suggested(period: float, *, seconds: bool) -> dict[str, float]:
    """The cycle to give: a day rather than 86,212 s."""
    near = {name: usual for name, usual in USUAL.items() if seconds and abs(period / usual - 1.0) < NEAR}
    return near or {f"every_{period:g}": period}


def _period(engine: Engine) -> float | None:
    key = engine.state.asks, engine.active.told
    if engine not in _found or _found[engine][0] != key:
        _found[engine] = key, _searched(engine)
    return _found[engine][1]


def _searched(engine: Engine) -> float | None:
    rows = np.arange(len(engine.active))[-NEWEST:]
    try:
        with one_blas_thread(), np.errstate(all="ignore"):
            rows, model = rows[~engine.outlying(rows)], engine.model
            data = engine.active.dataset.take(rows)
            z = engine.sign * model.standardized(data.y)
            posterior = condition(model.kernel, model.noise, engine.inputs(data), engine.axis.rows(rows), z)
            return hidden_period(posterior, z, engine.active.interval)
    except (ArithmeticError, ValueError):  # a hint is never worth an error; LinAlgError and NumericalError are such
        return None
