"""What came of an evaluation, and how a value is read.

The value is the last line that is not blank: a finite number, or a JSON object with one under "value", which may also
have "constraints" and "context".
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.checks import as_finite

TAIL = 64 * 1024  # bytes kept of a command's output
LONGEST_QUOTE = 200


@dataclass(frozen=True)
class Outcome:
    """A value, or one line about what went wrong."""

    value: float | None
    problem: str | None
    seconds: float
    constraints: Any = None  # as it was printed
    context: Any = None


class Tail:
    """The last bytes of a stream of any length."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._cut = False

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk
        if len(self._bytes) > TAIL:
            del self._bytes[:-TAIL]
            self._cut = True

    def last_line(self) -> str | None:
        """The last line that is not blank, if there is one."""
        lines = bytes(self._bytes).strip().splitlines()
        return lines[-1].decode(errors="replace").strip() if lines else None

    @property
    def torn(self) -> bool:
        """Whether the last line began before what was kept."""
        return self._cut and len(bytes(self._bytes).rstrip().splitlines()) <= 1


def outcome_of_last_line(tail: Tail, seconds: float) -> Outcome:
    """Of what a command printed."""
    line, complaint = complete_last_line(tail)
    return Outcome(None, complaint, seconds) if line is None else _outcome([line], seconds)


def complete_last_line(tail: Tail) -> tuple[str | None, str]:
    """The last line; or None, and what is wrong with it."""
    line = tail.last_line()
    if line is None:
        return None, "printed nothing"
    if tail.torn:
        return None, f"printed a last line longer than {TAIL} bytes"
    return line, ""


def outcome_of_body(body: bytes, seconds: float) -> Outcome:
    """The same rule, but a JSON object may also span several lines."""
    texts = readings_of_body(body)
    return _outcome(texts, seconds) if texts else Outcome(None, "the answer is empty", seconds)


def readings_of_body(body: bytes) -> list[str]:
    """The last line that is not blank, and all of the text; nothing if there is none."""
    text = body.decode(errors="replace").strip()
    return [body.strip().splitlines()[-1].decode(errors="replace").strip(), text] if text else []


def _outcome(texts: Sequence[str], seconds: float) -> Outcome:
    """Of the first of these texts that has a value."""
    for text in texts:
        described = _described(text)
        if (value := as_finite(described.get("value"))) is not None:
            return Outcome(value, None, seconds, described.get("constraints"), described.get("context"))
    said = f"the last line is {one_line(texts[0], 60)!r}"
    return Outcome(None, f'{said}, not a finite number or a JSON object with one as "value"', seconds)


def _described(text: str) -> dict[str, Any]:
    """A JSON object; a number is one with a value."""
    try:
        if text.startswith("{"):
            described: dict[str, Any] = json.loads(text)
            return described
        return {} if "_" in text else {"value": float(text)}  # only Python takes 2024_01 for a number
    except (ValueError, RecursionError):
        return {}


_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours and other terminal commands


def one_line(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Text from elsewhere as one short line that is safe to print on a terminal."""
    plain = _ESCAPES.sub("", text[: 10 * longest])
    words = "".join(character if character.isprintable() else " " for character in plain).split()
    line = " ".join(words)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def reason(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said or type(error).__name__
