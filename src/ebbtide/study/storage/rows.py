"""What rows hold, as text and as objects again. What is read may be damaged."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ebbtide.checks import as_finite
from ebbtide.errors import DamagedError, StudyError
from ebbtide.records import Trial
from ebbtide.study.state import State

DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)  # what it shows itself as


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)  # `json.dumps` would make one for each call


def text(value: Any) -> str:
    return _encoder.encode(value)


def text_or_null(value: Any) -> str | None:
    return text(value) if value else None


@contextmanager
def intact(what: str) -> Iterator[None]:
    """What is read may be damaged: SQLite only notices damage to its own structures."""
    try:
        yield
    except StudyError:  # it was deleted
        raise
    except DAMAGE as error:
        raise damaged(what, error) from error


def damaged(what: str, error: Exception) -> DamagedError:
    return DamagedError(
        f"{what} is damaged; keep a copy of the file, then restore a backup, or delete the study "
        f"({type(error).__name__}: {str(error)[:200]})"
    )


def parsed(text: Any, build: Callable[[Any], Any] = lambda value: value) -> Any:
    """Parse what `text` wrote."""
    with intact("the log"):
        return build(json.loads(text))


def state_of(data: Any) -> State:
    state = State.from_json(data)
    numbers = (state.asks, state.standardization.mean, state.standardization.scale, *state.policy.values())
    if not all(as_finite(number) == number for number in numbers):
        raise ValueError(f"state={data!r}")
    return state


def number_of(trial_id: str) -> int | None:
    """The number of the ask with this id; None if no ask can have it."""
    plain = isinstance(trial_id, str) and trial_id.isascii() and trial_id.isdecimal() and len(trial_id) < 19
    number = int(trial_id) if plain else None
    return number if str(number) == trial_id else None


def trial_of(row: Sequence[Any]) -> Trial:
    ask, params, time, expires, kind, context, filled = row
    around = None if context is None else parsed(context), () if filled is None else parsed(filled, tuple)
    return Trial(str(ask), parsed(params), time, expires, kind, *around)
