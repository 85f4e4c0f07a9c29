"""Why a request was refused, or failed: for its client, and for the log."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

MAX_MESSAGE = 4000  # characters: a message may repeat what was sent
KEY = "ebbtide.problem"  # in the scope of a request
STUDY = "ebbtide.study"  # the same: the study that a request is about, if its path does not say so


@dataclass(frozen=True)
class Problem:
    kind: str
    message: str
    early: bool = False  # before any route was reached
    failure: Exception | None = None  # ours, not the client's: its traceback goes to the log

    @property
    def body(self) -> dict[str, Any]:
        """The one shape of every error."""
        shown = self.message if len(self.message) <= MAX_MESSAGE else f"{self.message[:MAX_MESSAGE]}…"
        return {"error": {"type": self.kind, "message": shown}}

    def note(self, scope: MutableMapping[str, Any]) -> None:
        """For the recorder, which logs it."""
        scope[KEY] = self


def problem_of(scope: MutableMapping[str, Any]) -> Problem | None:
    noted: Problem | None = scope.get(KEY)
    return noted
