"""The log of the service: the logger `ebbtide.service`, one line per event, made of key=value pairs.

    verb=ask study=edge-7 client=127.0.0.1 status=503 duration_ms=12.4 error=BusyError reason="256 asks of ..."

Whatever a client sends is cut and escaped, and tracebacks are indented, so that nothing can pass for a line or a pair
of ours.
Tokens, bodies and query strings are never logged.
"""

import json
import logging
import re
import textwrap
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

logger = logging.getLogger("ebbtide.service")

PLAIN = re.compile(r"[\w./:*@{}+-]+", re.ASCII)
MAX_VALUE = 300  # characters of one value
MAX_REFUSALS_S = 100  # lines per second about refused requests: a flood must not fill the disk


class Formatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatException(
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return textwrap.indent(super().formatException(ei), "    ", lambda line: True)


# For `ebbtide serve` and `dashboard`. uvicorn's warnings are about requests that we log ourselves.
TO_STDERR: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": Formatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "loggers": {
        "ebbtide.service": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
    },
}


def line(values: Mapping[str, object]) -> str:
    """The pairs as one line; those without a value are left out."""
    return " ".join(f"{key}={_shown(value)}" for key, value in values.items() if value is not None)


def _shown(value: object) -> str:
    text = str(value)
    text = text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
    return text if PLAIN.fullmatch(text) else json.dumps(text)  # in ASCII: no character can end or reverse the line


class Throttle:
    """Lets `most` lines per second through, and counts the others."""

    def __init__(self, most: int = MAX_REFUSALS_S) -> None:
        self.most = most
        self._second, self._lines, self._suppressed = 0, 0, 0

    def allow(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            if self._suppressed:
                logger.warning(line({"suppressed": self._suppressed}))
            self._second, self._lines, self._suppressed = second, 0, 0
        self._lines += 1
        if self._lines > self.most:
            self._suppressed += 1
            return False
        return True
