"""Optuna's samplers on objectives that drift: regret and time per ask, side by side in one run.

    make perf-optuna

The clock moves by what each ask took, and by a second for the measurement. TPESampler and GPSampler know nothing
about time: they stand for what an Optuna user has today. All loops run in turns, in one process; GPSampler, which takes
minutes per run, with fewer seeds.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import optuna
import torch
from record import add_option, record

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.integrations.optuna import EbbtideSampler

MEASUREMENT_S = 1.0

SAMPLERS: dict[str, Callable[[eb.ManualClock, int], optuna.samplers.BaseSampler]] = {
    "EbbtideSampler": lambda clock, seed: EbbtideSampler(clock=clock, seed=seed),
    "TPESampler": lambda clock, seed: optuna.samplers.TPESampler(seed=seed),
    "GPSampler": lambda clock, seed: optuna.samplers.GPSampler(seed=seed),
}


@dataclass
class Loop:
    """One study of one sampler on one benchmark."""

    problem: Problem
    sampler: str
    seed: int
    duration: float
    regrets: list[float] = field(default_factory=list)
    asks: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock, self.rng = eb.ManualClock(), np.random.default_rng(self.seed)
        sampler = SAMPLERS[self.sampler](self.clock, self.seed)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)

    def step(self) -> None:
        began = time.perf_counter()
        trial = self.study.ask()
        x = [trial.suggest_float(f"x{i}", low, high) for i, (low, high) in enumerate(self.problem.bounds)]
        took = time.perf_counter() - began
        self.asks.append(took)
        self.clock.advance(took)
        t = min(1.0, self.clock.now() / self.duration)
        value = float(self.problem(np.array(x), t))
        self.regrets.append(float(self.problem.optimum(t)) - value)
        self.study.tell(trial, value + self.problem.noise_std * self.rng.normal())
        self.clock.advance(MEASUREMENT_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", nargs="+", default=["hartmann3", "eggholder", "shekel"])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--slow-seeds", type=int, default=3)
    add_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    torch.set_num_threads(1)
    print("| benchmark | sampler | trials | ask, ms | in the last tenth | average regret |")
    print("|---|---|---|---|---|---|")
    rows = []
    for name in options.benchmarks:
        problem = eb.benchmarks.get(name)
        seeds = {sampler: options.slow_seeds if sampler == "GPSampler" else options.seeds for sampler in SAMPLERS}
        loops = [
            Loop(problem, sampler, seed, options.seconds) for sampler in SAMPLERS for seed in range(seeds[sampler])
        ]
        while unfinished := [loop for loop in loops if loop.clock.now() < options.seconds]:
            min(unfinished, key=lambda loop: loop.clock.now()).step()
        for sampler in SAMPLERS:
            rows.append(report(name, sampler, [loop for loop in loops if loop.sampler == sampler]))
    record("optuna-samplers", rows, "make perf-optuna")


def report(benchmark: str, sampler: str, loops: list[Loop]) -> dict[str, object]:
    """A row: medians of the times, means of the rest."""
    asks = 1e3 * np.concatenate([loop.asks for loop in loops])
    last = 1e3 * np.concatenate([loop.asks[-(len(loop.asks) // 10) :] for loop in loops])
    regrets = [np.mean(loop.regrets) for loop in loops]
    error = np.std(regrets, ddof=1) / math.sqrt(len(loops)) if len(loops) > 1 else math.nan
    print(
        f"| {benchmark} | {sampler} | {np.mean([len(loop.asks) for loop in loops]):.0f} | {np.median(asks):.1f} "
        f"| {np.median(last):.1f} | {np.mean(regrets):.3g} ± {error:.2g} |",
        flush=True,
    )
    return {
        "benchmark": benchmark,
        "sampler": sampler,
        "trials": np.mean([len(loop.asks) for loop in loops]),
        "ask_ms": np.median(asks),
        "last_tenth_ms": np.median(last),
        "regret": np.mean(regrets),
        "error": error,
    }


if __name__ == "__main__":
    main()
