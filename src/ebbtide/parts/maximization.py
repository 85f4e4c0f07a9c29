"""Where an acquisition is largest: quasi-random candidates, then an ascent from the best of them, in one batch.

The ascent is BFGS with one d×d inverse Hessian per start, all starts in one NumPy batch: a step costs one prediction
with gradient for the whole batch. SciPy's L-BFGS-B on the stacked problem needs more predictions (the starts share
their curvature) and takes as long between two of them; at n = 60 that was most of an ask.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.posterior import Gradient, Outline, Posterior
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.acquisition import Acquisition, Context, Random
from ebbtide.space import Space

CANDIDATES = 256  # quasi-random points in the cube
RECENT = 64  # and the points of the newest active observations
STARTS = 6
CHUNK = 32  # candidates scored at a time
FLOOR = (
    1e-3  # of its bound: no deviation is smaller; an acquisition that prefers certainty is bounded by its value there
)
CLIMB_STEPS = 12
FARTHEST = 2.0  # times the first step: a longer one would trust the curvature too far away
ENOUGH = 3e-4  # the ascent ends when no start promises to beat the best one by more
FEWEST_STEPS = 2  # before that, too little is known of the curvature for a promise
BLIND = 0.25  # of the asks are made at random while the parameters seem not to matter, if the acquisition doubts that
SIGHTED = 64  # places where the model is asked whether they matter

Objective = Callable[[Array], tuple[Array, Array]]  # values and slopes, in new arrays
Bounds = tuple[Array, Array]  # the lowest and the highest coordinates that may be chosen


class Predictor(Protocol):
    """A posterior at one moment or over an interval of time, or what is to be expected there (outlook.py)."""

    @property
    def posterior(self) -> Posterior: ...
    def predict(self, Z: Array, /) -> tuple[Array, Array]: ...
    def scan(self, Z: Array, /) -> tuple[Array, Array]: ...
    def outline(self, Z: Array, /) -> Outline | None: ...
    def predict_with_gradient(self, Z: Array, /) -> tuple[Array, Array, Gradient]: ...


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
    if getattr(acquisition, "doubts", False) and parameters_hardly_matter(moment, space) and rng.random() < BLIND:
        acquisition = Random()
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


def parameters_hardly_matter(moment: Predictor, space: Space) -> bool:
    """Whether one hill is wider than the cube, and lower than the noise.

    The deviation is then largest at the corners, an acquisition asks nowhere else, and if the corners go up and down
    together, nothing will ever contradict this model. An ask at random costs nothing, as the model sees it.
    """
    posterior = moment.posterior
    if posterior.kernel.spatial.shortest <= math.sqrt(space.dim):
        return False
    mean, _ = moment.predict(space.spread(_sobol(space.dim)[:SIGHTED]))
    return float(np.ptp(mean)) < math.sqrt(posterior.noise)


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
    pool = np.concatenate(pools) if bounds is None else _within(bounds, space, pools)
    low, high = (0.0, 1.0) if bounds is None else bounds
    outline = predictor.outline(pool)
    mean, std = predictor.scan(pool) if outline is None else outline[:2]
    n, dim, pace = told
    fixed = None if space.relaxable.all() else ~space.relaxable
    context = Context(n, dim, float(mean.max()) if outline is None else outline.highest, pace)

    def score(X: Array) -> Array:
        return _finite(acquisition(*predictor.predict(X), context)[0])

    def score_with_gradient(X: Array) -> tuple[Array, Array]:
        mean, std, gradient = predictor.predict_with_gradient(X)
        value, by_mean, by_std = acquisition(mean, std, context)
        slope = gradient(by_mean, by_std)
        slope[~np.isfinite(slope)] = 0.0
        if fixed is not None:
            slope[:, fixed] = 0.0
        return _finite(value), slope

    values = _finite(acquisition(mean, std, context)[0])
    if outline is not None:
        values = np.maximum(values, _finite(acquisition(mean, FLOOR * std, context)[0]))
    order = (-values).argsort(kind="stable")
    found = pool[order[:STARTS] if outline is None else _top(score, pool, values, order)]
    lowest, highest = float(values[order[-1]]), float(values[order[0]])
    if highest > lowest:  # a flat acquisition cannot be climbed
        reach = 0.1 * predictor.posterior.kernel.spatial.shortest
        # An acquisition may have any scale; if it is small, a small gain is worth a step.
        lowest = lowest if math.isfinite(lowest) else float(values[np.isfinite(values)].min())
        enough = ENOUGH * min(1.0, highest - lowest)
        with np.errstate(all="ignore"):
            top, reached = climb(score_with_gradient, found, reach, low, high, enough=enough, farthest=FARTHEST * reach)
        if not space.has_discrete:
            summit: Array = top[int(reached.argmax())]
            return summit
        found = np.vstack([found, np.clip(space.snap(top), low, high)])
    best = found[int(np.argmax(score(found)))]
    return _walk(best, score, space, low, high) if space.has_discrete else best


def _top(score: Callable[[Array], Array], pool: Array, bound: Array, order: Rows) -> Rows:
    """The best rows of the pool, best first; with a bound of each score, in whose `order` they come, others are not
    scored.
    """
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
    shifted = _sobol(space.dim) + rng.random(space.dim)
    shifted -= np.floor(shifted)
    return space.spread(shifted)


def climb(
    objective: Objective,
    X: Array,
    reach: float,
    low: Array | float = 0.0,
    high: Array | float = 1.0,
    *,
    steps: int = CLIMB_STEPS,
    enough: float = ENOUGH,
    farthest: float = np.inf,
) -> tuple[Array, Array]:
    """Move each row of X uphill between the bounds: where each arrives, and the value there. The first step has length
    `reach`, and none is longer than `farthest`.

    The ascent ends early when no row's next step promises (½ gᵀHg) to beat the best value so far by `enough`.

    | symbol | meaning                                 | shape     |
    |--------|-----------------------------------------|-----------|
    | H      | inverse Hessian of −f, one per start    | (m, d, d) |
    | s, w   | step, and the change of −gradient       | (m, d)    |
    """
    f, g = objective(X)
    m, d = X.shape
    unit = np.eye(d)
    H = (reach / np.sqrt(np.maximum(np.vecdot(g, g), 1e-300)))[:, None, None] * unit
    length, radius = np.ones((m, 1)), np.full((m, 1), farthest)
    for step in range(steps):
        # A coordinate at its bound with the gradient pointing outward stays there.
        free = np.minimum(np.maximum(X + g, low), high) != X
        direction = (H @ (g * free)[:, :, None])[:, :, 0] * free
        if step >= FEWEST_STEPS and (f + 0.5 * np.vecdot(g, direction)).max() < f.max() + enough:
            break
        norm = np.sqrt(np.maximum(np.vecdot(direction, direction), 1e-300))[:, None]
        there = np.minimum(np.maximum(X + np.minimum(length, radius / norm) * direction, low), high)
        f_there, g_there = objective(there)
        s, w = there - X, g - g_there
        better, curvature, ss, ww = f_there > f, np.vecdot(s, w), np.vecdot(s, s), np.vecdot(w, w)
        curved = curvature > 1e-10 * np.sqrt(ss * ww)  # also where a step has overshot
        if step == 0:  # the curvature that was seen gives the scale of H
            H[curved] = (curvature[curved] / ww[curved])[:, None, None] * unit
        H += _bfgs(H, s, w, np.divide(1.0, curvature, out=np.zeros(m), where=curved)[:, None])
        # Where f is convex there is no curvature to learn: lengthen the step. After overshooting: stay closer.
        length *= 3.0
        length[curved] = 1.0
        if np.count_nonzero(better) == m:
            X, f, g = there, f_there, g_there
            continue
        rows = better[:, None]
        radius = np.where(rows, radius, 0.5 * np.sqrt(ss)[:, None])
        X, g = np.where(rows, there, X), np.where(rows, g_there, g)
        f = np.where(better, f_there, f)
    return X, f


def _bfgs(H: Array, s: Array, w: Array, rho: Array) -> Array:
    """How (I − ρswᵀ)H(I − ρwsᵀ) + ρssᵀ, ρ = 1/sᵀw, differs from H; by nothing for ρ = 0."""
    Hw = (H @ w[:, :, None])[:, :, 0]
    u = rho * (0.5 * (1.0 + rho * np.vecdot(w, Hw)[:, None]) * s - Hw)
    cross = u[:, :, None] * s[:, None, :]
    both: Array = cross + cross.transpose(0, 2, 1)
    return both


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
