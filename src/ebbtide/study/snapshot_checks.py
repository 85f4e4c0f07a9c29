"""Whether what a snapshot says can be true. (Its checksum only shows that nobody changed it by accident.)

Whatever is wrong is a ValueError that names the place, so that it is found when the file is loaded, and not by the
next ask.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as brief
from typing import Any, get_args

from ebbtide.checks import as_finite, is_text, is_whole
from ebbtide.clock import LARGEST_TIME
from ebbtide.errors import EbbtideError
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.standardization import FORMS, Standardization
from ebbtide.guards import MEANING
from ebbtide.parts.staleness import EventTriggeredReset, PeriodicReset, ResponseBudget, WassersteinBudget
from ebbtide.parts.timing import WithinHorizon
from ebbtide.records import Kind, Observation, Trial
from ebbtide.study.conditions import Conditions
from ebbtide.study.contexts import SAMPLE
from ebbtide.study.course import Turn
from ebbtide.study.definition import Definition
from ebbtide.study.family import Family
from ebbtide.study.state import State, tuples

MOST = 2**53  # whole numbers up to here are floats, too

Test = Callable[[Any], bool]


@contextmanager
def reading(part: str) -> Iterator[None]:
    """Name the part in which something has the wrong type, or is missing."""
    try:
        yield
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"in the {part}: {error!r}") from error


def check_definition(definition: Definition) -> None:
    """The settings of the live options fit the space."""
    live = definition.live
    _require(isinstance(definition.clock, str), "clock", definition.clock)
    _require(definition.n_initial < MOST, "n_initial", definition.n_initial)
    _require(live.baseline_every < MOST, "baseline_every", live.baseline_every)
    for number, setting in enumerate(live.start):
        _check_params(definition, f"start[{number}]", setting)
    if live.baseline is not None:
        _check_params(definition, "baseline", live.baseline)
    if live.movement is not None:
        live.movement.check(definition.space)


def check_state(state: State, definition: Definition) -> None:
    """Everything that an ask starts from, besides the observations."""
    _require(_is_count(state.asks), "asks", state.asks)
    if state.hyper is not None:
        _check_hyper(state.hyper, definition)
    for name, test in _STANDARDIZATION.items():
        _require(test(getattr(state.standardization, name)), f"standardization.{name}", state.standardization)
    _check_form(state.standardization, 1.0 if definition.direction == "maximize" else -1.0)
    _check_memory("policy", state.policy, _remembered(definition.algorithm.staleness))
    _check_memory("timing", state.timing, _remembered(definition.algorithm.timing))
    _require(state.latest_reading is None or _is_time(state.latest_reading), "latest_reading", state.latest_reading)
    responses = state.responses
    _require(isinstance(responses, list) and all(map(_is_duration, responses)), "responses", responses)
    _require(state.anchor is None or (_is_count(state.anchor) and state.anchor < state.asks), "anchor", state.anchor)
    _require(state.behind_since is None or _is_count(state.behind_since), "behind_since", state.behind_since)
    guards = state.guards
    _require(isinstance(guards, dict) and set(guards) <= set(MEANING), "guards", guards)
    _require(all(map(_is_count, guards.values())), "guards", guards)
    _check_contexts(state, definition.conditions)
    _require(isinstance(state.outcomes, dict), "outcomes", state.outcomes)
    _require(set(state.outcomes) <= set(definition.conditions.constraints), "outcomes", state.outcomes)
    for name, outcome in state.outcomes.items():
        _check_outcome(f"outcomes[{brief(name)}]", outcome, definition)
    _check_family(state.family, definition)
    _check_memory("level", state.level, {"odds": _is_number, "kept": _is_count, "broken": _is_count})


def _check_family(found: Any, definition: Definition) -> None:
    _require(isinstance(found, dict) and (not found or definition.family is not None), "family", found)
    if (family := Family.from_json(found)) is not None:
        algorithm = definition.algorithm
        family.check(Families(algorithm.spatial, algorithm.temporal), definition.space.width)


def _check_outcome(place: str, outcome: Any, definition: Definition) -> None:
    """The model of a value under a constraint."""
    staleness = definition.algorithm.staleness
    _require(isinstance(outcome, dict) and set(outcome) == {"hyper", "unit", "policy"}, place, outcome)
    _require(_is_scale(outcome["unit"]), f"the unit of {place}", outcome["unit"])
    known = _BUDGET if isinstance(staleness, WassersteinBudget) else _remembered(staleness)
    _check_memory(place, outcome["policy"], known)
    if outcome["hyper"] is not None:
        hyper = Hyperparameters(**{name: tuples(value) for name, value in outcome["hyper"].items()})
        _check_hyper(hyper, definition)
        _require(not hyper.jumps, f"jumps of {place}", hyper.jumps)


def _check_contexts(state: State, conditions: Conditions) -> None:
    lines, rows = state.context_lines, state.contexts
    _require(isinstance(lines, list) and all(map(_is_count, lines)) and len(lines) <= SAMPLE, "context_lines", lines)
    _require(isinstance(rows, list) and len(rows) == len(lines), "contexts", rows)
    for row in rows:
        _require(isinstance(row, list) and len(row) == conditions.width, "a row of contexts", row)
        _require(all(map(_is_number, row)), "a row of contexts", row)
    for name, latest in state.latest.items():
        _require(isinstance(latest, list) and len(latest) == 4, "latest", latest)
        _require(_is_time(latest[0]) and latest[1] in (0, 1) and _is_count(latest[2]), "latest", latest)
        _check_context(conditions, "latest", {name: latest[3]}, complete=False)


def check_observations(history: Iterable[Observation], definition: Definition, asks: int) -> None:
    ids: set[str | None] = set()
    keys: set[str | None] = set()
    for line, told in enumerate(history):
        place = f"line {line} of the history"
        _check_params(definition, place, told.params)
        _require(_is_time(told.time), f"the time in {place}", told.time)
        _require(isinstance(told.abandoned, bool), f"abandoned in {place}", told.abandoned)
        for name in ("value", "removed_at", "relevance"):
            found = getattr(told, name)
            _require(found is None or _is_number(found), f"{name} in {place}", found)
        _check_context(definition.conditions, place, told.context, complete=told.value is not None)
        _check_filled(place, told)
        try:
            definition.conditions.outcomes(told.constraints)
        except EbbtideError as error:
            raise ValueError(f"{place}: {error}") from None
        _require(told.value is None or not told.abandoned, f"the value of what was abandoned in {place}", told.value)
        _require(told.kind is None or told.kind in get_args(Kind), f"kind in {place}", told.kind)
        _require(told.key is None or isinstance(told.key, str), f"key in {place}", told.key)
        for name, found, seen in (("trial", told.trial_id, ids), ("key", told.key, keys)):
            _require(found is None or found not in seen, f"the {name} in {place}, which is there twice,", found)
            seen.add(found)
        if told.trial_id is not None:
            _require(_is_id(told.trial_id, asks), f"the trial in {place}", told.trial_id)


def check_trials(trials: Iterable[Trial], definition: Definition, asks: int) -> None:
    for trial in trials:
        place = f"trial {brief(trial.id)}"
        _require(_is_id(trial.id, asks), "the id of a trial", trial.id)
        _check_params(definition, place, trial.params)
        _require(_is_time(trial.time), f"the time of {place}", trial.time)
        _require(trial.expires is None or _is_number(trial.expires), f"expires of {place}", trial.expires)
        _require(trial.kind in get_args(Kind), f"kind of {place}", trial.kind)
        _check_context(definition.conditions, place, trial.context, complete=False)
        _check_filled(place, trial)


def check_turns(turns: Sequence[Turn], history: Sequence[Observation], state: State) -> None:
    """The asks since the model's anchor saw more and more of the history, and removed what had been active."""
    if not turns:
        return
    _require(state.anchor is not None and len(turns) == state.asks - state.anchor, "turns, how many there are,", turns)
    _require(all(_is_count(turn.told) for turn in turns), "turns", turns)
    seen = [turn.told for turn in turns]
    _require(seen == sorted(seen) and seen[-1] <= len(history), "turns", turns)
    removed = [line for turn in turns for line in turn.removed]
    _require(all(map(_is_count, removed)) and len(set(removed)) == len(removed), "turns", turns)
    _require(all(line < turn.told for turn in turns for line in turn.removed), "turns", turns)
    gone = [history[line] for line in removed]
    _require(all(told.removed_at is not None and told.value is not None for told in gone), "turns", turns)


