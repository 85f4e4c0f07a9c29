"""Our Sobol points are SciPy's, to the last bit; studies recorded with either go on with the other."""

import sys
from subprocess import run

import numpy as np
import pytest
from scipy.stats import qmc

from ebbtide.gp.quasirandom import TABLE, sobol

LARGEST = 1 + len(TABLE)  # beyond it, they come from SciPy


def scipys(d, count, rng, skip):
    engine = qmc.Sobol(d, scramble=rng is not None, rng=rng)
    return (engine.fast_forward(skip) if skip else engine).random(count)


@pytest.mark.parametrize("rng", [None, 0])
@pytest.mark.parametrize("d", [*range(1, LARGEST + 1), LARGEST + 1, 100])
def test_the_points_are_scipys(d, rng):
    for count, skip in [(1, 0), (256, 0), (1, 1), (1, 2), (1, 77), (5, 1000), (3, 2**20 - 1)]:
        points = sobol(d, count, rng, skip)
        assert points.dtype == np.float64
        assert points.tobytes() == scipys(d, count, rng, skip).tobytes(), (count, skip)


@pytest.mark.parametrize("d", [2, LARGEST + 1])
def test_a_generator_gives_other_points_each_time_as_it_does_with_scipy(d):
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(3):
        assert np.array_equal(sobol(d, 4, ours), scipys(d, 4, theirs, 0))
    assert ours.random() == theirs.random()


@pytest.mark.slow
def test_an_ask_does_not_import_scipy_stats():
    """It takes as long to import as everything else together, and every worker and every command would wait for it."""
    program = """
import sys
import ebbtide as eb
clock = eb.ManualClock()
opt = eb.Optimizer({"x": eb.Float(0.0, 1.0), "y": eb.Int(0, 9)}, clock=clock, seed=0)
for step in range(opt.n_initial + 2):
    clock.advance(1.0)
    opt.tell(opt.ask(), float(step % 3))
opt.recommend()
assert "scipy.stats" not in sys.modules
"""
    run([sys.executable, "-c", program], check=True)
