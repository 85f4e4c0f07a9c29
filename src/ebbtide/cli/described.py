"""A study as the user describes it: the file of its space, and the options of the command line, which win.

The file has a table for each parameter, and may have a table `[study]` with the study's options. A table `study` that
has a `type` is a parameter of that name.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebbtide.errors import ConfigurationError, SpaceError
from ebbtide.space import Float, Int, Parameter, Space
from ebbtide.study.live import WORDS
from ebbtide.tuning.template import written

TABLE = "study"
OPTIONS = ("direction", "algorithm", "seed", *WORDS)


def space_of(path: Path) -> Space:
    """The space that a file describes."""
    return _read(path)[0]


def described(path: Path, said: Mapping[str, Any]) -> tuple[Space, dict[str, Any]]:
    """The space, and the options that were given, as `eb.Optimizer` takes them; `said` is from the command line."""
    space, table = _read(path)
    options = {**table, **_as_said(space, said), "movement": _movement(table.get("movement"), said)}
    return space, {"direction": "minimize"} | {name: value for name, value in options.items() if value is not None}


def _read(path: Path) -> tuple[Space, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        description = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise SpaceError(f"{path} cannot be read as {path.suffix.lstrip('.') or 'toml'}: {error}") from error
    options: dict[str, Any] = {}
    if isinstance(description, dict) and _has_options(description.get(TABLE)):
        options = description.pop(TABLE)
    return Space.from_json(description), _checked(options)


def _has_options(table: Any) -> bool:
    return isinstance(table, dict) and "type" not in table


def _checked(table: dict[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in table if name not in OPTIONS]:
        raise ConfigurationError(
            f"[{TABLE}] has {unknown[0]!r}: it may have {', '.join(OPTIONS)} "
            f"(a parameter that is named {TABLE} needs a type)"
        )
    if isinstance(explore := table.get("explore"), str):
        table = table | {"explore": share(explore)}
    return table


def _as_said(space: Space, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, in the library's words."""
    options = {name: said[name] for name in ("direction", "algorithm", "seed", "baseline_every")}
    if said["explore"] is not None:
        options["explore"] = share(said["explore"])
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


def share(text: str) -> float:
    """A share: 20% or 0.2.

    >>> share("20%"), share("0.2")
    (0.2, 0.2)
    """
    number, percent = (text.strip()[:-1], True) if text.strip().endswith("%") else (text, False)
    try:
        return float(number) / 100.0 if percent else float(number)
    except ValueError:
        raise ConfigurationError(f"explore={text!r}: give a share such as 20% or 0.2") from None


def on_failure(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text  # worst or ignore; the library refuses other words


def setting(option: str, text: str, space: Space) -> dict[str, Any]:
    """A setting: pool=10,codec=a, or a JSON object, in which values may have commas."""
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
        if name not in space.parameters:
            raise ConfigurationError(f"{option} {text}: the space {list(space.parameters)} has no {name!r}")
        try:
            found[name] = _value(space.parameters[name], value)
        except ValueError:
            raise ConfigurationError(f"{option} {text}: {value!r} is not a value of {name!r}") from None
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
