"""Sobol points, bit for bit those of `scipy.stats.qmc.Sobol`: to import scipy.stats takes as long as everything else.

| symbol | meaning |
|---|---|
| `V[i, j]` | direction number `j` of axis `i`: what digit `j` of an index in Gray code does to the coordinate |
| `p`, `m` | a primitive polynomial over GF(2), its coefficients as bits; the numbers with which its recurrence starts |
| `L[i]` | the lower triangular matrix over GF(2) that scrambles axis `i` |
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from ebbtide.gp.arrays import Array

BITS = 30
Words = npt.NDArray[np.uint32]
POWERS: Words = np.uint32(1) << np.arange(BITS, dtype=np.uint32)
DIGITS = POWERS[::-1]  # of a coordinate, the highest first

# p and m of the axes after the first, which needs none: Joe & Kuo, "Constructing Sobol sequences with better
# two-dimensional projections", 2008.
TABLE: tuple[tuple[int, tuple[int, ...]], ...] = (
    (3, (1,)),
    (7, (1, 3)),
    (11, (1, 3, 1)),
    (13, (1, 1, 1)),
    (19, (1, 1, 3, 3)),
    (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)),
    (41, (1, 1, 5, 5, 5)),
    (47, (1, 1, 7, 11, 19)),
    (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)),
    (61, (1, 3, 5, 5, 31)),
    (67, (1, 3, 3, 9, 7, 49)),
    (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)),
    (103, (1, 1, 1, 15, 7, 5)),
    (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)),
    (131, (1, 3, 7, 11, 23, 15, 103)),
    (137, (1, 3, 7, 13, 13, 15, 69)),
)


def sobol(d: int, count: int, rng: int | np.random.Generator | None = None, skip: int = 0) -> Array:
    """`count` points of [0,1]^d, after the first `skip`; scrambled if a generator or a seed is given."""
    if d > 1 + len(TABLE):
        return _of_scipy(d, count, rng, skip)
    V, shift = _directions(d), np.zeros(d, dtype=np.uint32)
    if rng is not None:
        V, shift = _scrambled(V, np.random.default_rng(rng).spawn(1)[0])  # SciPy, too, leaves the caller's as it is
    index = np.arange(skip, skip + count, dtype=np.uint32)
    gray = index ^ (index >> 1)
    X = np.tile(shift, (count, 1))
    for j in range((skip + count).bit_length()):
        X ^= (gray >> j & 1)[:, None] * V[:, j]
    return X / 2.0**BITS


@cache
def _directions(d: int) -> Words:
    V = np.ones((d, BITS), dtype=np.uint32)
    for i, (p, m) in enumerate(TABLE[: d - 1], start=1):
        V[i] = _recurrence(p, m)
    return V * DIGITS


def _recurrence(p: int, m: tuple[int, ...]) -> list[int]:
    """m_j = m_{j-s} ⊕ 2^s m_{j-s} ⊕ the 2^k m_{j-k} of the coefficients of p that are 1, where s is p's degree."""
    v, s = list(m), len(m)
    for j in range(s, BITS):
        new = v[j - s]
        for k in range(1, s + 1):
            if p >> (s - k) & 1:
                new ^= v[j - k] << k
        v.append(new)
    return v


def _scrambled(V: Words, rng: np.random.Generator) -> tuple[Words, Words]:
    """Matoušek's linear scrambling: random matrices, with a diagonal of ones, and a random shift."""
    d = len(V)
    shift = rng.integers(2, size=(d, BITS), dtype=np.uint32) @ POWERS
    L = np.tril(rng.integers(2, size=(d, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS, dtype=np.uint32)
    digits = V[:, None, :] // DIGITS[:, None] & 1
    return DIGITS @ (L @ digits & 1), shift


def _of_scipy(d: int, count: int, rng: int | np.random.Generator | None, skip: int) -> Array:
    from scipy.stats import qmc

    engine = qmc.Sobol(d, scramble=rng is not None, rng=rng)
    if skip:
        engine.fast_forward(skip)
    points: Array = engine.random(count)
    return points
