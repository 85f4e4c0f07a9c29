"""The versioned JSON file that holds a saved optimizer.

JSON keeps every float exactly. A checksum detects a file that is incomplete or edited; a file from a newer version is
refused. Reading never changes the file; writing replaces it atomically.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebbtide.algorithms import Algorithm
from ebbtide.errors import EbbtideError, SnapshotError
from ebbtide.files import write_atomically
from ebbtide.study import conditions
from ebbtide.study import log as logs
from ebbtide.study import snapshot_checks as checks
from ebbtide.study.definition import Definition
from ebbtide.study.engine import Engine
from ebbtide.study.log import Log, MemoryLog
from ebbtide.study.state import State

FORMAT, VERSION = "ebbtide-snapshot", 2
PLAIN = 1  # of a study without conditions (context, cycles, constraints) or a family, which is as it was before
# What reading a damaged file may raise.
DAMAGE = (EbbtideError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def payload_of(engine: Engine, log: Log) -> dict[str, Any]:
    """Everything about a study, as JSON."""
    known = {"state": engine.state.to_json(), "active": engine.active.lines.tolist()}
    course = {} if engine.course is None else {"turns": [list(turn) for turn in engine.course.turns]}
    return engine.definition.to_json() | known | logs.to_json(log) | course


def load(path: str | os.PathLike[str], algorithm: Algorithm | None) -> tuple[Engine, MemoryLog]:
    """The study in a file; an algorithm with the user's own classes is passed again."""
    payload = read(path)
    try:
        return rebuild(payload, algorithm)
    except SnapshotError:
        raise
    except DAMAGE as error:
        raise SnapshotError(f"{path} cannot be restored ({error}); use an earlier copy") from error


def rebuild(payload: Mapping[str, Any], algorithm: Algorithm | None = None) -> tuple[Engine, MemoryLog]:
    """The study that `payload_of` describes."""
    with checks.reading("definition"):
        definition = Definition.from_json(payload, algorithm)
        checks.check_definition(definition)
    with checks.reading("state"):
        state = State.from_json(payload["state"])
        checks.check_state(state, definition)
    with checks.reading("log"):
        log = MemoryLog.from_json(payload, definition.conditions)
        checks.check_observations(log.history(), definition, state.asks)
        checks.check_trials(log.trials(), definition, state.asks)
        checks.check_in_force(log.in_force(), definition)
        checks.check_turns(log.turns, log.history(), state)
        engine = Engine(definition)
        engine.restore(*log.checkpoint())
    return engine, log


def write(path: str | os.PathLike[str], payload: Mapping[str, Any]) -> None:
    """Replace the file at `path`; it is on the disk when this returns."""
    body = _canonical(payload)
    plain = conditions.WORDS[0] not in payload and "family" not in payload
    version = PLAIN if plain else VERSION
    document = {"format": FORMAT, "version": version, "sha256": _digest(body), "payload": payload}
    write_atomically(path, json.dumps(document, allow_nan=False), durable=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The payload of a snapshot that is complete, unedited and of a known version."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SnapshotError(
            f"{path} cannot be read ({reason}); give the path of a file that Optimizer.save wrote, and check that you "
            "may read it"
        ) from error
    except (ValueError, RecursionError) as error:  # from the decoder of JSON or of UTF-8
        raise SnapshotError(f"{path} is not a complete snapshot ({error}); use an earlier copy") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SnapshotError(f"{path} is not an ebbtide snapshot; check the path")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise SnapshotError(
            f"{path} has snapshot version {version!r}, but this ebbtide reads only 1 to {VERSION}; "
            "if it comes from a newer ebbtide, upgrade this one"
        )
    payload = document.get("payload")
    if not isinstance(payload, dict) or not _is_unchanged(payload, document.get("sha256")):
        raise SnapshotError(f"{path} was edited or damaged: its checksum does not match; use an earlier copy")
    return payload


def _is_unchanged(payload: Mapping[str, Any], digest: Any) -> bool:
    try:
        return bool(digest == _digest(_canonical(payload)))
    except RecursionError:  # nobody can have written it
        return False


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _canonical(payload: Mapping[str, Any]) -> str:
    try:
        return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EbbtideError(f"the state cannot be written as JSON: {error}") from error


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
