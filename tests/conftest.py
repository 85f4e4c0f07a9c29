"""Seeds are fixed everywhere: a failure today is a failure tomorrow."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers.studies import MEMORY
from hypothesis import HealthCheck, settings

from ebbtide.gp.linalg import one_blas_thread

if MEMORY is not None and shutil.disk_usage(MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)  # for tmp_path: thousands of commits wait for no disk

collect_ignore_glob = ["*/conftest.py"]  # which hold fixtures; --doctest-modules would import them as one module

settings.register_profile(
    "ebbtide", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ebbtide")


@pytest.fixture
def rng():
    return np.random.default_rng(20240523)


@pytest.fixture
def on_disk():
    """As `tmp_path`, but on a disk: commits take time, and a new file may get the number of one that is gone."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def one_thread():
    """One BLAS thread, as in an ask: on small matrices, several threads of several workers only wait for each other."""
    with one_blas_thread():
        yield
