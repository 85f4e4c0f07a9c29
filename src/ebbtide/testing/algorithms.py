"""What an algorithm must do, driven through the optimizer as a user would."""

import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from ebbtide.algorithms import Algorithm
from ebbtide.clock import ManualClock, wait_until
from ebbtide.errors import EbbtideWarning
from ebbtide.optimizer import Optimizer
from ebbtide.records import Trial
from ebbtide.space import Categorical, Float, Int, Ordinal, Parameter
from ebbtide.study.limits import AtMost
from ebbtide.testing.expectations import expect

MIXED: dict[str, Parameter] = {
    "power": Float(1.0, 300.0, log=True),
    "width": Int(1, 8),
    "share": Float(0.0, 1.0, step=0.1),
    "batch": Ordinal([64, 128, 512]),
    "codec": Categorical(["a", "b", "c"]),
}
STEPS = 30
CONDITIONED = 8  # steps with a context and constraints, before and after a snapshot

Value = Callable[[dict[str, Any], float], float]


def _cube(algorithm: Algorithm) -> dict[str, Parameter]:
    """As many floats as the kernel has lengthscales; two if it has one."""
    width = len(algorithm.spatial.lengthscale) if isinstance(algorithm.spatial.lengthscale, tuple) else 2
    return {f"x{i}": Float(-1.0, 1.0) for i in range(width)}


def _hill(params: dict[str, Any], t: float) -> float:
    top = 0.6 * math.sin(t / 12.0)
    return math.exp(-3.0 * sum((value - top) ** 2 for value in params.values()))


def _mixed(params: dict[str, Any], t: float) -> float:
    wanted = 3.0 + 2.0 * math.sin(t / 12.0)
    bonus = 0.5 if params["codec"] == "b" else 0.0
    return bonus - abs(math.log(params["power"]) - wanted) - 0.2 * abs(float(params["width"]) - 5.0)


def _optimizer(
    algorithm: Algorithm,
    space: dict[str, Parameter] | None = None,
    seed: int = 0,
    direction: Literal["minimize", "maximize"] = "maximize",
) -> Optimizer:
    return Optimizer(
        space or _cube(algorithm), direction=direction, algorithm=algorithm, clock=ManualClock(), seed=seed
    )


def _step(opt: Optimizer, value: Value) -> Trial:
    trial = opt.ask()
    wait_until(opt.clock, trial.time)
    opt.tell(trial, value(trial.params, trial.time))
    wait_until(opt.clock, opt.clock.now() + 1.0)
    return trial


def _trials(opt: Optimizer, value: Value = _hill, steps: int = STEPS) -> list[Trial]:
    return [_step(opt, value) for _ in range(steps)]


def asks_are_feasible_and_finite(algorithm: Algorithm) -> None:
    mixed = not algorithm.spatial.ard  # one lengthscale per coordinate fits only a space of that many coordinates
    opt = _optimizer(algorithm, MIXED if mixed else None)
    for _ in range(STEPS):
        now = opt.clock.now()
        trial = _step(opt, _mixed if mixed else _hill)
        expect(opt.space.check(trial.params) == trial.params, f"{trial.params} is not in the space")
        expect(now <= trial.time < math.inf, f"a query asked for at time {now} is for {trial.time}")
    best = opt.recommend()
    mean, std = opt.predict(best.params)
    numbers = (best.mean, best.std, mean, std)
    expect(all(map(math.isfinite, numbers)), f"predictions are not finite: {numbers}")
    expect(std > 0.0, f"a prediction has std {std}")


def same_seed_same_asks(algorithm: Algorithm) -> None:
    first, second = (_trials(_optimizer(algorithm, seed=3)) for _ in range(2))
    expect(first == second, "two runs with the same seed, clock and values asked for different points")
    other = _trials(_optimizer(algorithm, seed=4), steps=3)
    expect(first[:3] != other, "another seed asked for exactly the same points")


def reads_leave_no_trace(algorithm: Algorithm) -> None:
    plain = _trials(_optimizer(algorithm))
    opt = _optimizer(algorithm)
    read = []
    for _ in range(STEPS):
        read.append(_step(opt, _hill))
        opt.recommend()
        opt.predict(read[-1].params)
        _ = opt.hyperparameters, opt.history, opt.dataset, opt.guards
        if algorithm.temporal is not None:
            opt.relevance()
    expect(plain == read, "reading between the asks changed what was asked")


def goes_on_from_a_snapshot(algorithm: Algorithm) -> None:
    plain = _trials(_optimizer(algorithm))
    opt, resumed = _optimizer(algorithm), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.json"
        for k in range(STEPS):
            if k % 6 == 5:
                opt.save(path)
                opt = Optimizer.load(path, algorithm=algorithm)
            resumed.append(_step(opt, _hill))
    expect(plain == resumed, "a saved and loaded optimizer asked for other points than the uninterrupted one")


