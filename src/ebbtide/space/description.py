"""Parameters from JSON or TOML, as a user writes them by hand."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from reprlib import repr as brief
from typing import Any

from ebbtide.errors import SpaceError
from ebbtide.space.choices import Categorical, Ordinal
from ebbtide.space.parameter import Parameter
from ebbtide.space.ranges import Float, Int

KINDS: dict[str, type[Float] | type[Int] | type[Ordinal] | type[Categorical]] = {
    "float": Float,
    "int": Int,
    "ordinal": Ordinal,
    "categorical": Categorical,
}


def parameter_from_json(name: str, description: Any) -> Parameter:
    check_description(name, description)
    return KINDS[description["type"]](**{key: value for key, value in description.items() if key != "type"})


def check_description(name: str, description: Any) -> None:
    """Raise an error unless a parameter has a type that is known and the keys that belong to it."""
    kind = description.get("type") if isinstance(description, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        types = " | ".join(f'"{known}"' for known in KINDS)
        raise SpaceError(f'{name!r} is {brief(description)}; give {{"type": {types}, ...}}')
    needed = [field.name for field in fields(KINDS[kind]) if field.default is MISSING]
    optional = [field.name for field in fields(KINDS[kind]) if field.default is not MISSING]
    problems = [f"{key!r} is missing" for key in needed if key not in description]
    problems += [f"{brief(key)} is unknown" for key in description if key not in ("type", *needed, *optional)]
    if problems:
        accepted = f"needs {' and '.join(needed)}" + (f", and may have {' and '.join(optional)}" if optional else "")
        raise SpaceError(f'{name!r}: {"; ".join(problems[:5])}. A parameter of type "{kind}" {accepted}.')
