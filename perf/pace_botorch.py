"""How long BoTorch's fit and acquisition take, as a formula of the dataset's size: the `modelled:botorch` calibration.

    make perf-pace-botorch        (or: python perf/pace_botorch.py --datasets 30)

The step of `make perf`: a SingleTaskGP over space and time is fitted to n observations of Ackley, then UCB is maximized
at the present, on fifteen datasets, because how many steps a fit takes depends on the data. What counts is the
processor's time of one thread, which other work on the machine changes little. Δt(n) = a + b n², fitted to the
logarithms of the means.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from peers import SIZES, botorch_call, data
from record import add_option, record
from scipy.optimize import least_squares

from ebbtide.gp.arrays import Array


def measured(n: int, datasets: int) -> float:
    """Mean seconds of a step."""
    calls = [botorch_call(data(n, seed=seed), 0) for seed in range(datasets)]
    calls[0]()  # the first one is cold
    return float(np.mean([processor_seconds(call) for call in calls]))


def processor_seconds(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def fitted(sizes: Array, seconds: Array) -> tuple[float, float]:
    """a and b."""

    def errors(logs: Array) -> Array:
        a, b = np.exp(logs)
        return np.asarray(np.log(a + b * sizes**2) - np.log(seconds))

    a, b = np.exp(least_squares(errors, np.log([seconds[0], seconds[-1] / sizes[-1] ** 2])).x)
    return float(a), float(b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=15)
    add_option(parser)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    sizes = np.array(SIZES, dtype=float)
    seconds = np.array([measured(n, chosen.datasets) for n in SIZES])
    a, b = fitted(sizes, seconds)
    modelled = a + b * sizes**2
    rows: list[dict[str, object]] = [
        {"n": n, "measured_s": round(s, 3), "modelled_s": round(m, 3), "constant": f"{a:.2g}", "per_n2": f"{b:.2g}"}
        for n, s, m in zip(SIZES, seconds.tolist(), modelled.tolist(), strict=True)
    ]
    sys.stdout.write(f"Modelled(({a:.2g}, 0.0, {b:.2g}))\n\n| n | measured (s) | modelled (s) |\n|---|---|---|\n")
    sys.stdout.writelines(f"| {row['n']} | {row['measured_s']} | {row['modelled_s']} |\n" for row in rows)
    record("pace-botorch", rows, "make perf-pace-botorch")


if __name__ == "__main__":
    main()
