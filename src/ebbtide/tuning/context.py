"""The context before each ask: what a command prints, or an endpoint answers. Whatever happens, it is a Reading."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.checks import as_finite
from ebbtide.tuning.command import run
from ebbtide.tuning.endpoint import fetched
from ebbtide.tuning.outcome import TAIL, complete_last_line, one_line, readings_of_body

TIME_LIMIT = 10.0  # seconds
LONGEST = TAIL  # bytes


@dataclass(frozen=True)
class Reading:
    """What was measured of a context, or one line about what went wrong."""

    context: dict[str, Any] | None
    problem: str | None = None


def context_reader(argv: Sequence[str], url: str | None, names: Sequence[str]) -> Callable[[], Reading]:
    """The function that the loop calls; `names` are the variables of the context."""

    def read() -> Reading:
        texts, problem = _of_command(argv) if url is None else _of_url(url)
        for text in texts:
            if (context := _context(text, names)) is not None:
                return Reading(context)
        if problem is None:
            known = f"a JSON object with {', '.join(map(repr, names))}" + (", or a number" if len(names) == 1 else "")
            problem = f"the last line is {one_line(texts[0], 60)!r}, not {known}"
        return Reading(None, one_line(problem))

    return read


def _of_command(argv: Sequence[str]) -> tuple[list[str], str | None]:
    ran = run(argv, TIME_LIMIT)
    if ran.problem is not None:
        return [], ran.problem
    line, complaint = complete_last_line(ran.out)
    return ([], ran.complaint(complaint)) if line is None else ([line], None)


def _of_url(url: str) -> tuple[list[str], str | None]:
    body, problem = fetched(url, TIME_LIMIT, LONGEST)
    if body is None:
        return [], problem
    texts = readings_of_body(body)
    return texts, None if texts else "the answer is empty"


def _context(text: str, names: Sequence[str]) -> dict[str, Any] | None:
    """A JSON object; for a context of one variable, its number."""
    try:
        if text.startswith("{"):
            found: dict[str, Any] = json.loads(text)
            return found
        number = None if "_" in text else as_finite(float(text))
    except (ValueError, RecursionError):
        return None
    return {names[0]: number} if len(names) == 1 and number is not None else None
