"""One ask on its way: planned from what is known, worked out here or in another process, then recorded."""

import math
from dataclasses import dataclass

from ebbtide.records import Trial
from ebbtide.study.engine import Engine
from ebbtide.study.log import Ask
from ebbtide.study.step import Step


@dataclass(frozen=True)
class Plan:
    """An ask to be worked out: from what is known after so many asks and tells, at a time."""

    engine: Engine
    now: float
    until: float
    asks: int
    told: int

    def step(self) -> Step:
        return self.engine.step(self.now, self.until)

    def outcome(self, step: Step, engine: Engine, landed: float, lease: float | None) -> Ask:
        """What is recorded of it. `engine` may have been told more since the plan was made, but has not asked."""
        time = landed if step.wait is None else max(landed, step.wait)
        lines: list[int] = engine.active.lines[step.rows].tolist()
        return Ask(
            trial=Trial(str(self.asks), engine.space.decode(step.x), time, None if lease is None else time + lease),
            told=self.told,
            now=self.now,
            until=None if self.until == math.inf else self.until,
            landed=landed,
            removed=tuple(zip(lines, step.scores, strict=True)),
            state=step.after(engine.state, self.now, landed),
        )
