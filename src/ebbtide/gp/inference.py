"""Hyperparameters: maximum likelihood or maximum a posteriori, from warm starts, with a ladder of fallbacks.

A fit tries, in order: a warm start; a search from the default start; the last good hyperparameters, with one
warning. It raises only if even those give no posterior, so that the loop of a live system goes on.

The search is Newton's method with the average information (likelihood.py) and Levenberg–Marquardt damping,
inside a box. It stops when the next step promises less than `TOLERANCE` nats: a refit that would change nothing
costs one evaluation, whose factorization the rest of the ask needs anyway.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from ebbtide.errors import FitWarning, NumericalError
from ebbtide.gp.arrays import Array
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.likelihood import Evaluation, Likelihood
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.gp.priors import Prior
from ebbtide.guards import Guard

TOLERANCE = 0.05  # nats of log posterior that a further step must promise
WORTH = 0.1  # nats per hyperparameter that a refit must promise: see `is_worth_a_refit`
NOTABLE = 0.1  # how much (log) it must change one of them
WARM_STEPS = 4  # per refit: with one new observation the fit need not converge at once
SEARCH_STEPS = 25
SEARCH_ROWS = 128  # a search from scratch uses at most this many rows
SLACK = 0.02  # how far (log) hyperparameters that are held may be outside of limits that move a little at every ask
DAMPING = 1e-3  # of the first step
AT_BOUND = 1e-9  # how close to its bound a parameter counts as held there
LIKELIER = 1.0  # nats of log posterior by which other kernels must be better before they are used
MIN_ROWS = 4  # with fewer observations the hyperparameters are kept as they are


@dataclass(frozen=True)
class Fit:
    """Fitted hyperparameters and the posterior under them."""

    hyper: Hyperparameters
    posterior: Posterior
    guards: tuple[Guard, ...] = ()
    evaluation: Evaluation | None = None  # None if nothing could be fitted


@dataclass(frozen=True)
class Standing:
    """Where an ascent can begin without a factorization: a model that holds its hyperparameters, with values z and
    α = Pz.
    """

    model: Incremental
    z: Array
    alpha: Array

    @property
    def theta(self) -> Array:
        return self.model.theta

    @property
    def value(self) -> float:
        return self.model.log_likelihood(self.z, self.alpha)

    def derivatives(self) -> tuple[Array, Array]:
        return self.model.derivatives(self.z, self.alpha)

    def is_within(self, prior: Prior) -> bool:
        """Whether the hyperparameters are inside the limits, which move a little at every ask."""
        return bool(((prior.lower - SLACK <= self.theta) & (self.theta <= prior.upper + SLACK)).all())


@dataclass(frozen=True)
class _Climb:
    """The result of an ascent: an evaluation and its log posterior density."""

    evaluation: Evaluation
    value: float


def fit(
    families: Families,
    start: Hyperparameters,
    data: tuple[Array, Array, Array],
    prior: Prior,
    *,
    search: bool,
    rng: np.random.Generator,
    fresh: Array | None = None,
    standing: Standing | None = None,
) -> Fit:
    """The best hyperparameters reachable from `start`, and with `search` also from a search from scratch.

    `fresh` is what such a search has found already; `standing` is a model of the same data that holds `start`.
    """
    likelihood = Likelihood(families, *data)
    climbs = []
    try:
        climbs.append(ascend(likelihood, start.to_vector(), prior, WARM_STEPS, standing))
    except NumericalError:
        search = True  # the first fallback
    if search or fresh is not None:
        try:
            fresh = _search(families, data, prior, rng).evaluation.theta if fresh is None else fresh
            there = likelihood(prior.clip(fresh))
            if not climbs or _may_beat(there, climbs[0], prior):
                climbs.append(ascend(likelihood, fresh, prior, WARM_STEPS, there))
        except NumericalError:
            pass
    if not climbs:
        warnings.warn(
            f"the hyperparameters could not be fitted to the {len(data[2])} active observations; "
            f"the last good ones are kept: {start}",
            FitWarning,
            stacklevel=2,
        )
        return Fit(start, condition(families.kernel(start), start.noise, *data), ("fit_fallback",))
    best = max(climbs, key=lambda climb: climb.value).evaluation
    return Fit(best.hyperparameters, best.posterior(), _guards(best, prior), best)


def _may_beat(there: Evaluation, climb: _Climb, prior: Prior) -> bool:
    """Whether an ascent from there may lead higher. What is best for a sample of m of n observations is, on average,
    worse for all of them than what is best for all, by n/2m nats for each hyperparameter; twice that is allowed for.
    """
    short = climb.value - there.value - prior.log_density(there.theta)
    return short <= len(there.theta) * max(1.0, len(there.alpha) / SEARCH_ROWS)


def _guards(evaluation: Evaluation, prior: Prior) -> tuple[Guard, ...]:
    """The guards that were needed."""
    jitter: tuple[Guard, ...] = ("jitter",) if evaluation.factor.jitter_rungs else ()
    return (*jitter, *held_guards(evaluation.likelihood.families, evaluation.theta, prior))


def held_guards(families: Families, theta: Array, prior: Prior) -> tuple[Guard, ...]:
    """Whether l_T is at one of its limits."""
    met: list[Guard] = []
    if families.temporal is None:
        return ()
    position = families.timescale_at(len(theta))
    log_timescale = theta[position]
    if log_timescale <= prior.lower[position] + AT_BOUND:
        met.append("timescale_floor")
    if log_timescale >= prior.upper[position] - AT_BOUND:
        met.append("timescale_ceiling")
    return tuple(met)


def _search(
    families: Families,
    data: tuple[Array, Array, Array],
    prior: Prior,
    rng: np.random.Generator,
) -> _Climb:
    """Ascend from the best point of a small grid around the prior's centre; on a sample of rows if they are many."""
    n = len(data[2])
    rows = rng.choice(n, SEARCH_ROWS, replace=False) if n > SEARCH_ROWS else np.arange(n)
    likelihood = Likelihood(families, *(column[rows] for column in data))
    starts = [prior.clip(prior.center + shift) for shift in _shifts(families, len(prior.center))]
    best = max(starts, key=lambda theta: likelihood(theta).value + prior.log_density(theta))
    return ascend(likelihood, best, prior, SEARCH_STEPS)


