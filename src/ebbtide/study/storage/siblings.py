"""The siblings of a study: studies of the same family, of the same tenant, in the same database.

A tenant's studies have names with a common prefix, such as `team-a.`. Two studies belong to the same tenant if their
names are the same up to the last dot, and no token is for one of them only. So the fits of a team never reach another.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ebbtide.study.family import Family, Relative
from ebbtide.study.likeness import is_ard, likeness, width
from ebbtide.study.storage.database import Database
from ebbtide.study.storage.rows import DAMAGE, state_of

MOST = 32  # siblings whose fits are read: half of them the first of the family, which know most, half the newest
# The latest ask is read by the primary key, the studies of a family by their index.
LATEST = "SELECT told, state FROM asks WHERE study = ? ORDER BY ask DESC LIMIT 1"
OF_A_FAMILY = "SELECT study, name, definition FROM studies WHERE family = ? AND study <> ? ORDER BY study {} LIMIT ?"
PREFIXES = "SELECT DISTINCT prefix FROM tokens WHERE prefix <> ''"


def key_of(name: str, definition: Mapping[str, Any]) -> str | None:
    """What the studies of a family have in their column: their tenant, as far as the name tells, and the family."""
    family = definition.get("family")
    return None if family is None else f"{name[: name.rfind('.') + 1]}/{family}"


def siblings(database: Database, study: int, name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """What the fits of a study's siblings are like (`Family.to_json`); empty if there are none."""
    with database.reading():
        prefixes = [prefix for (prefix,) in database.rows(PREFIXES)]
        ours = [name.startswith(prefix) for prefix in prefixes]
        relatives = []
        for number, other, described in _candidates(database, study, key_of(name, definition)):
            if [other.startswith(prefix) for prefix in prefixes] == ours:
                # What is damaged says nothing, and is no reason not to ask.
                with suppress(*DAMAGE), np.errstate(divide="ignore", invalid="ignore"):
                    relatives.append(_relative(database, number, definition, json.loads(described)))
    family = Family.of([relative for relative in relatives if relative is not None])
    return {} if family is None else family.to_json()


def _candidates(database: Database, study: int, key: str | None) -> list[tuple[int, str, str]]:
    found = [
        row for order in ("ASC", "DESC") for row in database.rows(OF_A_FAMILY.format(order), (key, study, MOST // 2))
    ]
    return list(dict.fromkeys(found))


def _relative(database: Database, study: int, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Relative | None:
    """The latest fit of a sibling; None if it has none."""
    alike, last = likeness(ours, theirs), database.row(LATEST, (study,))
    if last is None or alike == 0.0:
        return None
    told, state = last[0], state_of(json.loads(last[1]))
    if state.hyper is None or (state.hyper.jumps and not ours["algorithm"].get("jumps")):
        return None
    found = Relative(alike, told, state.hyper, state.standardization, width(theirs["space"]))
    return found if len(found.traits) == _traits(theirs) and found.is_sound else None


def _traits(definition: Mapping[str, Any]) -> int:
    """How many a fit must have."""
    spatial, temporal = definition["algorithm"]["spatial"], definition["algorithm"]["temporal"]
    return 2 + (width(definition["space"]) if is_ard(spatial) else 1) + (temporal is not None)
