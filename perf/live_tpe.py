"""Optuna's TPE as a contender of `perf/live.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from live_run import Measurement
from systems import Settings

import ebbtide as eb
from ebbtide.space import Space


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