def check_in_force(params: Any, definition: Definition) -> None:
    if params is not None:
        _check_params(definition, "in_force", params)


def _check_context(conditions: Conditions, place: str, context: Any, *, complete: bool) -> None:
    """What was measured fits the context; a complete one has all of its variables."""
    try:
        conditions.measured(context)
        if complete and conditions.context is not None:
            conditions.check_complete(context)
    except EbbtideError as error:
        raise ValueError(f"{place}: {error}") from None


def _check_filled(place: str, record: Trial | Observation) -> None:
    _require(set(record.filled) <= set(record.context or {}), f"filled in {place}", record.filled)


def _check_params(definition: Definition, place: str, params: Any) -> None:
    try:
        definition.space.check(params)
    except EbbtideError as error:
        raise ValueError(f"{place}: {error}") from None


def _check_hyper(hyper: Hyperparameters, definition: Definition) -> None:
    algorithm = definition.algorithm
    _require((hyper.timescale is None) == (algorithm.temporal is None), "hyper.timescale", hyper.timescale)
    ard, lengthscale = algorithm.spatial.ard, hyper.lengthscale
    _require(isinstance(lengthscale, tuple) == ard, "hyper.lengthscale", lengthscale)
    scales = lengthscale if isinstance(lengthscale, tuple) else (lengthscale,)
    _require(len(scales) == (definition.space.width if ard else 1), "hyper.lengthscale", lengthscale)
    _require(isinstance(hyper.jumps, bool) and (algorithm.jumps or not hyper.jumps), "hyper.jumps", hyper.jumps)
    conditions = definition.conditions
    _require(len(hyper.context) == conditions.width, "hyper.context", hyper.context)
    _require(len(hyper.cycles) == len(conditions.cycles), "hyper.cycles", hyper.cycles)
    _require(all(len(cycle) == 3 for cycle in hyper.cycles), "hyper.cycles", hyper.cycles)
    others = [*hyper.context, *(number for cycle in hyper.cycles for number in cycle)]
    timescale = [] if hyper.timescale is None else [hyper.timescale]
    for number in (hyper.scale, hyper.noise, *scales, *timescale, *others):
        _require(_is_scale(number), "a hyperparameter", number)
    _require(sum(cycle[0] for cycle in hyper.cycles) < 1.0, "hyper.cycles", hyper.cycles)


