"""What an optimizer computes from what it knows: Algorithm 1's model step, and everything read from the model.

    ask:  fit → staleness policy → condition → acquisition          (a `Step`, which the optimizer then records)

A step is a function of the definition, the state, the active set and the time: it changes nothing, reads no clock and
touches no disk. So it can also be computed in another process, as the service does.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from ebbtide.errors import ClockWarning, ConfigurationError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.criterion import relevance
from ebbtide.gp.inference import MIN_ROWS, Prior, TimeLimits, fit, weak_prior
from ebbtide.gp.likelihood import Hyperparameters
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.gp.quasirandom import sobol
from ebbtide.gp.standardization import Standardization
from ebbtide.parts.acquisition import UCB
from ebbtide.parts.maximization import maximize, maximize_over
from ebbtide.parts.staleness import View, WassersteinBudget
from ebbtide.parts.timing import Occasion
from ebbtide.records import Model, Observation, Recommendation, Trial
from ebbtide.space import Params
from ebbtide.study.active import ActiveSet, Checkpoint
from ebbtide.study.axis import TimeAxis
from ebbtide.study.definition import Definition
from ebbtide.study.log import Ask, Updates
from ebbtide.study.state import State
from ebbtide.study.step import Step, checked_memory, checked_verdict

SEARCH_EVERY = 10  # asks between two searches for hyperparameters from scratch
TRIM_BLOCK = 512  # rows scored at a time, when far more were told than may stay
MAX_PENDING = 64  # pending trials taken into account: clients that never answer must not slow down an ask
PATIENCE = 10  # observations made after a clock went back, before those from its future are dropped


class Engine:
    """What is known about a study, and everything computed from it.

    Only these methods change what is known; other code just reads `state` and `active`:

    | method    | what happened                                                     |
    |-----------|-------------------------------------------------------------------|
    | `restore` | a log was opened                                                  |
    | `apply`   | an ask was recorded                                               |
    | `record`  | a tell was recorded                                               |
    | `learn`   | other processes have recorded asks and tells                      |
    | `note`    | the clock was read                                                |

    A host that keeps the trials itself (Optuna) uses `advance` for an ask's outcome, and `expect` before it asks.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.space, self.algorithm, self.seed = definition.space, definition.algorithm, definition.seed
        self._state = State()
        self._active = ActiveSet(self.space)
        self._cached: tuple[tuple[int, int], Posterior] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cached": None}  # another process gets what is known, not what was computed from it

    # --- what is known ------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state that the last ask left behind, with the clock's readings since."""
        return self._state

    @property
    def active(self) -> ActiveSet:
        """The active observations and the pending trials."""
        return self._active

    @property
    def latest_reading(self) -> float:
        """The latest time that the clock ever showed; −∞ before the first reading."""
        latest = self._state.latest_reading
        return -math.inf if latest is None else latest

    def restore(self, state: State, checkpoint: Checkpoint) -> None:
        """Start from where a log ends: `engine.restore(*log.checkpoint())`."""
        self._state, self._active, self._cached = state, ActiveSet(self.space, checkpoint), None

    def apply(self, ask: Ask) -> None:
        """Apply an ask that was recorded."""
        self.advance(ask.state, [line for line, _ in ask.removed])
        self._active.open(ask.trial)

    def advance(self, state: State, removed: Sequence[int]) -> None:
        """Go to the state that an ask left behind, and remove these lines."""
        latest = self._state.latest_reading
        self._state = state if latest is None else state.noting(latest)
        self._active.remove(removed)

    def record(self, observation: Observation, reading: float | None = None) -> None:
        """Apply a tell that was recorded, and the clock's reading at that time, if it is known."""
        self._active.record(observation)
        if reading is not None:
            self.note(reading)

    def note(self, reading: float) -> None:
        """Note a reading of the clock, which may be the latest."""
        self._state = self._state.noting(reading)

    def learn(self, updates: Updates) -> None:
        """Apply what other processes have recorded."""
        for observation, reading in updates.tells:
            self.record(replace(observation, removed_at=None), reading)  # the ask that removed it comes below
        told = {observation.trial_id for observation, _ in updates.tells}
        for ask in updates.asks:
            self.apply(ask)
            if ask.trial.id in told:
                self._active.settle(ask.trial.id)

    def expect(self, number: int, pending: Iterable[Trial]) -> None:
        """Set the number of the next ask, and the pending trials."""
        self._state = replace(self._state, asks=number)
        self._active.pending = {trial.id: trial for trial in pending}

    # --- ask ----------------------------------------------------------------------------------------------

    def step(self, now: float, until: float = math.inf) -> Step:
        """What to query next; `until` is the latest time that the query may be for."""
        with one_blas_thread():
            return self._start() if self.starting else self._model_step(now, until)

    @property
    def starting(self) -> bool:
        """Whether asks still fill the space: the first `n_initial` do, unless as many values were told before."""
        return max(self._state.asks, self._active.values_told) < self.definition.n_initial

    def _start(self) -> Step:
        point = sobol(self.space.dim, 1, np.random.default_rng(self.seed), skip=self._state.asks)
        return Step(x=self.space.spread(point)[0])

    def _model_step(self, now: float, until: float) -> Step:
        """Lines 5-24 of Algorithm 1, in the order: fit, forget, condition, acquire."""
        rng = np.random.default_rng([self.seed, self._state.asks])
        step = Step()
        rows = self._thinned(step, self._dated_before(step, now), now)
        posterior = self._fit(step, rows, rng)
        posterior = self._forget(step, rows, posterior, now, rng)
        self._acquire(step, posterior, now, until, rng)
        return step

    def _fit(self, step: Step, rows: Rows, rng: np.random.Generator) -> Posterior:
        """Fit the hyperparameters to the active observations (line 8): maximum likelihood or maximum a posteriori."""
        data = self._active.dataset.take(rows)
        families = (self.algorithm.spatial, self.algorithm.temporal)
        held = self._state.hyper
        start = self._default_hyperparameters() if held is None else held
        few = len(data) < MIN_ROWS
        # After a reset, keep the hyperparameters fitted last, and the scale that they were fitted on.
        step.standardization = self._state.standardization if few and held else Standardization.of(data.y)
        step.z, moments = self._sign * step.standardization.apply(data.y), self._axis.rows(rows)
        if few:
            return condition(start.kernel(*families), start.noise, data.x, moments, step.z)
        search = held is None or self._state.asks % SEARCH_EVERY == 0
        fitted = fit(families, start, (data.x, moments, step.z), self._prior(), search=search, rng=rng)
        step.hyper = fitted.hyper
        step.guards += fitted.guards
        return fitted.posterior

    def _forget(self, step: Step, rows: Rows, posterior: Posterior, now: float, rng: np.random.Generator) -> Posterior:
        """Remove what the staleness policy selects (lines 9-20 and 24)."""
        if len(posterior) == 0 or self._behind(now).any():
            return posterior
        view = View(
            posterior,
            z=step.z,
            t=self._active.dataset.t[rows],
            index=self._active.lines[rows],
            told=self._active.told,
            now=now,
            state=dict(self._state.policy),
            rng=rng,
            inference=self.algorithm.inference,
        )
        verdict = self.algorithm.staleness.review(view)
        gone, scores = checked_verdict(verdict, len(rows))
        step.policy = checked_memory(verdict.state, "staleness policy")
        step.guards += verdict.guards
        step.remove(rows[gone], scores)
        return posterior.without(gone)

    def _acquire(self, step: Step, posterior: Posterior, now: float, until: float, rng: np.random.Generator) -> None:
        """Maximize the acquisition at the time of the query (line 5), or over all times that the timing allows."""
        n = len(posterior)
        posterior = self._believing_pending(posterior, now)
        landing = now + median(self._state.responses or [0.0])
        earliest, latest = self._window(step, now, landing, until)
        if latest > earliest and self._axis.is_clock:
            interval = posterior.during(earliest, latest)
            step.x, chosen = maximize_over(self.algorithm.acquisition, interval, self.space, rng, n)
        else:
            chosen = earliest  # for a model that does not see the clock, all times are equally good
            moment = posterior.at(self._axis.place(chosen))
            step.x = maximize(self.algorithm.acquisition, moment, self.space, rng, n)
        step.wait = chosen if chosen > landing else None

    def _believing_pending(self, posterior: Posterior, now: float) -> Posterior:
        """Treat pending trials as if they had been told the posterior mean, until their leases (one l_T) end."""
        interval, timescale = self._active.interval, posterior.kernel.timescale
        if timescale is None:
            lease = TimeLimits.of(interval, span=0.0).typical
        else:
            lease = timescale * interval if self._axis.by_step else timescale
        newest = islice(self._active.newest_pending(), MAX_PENDING)
        pending = [p for p in newest if now <= (p.time + lease if p.expires is None else p.expires)]
        if not pending:
            return posterior
        X = np.array([self.space.encode(p.params) for p in pending])
        return posterior.believing(X, np.array([self._axis.place(p.time) for p in pending]))

    def _window(self, step: Step, now: float, landing: float, until: float) -> tuple[float, float]:
        """The times from which the timing lets the acquisition choose."""
        hyper = step.hyper or self._state.hyper
        timescale = hyper.timescale if hyper is not None and self._axis.is_clock else None
        told, memory = self._active.told, dict(self._state.timing)
        window = self.algorithm.timing.window(Occasion(now, landing, timescale, until, told, memory))
        if not -math.inf < window.earliest <= window.latest < math.inf:
            raise ConfigurationError(
                f"{self.algorithm.timing!r} returned {window}: return two finite times, earliest ≤ latest"
            )
        step.timing = checked_memory(window.memory, "timing")
        last = max(landing, until)
        return min(window.earliest, last), min(window.latest, last)

    def _dated_before(self, step: Step, now: float) -> Rows:
        """All active rows, except those that lie in the future because the clock went back for good."""
        rows = np.arange(len(self._active))
        behind = self._behind(now)
        since = self._state.behind_since
        step.behind_since = None if not behind.any() else self._active.told if since is None else since
        if step.behind_since is not None and self._active.told - step.behind_since >= PATIENCE:
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
        """The rows to model. Modelling far more rows than may stay would take minutes: blocks are removed first."""
        capacity = self.algorithm.staleness.capacity
        while capacity is not None and len(rows) > 2 * max(capacity, TRIM_BLOCK):
            rows = self._trim_block(step, rows, now)
        return rows

    def _trim_block(self, step: Step, rows: Rows, now: float) -> Rows:
        """Remove those with the lowest scores, half of a block of the oldest rows."""
        oldest = rows[np.argsort(self._active.dataset.t[rows], kind="stable")[:TRIM_BLOCK]]
        scores = self._scores(oldest, self.model, now)
        lowest = np.argsort(scores, kind="stable")[: TRIM_BLOCK // 2]
        step.guards += ("max_active",)
        known = self.algorithm.temporal is not None
        step.remove(oldest[lowest], scores[lowest].tolist() if known else [None] * len(lowest))
        return np.setdiff1d(rows, oldest[lowest])

    def _behind(self, now: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Rows dated more than l_T after now: the clock went back. While there are any, the policy removes nothing.

        For a model that does not read the clock, there are none.
        """
        if not self._axis.is_clock:
            return np.zeros(len(self._active), dtype=bool)
        hyper = self._state.hyper
        timescale = None if hyper is None else hyper.timescale
        return self._active.dataset.t > now + (0.0 if timescale is None else timescale)

    # --- reads --------------------------------------------------------------------------------------------

    def recommend(self, now: float) -> Recommendation:
        """The best parameters now, according to the model, without exploration."""
        with one_blas_thread():
            moment = self.posterior(now).at(self._axis.place(now))
            rng = np.random.default_rng([self.seed, self._state.asks, 1])
            x = maximize(UCB(beta=0.0), moment, self.space, rng, len(moment.posterior))
            params = self.space.decode(x)
            mean, std = self._in_user_unit(*moment.predict(self.space.encode(params)[None]))
        return Recommendation(params, float(mean[0]), float(std[0]), now)

    def predict(self, points: Sequence[Params], time: float, now: float) -> tuple[Array, Array]:
        """Mean and standard deviation of the objective (without noise) at the given parameters and time."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            return self._in_user_unit(*self.posterior(now).at(self._axis.place(time)).predict(X))

    def field(self, points: Sequence[Params], times: Array, now: float) -> tuple[Array, Array]:
        """Mean and standard deviation (times × points) of the objective at several times."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            posterior = self.posterior(now)
            columns = [posterior.at(moment).predict(X) for moment in self._axis.places(times)]
            mean, std = (np.array(part) for part in zip(*columns, strict=True))
            return self._in_user_unit(mean, std)

    def relevance(self, now: float) -> Array:
        """How much each active observation still matters to predictions from now on, in the dataset's order."""
        if self.algorithm.temporal is None:
            raise ConfigurationError(
                "this algorithm has no temporal kernel, so no observation ever becomes stale; choose one that has"
            )
        thinning = Step()  # never recorded: it only gives the scores of the rows that the next ask would trim
        rows = self._thinned(thinning, np.arange(len(self._active)), now)
        scores = np.zeros(len(self._active))
        scores[thinning.rows] = thinning.scores
        scores[rows] = self._scores(rows, self.model, now)
        return scores

    def _scores(self, rows: Rows, model: Model, now: float) -> Array:
        data, moments, present = self._active.dataset.take(rows), self._axis.rows(rows), self._axis.place(now)
        if self.algorithm.temporal is None:
            return data.t - now  # without relevance, rows are removed by age
        policy = self.algorithm.staleness
        method = policy.method if isinstance(policy, WassersteinBudget) else "bound"
        z = Standardization(model.mean, model.scale).apply(data.y)
        return relevance(data.x, moments, z, kernel=model.kernel, noise=model.noise, now=present, method=method)

    @property
    def model(self) -> Model:
        """Kernel, noise, and the mean and scale that standardise y, as last fitted."""
        fitted = self._state.hyper is not None
        standardization = self._state.standardization if fitted else Standardization.of(self._active.dataset.y)
        kernel = self.hyper.kernel(self.algorithm.spatial, self.algorithm.temporal)
        return Model(kernel, self.hyper.noise, standardization.mean, standardization.scale)

    @property
    def hyper(self) -> Hyperparameters:
        """As last fitted; before the first fit, the prior's centre."""
        return self._state.hyper or self._default_hyperparameters()

    def posterior(self, now: float) -> Posterior:
        """The posterior given everything told; kept until the next ask or tell."""
        key = (self._state.asks, self._active.told)
        if self._cached is None or self._cached[0] != key:
            model = self.model
            rows = self._thinned(Step(), np.arange(len(self._active)), now)
            data = self._active.dataset.take(rows)
            z = self._sign * Standardization(model.mean, model.scale).apply(data.y)
            self._cached = key, condition(model.kernel, model.noise, data.x, self._axis.rows(rows), z)
        return self._cached[1]

    # --- small parts --------------------------------------------------------------------------------------

    @property
    def _axis(self) -> TimeAxis:
        return TimeAxis(self.algorithm.temporal, self._active)

    @property
    def _sign(self) -> float:
        return 1.0 if self.definition.direction == "maximize" else -1.0

    def _in_user_unit(self, mean: Array, std: Array) -> tuple[Array, Array]:
        model = self.model
        return self._sign * mean * model.scale + model.mean, std * model.scale

    def _prior(self) -> Prior:
        limits = None if self.algorithm.temporal is None else self._axis.limits()
        return weak_prior(self.algorithm.spatial.ard, self.space.width, limits, self.algorithm.inference)

    def _default_hyperparameters(self) -> Hyperparameters:
        """The prior's centre, until there is something to fit."""
        prior = self._prior()
        drifting = self.algorithm.temporal is not None
        return Hyperparameters.from_vector(prior.clip(prior.center), ard=self.algorithm.spatial.ard, drifting=drifting)
