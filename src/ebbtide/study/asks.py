"""One ask in progress: planned from what is known, computed here or in another process, then recorded.

Of several asks at once all succeed, or all are called off.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.errors import EbbtideError
from ebbtide.records import Trial
from ebbtide.study.engine import Engine
from ebbtide.study.log import Ask
from ebbtide.study.step import Step


@dataclass(frozen=True)
class Plan:
    """An ask to be computed at the time `now`, from what is known after this many asks and tells."""

    engine: Engine
    now: float
    until: float
    asks: int
    told: int

    def step(self) -> Step:
        return self.engine.step(self.now, self.until)

    def outcome(self, step: Step, engine: Engine, landed: float, lease: float | None) -> Ask:
        """The ask to record. Since the plan was made, `engine` may have been told more, but has not asked."""
        time = landed if step.wait is None else max(landed, step.wait)
        lines: list[int] = engine.active.lines[step.rows].tolist()
        params = engine.space.decode(step.x) if step.params is None else dict(step.params)
        expires = None if lease is None else time + lease
        return Ask(
            trial=Trial(str(self.asks), params, time, expires, step.kind),
            told=self.told,
            now=self.now,
            until=None if self.until == math.inf else self.until,
            landed=landed,
            removed=tuple(zip(lines, step.scores, strict=True)),
            state=step.after(engine.state, self.now, landed),
        )


def all_or_none(n: int, ask: Callable[[], Trial], call_off: Callable[[Trial], object]) -> list[Trial]:
    """Several trials; after an error, those that were made before it are called off."""
    trials: list[Trial] = []
    try:
        while len(trials) < n:
            trials.append(ask())
    except BaseException as error:
        name_pending(error, [trial for trial in trials if not _succeeds(call_off, trial)])
        raise
    return trials


def _succeeds(act: Callable[[Trial], object], trial: Trial) -> bool:
    try:
        act(trial)
    except EbbtideError:
        return False
    return True


def name_pending(error: BaseException, trials: Sequence[Trial]) -> None:
    """Let an error say which of several trials were made before it, and could not be called off."""
    if not trials:
        return
    said = f"made before this error, and still pending: {', '.join(trial.id for trial in trials)}"
    if isinstance(error, EbbtideError):
        error.args = (f"{error} ({said})",)
    else:
        error.add_note(said)
