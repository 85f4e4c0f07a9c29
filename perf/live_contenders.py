"""Who takes part in `perf/live.py`: ebbtide, the default and a rotating grid. Optuna's TPE is in live_tpe.py."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from live_run import Measurement
from systems import Settings, System

import ebbtide as eb
from ebbtide.cli.described import space_of
from ebbtide.study.limits import constraints_of

EXPLORE, BASELINE_EVERY = 0.5, 20


class Ebbtide:
    """Hold and probe, with the default as start and baseline; the study is stored, so that it resumes exactly.

    `told` is what the optimizer is told beyond that: cycles, a context, constraints. `load` measures the context.
    """

    def __init__(
        self,
        name: str,
        system: System,
        seed: int,
        database: Path,
        told: Mapping[str, Any],
        load: Callable[[float], Settings] | None = None,
    ) -> None:
        self.name, self.seed, self.database, self.told, self.load = name, seed, database, told, load
        self.space, self.default = space_of(system.space), system.default

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
        trial = self.optimizer.ask(context=None if self.load is None else self.load(now))
        return dict(trial.params), trial.id

    def tell(self, measured: Measurement) -> None:
        assert measured.trial is not None
        trial = self.optimizer.trial(measured.trial)
        self.clock.advance(max(0.0, measured.ended - self.clock.now()))
        beside = {word: getattr(measured, word) for word in ("context", "constraints") if word in self.told}
        self.optimizer.tell(trial, measured.value, failed=measured.value is None, **beside)


def ebbtides(system: System, seed: int, day: float, database: Path) -> dict[str, Ebbtide]:
    """The same study, told more or less of the world around the system.

    A limit costs goodput, and is meant to: so what the load buys is measured without it, and what the limit costs by
    two studies that both know the load.
    """
    made = [
        Ebbtide("ebbtide", system, seed, database, {}),
        Ebbtide("ebbtide, told of the day", system, seed, database, {"cycles": {"day": day}}),
    ]
    if (measured := system.load) is not None:
        context, limit = with_load(system)

        def load(now: float) -> Settings:
            return measured(now, day)

        made += [
            Ebbtide("ebbtide, told of the load", system, seed, database, context, load),
            Ebbtide("ebbtide, told of the load and the limit", system, seed, database, context | limit, load),
        ]
    return {ebbtide.name: ebbtide for ebbtide in made}


def with_load(system: System) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a study is told of the load, and of the limit."""
    described = tomllib.loads(system.space_with_load.read_text(encoding="utf-8"))
    limit = {"constraints": described["constraints"], "violation_rate": described["study"]["violation_rate"]}
    return {"context": described["context"]}, limit


def limits_of(system: System) -> dict[str, eb.AtMost | eb.AtLeast]:
    """The limits of a system; of one whose load is not measured, none."""
    return {} if system.load is None else constraints_of(with_load(system)[1]["constraints"])


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
