"""What came of an evaluation, and how a value is read.

The value is the last line that is not blank: a finite number, or a JSON object with one under "value".
"""

import json
import re
from dataclasses import dataclass

from ebbtide.checks import as_finite

TAIL = 64 * 1024  # bytes kept of a command's output
LONGEST_QUOTE = 200


@dataclass(frozen=True)
class Outcome:
    """A value, or one line about what went wrong."""

    value: float | None
    problem: str | None
    seconds: float


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


def value_of_last_line(tail: Tail, said: str) -> tuple[float | None, str | None]:
    line = tail.last_line()
    if line is None:
        return None, f"{said} nothing"
    if tail.torn:
        return None, f"{said} a last line longer than {TAIL} bytes"
    value = _number(line)
    return value, None if value is not None else _no_number(line)


def value_of_body(body: bytes) -> tuple[float | None, str | None]:
    """The same rule, but a JSON object may also span several lines."""
    text = body.decode(errors="replace").strip()
    if not text:
        return None, "the answer is empty"
    line = body.strip().splitlines()[-1].decode(errors="replace").strip()
    value = _number(line)
    if value is None:
        value = _number(text)
    return value, None if value is not None else _no_number(line)


def _no_number(line: str) -> str:
    return f'the last line is {one_line(line, 60)!r}, not a finite number or a JSON object with one as "value"'


def _number(text: str) -> float | None:
    try:
        if text.startswith("{"):
            return as_finite(json.loads(text)["value"])
        return None if "_" in text else as_finite(float(text))  # only Python takes 2024_01 for a number
    except (ValueError, KeyError, RecursionError):
        return None


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
