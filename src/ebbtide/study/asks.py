"""One ask in progress: planned from what is known, computed here or in another process, then recorded."""

import math
from dataclasses import dataclass

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
