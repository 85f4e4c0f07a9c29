"""One study for all tests of the dashboard; its callbacks wrote down what happened as it happened."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers.stories import N_INITIAL, SPACE, Story, drifting, url

import ebbtide as eb
from ebbtide.dashboard.views import Views
from ebbtide.study.storage import Storage


@pytest.fixture(scope="session")
def story(tmp_path_factory):
    """168 asks, some three at a time; tells in any order, one in ten failed, and some of values measured elsewhere."""
    story = Story(tmp_path_factory.mktemp("story") / "s.db")

    def write_down(event):
        if isinstance(event, eb.Told):
            story.asked_before.append(opt.asked)
            return
        story.asked.append(event)
        story.told_before.append(opt.told)
        if opt.asked > N_INITIAL:
            story.recommended[int(event.trial.id)] = opt.recommend()

    rng, clock, pending = np.random.default_rng(0), eb.ManualClock(), []
    forgetful = replace(eb.algorithms.get("tide"), staleness=eb.WassersteinBudget())
    opt = eb.Optimizer(
        SPACE,
        algorithm=forgetful,
        clock=clock,
        seed=1,
        n_initial=N_INITIAL,
        storage=url(story.path),
        name="edge",
        callbacks=[write_down],
    )
    with closing(opt):
        for number in range(120):
            pending += opt.ask(3 if number % 5 == 0 else 1)
            while len(pending) > 2:
                trial = pending.pop(int(rng.integers(len(pending))))
                if rng.random() < 0.1:
                    opt.tell(trial, failed=True)
                else:
                    opt.tell(trial, drifting(trial.params, trial.time))
            if rng.random() < 0.1:
                opt.tell({"x": float(rng.random()), "k": 2}, 0.3, time=clock.now() * float(rng.random()))
            clock.advance(float(rng.random()))
        story.history = opt.history
    assert sum(told.failed for told in story.history) > 5
    assert sum(told.trial_id is None for told in story.history) > 5
    assert len(story.removals) > 50
    return story


@pytest.fixture(scope="session")
def stored(story):
    with closing(Storage.of(url(story.path), read_only=True)) as storage:
        yield storage


@pytest.fixture
def views(stored):
    return Views(stored)
