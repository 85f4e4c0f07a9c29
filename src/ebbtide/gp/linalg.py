"""Positive definite matrices: factor, invert, and take a row out of an inverse.

The engine works with the explicit inverse P = Δ⁻¹ because everything downstream is a product with it:
the criterion is diag(P C P), a removal is a rank-one downdate of P, and the posterior's gradient needs P k.
This is safe because the noise bounds the condition number (inference.py keeps σ²/λ ≥ 1e-6).
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.spatial.distance import squareform
from threadpoolctl import ThreadpoolController

from ebbtide.errors import NumericalError
from ebbtide.gp.arrays import Array

# Added to the diagonal, relative to its mean, until the factorization succeeds.
JITTER_LADDER = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)


@dataclass(frozen=True)
class Factor:
    """The lower Cholesky factor of a matrix, its log-determinant, and how many steps of the jitter ladder it took."""

    lower: Array
    log_determinant: float
    jitter_rungs: int


def factorize(matrix: Array) -> Factor:
    """Cholesky factor of a symmetric matrix, with jitter only if the factorization fails without."""
    for rung, jitter in enumerate(JITTER_LADDER):
        raised = matrix if rung == 0 else matrix + jitter * np.diagonal(matrix).mean() * np.eye(len(matrix))
        lower, failed = lapack.dpotrf(raised.T, lower=1, clean=1)  # symmetric, so .T only avoids a copy
        diagonal = np.diagonal(lower)
        if failed == 0 and np.isfinite(diagonal).all():
            return Factor(lower, 2.0 * float(np.log(diagonal).sum()), rung)
    raise NumericalError(
        f"a {len(matrix)}×{len(matrix)} covariance matrix is not positive definite even with jitter "
        f"{JITTER_LADDER[-1]:g} on its diagonal; check the data for values that are not finite or differ by many "
        "orders of magnitude"
    )


def invert(factor: Factor) -> Array:
    """P = (L Lᵀ)⁻¹ as a full symmetric matrix. This overwrites the factor: the inverse reuses its memory."""
    triangle, failed = lapack.dpotri(factor.lower, lower=1, overwrite_c=1)
    if failed:
        raise NumericalError("the Cholesky factor of a covariance matrix has a zero on its diagonal")
    # The upper triangle is still zero (clean=1 above), so one addition mirrors the lower one.
    inverse: Array = triangle + triangle.T
    np.fill_diagonal(inverse, np.diagonal(triangle))
    return inverse


def solve(factor: Factor, vector: Array) -> Array:
    """(L Lᵀ)⁻¹ v."""
    solution: Array = lapack.dpotrs(factor.lower, vector, lower=1)[0]
    return solution


def downdate(inverse: Array, row: int) -> None:
    """Update an inverse in place for a matrix that loses a row and column, which become zero here. O(n²)."""
    column = inverse[:, row].copy()
    # A symmetric matrix is its own transpose, so one of the two is Fortran-ordered: BLAS updates it in place.
    fortran = inverse if inverse.flags.f_contiguous else inverse.T
    blas.dger(-1.0 / column[row], column, column, a=fortran, overwrite_a=1)
    inverse[row, :] = 0.0
    inverse[:, row] = 0.0


def resized(array: Array, shape: tuple[int, ...]) -> Array:
    """The array with more room: in its first corner of a larger one, which is zero elsewhere."""
    larger = np.zeros(shape)
    larger[tuple(map(slice, array.shape))] = array
    return larger


def vacate(squares: Array, hole: int, last: int) -> None:
    """Move the last row and column of symmetric matrices (…, n, n) into a hole; zeros are left behind."""
    row = squares[..., last, :].copy()
    row[..., hole] = row[..., last]
    squares[..., hole, :] = squares[..., :, hole] = row
    squares[..., last, :] = squares[..., :, last] = 0.0


def symmetric(pairs: Array, diagonal: float, n: int) -> Array:
    """The n×n symmetric matrix with the given pairs above the diagonal (in SciPy's condensed order)."""
    matrix: Array = squareform(pairs, checks=False) if n > 1 else np.zeros((n, n))
    np.fill_diagonal(matrix, diagonal)
    return matrix


def blocks(length: int, size: int = 8192) -> list[slice]:
    """Slices that keep the temporaries of elementwise work inside the cache and avoid the allocator's slow path."""
    return [slice(start, start + size) for start in range(0, length, size)]


@cache
def _blas_libraries() -> list[Any]:
    # glibc returns freed blocks of 128 kB and more to the system, so that each new one costs page faults: a good part
    # of the time at n = 200. It stops doing so once a larger block has been allocated and freed.
    np.empty(4_000_000)
    return ThreadpoolController().select(user_api="blas").lib_controllers  # type: ignore[no-any-return]


def _set_threads(counts: Iterable[int]) -> None:
    # threadpoolctl lets only the thread that first set a limit change it; here any thread may be the last to leave.
    _release()
    for library, count in zip(_blas_libraries(), counts, strict=True):
        library.set_num_threads(count)
    _release()


def _release() -> None:
    for kind in _kinds_with_an_owner():
        kind.clear_controlling_thread(force=True)


@cache
def _kinds_with_an_owner() -> set[Any]:
    """The kinds of libraries whose limit belongs to a thread: to the same one for all libraries of a kind."""
    return {type(library) for library in _blas_libraries() if hasattr(library, "clear_controlling_thread")}


_lock = threading.Lock()
_threads_inside = 0
_counts_outside: list[int] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: small matrices are faster, and results do not depend on the number of cores.

    The limit applies to the whole process, so threads share it: the first to enter sets it, the last to leave lifts it.
    """
    global _threads_inside, _counts_outside
    with _lock:
        if _threads_inside == 0:
            _counts_outside = [library.get_num_threads() for library in _blas_libraries()]
            _set_threads([1] * len(_counts_outside))
        _threads_inside += 1
    try:
        yield
    finally:
        with _lock:
            _threads_inside -= 1
            if _threads_inside == 0:
                _set_threads(_counts_outside)


def _forget_threads() -> None:
    """A forked child has none of its parent's other threads, so none of them will lift the limit."""
    global _lock, _threads_inside
    _lock = threading.Lock()
    if _threads_inside:
        _threads_inside = 0
        _set_threads(_counts_outside)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
