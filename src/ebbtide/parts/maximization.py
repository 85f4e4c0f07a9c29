"""Where an acquisition is largest: quasi-random candidates, then an ascent from the best of them, in one batch.

The ascent is BFGS with one d×d inverse Hessian per start, all starts in one NumPy batch: a step costs one prediction
with gradient for the whole batch. SciPy's L-BFGS-B on the stacked problem needs more predictions (the starts share
their curvature) and takes as long between two of them; at n = 60 that was most of an ask.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.posterior import Outline, Posterior
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.acquisition import Acquisition, Context
from ebbtide.space import Space

CANDIDATES = 256  # quasi-random points in the cube
RECENT = 64  # and the points of the newest active observations
STARTS = 6
CHUNK = 32  # candidates scored at a time
FLOOR = (
    1e-3  # of its bound: no deviation is smaller; an acquisition that prefers certainty is bounded by its value there
)
CLIMB_STEPS = 12
ENOUGH = 1e-4  # the ascent ends when no start promises to beat the best one by more
FEWEST_STEPS = 3  # before that, too little is known of the curvature for a promise

Objective = Callable[[Array], tuple[Array, Array]]
Bounds = tuple[Array, Array]  # the lowest and the highest coordinates that may be chosen


class Predictor(Protocol):
    """A posterior at one moment or over an interval of time, or what is to be expected there (outlook.py)."""

    @property
    def posterior(self) -> Posterior: ...
    def predict(self, Z: Array, /) -> tuple[Array, Array]: ...
    def outline(self, Z: Array, /) -> Outline | None: ...
    def predict_with_gradient(self, Z: Array, /) -> tuple[Array, Array, Array, Array]: ...


def maximize(
    acquisition: Acquisition,
    moment: Predictor,
    space: Space,
    rng: np.random.Generator,
    n: int,
    *,
    pace: float | None = None,
    bounds: Bounds | None = None,
    near: Array | None = None,
) -> Array:
    """The best point found for the acquisition at one moment. It is feasible whatever the acquisition returns.

    The acquisition is told `n`, the number of observations (without pending ones), and `pace`, the queries per l_T. The
    points `near` are tried besides the quasi-random ones: by default those of the newest observations.
    """
    near = moment.posterior.points[-RECENT:] if near is None else near
    return _best(acquisition, moment, space, [_candidates(space, rng), near], (n, space.dim, pace), bounds)


def maximize_over(
    acquisition: Acquisition,
    interval: Predictor,
    space: Space,
    rng: np.random.Generator,
    n: int,
    *,
    pace: float | None = None,
    bounds: Bounds | None = None,
    near: Array | None = None,
) -> tuple[Array, float]:
    """The best point, and the best time for it, as a share of an interval of time."""
    timed = _Timed(space)
    recent = interval.posterior.points[-RECENT:] if near is None else near
    pool = [_candidates(timed, rng), np.column_stack([recent, rng.random(len(recent))])]
    if bounds is not None:
        bounds = np.append(bounds[0], 0.0), np.append(bounds[1], 1.0)
    best = _best(acquisition, interval, timed, pool, (n, space.dim, pace), bounds)
    return best[:-1], float(best[-1])


class _Timed:
    """A space with one more coordinate: the query's time as a share of an interval."""

    def __init__(self, space: Space) -> None:
        self.space, self.dim, self.has_discrete = space, space.dim + 1, space.has_discrete
        self.relaxable = np.append(space.relaxable, True)

    def spread(self, uniform: Array) -> Array:
        return np.column_stack([self.space.spread(uniform[:, :-1]), uniform[:, -1]])

    def snap(self, Z: Array) -> Array:
        return np.column_stack([self.space.snap(Z[:, :-1]), Z[:, -1]])

    def neighbours(self, z: Array) -> Array:
        near = self.space.neighbours(z[:-1])
        return np.column_stack([near, np.full(len(near), z[-1])])


def _best(
    acquisition: Acquisition,
    predictor: Predictor,
    space: Space | _Timed,
    pools: Sequence[Array],
    told: tuple[int, int, float | None],
    bounds: Bounds | None,
) -> Array:
    """Ascend from the best of the pools; the acquisition is `told` n, the number of parameters and the pace."""
    pool = np.vstack(pools) if bounds is None else _within(bounds, space, pools)
    low, high = (0.0, 1.0) if bounds is None else bounds
    outline = predictor.outline(pool)
    mean, std = predictor.predict(pool) if outline is None else outline[:2]
    n, dim, pace = told
    context = Context(n, dim, float(mean.max()) if outline is None else outline.highest, pace)

    def score(X: Array) -> Array:
        return _finite(acquisition(*predictor.predict(X), context)[0])

    def score_with_gradient(X: Array) -> tuple[Array, Array]:
        mu, sigma, mu_x, sigma_x = predictor.predict_with_gradient(X)
        value, by_mu, by_sigma = acquisition(mu, sigma, context)
        gradient = by_mu[:, None] * mu_x + by_sigma[:, None] * sigma_x
        return _finite(value), np.where(space.relaxable & np.isfinite(gradient), gradient, 0.0)

    values = _finite(acquisition(mean, std, context)[0])
    if outline is None:
        found = pool[np.argsort(-values, kind="stable")[:STARTS]]
    else:
        values = np.maximum(values, _finite(acquisition(mean, FLOOR * std, context)[0]))
        found = pool[_top(score, pool, values)]
    if values.max() > values.min():  # a flat acquisition cannot be climbed
        reach = 0.1 * float(np.min(predictor.posterior.kernel.spatial.lengthscale))
        with np.errstate(all="ignore"):
            # An acquisition may have any scale; if it is small, a small gain is worth a step.
            enough = ENOUGH * min(1.0, float(np.ptp(values[np.isfinite(values)])))
            top = climb(score_with_gradient, found, reach, low, high, enough=enough)
            found = np.vstack([found, np.clip(space.snap(top), low, high)])
    best = found[int(np.argmax(score(found)))]
    return _walk(best, score, space, low, high) if space.has_discrete else best


