"""A sampler that is replaced in the middle asks what the first would have asked: the turns are in the notes."""

import numpy as np
import optuna
import pytest

import ebbtide as eb
from ebbtide.integrations.optuna import EbbtideSampler

pytestmark = pytest.mark.filterwarnings("ignore")
HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))
SPACE = {"x": optuna.distributions.FloatDistribution(0.0, 1.0), "y": optuna.distributions.FloatDistribution(0.0, 1.0)}


@pytest.mark.parametrize("algorithm", ["tide", "keep-all", HASTY], ids=["tide", "keep-all", "hasty"])
def test_a_new_sampler_every_few_trials_asks_the_same(algorithm):
    def sampler(clock):
        return EbbtideSampler(algorithm, clock=clock, seed=3, n_initial=4)

    clocks = eb.ManualClock(), eb.ManualClock()
    studies = [optuna.create_study(sampler=sampler(clock)) for clock in clocks]
    rng = np.random.default_rng(0)
    for k in range(45):
        trials = [study.ask(SPACE) for study in studies]
        assert trials[0].params == trials[1].params
        value = (trials[0].params["x"] - 0.5 - 0.3 * np.sin(k / 20)) ** 2 + 0.05 * float(rng.standard_normal())
        for study, trial, clock in zip(studies, trials, clocks, strict=True):
            study.tell(trial, value)
            clock.advance(1.0)
        if k % 4 == 0:
            studies[1].sampler = sampler(clocks[1])
    anchors = [trial.system_attrs["ebbtide:ask"]["state"].get("anchor") for trial in studies[0].trials[10:]]
    assert any(anchor is not None and anchor < number for number, anchor in enumerate(anchors, 10))
