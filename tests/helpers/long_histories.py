"""Studies with a long history, of which only the end was really asked for: made of many copies of a shorter one."""

import json
from typing import Any

from ebbtide.study.storage import Storage

NEW = "INSERT INTO studies (name, created, definition) SELECT ?, created, definition FROM studies WHERE study = ?"
TELLS = """
    INSERT INTO tells (study, line, asks, reading, params, time, value, ask, abandoned, constraints, broken)
    SELECT {new}, line + {lines}, asks + {asks}, reading - {past}, params, time - {past}, value, ask + {asks},
        abandoned, constraints, broken
    FROM tells WHERE study = {old} ORDER BY line
"""
COLUMNS = ("ask", "told", "now", "landed", "params", "time", "state", "kind", "gone")
ASKS = f"INSERT INTO asks (study, {', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REMOVALS = """
    INSERT INTO removals (study, line, ask, relevance)
    SELECT {new}, line + {lines}, ask + {asks}, relevance FROM removals WHERE study = {old}
"""
STALE = "INSERT INTO removals (study, line, ask) VALUES (?, ?, ?)"
ACTIVE = "INSERT INTO active (study, line) SELECT {new}, line + {lines} FROM active WHERE study = {old}"


def lengthen(storage: Storage, name: str, times: int, longer: str) -> None:
    """Write a study whose history is that of another, so many times. The other one has no context, and no keys.

    The last copy has the times of the other study, and is active; the first ask of each copy removes all before it.
    """
    database, told, old = storage.database, storage.summary(name).told, storage.identify(name)
    database.run(NEW, (longer, old))
    new, active = storage.identify(longer), storage.log(name).active_lines()
    rows = database.rows(f"SELECT {', '.join(COLUMNS)} FROM asks WHERE study = ? ORDER BY ask", (old,))
    asks = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    span = asks[-1]["now"] - asks[0]["now"] + 1.0
    for copy in range(times):
        by: dict[str, Any] = {"lines": copy * told, "asks": copy * len(asks), "past": (times - 1 - copy) * span}
        stale = [(new, line + by["lines"] - told, by["asks"]) for line in active] if copy else []
        with database.transaction():
            database.run(TELLS.format(new=new, old=old, **by))
            gone = copy * (storage.summary(name).removed + len(active))
            database.run_many(ASKS, [(new, *_later(ask, gone, len(stale), **by)) for ask in asks])
            database.run(REMOVALS.format(new=new, old=old, **by))
            if stale:
                database.run_many(STALE, stale)
    database.run(ACTIVE.format(new=new, old=old, **by))


def _later(ask: dict[str, Any], gone: int, stale: int, lines: int, asks: int, past: float) -> tuple[Any, ...]:
    """An ask of a copy; so many lines were removed up to its first ask, some of them by that."""
    state = json.loads(ask["state"])
    shifts = {"asks": asks, "anchor": asks, "behind_since": lines}
    state |= {key: state[key] + shift for key, shift in shifts.items() if state.get(key) is not None}
    times = {key: ask[key] - past for key in ("now", "landed", "time")}
    numbers = {"ask": ask["ask"] + asks, "told": ask["told"] + lines}
    numbers["gone"] = ask["gone"] + gone - (0 if ask["ask"] else stale)
    return tuple((ask | times | numbers | {"state": json.dumps(state, separators=(",", ":"))}).values())
