import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from ebbtide.errors import NumericalError
from ebbtide.gp.linalg import (
    JITTER_LADDER,
    blocks,
    downdate,
    factorize,
    invert,
    one_blas_thread,
    solve,
    symmetric,
)


@pytest.fixture
def matrix(rng):
    A = rng.normal(size=(30, 30))
    return A @ A.T + 0.1 * np.eye(30)


def test_factor_inverse_and_solve(matrix, rng):
    factor = factorize(matrix)
    assert factor.jitter_rungs == 0
    assert np.allclose(factor.log_determinant, np.linalg.slogdet(matrix)[1])
    v = rng.normal(size=30)
    assert np.allclose(matrix @ solve(factor, v), v)
    assert np.allclose(invert(factor) @ matrix, np.eye(30), atol=1e-9)


def test_the_jitter_ladder_counts_its_rungs():
    singular = np.ones((20, 20))
    factor = factorize(singular)
    assert 0 < factor.jitter_rungs < len(JITTER_LADDER)
    assert np.isfinite(invert(factor)).all()


def test_a_hopeless_matrix_is_an_error():
    with pytest.raises(NumericalError, match="not positive definite"):
        factorize(np.full((3, 3), np.nan))


@pytest.mark.parametrize("order", ["C", "F"])
def test_downdate_is_the_inverse_without_a_row(matrix, order):
    P = np.array(np.linalg.inv(matrix), order=order)
    downdate(P, 7)
    keep = np.delete(np.arange(30), 7)
    assert np.allclose(P[np.ix_(keep, keep)], np.linalg.inv(matrix[np.ix_(keep, keep)]))
    assert not P[7].any()
    assert not P[:, 7].any()


def test_symmetric_and_blocks():
    assert symmetric(np.array([1.0, 2.0, 3.0]), 9.0, 3).tolist() == [[9, 1, 2], [1, 9, 3], [2, 3, 9]]
    assert symmetric(np.array([]), 9.0, 1).tolist() == [[9.0]]
    assert symmetric(np.array([]), 9.0, 0).shape == (0, 0)
    covered = np.zeros(50000)
    for block in blocks(50000):
        covered[block] += 1
    assert (covered == 1).all()


def blas_threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_one_thread_inside_and_the_old_number_after_even_with_several_threads():
    before = blas_threads()
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def second():
        first_in.wait(5)
        with one_blas_thread():
            second_in.set()
            first_out.wait(5)
            seen.append(blas_threads())

    other = threading.Thread(target=second)
    other.start()
    with one_blas_thread():
        first_in.set()
        second_in.wait(5)
    first_out.set()
    other.join()
    assert set(seen[0].values()) == {1}  # the first to leave must not lift the limit of the second
    assert blas_threads() == before