def _top(score: Callable[[Array], Array], pool: Array, bound: Array) -> Rows:
    """The best rows of the pool, best first; with a bound of each score, others are not scored."""
    order = np.argsort(-bound, kind="stable")
    best, scores = order[:0], bound[:0]
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        if len(best) == STARTS and scores[-1] >= bound[rows[0]]:
            break
        rows, values = np.append(best, rows), np.append(scores, score(pool[rows]))
        top = np.argsort(-values, kind="stable")[:STARTS]
        best, scores = rows[top], values[top]
    return best


def _within(bounds: Bounds, space: Space | _Timed, pools: Sequence[Array]) -> Array:
    """Candidates inside the bounds: those spread over the cube are squeezed into them, the others moved to them."""
    low, high = bounds
    spread, near = pools[0], pools[1]
    squeezed = np.where(space.relaxable, low + (high - low) * spread, spread)
    return np.vstack([np.clip(space.snap(squeezed), low, high), np.clip(near, low, high)])


@lru_cache
def _sobol(dim: int) -> Array:
    return sobol(dim, CANDIDATES)


def _candidates(space: Space | _Timed, rng: np.random.Generator) -> Array:
    """Sobol points with a random shift: evenly spread, different in each ask, and cheap."""
    return space.spread((_sobol(space.dim) + rng.random(space.dim)) % 1.0)


def climb(
    objective: Objective,
    X: Array,
    reach: float,
    low: Array | float = 0.0,
    high: Array | float = 1.0,
    *,
    steps: int = CLIMB_STEPS,
    enough: float = ENOUGH,
) -> Array:
    """Move each row of X uphill between the bounds; the first step has length `reach`.

    The ascent ends early when no row's next step promises (½ gᵀHg) to beat the best value so far by `enough`.

    | symbol | meaning                                 | shape     |
    |--------|-----------------------------------------|-----------|
    | H      | inverse Hessian of −f, one per start    | (m, d, d) |
    | s, w   | step, and the change of −gradient       | (m, d)    |
    """
    f, g = objective(X)
    norms = np.sqrt(np.maximum(_dot(g, g), 1e-300))
    H = (reach / norms)[:, None, None] * np.eye(X.shape[1])
    length = np.ones(len(X))
    for step in range(steps):
        # A coordinate at its bound with the gradient pointing outward stays there.
        free = ~(((low >= X) & (g < 0.0)) | ((high <= X) & (g > 0.0)))
        direction = (H @ (g * free)[:, :, None])[:, :, 0] * free
        if step >= FEWEST_STEPS and (f + 0.5 * _dot(g, direction)).max() < f.max() + enough:
            break
        there = np.clip(X + length[:, None] * direction, low, high)
        f_there, g_there = objective(there)
        s, w = there - X, g - g_there
        gain, curvature = f_there - f, _dot(s, w)
        better = gain >= 1e-4 * _dot(g, s)
        curved = better & (curvature > 1e-10 * np.sqrt(_dot(s, s) * _dot(w, w)))
        H = np.where(curved[:, None, None], _bfgs(H, s, w, np.where(curved, curvature, 1.0), first=step == 0), H)
        # Where f is convex there is no curvature to learn: lengthen the step. After overshooting: shorten it.
        length = np.where(curved, 1.0, np.where(better, 3.0, 0.25) * length)
        rows = better[:, None]
        X, g, f = np.where(rows, there, X), np.where(rows, g_there, g), np.where(better, f_there, f)
    return X


def _bfgs(H: Array, s: Array, w: Array, curvature: Array, *, first: bool) -> Array:
    """(I − ρswᵀ)H(I − ρwsᵀ) + ρssᵀ with ρ = 1/sᵀw; the first time, H is rescaled by the curvature seen."""
    if first:
        H = (curvature / np.maximum(_dot(w, w), 1e-300))[:, None, None] * np.eye(s.shape[1])
    Hw = (H @ w[:, :, None])[:, :, 0]
    u = (0.5 * (1.0 + _dot(w, Hw) / curvature) / curvature)[:, None] * s - Hw / curvature[:, None]
    cross = u[:, :, None] * s[:, None, :]
    return H + cross + cross.transpose(0, 2, 1)


def _dot(a: Array, b: Array) -> Array:
    products: Array = np.einsum("md,md->m", a, b)
    return products


def _walk(
    x: Array, score: Callable[[Array], Array], space: Space | _Timed, low: Array | float, high: Array | float
) -> Array:
    """Change one discrete parameter at a time, as long as it helps."""
    here = float(score(x[None])[0])
    for _ in range(8):
        near = space.neighbours(x)
        near = near[((near >= low) & (near <= high)).all(axis=1)]
        values = score(near)
        if values.max(initial=-np.inf) <= here:
            break
        x, here = near[int(np.argmax(values))], float(values.max())
    return x


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, -np.inf)
