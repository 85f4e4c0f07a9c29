"""Studies that a worker keeps between two asks save time, within a bound of memory, and change nothing asked."""

import asyncio
import os
import pickle
import signal
from typing import Any, cast

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.serving import PATIENCE_S

import ebbtide as eb
from ebbtide.service import followed, worker
from ebbtide.service.followed import FollowedOptimizer
from ebbtide.service.warm_studies import WarmStudies
from ebbtide.service.worker import Bounds
from ebbtide.service.workers import Workers
from ebbtide.study.engine import Engine

HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))


@pytest.fixture
def begun(tmp_path):
    """A function that begins a study, which workers follow."""
    opened = []

    def begin(name="edge"):
        url, clock = f"sqlite:///{tmp_path}/s.db", eb.ManualClock()
        study = {"storage": url, "name": name, "direction": "maximize", "clock": clock, "seed": 0, "algorithm": HASTY}
        eb.Optimizer(UNIT_SQUARE, **cast(Any, study)).close()
        opened.append(FollowedOptimizer.open(url, name, clock=clock))
        return opened[-1]

    yield begin
    for opt in opened:
        opt.close()


def sent(news):
    """As it arrives in a worker."""
    return pickle.loads(pickle.dumps(news))


def asked(opt, name="edge"):
    """The news, and the engine as it arrives in a worker, after an ask of its own."""
    news = sent(opt.news(name, whole=True))
    news.engine.step(opt.clock.now())
    return news, news.engine


def taken(kept, news):
    engine = kept.take(news)
    assert engine is not None
    return engine


def nbytes_of(news, engine):
    kept = WarmStudies(most_bytes=1 << 30)
    kept.keep(news, engine)
    return kept._known[news.study].nbytes


def is_kept(kept, news):
    return kept.take(news._replace(base=news.version, engine=None)) is not None


def test_the_study_that_was_not_used_for_longest_makes_room(begun):
    studies = []
    for name in "abc":
        opt = begun(name)
        drive(opt, moving_bump, 15)
        studies.append(asked(opt, name))
    kept = WarmStudies(most_bytes=sum(nbytes_of(*each) for each in studies[1:]) + 10)
    for news, engine in studies:
        kept.keep(news, engine)
    assert [is_kept(kept, news) for news, _ in studies] == [False, True, True]
    assert not is_kept(kept, studies[1][0])  # whoever takes it must give it back


def test_of_a_study_whose_model_is_too_large_only_the_observations_are_kept(begun):
    opt = begun()
    drive(opt, moving_bump, 15)
    news, engine = asked(opt)
    assert engine.warm is not None
    kept = WarmStudies(most_bytes=nbytes_of(news, engine) - 1)
    kept.keep(news, engine)
    assert engine.warm is None
    assert is_kept(kept, news)


@pytest.mark.parametrize("most_bytes", [0, 1 << 30], ids=["cold", "warm"])
def test_workers_that_take_turns_compute_what_the_optimizer_would(begun, monkeypatch, most_bytes):
    opt, workers, wholes = begun(), [WarmStudies(most_bytes) for _ in range(2)], []
    drive(opt, moving_bump, 20)
    for k in range(12):
        monkeypatch.setattr(worker, "_studies", workers[k // 3 % 2])
        plan = opt._plan()
        step = worker.compute_step(worker.packed(opt.news("edge"), plan))
        wholes.append(step is None)
        if step is None:
            step = worker.compute_step(worker.packed(opt.news("edge", whole=True), plan))
        drive(opt, moving_bump, 1)
        assert opt._log.trials()[-1].params == opt.space.decode(step.x)
    assert wholes == [k % 3 == 0 and k > 0 for k in range(12)]  # the first news are everything
    assert (workers[1]._known["edge"].engine.warm is None) == (most_bytes == 0)


def same(one, other):
    """Whether two engines know the same, to the last bit."""
    assert type(other) is Engine
    tables = [(engine.active.lines, *vars(engine.active.dataset).values()) for engine in (one, other)]
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*tables, strict=True))
    course, of_other = one.course, other.course
    assert (course is None) == (of_other is None)
    if course is not None:
        assert course.turns == of_other.turns
        assert pickle.dumps(dict(course.gone)) == pickle.dumps(dict(of_other.gone))
    known = [(e.state, e.active.pending, e.active.in_force, e.active.told, e.active.values_told) for e in (one, other)]
    return known[0] == known[1] and np.array_equal(one.active.recent_times, other.active.recent_times)


