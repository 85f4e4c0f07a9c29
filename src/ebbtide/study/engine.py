"""What an optimizer works out from what it knows: Algorithm 1's model step, and what can be read off the model.

    ask:  fit → staleness policy → condition → acquisition          (a `Step`, which the optimizer then records)

Nothing here changes what is known, reads a clock or touches a disk: a step is a function of the definition, the
state, the active and the time. So it may as well be worked out in another process, which is what the service does.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from ebbtide.checks import as_finite, is_whole
from ebbtide.errors import ClockWarning, ConfigurationError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.criterion import relevance
from ebbtide.gp.inference import MIN_ROWS, Prior, TimeLimits, fit, weak_prior
from ebbtide.gp.likelihood import Hyperparameters
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.gp.quasirandom import sobol
from ebbtide.gp.standardization import Standardization
from ebbtide.guards import Guard
from ebbtide.parts.acquisition import UCB
from ebbtide.parts.maximization import maximize, maximize_over
from ebbtide.parts.staleness import Verdict, View, WassersteinBudget
from ebbtide.parts.timing import Occasion
from ebbtide.records import Model, Recommendation
from ebbtide.space import Params
from ebbtide.study.active import ActiveSet
from ebbtide.study.definition import Definition
from ebbtide.study.log import Updates
from ebbtide.study.state import State

SEARCH_EVERY = 10  # asks between two searches for hyperparameters from scratch
RESPONSES = 9  # response times whose median is the one expected
TRIM_BLOCK = 512  # rows scored at a time when far more were told than may stay
MAX_PENDING = 64  # pending trials that are believed: clients that never answer must not slow an ask down
PATIENCE = 10  # observations made since a clock went back, before those dated after it are dropped


@dataclass
class Step:
    """What an ask has worked out, to be recorded when all of it has succeeded."""

    x: Array = field(default_factory=lambda: np.empty(0))
    z: Array = field(default_factory=lambda: np.empty(0))  # the standardised values of the rows that are modelled
    hyper: Hyperparameters | None = None
    standardization: Standardization | None = None
    policy: dict[str, float] | None = None
    timing: dict[str, float] | None = None
    wait: float | None = None  # a moment after the landing, if the timing chose one
    behind_since: int | None = None
    guards: tuple[Guard, ...] = ()
    rows: list[int] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)

    def remove(self, rows: Rows, scores: Sequence[float | None]) -> None:
        self.rows += rows.tolist()
        self.scores += scores

    def after(self, state: State, now: float, landed: float) -> State:
        """The state that this step leaves behind."""
        guards = dict(state.guards)
        for guard in self.guards:
            guards[guard] = guards.get(guard, 0) + 1
        return replace(
            state,
            asks=state.asks + 1,
            hyper=self.hyper or state.hyper,
            standardization=self.standardization or state.standardization,
            policy=state.policy if self.policy is None else self.policy,
            timing=state.timing if self.timing is None else self.timing,
            behind_since=self.behind_since,
            guards=guards,
            responses=[*state.responses, max(0.0, landed - now)][-RESPONSES:],
        ).noting(landed)


class Engine:
    """Holds what is known; the optimizer puts new knowledge in."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.space, self.algorithm, self.seed = definition.space, definition.algorithm, definition.seed
        self.state = State()
        self.active = ActiveSet(self.space)
        self._cached: tuple[tuple[int, int], Posterior] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cached": None}  # to another process goes what is known, not what follows from it

    def learn(self, updates: Updates) -> None:
        """What others have recorded."""
        for observation, reading in updates.tells:
            self.active.record(observation)
            self.state = self.state.noting(reading)
        told = {observation.trial_id for observation, _ in updates.tells}
        for ask in updates.asks:
            self.active.remove([line for line, _ in ask.removed])
            latest = self.state.latest_reading
            self.state = ask.state if latest is None else ask.state.noting(latest)
            self.active.open(ask.trial)
            if ask.trial.id in told:
                self.active.settle(ask.trial.id)

    # --- ask ----------------------------------------------------------------------------------------------

    def step(self, now: float, until: float = math.inf) -> Step:
        """What to query next; `until` is the latest moment that it may be for."""
        with one_blas_thread():
            return self._start() if self.starting else self._model_step(now, until)

    @property
    def starting(self) -> bool:
        """The first `n_initial` asks fill the space, unless as many values came from outside."""
        return max(self.state.asks, self.active.values_told) < self.definition.n_initial

    def _start(self) -> Step:
        point = sobol(self.space.dim, 1, np.random.default_rng(self.seed), skip=self.state.asks)
        return Step(x=self.space.spread(point)[0])

    def _model_step(self, now: float, until: float) -> Step:
        """Lines 5-24 of Algorithm 1, in the order: fit, forget, condition, acquire."""
        rng = np.random.default_rng([self.seed, self.state.asks])
        step = Step()
        rows = self._thinned(step, self._dated_before(step, now), now)
        posterior = self._fit(step, rows, rng)
        posterior = self._forget(step, rows, posterior, now, rng)
        self._acquire(step, posterior, now, until, rng)
        return step

    def _fit(self, step: Step, rows: Rows, rng: np.random.Generator) -> Posterior:
        """Hyperparameters from the active observations (line 8), by maximum likelihood or a posteriori."""
        data = self.active.dataset.take(rows)
        families = (self.algorithm.spatial, self.algorithm.temporal)
        held = self.state.hyper
        start = self._default_hyperparameters() if held is None else held
        few = len(data) < MIN_ROWS
        # After a reset what was fitted is held, and with it the scale that it was fitted on.
        step.standardization = self.state.standardization if few and held else Standardization.of(data.y)
        step.z, moments = self._sign * step.standardization.apply(data.y), self._moments(rows)
        if few:
            return condition(start.kernel(*families), start.noise, data.x, moments, step.z)
        search = held is None or self.state.asks % SEARCH_EVERY == 0
        fitted = fit(families, start, (data.x, moments, step.z), self._prior(), search=search, rng=rng)
        step.hyper = fitted.hyper
        step.guards += fitted.guards
        return fitted.posterior

    def _forget(self, step: Step, rows: Rows, posterior: Posterior, now: float, rng: np.random.Generator) -> Posterior:
        """What the staleness policy takes out (lines 9-20 and 24)."""
        if len(posterior) == 0 or self._behind(now).any():
            return posterior
        view = View(
            posterior,
            z=step.z,
            t=self.active.dataset.t[rows],
            index=self.active.lines[rows],
            told=self.active.told,
            now=now,
            state=dict(self.state.policy),
            rng=rng,
            inference=self.algorithm.inference,
        )
        verdict = self.algorithm.staleness.review(view)
        gone, scores = _checked_verdict(verdict, len(rows))
        step.policy = _checked_memory(verdict.state, "staleness policy")
        step.guards += verdict.guards
        step.remove(rows[gone], scores)
        return posterior.without(gone)

    def _acquire(self, step: Step, posterior: Posterior, now: float, until: float, rng: np.random.Generator) -> None:
        """The acquisition's maximum at the moment that the query is for (line 5), or over those that it may be for."""
        n = len(posterior)
        posterior = self._believing_pending(posterior, now)
        landing = now + median(self.state.responses or [0.0])
        earliest, latest = self._window(step, now, landing, until)
        if latest > earliest and self._sees_the_clock:
            interval = posterior.during(earliest, latest)
            step.x, chosen = maximize_over(self.algorithm.acquisition, interval, self.space, rng, n)
        else:
            chosen = earliest  # to a model that does not see the clock, no moment is better than another
            moment = posterior.at(self._moment(chosen))
            step.x = maximize(self.algorithm.acquisition, moment, self.space, rng, n)
        step.wait = chosen if chosen > landing else None

    def _believing_pending(self, posterior: Posterior, now: float) -> Posterior:
        """What was asked and not yet told is believed at the posterior mean, for one l_T."""
        interval, timescale = self.active.interval, posterior.kernel.timescale
        if timescale is None:
            lease = TimeLimits.of(interval, span=0.0).typical
        else:
            lease = timescale * interval if self._by_step else timescale
        newest = islice(self.active.newest_pending(), MAX_PENDING)
        pending = [p for p in newest if now <= (p.time + lease if p.expires is None else p.expires)]
        if not pending:
            return posterior
        X = np.array([self.space.encode(p.params) for p in pending])
        return posterior.believing(X, np.array([self._moment(p.time) for p in pending]))

    def _window(self, step: Step, now: float, landing: float, until: float) -> tuple[float, float]:
        """The moments that the timing lets the acquisition choose among."""
        hyper = step.hyper or self.state.hyper
        timescale = hyper.timescale if hyper is not None and self._sees_the_clock else None
        told, memory = self.active.told, dict(self.state.timing)
        window = self.algorithm.timing.window(Occasion(now, landing, timescale, until, told, memory))
        if not -math.inf < window.earliest <= window.latest < math.inf:
            raise ConfigurationError(f"{self.algorithm.timing!r} gave {window}: earliest ≤ latest, two finite times")
        step.timing = _checked_memory(window.memory, "timing")
        last = max(landing, until)
        return min(window.earliest, last), min(window.latest, last)

    def _dated_before(self, step: Step, now: float) -> Rows:
        """All active rows, but for those that a clock has left in the future for good."""
        rows = np.arange(len(self.active))
        behind = self._behind(now)
        since = self.state.behind_since
        step.behind_since = None if not behind.any() else self.active.told if since is None else since
        if step.behind_since is not None and self.active.told - step.behind_since >= PATIENCE:
            warnings.warn(
                f"the clock went back to {now!r}: {behind.sum()} observations dated after it are set aside",
                ClockWarning,
                stacklevel=7,
            )
            step.guards += ("clock_went_back",)
            step.behind_since = None
            step.remove(rows[behind], [None] * int(behind.sum()))
            rows = rows[~behind]
        return rows

    def _thinned(self, step: Step, rows: Rows, now: float) -> Rows:
        """The rows to model: a model of far more than may stay would take minutes, so they go in blocks first."""
        capacity = self.algorithm.staleness.capacity
        while capacity is not None and len(rows) > 2 * max(capacity, TRIM_BLOCK):
            rows = self._trim_block(step, rows, now)
        return rows

    def _trim_block(self, step: Step, rows: Rows, now: float) -> Rows:
        """Of the oldest rows, the half with the lowest scores goes."""
        oldest = rows[np.argsort(self.active.dataset.t[rows], kind="stable")[:TRIM_BLOCK]]
        scores = self._scores(oldest, self.model, now)
        lowest = np.argsort(scores, kind="stable")[: TRIM_BLOCK // 2]
        step.guards += ("max_active",)
        known = self.algorithm.temporal is not None
        step.remove(oldest[lowest], scores[lowest].tolist() if known else [None] * len(lowest))
        return np.setdiff1d(rows, oldest[lowest])

    def _behind(self, now: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Rows dated more than l_T after now: the clock went back. While there are any, nothing is forgotten.

        To a model that does not look at the clock it makes no difference.
        """
        if not self._sees_the_clock:
            return np.zeros(len(self.active), dtype=bool)
        hyper = self.state.hyper
        timescale = None if hyper is None else hyper.timescale
        return self.active.dataset.t > now + (0.0 if timescale is None else timescale)

    @property
    def _by_step(self) -> bool:
        """Whether the model counts observations told instead of looking at the clock (TV-GP-UCB)."""
        return self.algorithm.temporal is not None and self.algorithm.temporal.by_step

    @property
    def _sees_the_clock(self) -> bool:
        return self.algorithm.temporal is not None and not self._by_step

    def _moments(self, rows: Rows) -> Array:
        """Where active rows lie on the temporal kernel's axis."""
        return self.active.lines[rows].astype(float) if self._by_step else self.active.dataset.t[rows]

    def _moment(self, time: float) -> float:
        """The same for what has not been told: by steps, everything that comes is at the next index."""
        return float(self.active.told) if self._by_step else time

    def _moments_of(self, times: Array) -> Array:
        """Where any times lie on the temporal kernel's axis: by steps, between those told before and after."""
        if not self._by_step or not len(self.active):
            return times
        t = self.active.dataset.t
        order = np.argsort(t, kind="stable")
        known = np.interp(times, t[order], np.maximum.accumulate(self.active.lines[order]))
        return np.where(times > t.max(), float(self.active.told), known)

    # --- reads --------------------------------------------------------------------------------------------

    def recommend(self, now: float) -> Recommendation:
        """The best parameters now, by the model: no exploration."""
        with one_blas_thread():
            moment = self.posterior(now).at(self._moment(now))
            rng = np.random.default_rng([self.seed, self.state.asks, 1])
            x = maximize(UCB(beta=0.0), moment, self.space, rng, len(moment.posterior))
            params = self.space.decode(x)
            mean, std = self._in_user_unit(*moment.predict(self.space.encode(params)[None]))
        return Recommendation(params, float(mean[0]), float(std[0]), now)

    def predict(self, points: Sequence[Params], time: float, now: float) -> tuple[Array, Array]:
        """Mean and deviation of the objective (without noise) at some parameters and a time."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            return self._in_user_unit(*self.posterior(now).at(self._moment(time)).predict(X))

    def field(self, points: Sequence[Params], times: Array, now: float) -> tuple[Array, Array]:
        """Mean and deviation (times × points) of the objective over a stretch of time."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            posterior = self.posterior(now)
            columns = [posterior.at(moment).predict(X) for moment in self._moments_of(times)]
            mean, std = (np.array(part) for part in zip(*columns, strict=True))
            return self._in_user_unit(mean, std)

    def relevance(self, now: float) -> Array:
        """How much each active observation still matters to predictions from now on, in the dataset's order."""
        if self.algorithm.temporal is None:
            raise ConfigurationError("this algorithm has no temporal kernel: to it, no observation is ever stale")
        thinning = Step()  # never recorded: what the next ask would thin out has its score from there
        rows = self._thinned(thinning, np.arange(len(self.active)), now)
        scores = np.zeros(len(self.active))
        scores[thinning.rows] = thinning.scores
        scores[rows] = self._scores(rows, self.model, now)
        return scores

    def _scores(self, rows: Rows, model: Model, now: float) -> Array:
        data, moments, present = self.active.dataset.take(rows), self._moments(rows), self._moment(now)
        if self.algorithm.temporal is None:
            return data.t - now  # what has no relevance goes by age
        policy = self.algorithm.staleness
        method = policy.method if isinstance(policy, WassersteinBudget) else "bound"
        z = Standardization(model.mean, model.scale).apply(data.y)
        return relevance(data.x, moments, z, kernel=model.kernel, noise=model.noise, now=present, method=method)

    @property
    def model(self) -> Model:
        """Kernel, noise, and the mean and scale that standardise y, as last fitted."""
        fitted = self.state.hyper is not None
        standardization = self.state.standardization if fitted else Standardization.of(self.active.dataset.y)
        kernel = self.hyper.kernel(self.algorithm.spatial, self.algorithm.temporal)
        return Model(kernel, self.hyper.noise, standardization.mean, standardization.scale)

    @property
    def hyper(self) -> Hyperparameters:
        """As last fitted; until then, what is expected."""
        return self.state.hyper or self._default_hyperparameters()

    def posterior(self, now: float) -> Posterior:
        """Conditioned on everything told; kept until the next ask or tell."""
        key = (self.state.asks, self.active.told)
        if self._cached is None or self._cached[0] != key:
            model = self.model
            rows = self._thinned(Step(), np.arange(len(self.active)), now)
            data = self.active.dataset.take(rows)
            z = self._sign * Standardization(model.mean, model.scale).apply(data.y)
            self._cached = key, condition(model.kernel, model.noise, data.x, self._moments(rows), z)
        return self._cached[1]

    # --- small parts --------------------------------------------------------------------------------------

    @property
    def _sign(self) -> float:
        return 1.0 if self.definition.direction == "maximize" else -1.0

    def _in_user_unit(self, mean: Array, std: Array) -> tuple[Array, Array]:
        model = self.model
        return self._sign * mean * model.scale + model.mean, std * model.scale

    def _limits(self) -> TimeLimits:
        if self._by_step:
            return TimeLimits.in_steps()
        return TimeLimits.of(self.active.interval, self.active.span)

    def _prior(self) -> Prior:
        limits = None if self.algorithm.temporal is None else self._limits()
        return weak_prior(self.algorithm.spatial.ard, self.space.width, limits, self.algorithm.inference)

    def _default_hyperparameters(self) -> Hyperparameters:
        """The prior's centre, until there is something to fit."""
        prior = self._prior()
        drifting = self.algorithm.temporal is not None
        return Hyperparameters.from_vector(prior.clip(prior.center), ard=self.algorithm.spatial.ard, drifting=drifting)


def _checked_verdict(verdict: Verdict, n: int) -> tuple[list[int], list[float | None]]:
    """Rows and scores of a policy, which may be somebody's own."""
    if not isinstance(verdict, Verdict):
        raise ConfigurationError(f"the staleness policy answered {verdict!r}: give an eb.Verdict")
    rows, scores = list(verdict.rows), list[float | None](verdict.scores)
    if len(set(rows)) < len(rows) or not all(is_whole(row) and 0 <= row < n for row in rows):
        raise ConfigurationError(f"the staleness policy removed the rows {rows}: give numbers from 0 to {n - 1}, once")
    if len(scores) not in (0, len(rows)) or not all(as_finite(score) is not None for score in scores):
        raise ConfigurationError(f"the staleness policy gave {scores} for {len(rows)} rows: give a finite number each")
    return rows, scores or [None] * len(rows)


def _checked_memory(memory: Any, owner: str) -> dict[str, float]:
    """What a part wants to remember, which a snapshot must be able to hold."""
    pairs: list[tuple[Any, Any]] = list(memory.items()) if isinstance(memory, dict) else [(None, None)]
    if not all(isinstance(key, str) and as_finite(value) is not None for key, value in pairs):
        raise ConfigurationError(f"the {owner} wants to remember {memory!r}: give a dict of finite numbers by name")
    return {key: float(value) for key, value in pairs}
