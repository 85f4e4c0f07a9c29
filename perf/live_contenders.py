"""Who takes part in `perf/live.py`: ebbtide, the default and a rotating grid. Optuna's TPE is in live_tpe.py."""

from collections.abc import Sequence
from pathlib import Path

from live_run import Measurement
from systems import Settings

import ebbtide as eb
from ebbtide.space import Space

EXPLORE, BASELINE_EVERY = 0.5, 10


class Ebbtide:
    """Hold and probe, with the default as start and baseline; the study is stored, so that it resumes exactly."""

    def __init__(self, space: Space, default: Settings, seed: int, database: Path) -> None:
        self.space, self.default, self.seed, self.database = space, default, seed, database

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
            name="live",
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