def minimizing_mirrors_maximizing(algorithm: Algorithm) -> None:
    up = _trials(_optimizer(algorithm, direction="maximize"))
    down = _trials(_optimizer(algorithm, direction="minimize"), lambda params, t: -_hill(params, t))
    expect(up == down, "minimizing −f asked for other points than maximizing f")


def keeps_count_of_everything(algorithm: Algorithm) -> None:
    opt = _optimizer(algorithm)
    _trials(opt)
    expect(len(opt.history) == STEPS, f"{STEPS} values were told, but the history has {len(opt.history)}")
    active = [observation for observation in opt.history if observation.active]
    both = f"{len(active)} are active in the history, {len(opt.dataset)} in the dataset"
    expect(len(active) == len(opt.dataset), both)
    gone = [observation for observation in opt.history if not observation.active]
    expect(all(o.removed_at is not None for o in gone), "an observation was removed, but removed_at is None")


def stays_within_its_capacity(algorithm: Algorithm) -> None:
    capacity = algorithm.staleness.capacity
    if capacity is None:
        return
    opt = _optimizer(algorithm)
    wait_until(opt.clock, float(capacity + 20))
    for k in range(capacity + 20):
        place = {name: math.sin((2.4 + i) * k) for i, name in enumerate(_cube(algorithm))}
        opt.tell(place, _hill(place, float(k)), time=float(k))
    opt.ask()
    expect(len(opt.dataset) <= capacity, f"{len(opt.dataset)} observations are active, but the capacity is {capacity}")


def survives_hard_times(algorithm: Algorithm) -> None:
    """Failures, constants, outliers, batches, late and repeated values may cause warnings, but every ask succeeds."""
    opt = _optimizer(algorithm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EbbtideWarning)
        for k in range(STEPS):
            batch = opt.ask(n=2)
            wait_until(opt.clock, max(trial.time for trial in batch))
            opt.tell(batch[1], 1e12 if k == 20 else 1.0)
            if k % 3:
                opt.tell(batch[0], failed=True)
            opt.tell(dict.fromkeys(_cube(algorithm), 0.0), 1.0, time=opt.clock.now() / 2.0)
            wait_until(opt.clock, opt.clock.now() + (0.0 if k % 2 else 1.0))
        last = opt.ask()
    expect(opt.space.check(last.params) == last.params, f"{last.params} is not in the space")


def takes_a_context_a_cycle_and_constraints(algorithm: Algorithm) -> None:
    """Asked in a context, with a limit and, if it reads the clock, a cycle; and saved and loaded in between."""
    reads_the_clock = algorithm.temporal is not None and not algorithm.temporal.by_step
    cube = _cube(algorithm)
    opt = Optimizer(
        cube,
        direction="maximize",
        algorithm=algorithm,
        clock=ManualClock(),
        seed=0,
        context={"load": Float(0.0, 1.0), "backend": Categorical(["a", "b"])},
        cycles={"day": 6.0} if reads_the_clock else None,
        constraints={"latency": AtMost(0.8)},
        start=dict.fromkeys(cube, 0.0),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.json"
        _in_the_world(opt, CONDITIONED)
        opt.save(path)
        again = Optimizer.load(path, algorithm=algorithm)
    plain, resumed = (_in_the_world(each, CONDITIONED) for each in (opt, again))
    expect(plain == resumed, "with a context and constraints, a loaded optimizer asked for other points")
    best = opt.recommend(context={"load": 0.5, "backend": "a"})
    numbers = (best.mean, best.std, best.feasible)
    expect(all(map(math.isfinite, numbers)), f"the recommendation is not finite: {numbers}")
    expect(0.0 <= best.feasible <= 1.0, f"the probability of meeting the constraints is {best.feasible}")


def _in_the_world(opt: Optimizer, steps: int) -> list[Trial]:
    trials = []
    for _ in range(steps):
        now = opt.clock.now()
        trial = opt.ask(context={"load": 0.5 + 0.4 * math.sin(now), "backend": "ab"[opt.asked % 2]})
        expect(opt.space.check(trial.params) == trial.params, f"{trial.params} is not in the space")
        wait_until(opt.clock, trial.time)
        latency = max(map(abs, trial.params.values()))
        opt.tell(trial, _hill(trial.params, trial.time), constraints={"latency": latency})
        wait_until(opt.clock, opt.clock.now() + 1.0)
        trials.append(trial)
    return trials


ALGORITHM_CHECKS = (
    asks_are_feasible_and_finite,
    same_seed_same_asks,
    reads_leave_no_trace,
    goes_on_from_a_snapshot,
    minimizing_mirrors_maximizing,
    keeps_count_of_everything,
    stays_within_its_capacity,
    survives_hard_times,
    takes_a_context_a_cycle_and_constraints,
)
