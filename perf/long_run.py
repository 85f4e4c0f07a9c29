"""100,000 asks on an objective that drifts forever: do the response time and the dataset's size stay level?

    make perf-long

A manual clock moves one second per step, so the run stands for more than a day of a loop that asks every second.
Printed: the median response time and the dataset's size of every tenth of the run, and the ratio of the last tenth
to the second, which must stay below 1.3.
"""

import argparse
import math
import time

import numpy as np
from record import add_option, record

import ebbtide as eb

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0), "z": eb.Float(0.0, 1.0)}


def objective(params: dict[str, float], t: float) -> float:
    """A hill whose top wanders on circles of incommensurate periods, so that it never comes back."""
    periods = {"x": 300.0, "y": 300.0 * math.sqrt(2.0), "z": 300.0 * math.sqrt(5.0)}
    squares = [(params[k] - 0.5 - 0.35 * math.sin(2.0 * math.pi * t / period)) ** 2 for k, period in periods.items()]
    return math.exp(-sum(squares) / 0.15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asks", type=int, default=100_000)
    add_option(parser)
    asks = parser.parse_args().asks
    clock, rng = eb.ManualClock(), np.random.default_rng(0)
    optimizer = eb.Optimizer(SPACE, direction="maximize", clock=clock, seed=0)
    responses, sizes, values = np.zeros(asks), np.zeros(asks), np.zeros(asks)
    rows = []
    print(f"{'asks':>15}{'median ms':>12}{'99 % ms':>10}{'active':>9}{'regret':>9}{'l_T (s)':>10}")
    for k in range(asks):
        start = time.perf_counter()
        trial = optimizer.ask()
        responses[k] = 1e3 * (time.perf_counter() - start)
        values[k] = objective(trial.params, trial.time)
        optimizer.tell(trial, values[k] + 0.05 * rng.normal())
        sizes[k] = len(optimizer.dataset)
        clock.advance(1.0)
        if (k + 1) % (asks // 10) == 0:
            tenth = slice(k + 1 - asks // 10, k + 1)
            rows.append(
                {
                    "from": tenth.start,
                    "to": tenth.stop,
                    "median_ms": np.median(responses[tenth]),
                    "p99_ms": np.quantile(responses[tenth], 0.99),
                    "active": np.median(sizes[tenth]),
                    "regret": 1.0 - values[tenth].mean(),
                    "timescale_s": optimizer.hyperparameters["timescale"],
                }
            )
            start, stop, *figures = rows[-1].values()
            line = "{:>12.2f}{:>10.2f}{:>9.0f}{:>9.3f}{:>10.0f}".format(*figures)
            print(f"{start:>7}–{stop:<7}{line}", flush=True)
    second, last = slice(asks // 10, asks // 5), slice(-(asks // 10), None)
    for name, column in (("response time", responses), ("dataset's size", sizes)):
        ratio = np.median(column[last]) / np.median(column[second])
        print(
            f"{name}: last tenth / second tenth = {ratio:.2f} ({'level' if ratio <= 1.3 else 'NOT LEVEL'}, must ≤ 1.3)"
        )
    print(f"guards: {optimizer.guards}")
    record("long-run", rows, "make perf-long")


if __name__ == "__main__":
    main()
