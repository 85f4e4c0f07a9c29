"""Thousands of measurements are told from elsewhere: how long does the first ask take, and the next one?

make perf-first-ask
"""

import argparse
import time

import numpy as np
from record import add_option, record

import ebbtide as eb

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tells", type=int, nargs="+", default=[1_000, 2_000, 20_000])
    parser.add_argument("--algorithms", nargs="+", default=["tide", "w-dbo", "sliding-window"])
    add_option(parser)
    options = parser.parse_args()
    print("| algorithm | told | first ask, s | next ask, s | active |\n|---|---|---|---|---|")
    rows = []
    for algorithm in options.algorithms:
        for told in options.tells:
            row = measured(algorithm, told)
            print("| " + " | ".join(f"{part:.2f}" if isinstance(part, float) else f"{part}" for part in row.values()))
            rows.append(row)
    record("first-ask", rows, "make perf-first-ask")


def measured(algorithm: str, told: int) -> dict[str, object]:
    opt = eb.Optimizer(SPACE, direction="maximize", clock=eb.ManualClock(told), seed=0, algorithm=algorithm)
    rng = np.random.default_rng(0)
    for t, (x, y) in enumerate(rng.random((told, 2)).tolist()):
        peak = 0.5 + 0.3 * np.sin(t / 500.0)
        value = np.exp(-((x - peak) ** 2 + (y - 0.5) ** 2) / 0.08) + 0.05 * rng.normal()
        opt.tell({"x": x, "y": y}, float(value), time=float(t))
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        opt.ask()
        seconds.append(time.perf_counter() - began)
    return {
        "algorithm": algorithm,
        "told": told,
        "first_s": seconds[0],
        "next_s": seconds[1],
        "active": len(opt.dataset),
    }


if __name__ == "__main__":
    main()
