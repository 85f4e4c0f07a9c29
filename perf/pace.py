"""How long a step of this engine takes, as a formula of the dataset's size: the `modelled:ebbtide` calibration.

make perf-pace

Runs of W-DBO that hardly forget (α = 0.001, so that the criterion is computed at every ask), with measured response
times; then Δt(n) = c0 + c1 n + c2 n² with non-negative coefficients, fitted to the medians by relative error.
"""

import sys

import numpy as np
from scipy.optimize import nnls

import ebbtide as eb
from ebbtide.experiments import Measured, Protocol, run

SPEED = 40.0  # 600 s on the clock in 15 s


def main() -> None:
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(alpha=0.001))
    sizes, seconds = [], []
    for benchmark in ("hartmann3", "shekel", "wlan", "hartmann6"):
        outcome = run(benchmark, algorithm, seed=0, protocol=Protocol(compute=Measured(SPEED)))
        sizes.append(outcome.columns["n"] + outcome.columns["removed"])
        seconds.append(outcome.columns["response_s"] / SPEED)
    n, s = np.concatenate(sizes).astype(float), np.concatenate(seconds)
    bins = [np.abs(n - centre) <= 5 for centre in range(20, int(n.max()) - 5, 10)]
    centres, medians = np.array([(n[b].mean(), np.median(s[b])) for b in bins if b.any()]).T
    basis = np.column_stack([np.ones_like(centres), centres, centres**2])
    coefficients, _ = nnls(basis / medians[:, None], np.ones_like(medians))
    sys.stdout.write(f"Modelled(({', '.join(f'{c:.2g}' for c in coefficients)}))\n\n")
    sys.stdout.write("| n | measured (ms) | modelled (ms) |\n|---|---|---|\n")
    for low in (20, 50, 100, 200, 400):
        near = (n > 0.8 * low) & (n < 1.25 * low)
        if near.any():
            model = np.array([1.0, low, low**2]) @ coefficients
            sys.stdout.write(f"| {low} | {1e3 * np.median(s[near]):.1f} | {1e3 * model:.1f} |\n")


if __name__ == "__main__":
    main()
