"""Who takes part in `perf/live.py`: ebbtide, the default, a rotating grid, and Optuna's TPE."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from live_run import Measurement
from systems import Settings

import ebbtide as eb
from ebbtide.space import Space

EXPLORE = 0.2


class Ebbtide:
    """Hold and probe, from the default on; the study is stored, so that it resumes exactly."""

    def __init__(self, space: Space, default: Settings, seed: int, database: Path) -> None:
        self.space, self.default, self.seed, self.database = space, default, seed, database

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        self.clock = eb.ManualClock(start=now)
        self.optimizer = eb.Optimizer(
            self.space,
            direction="maximize",
            explore=EXPLORE,
            start=self.default,
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


class Tpe:
    """What an Optuna user has today: `ask` and `tell` of a study with the default sampler, from the default on."""

    def __init__(self, space: Space, default: Settings, seed: int) -> None:
        self.distributions, self.default, self.seed = distributions(space), default, seed

    def resume(self, mine: Sequence[Measurement], now: float) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=self.seed + len(mine))
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        for measured in mine:
            self.study.add_trial(self._frozen(measured))
        if not mine:
            self.study.enqueue_trial(self.default)

    def _frozen(self, measured: Measurement) -> optuna.trial.FrozenTrial:
        states = optuna.trial.TrialState
        return optuna.trial.create_trial(
            state=states.FAIL if measured.value is None else states.COMPLETE,
            value=measured.value,
            params=measured.settings,
            distributions=self.distributions,
        )

    def ask(self, now: float) -> tuple[Settings, str | None]:
        self.trial = self.study.ask(self.distributions)
        return dict(self.trial.params), None

    def tell(self, measured: Measurement) -> None:
        if measured.value is None:
            self.study.tell(self.trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(self.trial, measured.value)


def distributions(space: Space) -> Mapping[str, Any]:
    """The space in Optuna's words."""
    kinds = {eb.Int: optuna.distributions.IntDistribution, eb.Float: optuna.distributions.FloatDistribution}
    parameters: Mapping[str, Any] = space.parameters
    return {name: kinds[type(p)](p.low, p.high, log=p.log) for name, p in parameters.items()}
