"""The loop of `Optimizer.optimize`."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ebbtide.checks import as_finite
from ebbtide.clock import Clock, wait_until
from ebbtide.errors import ConfigurationError, EbbtideWarning, ObservationError
from ebbtide.records import Recommendation, Trial
from ebbtide.space import Params
from ebbtide.study.progress import Progress, Watched

STALLED = 100  # evaluations without the clock moving, before the loop gives up
WORDS = ("value", "constraints", "context")  # what an objective may return in a dict, as `tell` takes it

Objective = Callable[[Params, float], float | Mapping[str, Any]]
Context = Callable[[float], Mapping[str, Any]]


class Optimizes(Watched, Protocol):
    clock: Clock

    def ask(self, *, until: float, context: Mapping[str, Any] | None) -> Trial: ...
    def tell(
        self,
        trial: Trial,
        value: Any = None,
        *,
        failed: bool = False,
        abandoned: bool = False,
        context: Mapping[str, Any] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None: ...
    def recommend(self, context: Mapping[str, Any] | None) -> Recommendation: ...


def optimize(
    optimizer: Optimizes,
    objective: Objective,
    duration: float,
    *,
    context: Context | None,
    now: Callable[[], float],
    latest: Callable[[], float],
    progress: bool,
    catch: tuple[type[Exception], ...],
) -> Recommendation:
    """Ask, evaluate and tell until `duration` has passed; `latest` is the latest time that the clock ever showed."""
    if (as_finite(duration) or 0.0) <= 0.0:
        raise ConfigurationError(f"duration={duration!r}: give a positive time, in the clock's unit")
    if not (context is None or callable(context)):
        raise ConfigurationError(
            f"context={context!r}: give a function that measures it at a time, such as lambda t: {{'load': load(t)}}"
        )

    def measured() -> Mapping[str, Any] | None:
        return None if context is None else context(now())

    start = now()
    shown = Progress(duration, progress)
    stalled = 0
    while (elapsed := now() - start) < duration:
        trial = optimizer.ask(until=start + duration, context=measured())
        if trial.time > latest():  # the timing chose a later time; do not wait for a clock that went back
            wait_until(optimizer.clock, trial.time)
        _evaluate(optimizer, objective, trial, catch)
        stalled = stalled + 1 if now() - start == elapsed else 0
        if stalled >= STALLED:
            raise ConfigurationError(
                f"the clock does not move from {start + elapsed!r}, so the duration {duration!r} never passes; "
                "with a ManualClock, let the objective advance it"
            )
        shown.update(elapsed, optimizer)
    shown.close()
    return optimizer.recommend(measured())


def _evaluate(optimizer: Optimizes, objective: Objective, trial: Trial, catch: tuple[type[Exception], ...]) -> None:
    try:
        found = objective(dict(trial.params), trial.time)
    except Exception as error:
        optimizer.tell(trial, failed=True)
        if not isinstance(error, catch):
            raise
        return
    except BaseException:  # Ctrl-C, or the end of the program: nothing is wrong with the setting
        optimizer.tell(trial, abandoned=True)
        raise
    try:
        optimizer.tell(trial, **_told(found))
    except ObservationError as error:
        warnings.warn(f"recorded as a failed evaluation: {error}", EbbtideWarning, stacklevel=4)
        optimizer.tell(trial, failed=True)


def _told(found: Any) -> dict[str, Any]:
    """A value, with what was measured beside it."""
    if not isinstance(found, Mapping):
        return {"value": found}
    if unknown := [word for word in found if word not in WORDS]:
        raise ObservationError(f"the objective returned {unknown[0]!r}: it may return a number, or a dict with {WORDS}")
    return dict(found)
