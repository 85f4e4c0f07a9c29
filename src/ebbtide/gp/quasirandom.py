"""Sobol points. scipy.stats takes as long to import as everything else together, so it is imported when needed."""

import numpy as np

from ebbtide.gp.arrays import Array


def sobol(d: int, count: int, rng: int | np.random.Generator | None = None, skip: int = 0) -> Array:
    """`count` points of [0,1]^d, after the first `skip`; scrambled if a generator or a seed is given."""
    from scipy.stats import qmc

    engine = qmc.Sobol(d, scramble=rng is not None, rng=rng)
    if skip:
        engine.fast_forward(skip)
    points: Array = engine.random(count)
    return points
