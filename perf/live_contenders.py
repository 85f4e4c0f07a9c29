"""Who takes part in `perf/live.py`: ebbtide, the default and a rotating grid. Optuna's TPE is in live_tpe.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from live_run import Measurement
from systems import Settings, System

import ebbtide as eb
from ebbtide.cli.described import space_of
from ebbtide.space import Space

EXPLORE, BASELINE_EVERY = 0.5, 20


class Ebbtide:
    """Hold and probe, with the default as start and baseline; the study is stored, so that it resumes exactly.

    `told` is what the optimizer is told beyond that, such as its cycles.
    """

    def __init__(self, name: str, space: Space, default: Settings, seed: int, database: Path, **told: Any) -> None:
        self.name, self.space, self.default, self.seed, self.database = name, space, default, seed, database
        self.told = told

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        self.clock = eb.ManualClock(start=now)
        self.optimizer = eb.Optimizer(
            self.space,
            direction="maximize",
            explore=EXPLORE,
            start=self.default,
            baseline=self.default,
            baseline_every=BASELINE_EVERY,
            clock=self.clock,
            seed=self.seed,
            storage=f"sqlite:///{self.database}",
            name=self.name,
            **self.told,
        )
        if mine:
            self.tell(mine[-1])  # it may have been killed before it told it; telling again changes nothing

    def ask(self, now: float) -> tuple[Settings, str | None]:
        self.clock.advance(max(0.0, now - self.clock.now()))
        trial = self.optimizer.ask()
        return dict(trial.params), trial.id

    def tell(self, measured: Measurement) -> None:
        assert measured.trial is not None
        trial = self.optimizer.trial(measured.trial)
        self.clock.advance(max(0.0, measured.ended - self.clock.now()))
        self.optimizer.tell(trial, measured.value, failed=measured.value is None)


def ebbtides(system: System, seed: int, day: float, database: Path) -> dict[str, Ebbtide]:
    """The same study, told more or less of the world around the system."""
    told: dict[str, dict[str, Any]] = {"ebbtide": {}, "ebbtide, told of the day": {"cycles": {"day": day}}}
    space = space_of(system.space)
    return {name: Ebbtide(name, space, system.default, seed, database, **words) for name, words in told.items()}


class Default:
    """The setting that would be used if nobody tuned anything."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        """It knows nothing."""

    def ask(self, now: float) -> tuple[Settings, str | None]:
        return self.settings, None

    def tell(self, measured: Measurement) -> None:
        """It learns nothing."""


class Grid:
    """Static settings in rotation; afterwards one of them is the best."""

    def __init__(self, grid: Sequence[Settings]) -> None:
        self.grid, self.measured = grid, 0

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        self.measured = len(mine)

    def ask(self, now: float) -> tuple[Settings, str | None]:
        return self.grid[self.measured % len(self.grid)], None

    def tell(self, measured: Measurement) -> None:
        self.measured += 1