def test_whoever_is_told_what_has_changed_knows_what_the_optimizer_knows(begun, tmp_path):
    """Also if another process asks and tells, beside failures and evaluations that were called off."""
    opt, kept = begun(), WarmStudies(1 << 30)
    first = sent(opt.news("edge"))
    kept.keep(first, taken(kept, first))
    with eb.Optimizer.open(f"sqlite:///{tmp_path}/s.db", "edge", clock=opt.clock) as other:
        for k in range(30):
            opt.clock.advance(1.0)
            asking, telling = (opt, other) if k % 3 else (other, opt)
            trial = asking.ask()
            telling.tell({"x": 0.1, "y": k / 30}, float(k % 7))
            if k % 5:
                telling.tell(trial, None if k % 4 == 0 else float(k), failed=k % 8 == 0, abandoned=k % 8 == 4)
            opt._catch_up()
            news = sent(opt.news("edge"))
            assert news.engine is None
            engine = taken(kept, news)
            assert same(opt._engine, engine)
            kept.keep(news, engine)


def test_what_does_not_build_on_what_a_worker_knows_is_refused(begun):
    opt, kept = begun(), WarmStudies(1 << 30)
    drive(opt, moving_bump, 3)
    first = sent(opt.news("edge"))
    kept.keep(first, taken(kept, first))
    drive(opt, moving_bump, 1)
    opt.news("edge")  # which never arrives
    drive(opt, moving_bump, 1)
    assert kept.take(sent(opt.news("edge"))) is None
    assert kept.take(sent(opt.news("edge", whole=True))) is not None


def test_a_model_is_still_used_when_everything_is_told_again(begun):
    opt, kept = begun(), WarmStudies(1 << 30)
    drive(opt, moving_bump, 15)
    news, engine = asked(opt)
    model = engine.warm
    kept.keep(news, engine)
    opt.news("edge")  # which never arrives
    assert kept.take(sent(opt.news("edge"))) is None
    assert taken(kept, sent(opt.news("edge", whole=True))).warm is model
    assert model is not None


def test_after_very_many_tells_everything_is_told_again(begun, monkeypatch):
    monkeypatch.setattr(followed, "MOST_CHANGES", 3)
    opt = begun()
    opt.news("edge")
    for value in range(4):
        assert opt.news("edge").engine is None if value == 3 else True
        opt.tell({"x": 0.5, "y": 0.5}, float(value))
    for value in range(4):
        opt.tell({"x": 0.5, "y": 0.5}, float(value))
    assert len(opt._engine._changes) <= 3
    assert opt.news("edge").engine is not None
    opt.tell({"x": 0.5, "y": 0.5}, 1.0)
    assert len(opt.news("edge").changes) == 1


def test_after_a_change_that_failed_everything_is_told_again(begun, monkeypatch):
    opt = begun()
    opt.news("edge")

    def fails(self, observation):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("ebbtide.study.active.ActiveSet.record", fails)
        with pytest.raises(MemoryError):
            opt.tell({"x": 0.5, "y": 0.5}, 1.0)
    assert opt.news("edge").engine is not None


@pytest.mark.slow
def test_asks_are_the_same_when_the_worker_of_a_study_dies_or_is_busy(begun):
    """Real processes: the study's worker is killed once, and later frozen; whoever takes over is told everything."""
    opt, workers, wholes = begun(), Workers(2, 0, Bounds(seconds=PATIENCE_S)), []
    drive(opt, moving_bump, 15)

    async def step_of(plan):
        step, tries = None, 0
        while step is None:
            work = worker.packed(opt.news("edge", whole=tries > 0), plan)
            step = await workers.do("edge", len(opt._engine.active), worker.compute_step, work)
            tries += 1
        wholes.append(tries > 1)
        return step

    async def asks():
        for k in range(12):
            step = await step_of(opt._plan())
            drive(opt, moving_bump, 1)
            assert opt._log.trials()[-1].params == opt.space.decode(step.x)
            if k in (3, 7):
                owner = await workers.do("edge", 0, os.getpid)
                os.kill(owner, signal.SIGKILL if k == 3 else signal.SIGSTOP)

    try:
        asyncio.run(asyncio.wait_for(asks(), 3 * PATIENCE_S))
    finally:
        workers.close()
    assert wholes[4]
    assert wholes[8]
