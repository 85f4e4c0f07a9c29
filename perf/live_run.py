"""One run of `perf/live.py`: the contenders measure in turn, and the run goes on where it was interrupted.

Every measurement is a line of a journal. Whose turn it is, and at which time of day, follows from the journal alone:
the run's clock stands still while nothing runs.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from systems import Settings

from ebbtide.tuning import Outcome


@dataclass(frozen=True)
class Measurement:
    """A setting, and how the system did under it; `value` is None if the measurement failed."""

    contender: str
    settings: Settings
    value: float | None
    began: float  # seconds on the run's clock
    ended: float
    trial: str | None = None  # the contender's own name for it
    context: Any = None  # the load meanwhile, if it was measured
    constraints: Any = None  # measured values that have a limit, if there are any


class Contender(Protocol):
    """Chooses settings, one measurement after the other."""

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        """Called once, before anything else, with what was measured before an interruption."""

    def ask(self, now: float) -> tuple[Settings, str | None]:
        """The next setting, and a name for this measurement if `tell` needs one."""

    def tell(self, measured: Measurement) -> None:
        """What came of the latest ask."""


class Journal:
    """The measurements of a run, a line of JSON for each; lines are only added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[Measurement]:
        """All measurements. A last line that was cut off is removed from the file."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        complete, newline, rest = text.rpartition("\n")
        if rest:
            self.path.write_text(complete + newline, encoding="utf-8")
        return [Measurement(**json.loads(line)) for line in complete.splitlines()]

    def add(self, measured: Measurement) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(measured)) + "\n")
            file.flush()
            os.fsync(file.fileno())


def turn(number: int, names: Sequence[str]) -> str:
    """Who makes measurement `number`: each once a round, and each round begins with the next one.

    >>> [turn(number, "abc") for number in range(9)]
    ['a', 'b', 'c', 'b', 'c', 'a', 'c', 'a', 'b']
    """
    lap, place = divmod(number, len(names))
    return names[(lap + place) % len(names)]


def run(
    journal: Journal,
    contenders: Mapping[str, Contender],
    measure: Callable[[Settings, float], Outcome],
    seconds: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[Measurement]:
    """Measure until the run's clock shows `seconds`; return all measurements, with those before an interruption."""
    done = journal.read()
    before = done[-1].ended if done else 0.0
    names, started = list(contenders), monotonic()
    for name, contender in contenders.items():
        contender.resume([measured for measured in done if measured.contender == name], before)

    def now() -> float:
        return before + monotonic() - started

    while now() < seconds:
        name = turn(len(done), names)
        settings, trial = contenders[name].ask(now())
        began = now()
        found = measure(settings, began)
        measured = Measurement(name, settings, found.value, began, now(), trial, found.context, found.constraints)
        journal.add(measured)  # before it is told: what is in the journal is told again if need be
        done.append(measured)
        contenders[name].tell(measured)
    return done
