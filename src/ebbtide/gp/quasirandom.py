"""Sobol points. They come from scipy.stats, which takes as long to import as all the rest: only when needed."""

import numpy as np

from ebbtide.gp.arrays import Array


def sobol(d: int, count: int, rng: int | np.random.Generator | None = None, skip: int = 0) -> Array:
    """`count` points of [0,1]^d, after the first `skip`; scrambled if there is a generator (or its seed)."""
    from scipy.stats import qmc

    engine = qmc.Sobol(d, scramble=rng is not None, rng=rng)
    if skip:
        engine.fast_forward(skip)
    points: Array = engine.random(count)
    return points
