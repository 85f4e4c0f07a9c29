"""What can be read of a study at any time, without a model being computed."""

from statistics import median
from typing import Any

import numpy as np

from ebbtide.gp.arrays import Mask
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.records import Model, Observation, Trial, Violations, copied
from ebbtide.study.active import Dataset
from ebbtide.study.advice import advice
from ebbtide.study.conditions import Conditions
from ebbtide.study.engine import Engine
from ebbtide.study.gain import AROUND, COMPARED, Gain, gain
from ebbtide.study.log import Log


def cycles_of(hyper: Hyperparameters, conditions: Conditions) -> dict[str, dict[str, float]]:
    """By cycle: the share of the variance that comes back, and how long its course stays the same."""
    fitted = zip(conditions.cycles, hyper.cycles, strict=False)  # a model without a kernel in time has none
    return {name: {"share": share, "length": length} for name, (share, length, _) in fitted}


class StudyReads:
    """The properties of an optimizer: all of them read its engine or its log, and change nothing."""

    _engine: Engine
    _log: Log

    @property
    def dataset(self) -> Dataset:
        """The active observations: `.x` (unit cube), `.t`, `.y`; `.c` and `.outcomes`, if there is a context, …"""
        return self._engine.active.dataset

    @property
    def history(self) -> list[Observation]:
        """Every observation ever told, in the order told; with the time and the relevance at its removal, if any."""
        return self._log.history()

    @property
    def asked(self) -> int:
        """How many trials were ever asked for."""
        return self._engine.state.asks

    @property
    def told(self) -> int:
        """How many observations were ever told: the length of the history, without reading it."""
        return self._engine.active.told

    @property
    def pending(self) -> int:
        """How many of the last thousand trials are neither told nor failed."""
        return len(self._engine.active.pending)

    @property
    def pending_trials(self) -> list[Trial]:
        """These trials, in the order asked."""
        return [copied(trial) for trial in self._engine.active.pending.values()]

    @property
    def response(self) -> float | None:
        """The time that recent asks took (their median), in the clock's unit; None before the first ask."""
        return median(self._engine.state.responses) if self._engine.state.responses else None

    @property
    def model(self) -> Model:
        """Kernel, noise, and how y is transformed and standardised, as last fitted."""
        return self._engine.model

    @property
    def set_aside(self) -> Mask:
        """Which rows of the dataset are outliers, which the model leaves out (`robust=True`); judged at each ask."""
        return self._engine.outlying(np.arange(len(self._engine.active)))

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """scale, lengthscale, timescale (in the clock's unit) and noise (a variance), of the standardised values.

        Also `context`, a lengthscale for each of its coordinates, and `cycles`, if the study has them: by name, the
        share of the variance that comes back, and the time for which its course stays the same; and `jumps`, which is
        True, while the objective is modelled as one that jumps.
        """
        hyper = self._engine.hyper
        timescale = {} if hyper.timescale is None else {"timescale": hyper.timescale}
        context = {"context": hyper.context} if hyper.context else {}
        cycles = {"cycles": cycles_of(hyper, self._engine.definition.conditions)} if hyper.cycles else {}
        found = {"scale": hyper.scale, "lengthscale": hyper.lengthscale} | timescale | {"noise": hyper.noise}
        return found | context | cycles | ({"jumps": True} if hyper.jumps else {})

    @property
    def siblings(self) -> int:
        """How many other studies of the family the prior of the last ask was learned from; 0 for a study without."""
        family = self._engine.family
        return 0 if family is None else family.siblings

    @property
    def gain(self) -> Gain | None:
        """How much better the holds are than the baseline, with a 95 % interval; None while too little was measured."""
        defined = self._engine.definition
        if defined.live.baseline is None:
            return None
        return gain(self._log.baseline_and_holds(COMPARED, AROUND), defined.direction)

    @property
    def violations(self) -> Violations | None:
        """How often asks broke a constraint, over the whole history; None for a study without constraints."""
        return self._engine.definition.conditions.violations(self._engine.active.broken)

    @property
    def warnings(self) -> list[str]:
        """What you should know, in plain sentences: too fast a drift for how often you measure, many failures, …"""
        return advice(self._engine)

    @property
    def guards(self) -> dict[str, int]:
        """How often each safeguard stepped in (docs: Troubleshooting)."""
        return dict(self._engine.state.guards)