def _check_memory(place: str, memory: Any, known: Mapping[str, Test] | None) -> None:
    """What a part remembers: plain numbers; all that a part of ours needs, or nothing."""
    _require(isinstance(memory, dict), place, memory)
    for name, number in memory.items():
        _require(isinstance(name, str) and _is_number(number), f"{place}[{brief(name)}]", number)
    if known is None or not memory:
        return
    for name, test in known.items():
        _require(name in memory and test(memory[name]), f"{place}[{name!r}]", memory.get(name))


def _remembered(part: Any) -> Mapping[str, Test] | None:
    """What a part of ours remembers; None for others."""
    match part:
        case ResponseBudget():
            return _BUDGET | {"told": _is_duration, "weight": _is_duration}
        case WassersteinBudget():
            return _BUDGET
        case PeriodicReset():
            return {"epsilon": lambda number: 0.0 < number < 1.0}
        case EventTriggeredReset():
            return {"seen": _is_duration, "since_reset": lambda number: 1.0 <= number < MOST}
        case WithinHorizon():
            return {"calm": _is_duration, "told": _is_duration}
    return None


def _check_form(standardization: Standardization, sign: float) -> None:
    """The form is one that can be chosen, and what is bent is the worse side."""
    _require(standardization.form in FORMS, "standardization", standardization)
    bent = sign * standardization.span >= sys.float_info.min
    _require(bent or standardization.span == 0.0, "standardization.span", standardization)


def _require(right: bool, place: str, found: Any) -> None:
    if not right:
        raise ValueError(f"{place} is {brief(found)}")


def _is_number(found: Any) -> bool:
    return as_finite(found) is not None


def _is_duration(found: Any) -> bool:
    return _is_number(found) and 0.0 <= found <= LARGEST_TIME


def _is_time(found: Any) -> bool:
    return _is_number(found) and abs(found) <= LARGEST_TIME


def _is_scale(found: Any) -> bool:
    """A positive number that a model can compute with."""
    return _is_number(found) and 0.0 < found <= 100.0 * LARGEST_TIME


def _is_count(found: Any) -> bool:
    return is_whole(found) and 0 <= found < MOST


def _is_id(found: Any, asks: int) -> bool:
    """The number of an ask, as a string."""
    plain = isinstance(found, str) and is_text(found) and found.isascii() and found.isdecimal() and len(found) < 17
    return plain and str(int(found)) == found and int(found) < asks


_BUDGET: dict[str, Test] = {"log_budget": _is_duration, "time": _is_number, "timescale": _is_scale}
_STANDARDIZATION: dict[str, Test] = {
    "mean": _is_number,
    "scale": lambda found: _is_number(found) and found > 0.0,
    "power": _is_number,
    "unit": lambda found: _is_number(found) and found > 0.0,
    "knee": _is_number,
    "span": _is_number,
}
