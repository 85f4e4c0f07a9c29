"""A few of the histories of `make hostile`, which lives through ten thousand."""

import pytest
from helpers.hostile import live_through
from helpers.studies import MEMORY

import ebbtide as eb


@pytest.mark.parametrize("seed", range(13))
def test_every_ask_is_finite_feasible_and_the_same_after_a_restart(seed):
    seen = live_through(seed, MEMORY)
    assert seen.algorithm == eb.algorithms.names()[seed]
    assert seen.asks >= 3
    assert seen.restarts >= 2
