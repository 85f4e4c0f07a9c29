"""What a benchmark must do."""

import math

import numpy as np
from scipy.stats import qmc

from ebbtide.benchmarks import Problem
from ebbtide.experiments import Modelled, Protocol, run
from ebbtide.gp.arrays import Array
from ebbtide.space import Space
from ebbtide.testing.expectations import Unchanged, expect

TOLERANCE = 1e-3  # of the function's range


def _points(problem: Problem, m: int = 512) -> tuple[Array, Array]:
    Z = qmc.Sobol(problem.dim + 1, rng=3).random(m)
    return problem.from_unit(Z[:, :-1]), Z[:, -1]


def _allowed(problem: Problem, X: Array, t: Array | float) -> Array:
    """The values, −∞ where a constraint is not met."""
    return np.where(problem.feasible(X, t), problem(X, t), -np.inf)


def has_bounds_in_its_own_units(problem: Problem) -> None:
    bounds = np.asarray(problem.bounds)
    expect(bounds.shape == (problem.dim, 2), f"expected bounds of shape ({problem.dim}, 2), got {bounds.shape}")
    expect(bool((bounds[:, 0] < bounds[:, 1]).all()), f"expected low < high, got {bounds.tolist()}")
    expect(Space(problem.space).dim == problem.dim, "the space and the problem differ in their number of parameters")


def is_finite_everywhere(problem: Problem) -> None:
    X, t = _points(problem)
    expect(bool(np.isfinite(problem(X, t)).all()), "values inside the domain are not finite")
    corners = problem.from_unit(np.array([[0.0] * problem.dim, [0.5] * problem.dim, [1.0] * problem.dim]))
    for moment in (0.0, 1.0):
        expect(bool(np.isfinite(problem(corners, moment)).all()), f"values in a corner at t = {moment} are not finite")
        expect(math.isfinite(problem.optimum(moment)), f"the optimum at t = {moment} is not finite")


def is_vectorised(problem: Problem) -> None:
    X, t = _points(problem, 16)
    one_by_one = [problem(x, float(s)) for x, s in zip(X, t, strict=True)]
    expect(bool(np.allclose(problem(X, t), one_by_one, rtol=1e-9)), "a batch differs from its points one by one")
    optima = [problem.optimum(float(s)) for s in t]
    expect(bool(np.allclose(problem.optimum(t), optima, rtol=1e-9)), "a batch of optima differs from one by one")


def writes_to_nothing_and_repeats_itself(problem: Problem) -> None:
    X, t = _points(problem)
    inputs = Unchanged(x=X, t=t)
    first, second = problem(X, t), problem(X, t)
    problem.optimum(t)
    inputs.verify()
    expect(bool(np.array_equal(first, second)), "the same point has two values; leave the noise to the protocol")


def has_an_optimum_above_every_value(problem: Problem) -> None:
    X, t = _points(problem, 2**13)
    excess = float((_allowed(problem, X, t) - problem.optimum(t)).max())
    allowed = TOLERANCE * float(np.ptp(problem.signal))
    expect(excess <= allowed, f"a sampled value is {excess:g} above the optimum; at most {allowed:g} is allowed")


def has_an_optimum_that_is_attained(problem: Problem) -> None:
    """On a fine grid, in one or two dimensions."""
    if problem.dim > 2:
        return
    axis = np.linspace(0.0, 1.0, 4001 if problem.dim == 1 else 301)
    X = problem.from_unit(np.stack(np.meshgrid(*[axis] * problem.dim), axis=-1).reshape(-1, problem.dim))
    for t in (0.0, 0.31, 0.77, 1.0):
        gap = problem.optimum(t) - float(_allowed(problem, X, t).max())
        allowed = 5 * TOLERANCE * float(np.ptp(problem.signal))
        expect(gap <= allowed, f"at t = {t} the optimum is {gap:g} above the best of a fine grid")


def knows_its_noise(problem: Problem) -> None:
    X, t = _points(problem, 2**13)
    usual = math.sqrt(0.05) * float(problem(X, t).std())
    expect(usual > 0.0, "the function is constant: there is nothing to optimize")
    expect(0.8 < problem.noise_std / usual < 1.25, f"noise_std is {problem.noise_std:g}, expected {usual:g} (5 %)")


def measures_what_it_names(problem: Problem) -> None:
    """A context, cycles and constraints, if there are any."""
    X, t = _points(problem, 64)
    for moment in map(float, t[:8]):
        context = problem.context(moment)
        expect(set(context) == set(problem.context_space), f"context_space and context({moment:g}) differ in names")
        expect(all(map(math.isfinite, context.values())), f"context({moment:g}) is not finite: {context}")
    expect(all(0.0 < period <= 1.0 for period in problem.cycles.values()), "a period is not within the run, 0 to 1")
    outcomes = problem.outcomes(X, t)
    expect(set(outcomes) == set(problem.constraints), "constraints and outcomes differ in names")
    expect(all(bool(np.isfinite(values).all()) for values in outcomes.values()), "outcomes are not finite")
    if problem.constraints:
        expect(problem.acceptable is not None, "there are constraints, but no acceptable setting is known")
        known = [(problem.acceptable or {})[name] for name in problem.space]
        met = problem.feasible(np.tile(known, (len(t), 1)), t)
        expect(bool(met.all()), "the setting `acceptable` does not meet the constraints at all times")


def can_be_run(problem: Problem) -> None:
    protocol = Protocol(duration=20.0, n_initial=5, compute=Modelled((1.0,)))
    columns = run(problem, "w-dbo", seed=0, protocol=protocol).columns
    met = problem.feasible(np.column_stack([columns[name] for name in problem.space]), columns["t"])
    lowest = float(columns["regret"][met].min(initial=0.0))
    expect(lowest > -TOLERANCE * float(np.ptp(problem.signal)), f"a query's regret is {lowest:g}")


BENCHMARK_CHECKS = (
    has_bounds_in_its_own_units,
    is_finite_everywhere,
    is_vectorised,
    writes_to_nothing_and_repeats_itself,
    has_an_optimum_above_every_value,
    has_an_optimum_that_is_attained,
    knows_its_noise,
    measures_what_it_names,
    can_be_run,
)
