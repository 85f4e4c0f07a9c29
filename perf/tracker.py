"""Variants of `tide` on problems that no benchmark of the paper is among: which track better, and recommend better?

    make perf-tracker        (or: python perf/tracker.py --seeds 2 --only ard)

150 asks a run, noise with 5 % of the signal's variance. `asks`: the regret of what is asked; `recommendations`: of
what is recommended every seven asks (of W-DBO: the best posterior mean). Ratios to `tide`, paired by problem and seed:
geometric means with 95 % intervals, and by kind of problem.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from caution import EVERY, most_promising
from record import add_option, record
from tracker_problems import STEPS, Development, problems
from values import interval

import ebbtide as eb
from ebbtide.gp.arrays import Array

NOISE = 0.05**0.5  # deviations of the signal
TIDE = eb.algorithms.get("tide")
VARIANTS: dict[str, Callable[[int], eb.Algorithm]] = {  # by the number of parameters
    "w-dbo": lambda d: eb.algorithms.get("w-dbo"),
    "weight 1": lambda d: replace(TIDE, acquisition=eb.TrackingUCB(1.0)),
    "weight 2": lambda d: replace(TIDE, acquisition=eb.TrackingUCB(2.0)),
    "EI": lambda d: replace(TIDE, acquisition=eb.EI()),
    "average mean": lambda d: replace(TIDE, mean="average"),
    "keep all": lambda d: replace(TIDE, staleness=eb.KeepAll()),
    "jumps not noticed": lambda d: replace(TIDE, jumps=False),
    "as if it always jumped": lambda d: replace(TIDE, temporal=eb.Matern(0.5), jumps=False),
    "values as they are": lambda d: replace(TIDE, transform="none"),
    "smooth": lambda d: replace(TIDE, temporal=eb.Matern(2.5)),
    "ard": lambda d: replace(TIDE, spatial=eb.Matern(2.5, (1.0,) * d)),
}


def regrets(problem: Development, optima: Array, algorithm: eb.Algorithm, seed: int) -> tuple[float, float]:
    """Of what is asked, and of what is recommended."""
    clock, errors = eb.ManualClock(), np.random.default_rng([seed, 3]).normal(size=STEPS)
    space = {f"x{i}": eb.Float(0.0, 1.0) for i in range(problem.dim)}
    opt = eb.Optimizer(space, direction="maximize", clock=clock, seed=seed, algorithm=algorithm)
    asked, recommended = [], []
    for step in range(STEPS):
        trial = opt.ask()
        value = _value(problem, trial.params, step)
        asked.append(optima[step] - value)
        opt.tell(trial, value + NOISE * problem.deviation * errors[step])
        if step >= EVERY and step % EVERY == 0:
            published = algorithm == eb.algorithms.get("w-dbo")
            params = most_promising(opt) if published else opt.recommend().params
            recommended.append(optima[step] - _value(problem, params, step))
        clock.advance(1.0)
    return float(np.mean(asked)), float(np.mean(recommended))


def _value(problem: Development, params: eb.space.Params, step: int) -> float:
    return float(problem(np.array([list(params.values())]), step / STEPS)[0])


def compared(chosen: Sequence[str], seeds: int, folder: Path) -> list[dict[str, object]]:
    runs = [(problem, problem.optima(folder), seed) for problem in problems() for seed in range(seeds)]
    plain = np.log([regrets(problem, optima, TIDE, seed) for problem, optima, seed in runs])
    kinds = np.array([problem.kind for problem, _, _ in runs])
    names = list(dict.fromkeys(kinds.tolist()))
    rows: list[dict[str, object]] = []
    for name in chosen:
        found = np.log([regrets(problem, optima, VARIANTS[name](problem.dim), seed) for problem, optima, seed in runs])
        for what, logs in zip(("asks", "recommendations"), (found - plain).T, strict=True):
            parts = {kind: round(float(np.exp(logs[kinds == kind].mean())), 2) for kind in names}
            rows.append({"variant": name, "regret": what} | interval(logs) | parts)
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--optima", type=Path, default=Path("out/tracker-optima"), help="where optima are kept")
    add_option(parser)
    chosen = parser.parse_args()
    record("tracker", compared(chosen.only, chosen.seeds, chosen.optima), "make perf-tracker")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
