"""Models that a worker keeps between two asks save time, within a bound of memory, and change nothing that is asked."""

import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump

import ebbtide as eb
from ebbtide.service import worker
from ebbtide.service.warm_models import WarmModels

HASTY = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=8.0, min_active=5))


def begun(seed=0):
    return eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(), seed=seed, algorithm=HASTY)


def warm_after(opt):
    opt.ask()
    return opt._engine.warm


def test_the_model_that_was_not_used_for_longest_makes_room():
    models = [warm_after(opt) for opt in map(begun, range(3)) if drive(opt, moving_bump, 15).size]
    kept = WarmModels(most_bytes=2 * max(each.nbytes for each in models) + 10)
    for name, model in zip("abc", models, strict=True):
        kept.keep(name, model)
    assert kept.take("a") is None
    assert kept.take("b") is models[1]
    assert kept.take("b") is None
    assert kept.take("c") is models[2]


def test_a_model_that_is_too_large_is_not_kept():
    opt = begun()
    drive(opt, moving_bump, 15)
    kept = WarmModels(most_bytes=1000)
    kept.keep("a", warm_after(opt))
    kept.keep("b", None)
    assert (kept.take("a"), kept.take("b")) == (None, None)


@pytest.mark.parametrize("most_bytes", [0, 1 << 30], ids=["cold", "warm"])
def test_workers_that_take_turns_compute_what_the_optimizer_would(monkeypatch, most_bytes):
    opt = begun()
    drive(opt, moving_bump, 20)
    workers = [WarmModels(most_bytes) for _ in range(2)]
    for k in range(12):
        monkeypatch.setattr(worker, "_warm", workers[k % 3 % 2])  # one of them misses some asks
        step = worker.compute_step(worker.packed("edge", opt._plan()))
        drive(opt, moving_bump, 1)
        assert opt._log.trials()[-1].params == opt.space.decode(step.x)
    assert (workers[0].take("edge") is None) == (most_bytes == 0)
