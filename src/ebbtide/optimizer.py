"""Ask, tell, forget: Algorithm 1 of the paper as a library.

    ask():  clock → fit → staleness policy → condition → acquisition → Trial
    tell(): validate → record                                  (no model work)

Only `ask` changes the model. `recommend`, `predict`, `relevance` and `hyperparameters` are pure reads: they
condition on everything told with the hyperparameters fitted last, and leave no trace.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import Any, Literal, Self, overload

import numpy as np
from scipy.stats import qmc

from ebbtide import algorithms, state
from ebbtide.acquisition import UCB
from ebbtide.algorithms import Algorithm
from ebbtide.arrays import Array, Rows
from ebbtide.clock import Clock, SystemClock, wait_until
from ebbtide.dataset import Dataset, Standardization
from ebbtide.errors import (
    CallbackWarning,
    ClockWarning,
    ConfigurationError,
    EbbtideWarning,
    ObservationError,
    SnapshotError,
)
from ebbtide.gaussian_process import Posterior, condition
from ebbtide.guards import Guard
from ebbtide.inference import MIN_ROWS, Prior, TimeLimits, fit, weak_prior
from ebbtide.ledger import Ledger
from ebbtide.likelihood import Hyperparameters
from ebbtide.linalg import one_blas_thread
from ebbtide.maximization import maximize, maximize_over
from ebbtide.progress import Progress
from ebbtide.records import Asked, Event, Model, Observation, Recommendation, Told, Trial
from ebbtide.relevance import relevance
from ebbtide.space import Parameter, Params, Space, as_finite, is_whole
from ebbtide.staleness import Verdict, View, WassersteinBudget
from ebbtide.state import State
from ebbtide.timing import Occasion

GRACE = 5.0  # seconds by which a time told may be ahead of the system clock
YEAR_2000 = 946_684_800.0
SEARCH_EVERY = 10  # asks between two searches for hyperparameters from scratch
RESPONSES = 9  # response times whose median is the one expected
TRIM_BLOCK = 512  # rows scored at a time when far more were told than may stay
MAX_PENDING = 64  # pending trials that are believed: clients that never answer must not slow an ask down
STALLED = 100  # evaluations without the clock moving, before `optimize` gives up
PATIENCE = 10  # observations made since a clock went back, before those dated after it are dropped


class Optimizer:
    """Optimizes an objective that drifts: ask for a query, tell its value, for ever.

    >>> import ebbtide as eb
    >>> clock = eb.ManualClock()
    >>> opt = eb.Optimizer({"x": eb.Float(-1.0, 1.0)}, clock=clock, seed=0)
    >>> for _ in range(20):
    ...     trial = opt.ask()
    ...     opt.tell(trial, (trial.params["x"] - 0.3) ** 2)
    ...     clock.advance(1.0)
    >>> round(opt.recommend().params["x"], 1)
    0.3
    """

    def __init__(
        self,
        space: Mapping[str, Parameter] | Space,
        *,
        direction: Literal["minimize", "maximize"] = "minimize",
        algorithm: str | Algorithm = "w-dbo",
        clock: Clock | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
    ) -> None:
        self.space = space if isinstance(space, Space) else Space(space)
        if direction not in ("minimize", "maximize"):
            raise ConfigurationError(f'direction={direction!r}: choose "minimize" or "maximize"')
        self.direction = direction
        self.algorithm = _checked_algorithm(algorithm)
        self.algorithm.spatial.check_coordinates(self.space.width)
        self.clock: Clock = SystemClock() if clock is None else clock
        if not callable(getattr(self.clock, "now", None)):
            raise ConfigurationError(f"clock={clock!r}: give an object with a method now(), such as eb.ManualClock()")
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        self.seed = _checked_count("seed", seed)
        n_initial = 2 * (self.space.dim + 1) if n_initial is None else n_initial
        self.n_initial = _checked_count("n_initial", n_initial)
        if not isinstance(callbacks, Iterable):
            raise ConfigurationError(f"callbacks={callbacks!r}: give a list of functions")
        self.callbacks = tuple(callbacks)
        self._state = State()
        self._ledger = Ledger(self.space)
        self._cached: tuple[tuple[int, int], Posterior] | None = None

    # --- ask: the only thing that changes the model -------------------------------------------------------

    @overload
    def ask(self, *, until: float | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, until: float | None = None) -> list[Trial]: ...
    def ask(self, n: int | None = None, *, until: float | None = None) -> Trial | list[Trial]:
        """What to measure next. `n` queries at once take each other into account.

        Measure at `trial.time`: now, for all algorithms but those that may choose a later moment (ABO), which is
        at most `until`.
        """
        end = math.inf if until is None else as_finite(until)
        if end is None:
            raise ConfigurationError(f"until={until!r}: give a finite time by the clock, or None")
        if n is None:
            return self._ask(end)
        return [self._ask(end) for _ in range(_checked_count("n", n, least=1))]

    def _ask(self, until: float) -> Trial:
        now = self._read_clock()
        with one_blas_thread():
            step = self._start() if self._starting else self._model_step(now, until)
        # Nothing has changed until here: whatever failed, failed without a trace.
        params = self.space.decode(step.x)
        landed = self._read_clock()
        removed = self._commit(step, now)
        trial = Trial(str(self._state.asks), params, landed if step.wait is None else max(landed, step.wait))
        self._ledger.open(trial)
        self._note_reading(landed)
        self._state.asks += 1
        response = max(0.0, landed - now)
        self._state.responses = [*self._state.responses, response][-RESPONSES:]
        handed_out = replace(trial, params=dict(params))
        self._emit(Asked(handed_out, response, len(self._ledger), removed))
        return handed_out

    @property
    def _starting(self) -> bool:
        """The first `n_initial` asks fill the space, unless as many values came from outside."""
        return max(self._state.asks, self._ledger.values_told) < self.n_initial

    def _start(self) -> "_Step":
        sobol = qmc.Sobol(self.space.dim, rng=np.random.default_rng(self.seed))
        if self._state.asks:
            sobol.fast_forward(self._state.asks)
        return _Step(x=self.space.spread(sobol.random(1))[0])

    def _model_step(self, now: float, until: float) -> "_Step":
        """Lines 5-24 of Algorithm 1, in the order: fit, forget, condition, acquire."""
        rng = np.random.default_rng([self.seed, self._state.asks])
        step = _Step()
        rows = self._thinned(step, self._dated_before(step, now), now)
        posterior = self._fit(step, rows, rng)
        posterior = self._forget(step, rows, posterior, now, rng)
        self._acquire(step, posterior, now, until, rng)
        return step

    def _fit(self, step: "_Step", rows: Rows, rng: np.random.Generator) -> Posterior:
        """Hyperparameters from the active observations (line 8), by maximum likelihood or a posteriori."""
        data = self._ledger.dataset.take(rows)
        families = (self.algorithm.spatial, self.algorithm.temporal)
        held = self._state.hyper
        start = self._default_hyperparameters() if held is None else held
        few = len(data) < MIN_ROWS
        # After a reset what was fitted is held, and with it the scale that it was fitted on.
        step.standardization = self._state.standardization if few and held else Standardization.of(data.y)
        step.z, moments = self._sign * step.standardization.apply(data.y), self._moments(rows)
        if few:
            return condition(start.kernel(*families), start.noise, data.x, moments, step.z)
        search = held is None or self._state.asks % SEARCH_EVERY == 0
        fitted = fit(families, start, (data.x, moments, step.z), self._prior(), search=search, rng=rng)
        step.hyper = fitted.hyper
        step.guards += fitted.guards
        return fitted.posterior

    def _forget(
        self, step: "_Step", rows: Rows, posterior: Posterior, now: float, rng: np.random.Generator
    ) -> Posterior:
        """What the staleness policy takes out (lines 9-20 and 24)."""
        if len(posterior) == 0 or self._behind(now).any():
            return posterior
        view = View(
            posterior,
            z=step.z,
            t=self._ledger.dataset.t[rows],
            index=self._ledger.lines[rows],
            told=len(self._ledger.history),
            now=now,
            state=dict(self._state.policy),
            rng=rng,
            inference=self.algorithm.inference,
        )
        verdict = self.algorithm.staleness.review(view)
        gone, scores = _checked_verdict(verdict, len(rows))
        step.policy = _checked_memory(verdict.state, "staleness policy")
        step.guards += verdict.guards
        step.remove(rows[gone], scores)
        return posterior.without(gone)

    def _acquire(self, step: "_Step", posterior: Posterior, now: float, until: float, rng: np.random.Generator) -> None:
        """The acquisition's maximum at the moment that the query is for (line 5), or over those that it may be for."""
        n = len(posterior)
        posterior = self._believing_pending(posterior, now)
        landing = now + median(self._state.responses or [0.0])
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
        interval, timescale = self._ledger.interval, posterior.kernel.timescale
        if timescale is None:
            lease = TimeLimits.of(interval, span=0.0).typical
        else:
            lease = timescale * interval if self._by_step else timescale
        pending = [p for p in islice(self._ledger.newest_pending(), MAX_PENDING) if now - p.time <= lease]
        if not pending:
            return posterior
        X = np.array([self.space.encode(p.params) for p in pending])
        return posterior.believing(X, np.array([self._moment(p.time) for p in pending]))

    def _window(self, step: "_Step", now: float, landing: float, until: float) -> tuple[float, float]:
        """The moments that the timing lets the acquisition choose among."""
        hyper = step.hyper or self._state.hyper
        timescale = hyper.timescale if hyper is not None and self._sees_the_clock else None
        told, memory = len(self._ledger.history), dict(self._state.timing)
        window = self.algorithm.timing.window(Occasion(now, landing, timescale, until, told, memory))
        if not -math.inf < window.earliest <= window.latest < math.inf:
            raise ConfigurationError(f"{self.algorithm.timing!r} gave {window}: earliest ≤ latest, two finite times")
        step.timing = _checked_memory(window.memory, "timing")
        last = max(landing, until)
        return min(window.earliest, last), min(window.latest, last)

    def _dated_before(self, step: "_Step", now: float) -> Rows:
        """All active rows, but for those that a clock has left in the future for good."""
        rows = np.arange(len(self._ledger))
        behind = self._behind(now)
        since = self._state.behind_since
        step.behind_since = None if not behind.any() else len(self._ledger.history) if since is None else since
        if step.behind_since is not None and len(self._ledger.history) - step.behind_since >= PATIENCE:
            warnings.warn(
                f"the clock went back to {now!r}: {behind.sum()} observations dated after it are set aside",
                ClockWarning,
                stacklevel=5,
            )
            step.guards += ("clock_went_back",)
            step.behind_since = None
            step.remove(rows[behind], [None] * int(behind.sum()))
            rows = rows[~behind]
        return rows

    def _thinned(self, step: "_Step", rows: Rows, now: float) -> Rows:
        """The rows to model: a model of far more than may stay would take minutes, so they go in blocks first."""
        capacity = self.algorithm.staleness.capacity
        while capacity is not None and len(rows) > 2 * max(capacity, TRIM_BLOCK):
            rows = self._trim_block(step, rows, now)
        return rows

    def _trim_block(self, step: "_Step", rows: Rows, now: float) -> Rows:
        """Of the oldest rows, the half with the lowest scores goes."""
        oldest = rows[np.argsort(self._ledger.dataset.t[rows], kind="stable")[:TRIM_BLOCK]]
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
            return np.zeros(len(self._ledger), dtype=bool)
        hyper = self._state.hyper
        timescale = None if hyper is None else hyper.timescale
        return self._ledger.dataset.t > now + (0.0 if timescale is None else timescale)

    @property
    def _by_step(self) -> bool:
        """Whether the model counts observations told instead of looking at the clock (TV-GP-UCB)."""
        return self.algorithm.temporal is not None and self.algorithm.temporal.by_step

    @property
    def _sees_the_clock(self) -> bool:
        return self.algorithm.temporal is not None and not self._by_step

    def _moments(self, rows: Rows) -> Array:
        """Where active rows lie on the temporal kernel's axis."""
        return self._ledger.lines[rows].astype(float) if self._by_step else self._ledger.dataset.t[rows]

    def _moment(self, time: float) -> float:
        """The same for what has not been told: by steps, everything that comes is at the next index."""
        return float(len(self._ledger.history)) if self._by_step else time

    def _commit(self, step: "_Step", now: float) -> tuple[Observation, ...]:
        self._state.hyper = step.hyper or self._state.hyper
        self._state.standardization = step.standardization or self._state.standardization
        self._state.policy = step.policy if step.policy is not None else self._state.policy
        self._state.timing = step.timing if step.timing is not None else self._state.timing
        self._state.behind_since = step.behind_since
        for guard in step.guards:
            self._state.guards[guard] = self._state.guards.get(guard, 0) + 1
        return self._ledger.remove(step.rows, now, step.scores)

    # --- tell: only records -------------------------------------------------------------------------------

    def tell(
        self,
        trial: Trial | Mapping[str, Any],
        value: float | None = None,
        *,
        time: float | None = None,
        failed: bool = False,
    ) -> None:
        """Record a value for a trial, or for parameters measured elsewhere, at `time` (default: the trial's, or now).

        Telling a trial the same value again changes nothing. `failed=True` records that there is no value.
        """
        now = self._read_clock()
        outcome = self._checked_value(value, failed)
        moment = now if time is None else self._checked_time(time, now)
        if isinstance(trial, Trial):
            if self._ledger.already_told(trial, outcome):
                return
            asked = self._ledger.pending[trial.id]
            params, trial_id = asked.params, asked.id
            if time is None:
                # A trial's own moment was read off this clock, which may have gone back since: it is not in question.
                latest = max(now, self._latest_reading)
                # A query that is called off before its moment (ABO waits) has failed now.
                moment = min(asked.time, latest) if failed else self._checked_time(asked.time, latest)
        else:
            params, trial_id = self.space.check(trial), None
        observation = Observation(params, moment, outcome, trial_id)
        self._ledger.record(observation)
        self._note_reading(now)
        self._emit(Told(replace(observation, params=dict(params))))

    def _checked_value(self, value: Any, failed: bool) -> float | None:
        if failed:
            if value is not None:
                raise ObservationError(f"value={value!r} and failed=True: a failed evaluation has no value")
            return None
        outcome = as_finite(value)
        if outcome is None:
            raise ObservationError(f"value={value!r}: tell a finite number, or failed=True if there is none")
        return outcome

    def _checked_time(self, time: Any, now: float) -> float:
        moment = as_finite(time)
        if moment is None:
            raise ObservationError(f"time={time!r}: give a finite number, in the clock's unit")
        system = isinstance(self.clock, SystemClock)
        if moment > now + (GRACE if system else 0.0):
            raise ObservationError(
                f"time={time!r} is {moment - now:g} after now ({now!r}): nothing is observed in the future; "
                "wait until then, or check the clock's unit"
            )
        if system and moment < YEAR_2000:
            raise ObservationError(
                f"time={time!r} is before the year 2000 by the system's clock, which counts seconds since 1970; "
                "for time of your own, pass clock=eb.ManualClock()"
            )
        return min(moment, now)

    # --- pure reads ---------------------------------------------------------------------------------------

    def recommend(self) -> Recommendation:
        """The best parameters now, by the model: no exploration."""
        now = self._read_clock()
        with one_blas_thread():
            moment = self._posterior().at(self._moment(now))
            rng = np.random.default_rng([self.seed, self._state.asks, 1])
            x = maximize(UCB(beta=0.0), moment, self.space, rng, len(moment.posterior))
            params = self.space.decode(x)
            mean, std = moment.predict(self.space.encode(params)[None])
        mean, std = self._in_user_unit(mean, std)
        return Recommendation(params, float(mean[0]), float(std[0]), now)

    @overload
    def predict(self, params: Mapping[str, Any], time: float | None = None) -> tuple[float, float]: ...
    @overload
    def predict(self, params: Sequence[Mapping[str, Any]], time: float | None = None) -> tuple[Array, Array]: ...
    def predict(
        self, params: Mapping[str, Any] | Sequence[Mapping[str, Any]], time: float | None = None
    ) -> tuple[float, float] | tuple[Array, Array]:
        """Mean and deviation of the objective (without noise) at some parameters, now or at any other time."""
        moment = self._read_clock() if time is None else as_finite(time)
        if moment is None:
            raise ObservationError(f"time={time!r}: give a finite number, in the clock's unit")
        single = isinstance(params, Mapping)
        points = [params] if single else list(params)
        X = np.array([self.space.encode(self.space.check(p)) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            mean, std = self._in_user_unit(*self._posterior().at(self._moment(moment)).predict(X))
        return (float(mean[0]), float(std[0])) if single else (mean, std)

    def relevance(self) -> Array:
        """How much each active observation still matters to predictions from now on, in the dataset's order."""
        if self.algorithm.temporal is None:
            raise ConfigurationError("this algorithm has no temporal kernel: to it, no observation is ever stale")
        now, model, data = self._read_clock(), self.model, self.dataset
        thinning = _Step()  # never committed: what the next ask would thin out has its score from there
        rows = self._thinned(thinning, np.arange(len(data)), now)
        scores = np.zeros(len(data))
        scores[thinning.rows] = thinning.scores
        scores[rows] = self._scores(rows, model, now)
        return scores

    def _scores(self, rows: Rows, model: Model, now: float) -> Array:
        data, moments, present = self.dataset.take(rows), self._moments(rows), self._moment(now)
        if self.algorithm.temporal is None:
            return data.t - now  # what has no relevance goes by age
        policy = self.algorithm.staleness
        method = policy.method if isinstance(policy, WassersteinBudget) else "bound"
        z = Standardization(model.mean, model.scale).apply(data.y)
        return relevance(data.x, moments, z, kernel=model.kernel, noise=model.noise, now=present, method=method)

    @property
    def dataset(self) -> Dataset:
        """The active observations: `.x` (unit cube), `.t`, `.y`."""
        return self._ledger.dataset

    @property
    def history(self) -> list[Observation]:
        """Every observation ever told, in the order told, with when it was removed and at what relevance."""
        return list(self._ledger.history)

    @property
    def model(self) -> Model:
        """Kernel, noise, and the mean and scale that standardise y, as last fitted."""
        fitted = self._state.hyper is not None
        return self._model_of(self._state.standardization if fitted else Standardization.of(self.dataset.y))

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """scale, lengthscale, timescale (in the clock's unit) and noise (a variance), of the standardised values."""
        hyper = self._state.hyper or self._default_hyperparameters()
        timescale = {} if hyper.timescale is None else {"timescale": hyper.timescale}
        return {"scale": hyper.scale, "lengthscale": hyper.lengthscale} | timescale | {"noise": hyper.noise}

    @property
    def guards(self) -> dict[str, int]:
        """How often each safeguard stepped in (docs: README, "What keeps it safe")."""
        return dict(self._state.guards)

    # --- the loop, for those who do not need their own ----------------------------------------------------

    def optimize(
        self,
        objective: Callable[[Params, float], float],
        duration: float,
        *,
        progress: bool = False,
        catch: tuple[type[Exception], ...] = (),
    ) -> Recommendation:
        """Ask, evaluate `objective(params, time)` and tell until `duration` has passed on the clock.

        An exception of the objective is recorded as a failed evaluation and raised, unless `catch` lists it.
        """
        if (as_finite(duration) or 0.0) <= 0.0:
            raise ConfigurationError(f"duration={duration!r}: give a positive time, in the clock's unit")
        start = self._read_clock()
        shown = Progress(duration, progress)
        stalled = 0
        while (elapsed := self._read_clock() - start) < duration:
            trial = self.ask(until=start + duration)
            if trial.time > self._latest_reading:  # a later moment was chosen; a clock that went back is not waited for
                wait_until(self.clock, trial.time)
            try:
                value = objective(dict(trial.params), trial.time)
            except BaseException as error:
                self.tell(trial, failed=True)
                if not isinstance(error, catch):
                    raise
            else:
                self._tell_or_fail(trial, value)
            stalled = stalled + 1 if self._read_clock() - start == elapsed else 0
            if stalled >= STALLED:
                raise ConfigurationError(
                    f"the clock stands still at {start + elapsed!r}: {duration!r} never passes; "
                    "with a ManualClock, let the objective advance it"
                )
            shown.update(elapsed, self)
        shown.close()
        return self.recommend()

    def _tell_or_fail(self, trial: Trial, value: Any) -> None:
        try:
            self.tell(trial, value)
        except ObservationError as error:
            warnings.warn(f"recorded as a failed evaluation: {error}", EbbtideWarning, stacklevel=3)
            self.tell(trial, failed=True)

    # --- durability ---------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a JSON file, atomically. `load` goes on as if nothing had happened."""
        self._note_reading(self._read_clock())
        state.write(
            path,
            {
                "space": self.space.to_json(),
                "direction": self.direction,
                "algorithm": state.algorithm_to_json(self.algorithm),
                "clock": state.describe_clock(self.clock),
                "seed": self.seed,
                "n_initial": self.n_initial,
                "state": self._state.to_json(),
                **self._ledger.to_json(),
            },
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        algorithm: str | Algorithm | None = None,
        callbacks: Iterable[Callable[[Event], object]] = (),
    ) -> Self:
        """The optimizer that `save` wrote. A clock or an algorithm of your own classes is passed again."""
        payload = state.read(path)
        given = None if algorithm is None else _checked_algorithm(algorithm)
        try:
            memory = State.from_json(payload["state"])
            space = Space.from_json(payload["space"])
            optimizer = cls(
                space,
                direction=payload["direction"],
                algorithm=state.algorithm_from_json(payload["algorithm"], given),
                clock=state.restore_clock(payload["clock"], clock, memory.latest_reading),
                seed=payload["seed"],
                n_initial=payload["n_initial"],
                callbacks=callbacks,
            )
            optimizer._state = memory
            optimizer._ledger = Ledger.from_json(space, payload)
        except (KeyError, TypeError, IndexError) as error:
            raise SnapshotError(f"{path} lacks a part of its state ({error!r}); use an earlier copy") from error
        return optimizer

    # --- small parts --------------------------------------------------------------------------------------

    def _read_clock(self) -> float:
        reading = self.clock.now()
        if (moment := as_finite(reading)) is None:
            warnings.warn(f"the clock shows {reading!r}; its latest reading is used", ClockWarning, stacklevel=3)
            return self._latest_reading if math.isfinite(self._latest_reading) else 0.0
        return moment

    def _note_reading(self, reading: float) -> None:
        """Only what changes the state may note the time: a read, or a refused tell, leaves no trace."""
        self._state.latest_reading = max(self._latest_reading, reading)

    @property
    def _latest_reading(self) -> float:
        latest = self._state.latest_reading
        return -math.inf if latest is None else latest

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0

    def _in_user_unit(self, mean: Array, std: Array) -> tuple[Array, Array]:
        model = self.model
        return self._sign * mean * model.scale + model.mean, std * model.scale

    def _limits(self) -> TimeLimits:
        if self._by_step:
            return TimeLimits.in_steps()
        return TimeLimits.of(self._ledger.interval, self._ledger.span)

    def _prior(self) -> Prior:
        limits = None if self.algorithm.temporal is None else self._limits()
        return weak_prior(self.algorithm.spatial.ard, self.space.width, limits, self.algorithm.inference)

    def _default_hyperparameters(self) -> Hyperparameters:
        """The prior's centre, until there is something to fit."""
        prior = self._prior()
        drifting = self.algorithm.temporal is not None
        return Hyperparameters.from_vector(prior.clip(prior.center), ard=self.algorithm.spatial.ard, drifting=drifting)

    def _model_of(self, standardization: Standardization) -> Model:
        hyper = self._state.hyper or self._default_hyperparameters()
        kernel = hyper.kernel(self.algorithm.spatial, self.algorithm.temporal)
        return Model(kernel, hyper.noise, standardization.mean, standardization.scale)

    def _posterior(self) -> Posterior:
        """Conditioned on everything told, for reads; kept until the next ask or tell."""
        key = (self._state.asks, len(self._ledger.history))
        if self._cached is None or self._cached[0] != key:
            model = self.model
            rows = self._thinned(_Step(), np.arange(len(self._ledger)), self._read_clock())
            data = self.dataset.take(rows)
            z = self._sign * Standardization(model.mean, model.scale).apply(data.y)
            self._cached = key, condition(model.kernel, model.noise, data.x, self._moments(rows), z)
        return self._cached[1]

    def _emit(self, event: Event) -> None:
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception as error:
                warnings.warn(f"callback {callback!r} raised {error!r}; going on", CallbackWarning, stacklevel=4)


@dataclass
class _Step:
    """What an ask has worked out, to be committed when all of it has succeeded."""

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


def _checked_algorithm(algorithm: Any) -> Algorithm:
    found = algorithms.get(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(found, Algorithm):
        raise ConfigurationError(f"algorithm={algorithm!r}: give a name or an eb.Algorithm")
    return found


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


def _checked_count(name: str, value: Any, least: int = 0) -> int:
    if not is_whole(value) or value < least:
        raise ConfigurationError(f"{name}={value!r}: give a whole number ≥ {least}")
    return int(value)