def elsewhere(
    families: Families,
    held: Hyperparameters,
    data: tuple[Array, Array, Array],
    prior: Prior,
    rng: np.random.Generator,
) -> Array | None:
    """Where a search from scratch finds better hyperparameters than those that are held; None if it does not.

    Only for as few rows as a search uses: what fits many rows best is rarely the best for a sample of them.
    """
    try:
        fresh = _search(families, data, prior, rng)
        theta = prior.clip(held.to_vector())
        value = fresh.evaluation.likelihood(theta).value + prior.log_density(theta)
    except NumericalError:
        return None
    return fresh.evaluation.theta if fresh.value > value else None


def likelier(
    families: Families,
    others: Families,
    hyper: Hyperparameters,
    data: tuple[Array, Array, Array],
    prior: Prior,
    rng: np.random.Generator,
    value: float | None = None,
) -> Hyperparameters | None:
    """Hyperparameters of `others`, by an ascent from `hyper`, which is of `families`, if they are likelier than it.

    `value` is the log posterior density of `hyper`, if it is known. Of many rows, a sample decides.
    """
    n, theta = len(data[2]), prior.clip(hyper.to_vector())
    if n > SEARCH_ROWS:
        rows = rng.choice(n, SEARCH_ROWS, replace=False)
        data, value = (data[0][rows], data[1][rows], data[2][rows]), None
    try:
        if value is None:
            value = ascend(Likelihood(families, *data), theta, prior, WARM_STEPS).value
        found = ascend(Likelihood(others, *data), theta, prior, WARM_STEPS)
    except NumericalError:
        return None
    return found.evaluation.hyperparameters if found.value > value + LIKELIER else None


def promise(standing: Standing, prior: Prior) -> tuple[float, float]:
    """What Newton's next step promises: the gain in nats, and the largest change of a hyperparameter (log).

    Both are infinite if the limits have moved past where we stand.
    """
    if not standing.is_within(prior):
        return np.inf, np.inf
    gradient, information = _posterior_derivatives(*standing.derivatives(), standing.theta, prior)
    step, gain = _newton_step(gradient, information, DAMPING, standing.theta, prior)
    return gain, float(np.abs(step).max())


