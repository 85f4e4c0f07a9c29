"""A study as the user describes it: the file of its space, and the options of the command line, which win.

The file has a table for each parameter, and may have a table `[study]` with the study's options, and the tables
`[context.NAME]`, `[cycles]` and `[constraints.NAME]`. A table of one of these names that has a `type` is a parameter of
that name.
"""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebbtide.errors import ConfigurationError, SpaceError
from ebbtide.space import Float, Int, Parameter, Space
from ebbtide.study import live
from ebbtide.tuning import duration
from ebbtide.tuning.template import written

TABLE = "study"
AROUND = ("context", "cycles", "constraints")
OPTIONS = ("direction", "algorithm", "seed", "family", *live.WORDS, "violation_rate", "failures_violate")
SHARES = ("explore", "violation_rate")


def space_of(path: Path) -> Space:
    """The space that a file describes."""
    return _read(path)[0]


def described(path: Path, said: Mapping[str, Any]) -> tuple[Space, dict[str, Any]]:
    """The space, and the options that were given, as `eb.Optimizer` takes them; `said` is from the command line."""
    space, table = _read(path)
    options = {**table, **_as_said(space, said), "movement": _movement(table.get("movement"), said)}
    if said["cycle"]:
        options["cycles"] = {**options.get("cycles", {}), **dict(_cycle(text) for text in said["cycle"])}
    return space, {"direction": "minimize"} | {name: value for name, value in options.items() if value is not None}


def _read(path: Path) -> tuple[Space, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        description = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise SpaceError(f"{path} cannot be read as {path.suffix.lstrip('.') or 'toml'}: {error}") from error
    options: dict[str, Any] = {}
    if isinstance(description, dict):
        options = _checked(description.pop(TABLE) if _is_no_parameter(description.get(TABLE)) else {})
        options |= {word: description.pop(word) for word in AROUND if _is_no_parameter(description.get(word))}
    if "cycles" in options:
        options["cycles"] = {name: _period(period) for name, period in options["cycles"].items()}
    return Space.from_json(description), options


def _is_no_parameter(table: Any) -> bool:
    return isinstance(table, dict) and not isinstance(table.get("type"), str)


def _period(period: Any) -> Any:
    """A period of a cycle in seconds, which may be written as 24h."""
    return duration(period) if isinstance(period, str) else period


def _cycle(text: str) -> tuple[str, float]:
    """A cycle of the command line: 24h, or day=24h."""
    name, equals, period = (part.strip() for part in text.partition("="))
    return name, duration(period if equals else name)


def _checked(table: dict[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in table if name not in OPTIONS]:
        raise ConfigurationError(
            f"[{TABLE}] has {unknown[0]!r}: it may have {', '.join(OPTIONS)} "
            f"(a parameter that is named {TABLE} needs a type)"
        )
    return table | {word: share(table[word], word) for word in SHARES if isinstance(table.get(word), str)}


def _as_said(space: Space, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, in the library's words."""
    options = {name: said[name] for name in ("direction", "algorithm", "seed", "family", "baseline_every")}
    options |= {word: share(said[word], word) for word in SHARES if said[word] is not None}
    if said["start"]:
        options["start"] = [setting("--start", text, space) for text in said["start"]]
    if said["baseline"] is not None:
        options["baseline"] = setting("--baseline", said["baseline"], space)
    if said["on_failure"] is not None:
        options["on_failure"] = on_failure(said["on_failure"])
    return {name: value for name, value in options.items() if value is not None}


def _movement(table: Any, said: Mapping[str, Any]) -> Any:
    """The file's movement, with the limits and the cost of the command line."""
    if not said["limit"] and said["move_cost"] is None:
        return table
    movement: dict[str, Any] = dict(table or {})
    movement["limit"] = {**movement.get("limit", {}), **dict(_limit(text) for text in said["limit"])}
    if said["move_cost"] is not None:
        movement["cost"] = said["move_cost"]
    return movement


# --- words of the command line ----------------------------------------------------------------------------------


def share(text: str, option: str = "explore") -> float:
    """A share: 20% or 0.2.

    >>> share("20%"), share("0.2")
    (0.2, 0.2)
    """
    number, percent = (text.strip()[:-1], True) if text.strip().endswith("%") else (text, False)
    try:
        return float(number) / 100.0 if percent else float(number)
    except ValueError:
        raise ConfigurationError(f"{option}={text!r}: give a share such as 20% or 0.2") from None


def on_failure(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text  # worst or ignore; the library refuses other words


def setting(option: str, text: str, space: Space) -> dict[str, Any]:
    """A setting: pool=10,codec=a, or a JSON object, in which values may have commas."""

    def read(name: str, value: str) -> Any:
        if name not in space.parameters:
            raise ConfigurationError(f"{option} {text}: the space {list(space.parameters)} has no {name!r}")
        try:
            return _value(space.parameters[name], value)
        except ValueError:
            raise ConfigurationError(f"{option} {text}: {value!r} is not a value of {name!r}") from None

    return _values(option, text, read)


def measured(option: str, text: str | None) -> dict[str, Any] | None:
    """Measured values: load=312,backend=a, or a JSON object. A value that is no number is a text.

    >>> measured("--context", "load=312,backend=a")
    {'load': 312.0, 'backend': 'a'}
    """

    def read(name: str, value: str) -> Any:
        try:
            return float(value)
        except ValueError:
            return value

    return None if text is None else _values(option, text, read)


def _values(option: str, text: str, read: Callable[[str, str], Any]) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            parsed: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"{option} {text}: not JSON ({error})") from None
        return parsed
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or name in found:
            problem = f"{name!r} stands there twice" if equals else f"{pair!r} has no ="
            raise ConfigurationError(f"{option} {text}: {problem}; write name=value,name=value, or a JSON object")
        found[name] = read(name, value)
    return found


def _value(parameter: Parameter, text: str) -> Any:
    if isinstance(parameter, Int):
        return int(text)
    if isinstance(parameter, Float):
        return float(text)
    choices = {written(choice): choice for choice in getattr(parameter, "choices", ())}
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ConfigurationError(f"--limit {text}: write name=number, in the parameter's own unit") from None
