"""Seeds are fixed everywhere: a failure today is a failure tomorrow."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ebbtide.gp.linalg import one_blas_thread

collect_ignore_glob = ["*/conftest.py"]  # which hold fixtures; --doctest-modules would import them as one module

settings.register_profile(
    "ebbtide", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ebbtide")


@pytest.fixture
def rng():
    return np.random.default_rng(20240523)


@pytest.fixture
def one_thread():
    """One BLAS thread, as in an ask: on small matrices, several threads of several workers only wait for each other."""
    with one_blas_thread():
        yield
