"""A hill that opens where nobody looks: waves that are alike at all corners, and for a while a better place inside.

    python perf/hidden.py

Whoever asks at the corners sees all of them go up and down together, and may come to believe that the parameters hardly
matter. UCB then goes on asking at the corners, where it is least certain. `TrackingUCB` doubts such a model, and asks
one time in four at random. Each seed has another hill in the cube, and noise of its own; there is an ask every second.
A hill is found if a setting that was asked for is worth half of it. The regret is over the time when it is open;
`corners` is the share of the asks there.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from record import add_option, record

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread

ASKS, OPENS, CLOSES = 600, 200, 500
HEIGHT, WIDTH, NOISE = 4.0, 0.2, 0.3
DIM, WAVES, SPEED = 3, 6, 0.25  # waves along a side, and radians per ask
EDGE = 0.02


class Trusting(eb.TrackingUCB):
    """Without doubts."""

    doubts = False


TIDE = eb.algorithms.get("tide")
CONTENDERS = {"w-dbo": eb.algorithms.get("w-dbo"), "tide without doubts": replace(TIDE, acquisition=Trusting())}
CONTENDERS["tide"] = TIDE


def hill(x: Array, place: Array, t: int) -> float:
    """It opens and closes gradually."""
    if not OPENS < t < CLOSES:
        return 0.0
    share = np.sin(np.pi * (t - OPENS) / (CLOSES - OPENS)) ** 2
    return float(HEIGHT * share * np.exp(-0.5 * ((x - place) ** 2).sum() / WIDTH**2))


def waves(x: Array, t: int) -> float:
    return float(np.cos(2.0 * np.pi * WAVES * x + SPEED * t).mean())


def pursued(case: tuple[str, int]) -> tuple[bool, float, float]:
    """Whether the hill was found, the regret while it was open, and the share of asks at corners."""
    name, seed = case
    rng = np.random.default_rng([seed, 31])
    place = rng.uniform(0.2, 0.8, DIM)
    clock = eb.ManualClock()
    space = {f"x{k}": eb.Float(0.0, 1.0) for k in range(DIM)}
    opt = eb.Optimizer(space, direction="maximize", algorithm=CONTENDERS[name], clock=clock, seed=seed)
    gained, open_, corners = [], [], 0
    with one_blas_thread():
        for t in range(ASKS):
            trial = opt.ask()
            x = np.array([trial.params[name] for name in space])
            gained.append(hill(x, place, t))
            open_.append(hill(place, place, t))
            corners += bool(np.all(np.minimum(x, 1.0 - x) < EDGE))
            opt.tell(trial, gained[-1] + waves(x, t) + NOISE * rng.normal())
            clock.advance(1.0)
    during = slice(OPENS, CLOSES)
    lost = float(np.mean(np.subtract(open_, gained)[during]))
    return max(gained) > 0.5 * HEIGHT, lost, corners / ASKS


def rows(seeds: Sequence[int], jobs: int) -> list[dict[str, object]]:
    with ProcessPoolExecutor(jobs) as pool:
        runs = {name: list(pool.map(pursued, [(name, seed) for seed in seeds])) for name in CONTENDERS}
    return [
        {
            "algorithm": name,
            "found": sum(found for found, _, _ in results),
            "seeds": len(results),
            "regret": round(float(np.mean([lost for _, lost, _ in results])), 3),
            "corners": round(float(np.mean([share for _, _, share in results])), 3),
        }
        for name, results in runs.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    add_option(parser)
    chosen = parser.parse_args()
    lines = rows(range(chosen.seeds), chosen.jobs)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    record("hidden", lines, "python perf/hidden.py")


if __name__ == "__main__":
    main()