def is_worth_a_refit(standing: Standing, prior: Prior) -> bool:
    """Whether the hyperparameters that a model holds are so far from the best ones that it matters.

    The data leaves about half a nat of doubt in each hyperparameter. When m of n observations are replaced, the best
    ones move, by chance alone, so far that returning to them gains about m/n nats for each. Following that would only
    follow the noise, at the price of a factorization. And with very many observations, changes that are beyond doubt
    may be too small to make a difference.
    """
    gain, change = promise(standing, prior)
    return gain >= WORTH * len(standing.theta) and change >= NOTABLE


def reconsidered(
    standing: Standing,
    held: Hyperparameters,
    prior: Prior,
    rng: np.random.Generator,
    *,
    looking: bool,
    searching: bool,
) -> tuple[Array | None, bool]:
    """Whether the hyperparameters that a model holds still fit; and what a search has found, if it was worth it.

    For many rows a search is left to the refit, which then has to be made.
    """
    model = standing.model
    if looking and is_worth_a_refit(standing, prior):
        return None, False
    if not searching or len(model) > SEARCH_ROWS:
        return None, not searching
    fresh = elsewhere(model.families, held, (model.X, model.t, standing.z), prior, rng)
    return fresh, fresh is None


def _posterior_derivatives(gradient: Array, information: Array, theta: Array, prior: Prior) -> tuple[Array, Array]:
    """Those of the likelihood and of the prior."""
    precision, curvature = prior.precision(theta), information.copy()
    curvature.flat[:: len(theta) + 1] += precision
    return gradient - precision * (theta - prior.center), curvature


def _shifts(families: Families, size: int) -> Iterator[Array]:
    """A grid around the centre: all lengthscales in space together, those of the context, l_T, the cycles' shares."""
    drifting, cycles, context = families.temporal is not None, families.cycles, families.context_size
    end = size - 1 - 3 * cycles  # after l_T
    timescale = slice(end - 1, end) if drifting else slice(0, 0)
    start = end - (1 if drifting else 0) - context
    grids = [(slice(1, start), (-1.2, 0.0)), (timescale, (-1.5, 0.0, 1.5) if drifting else (0.0,))]
    if context:
        grids.append((slice(start, start + context), (0.0, 1.5)))
    if cycles:
        grids.append((slice(end, end + 3 * cycles, 3), (-2.0, 1.0)))
    for steps in product(*(values for _, values in grids)):
        shift = np.zeros(size)
        for (positions, _), step in zip(grids, steps, strict=True):
            shift[positions] += step
        yield shift


def ascend(
    likelihood: Likelihood, theta: Array, prior: Prior, max_steps: int, standing: Standing | Evaluation | None = None
) -> _Climb:
    """Damped Newton ascent of log likelihood + log prior inside the box; from `standing`, if it is there already."""

    def density(at: Evaluation | Standing) -> float:
        return at.value + prior.log_density(at.theta)

    stands = isinstance(standing, Evaluation) or (standing is not None and standing.is_within(prior))
    here: Evaluation | Standing = standing if standing is not None and stands else likelihood(prior.clip(theta))
    value, damping, fresh = density(here), DAMPING, True
    for _ in range(max_steps):
        if fresh:
            gradient, information = _posterior_derivatives(*here.derivatives(), here.theta, prior)
        step, promise = _newton_step(gradient, information, damping, here.theta, prior)
        if promise < TOLERANCE:
            break
        try:
            there = likelihood(prior.clip(here.theta + step))
            value_there = density(there)
        except NumericalError:
            value_there = -np.inf
        fresh = value_there > value
        if fresh:
            here, value, damping = there, value_there, damping / 10.0
        else:
            damping = max(10.0 * damping, 0.1)
    return _Climb(likelihood(here.theta) if isinstance(here, Standing) else here, value)


def _newton_step(
    gradient: Array, information: Array, damping: float, theta: Array, prior: Prior
) -> tuple[Array, float]:
    """(H + damping·diag H)⁻¹ g over the parameters that are not held at a bound, and the expected gain."""
    low, high = theta <= prior.lower + AT_BOUND, theta >= prior.upper - AT_BOUND
    pinned = (low & (gradient < 0)) | (high & (gradient > 0))
    H, g = information.copy(), np.where(pinned, 0.0, gradient)
    H[pinned], H[:, pinned] = 0.0, 0.0
    H.flat[:: len(H) + 1] += np.where(pinned, 1.0, damping * information.diagonal() + 1e-6)
    step = np.minimum(np.maximum(np.linalg.solve(H, g), -1.5), 1.5)
    return step, 0.5 * float(g @ step)
