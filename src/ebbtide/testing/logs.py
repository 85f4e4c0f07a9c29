"""What a study must do wherever its log is: in memory, in a file, in a database.

A subject is a function that opens a study by its name, or creates it: `opened(name, space, **options)`, with the
options of `eb.Optimizer`. It gives the same study whenever it is called with the same name; no two checks use the
same name.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ebbtide.algorithms import Algorithm
from ebbtide.clock import ManualClock
from ebbtide.errors import ObservationError, ParameterError, TrialError
from ebbtide.optimizer import Optimizer
from ebbtide.parts.staleness import SlidingWindow
from ebbtide.records import Observation, Trial
from ebbtide.space import Categorical, Float, Int
from ebbtide.study.limits import AtMost
from ebbtide.testing.expectations import expect_equal, expect_error

Opened = Callable[..., Optimizer]

TINY = {"x": Float(0.0, 1.0)}
CODECS = ("a", "b", None, "ü 🌊 '\"%s?:x")
MIXED = {"x": Float(0.0, 1.0), "n": Int(-(1 << 40), 1 << 40), "codec": Categorical(CODECS)}
WORLD: dict[str, Any] = {
    "context": {"load": Float(0.0, 1000.0)},
    "constraints": {"p99": AtMost(50.0)},
    "baseline": {"x": 0.5},
    "baseline_every": 4,
    "explore": 0.5,
}
EXTREME = (0.1, 1.0 / 3.0, 0.0, 5e-324, 1.7976931348623157e308, -1e-300, 123456789.123456789)


class InMemory:
    """Studies that are kept nowhere else: what the others are compared with."""

    def __init__(self) -> None:
        self._studies: dict[str, Optimizer] = {}

    def __call__(self, name: str, space: Any, **options: Any) -> Optimizer:
        return self._studies.get(name) or self._studies.setdefault(name, Optimizer(space, **options))


def asks_and_tells_as_in_memory(opened: Opened) -> None:
    """With removals, failures, keys and leases: the same asks, to the last bit, also after it was opened again."""
    options = {"seed": 3, "n_initial": 2, "algorithm": Algorithm(staleness=SlidingWindow(size=4))}
    _expect_as_in_memory(opened, "as in memory", TINY, options, {})


def a_context_and_constraints_as_in_memory(opened: Opened) -> None:
    options = {"seed": 5, "n_initial": 2, **WORLD}
    _expect_as_in_memory(opened, "a world", TINY, options, {"context": {"load": 300.0}})


def _expect_as_in_memory(opened: Opened, name: str, space: Any, options: dict[str, Any], around: Any) -> None:
    first, second = ManualClock(), ManualClock()
    here, there = Optimizer(space, clock=first, **options), opened(name, space, clock=second, **options)
    for number in range(12):
        if number in (5, 9):
            there = opened(name, space, clock=second, **options)
        expect_equal(_step(here, number, around), _step(there, number, around), f"ask {number}")
        for clock in (first, second):
            clock.advance(1.0)
    for part in ("history", "pending_trials", "asked", "told", "violations"):
        expect_equal(getattr(here, part), getattr(opened(name, space, clock=second, **options), part), part)


def _step(study: Optimizer, number: int, around: dict[str, Any]) -> Trial:
    trial: Trial = study.ask(lease=5.0 if number % 3 == 0 else None, **around)
    outcome: dict[str, Any] = {"value": math.sin(number) + trial.params["x"]}
    if number % 4 == 2:
        outcome = {"failed": True} if number % 8 == 2 else {"abandoned": True}
    elif around:
        outcome["constraints"] = {"p99": 45.0 + number}
    if number % 5 != 4:  # the others stay pending
        study.tell(trial, **outcome)
    study.tell({"x": 0.25}, float(number), key=f"key {number}", **around)
    return trial


def values_come_back_to_the_last_bit(opened: Opened) -> None:
    told = []
    study = opened("values", MIXED, clock=ManualClock(10.0), seed=0)
    for number, value in enumerate(EXTREME):
        params = {"x": abs(value) % 1.0, "n": (-1) ** number << 40, "codec": CODECS[number % 4]}
        study.tell(params, value, time=10.0 - abs(value) % 1.0)
        told.append(Observation(params, 10.0 - abs(value) % 1.0, value))
    found = opened("values", MIXED, clock=ManualClock(10.0), seed=0).history
    expect_equal(told, found, "the history")


def a_trial_and_a_key_are_told_once(opened: Opened) -> None:
    study = opened("once", TINY, seed=0)
    trial, other = study.ask(2)
    for again in (study, opened("once", TINY, seed=0)):
        again.tell(trial, 1.0)
        again.tell(other, failed=True)
        again.tell({"x": 0.5}, 1.0, key="ключ '")
        for contradiction in (
            lambda again=again: again.tell(trial, 2.0),
            lambda again=again: again.tell(other, 1.0),
            lambda again=again: again.tell({"x": 0.5}, 2.0, key="ключ '"),
        ):
            expect_error(TrialError, contradiction)
        expect_equal(3, len(again.history), "the number of lines")


def what_is_refused_leaves_no_trace(opened: Opened) -> None:
    study = opened("refused", TINY, seed=0)
    study.tell(study.ask(), 1.0)
    before = study.history, study.pending_trials, study.asked
    expect_error(ParameterError, lambda: study.tell({"x": 7.0}, 1.0))
    expect_error(ObservationError, lambda: study.tell({"x": 0.5}, math.nan))
    expect_error(ObservationError, lambda: study.tell({"x": 0.5}, 1.0, key="\0"))
    expect_error(TrialError, lambda: study.tell(Trial("7", {"x": 0.5}, 0.0), 1.0))
    for unknown in ("1", "-1", "00", "x", "9" * 30, "\0"):
        expect_error(TrialError, partial(study.trial, unknown))
    again = opened("refused", TINY, seed=0)
    expect_equal(before, (again.history, again.pending_trials, again.asked), "what there is")


LOG_CHECKS: tuple[Callable[[Opened], None], ...] = (
    asks_and_tells_as_in_memory,
    a_context_and_constraints_as_in_memory,
    values_come_back_to_the_last_bit,
    a_trial_and_a_key_are_told_once,
    what_is_refused_leaves_no_trace,
)
