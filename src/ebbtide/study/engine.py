"""What an optimizer computes from what it knows: Algorithm 1's model step, and everything read from the model.

    ask:  fit → staleness policy → condition → acquisition          (a `Step`, which the optimizer then records)

A step is a function of what is recorded (the definition, the state, the active set, the turns since the model's
anchor, what siblings are like), of the context and of the time: it changes nothing, reads no clock and touches no
disk. So it can also be computed in another process, as the service does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ebbtide.clock import GRACE
from ebbtide.errors import ConfigurationError, NothingKnownError
from ebbtide.gp.arrays import Array
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.staleness import WassersteinBudget
from ebbtide.records import Recommendation
from ebbtide.space import Params
from ebbtide.study.active import Checkpoint
from ebbtide.study.definition import Definition, usual_start
from ebbtide.study.family import Family
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.model_step import ModelStep
from ebbtide.study.outcomes import Outcome, Outcomes, feasibility, safest
from ebbtide.study.prospects import outlook
from ebbtide.study.recommending import recommended, support, unless_better
from ebbtide.study.state import State
from ebbtide.study.step import Step
from ebbtide.study.warm import Warm


class Engine(Knowledge):
    """What is known about a study (see `Knowledge`), and everything computed from it."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._cached: tuple[tuple[int, int], tuple[Posterior, Array, list[Outcome]]] | None = None
        self.warm: Warm | None = None  # the model of the last ask that was computed here

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets what is known, not what was computed from it.
        return self.__dict__ | {"_cached": None, "warm": None}

    def restore(self, state: State, checkpoint: Checkpoint) -> None:
        super().restore(state, checkpoint)
        self._cached = self.warm = None

    def forget_posterior(self) -> None:
        """Free the memory of what was read; reading again computes the same."""
        self._cached = None

    # --- ask ----------------------------------------------------------------------------------------------

    def step(
        self,
        now: float,
        until: float = math.inf,
        context: Array | None = None,
        siblings: Mapping[str, Any] | None = None,
    ) -> Step:
        """What to query next, in this context; `until` is the latest time that the query may be for.

        `siblings` is what a look at them has found (`Family.to_json`, or nothing), which is recorded with the ask; None
        means that nobody has looked, and what was found before is used.
        """
        family = self.family if siblings is None else Family.from_json(siblings)
        step = self._step(now, until, context, family)
        step.family = None if siblings is None else dict(siblings)
        return step

    def _step(self, now: float, until: float, context: Array | None, family: Family | None) -> Step:
        number, live = self._state.asks, self.definition.live
        kind = live.kind(number, known=self._active.values_told > 0)
        if (setting := live.setting(number, kind)) is not None:
            return Step(kind=kind, params=setting)
        with one_blas_thread():
            if kind == "explore" and self._is_starting(family):
                return self._start()
            model_step = ModelStep(self, now, until, context, self.warm, family)
            self.warm = None  # while it changes: an error may leave it half changed
            step = model_step.compute(kind)
            self.warm = model_step.warm
            return step

    def _is_starting(self, family: Family | None) -> bool:
        """Whether asks still fill the space: the first `n_initial` do, unless as many values were told before.

        With siblings that say enough, half as many are enough, unless the user wants otherwise.
        """
        first = self.definition.n_initial
        if family is not None and family.is_enough and first == usual_start(self.space):
            first //= 2
        return max(self._state.asks, self._active.values_told) < first

    def _start(self) -> Step:
        point = sobol(self.space.dim, 1, np.random.default_rng(self.seed), skip=self._state.asks)
        x = self.space.spread(point)
        if (bounds := self.bounds) is not None:
            x = np.clip(x, *bounds)
        return Step(x=x[0])

    def without_future(self, now: float) -> Step | None:
        """A step that sets aside what is dated after now, and asks for nothing new; None if nothing is."""
        after = np.flatnonzero(self._active.dataset.t > now + GRACE)
        if not len(after) and self.latest_reading <= now + GRACE:
            return None
        step = Step(params=self.setting_in_force or self.space.decode(np.full(self.space.width, 0.5)))
        step.clock_was_wrong, step.guards = True, ("clock_went_back",)
        step.remove(after, [None] * len(after))
        return step

    # --- reads --------------------------------------------------------------------------------------------

    def recommend(self, now: float, context: Array | None = None, current: Params | None = None) -> Recommendation:
        """A setting that is good now, beyond reasonable doubt; an error as long as nothing is known.

        The `current` setting, if one is given, unless another is better beyond doubt.
        """
        if not len(self._active):
            raise NothingKnownError("nothing is known yet, because no value was told: ask, measure and tell first")
        with one_blas_thread():
            posterior, z, outcomes = self._conditioned(now)
            moment = posterior.at(self.axis.place(now), context)
            constraints = feasibility(self, outcomes, now, context)
            view = outlook(self, moment, z, self.standardization, now, constraints)
            rng = np.random.default_rng([self.seed, self._state.asks, 1])
            x = recommended(view, self.space, rng)
            if constraints is not None and not constraints.met(x[None])[0]:
                x = safest(constraints, x, self, posterior.points, rng)
            if current is not None:
                x = unless_better(x, self.space.encode(current), view, moment)
            params = self.space.decode(x)
            x = self.space.encode(params)
            mean, std = self._in_user_unit(*moment.predict(x[None]))
            failure = 0.0 if view.risk is None else float(view.risk(x[None])[0])
            feasible = 1.0 if constraints is None else math.exp(float(constraints.log_probability(x[None])[0]))
            return Recommendation(params, float(mean[0]), float(std[0]), now, support(view, x), failure, feasible)

    def predict(
        self, points: Sequence[Params], time: float, now: float, context: Array | None = None
    ) -> tuple[Array, Array]:
        """Mean and standard deviation of the objective (without noise) at the given parameters and time."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            return self._in_user_unit(*self.posterior(now).at(self.axis.place(time), context).predict(X))

    def field(
        self, points: Sequence[Params], times: Array, now: float, context: Array | None = None
    ) -> tuple[Array, Array]:
        """Mean and standard deviation (times × points) of the objective at several times."""
        X = np.array([self.space.encode(p) for p in points]).reshape(-1, self.space.width)
        with one_blas_thread():
            posterior = self.posterior(now)
            columns = [posterior.at(moment, context).predict(X) for moment in self.axis.places(times)]
            mean, std = (np.array(part) for part in zip(*columns, strict=True))
            return self._in_user_unit(mean, std)

    def relevance(self, now: float, time: float | None = None) -> Array:
        """How much each active observation matters to predictions from now on, or from a later time on; in the
        dataset's order.
        """
        if self.algorithm.temporal is None:
            raise ConfigurationError(
                "this algorithm has no temporal kernel, so no observation ever becomes stale; choose one that has"
            )
        thinning = Step()  # never recorded: it only gives the scores of the rows that the next ask would trim
        rows = self.thinned(thinning, np.arange(len(self._active)), now)
        scores = np.zeros(len(self._active))
        scores[thinning.rows] = thinning.scores
        rows = rows[~self.outlying(rows)]  # an outlier does not matter to any prediction
        scores[rows] = self.scores(rows, now if time is None else max(now, time))
        return scores

    def departures(self, now: float) -> Array | None:
        """When each active observation is expected to be removed, if nothing is measured meanwhile: infinite beyond one
        l_T. In the dataset's order; None if the algorithm has no budget, or a kernel whose future has no closed form.
        """
        policy, thinning = self.algorithm.staleness, Step()  # never recorded: the rows that the next ask would trim
        rows = self.thinned(thinning, np.arange(len(self._active)), now)
        rows = rows[~self.outlying(rows)]
        if not isinstance(policy, WassersteinBudget) or not self.axis.is_clock or not len(rows):
            return None
        data = self._active.dataset.take(rows)
        z = self.sign * self.standardization.apply(data.y)
        with one_blas_thread():
            fitted = Likelihood(self.families.of(self.hyper), self.inputs(data), data.t, z)(self.hyper.to_vector())
            model = Incremental(fitted, rows)
            model.carry(policy.method)
            criterion = model.criterion(fitted.alpha, now, self.contexts)
            if criterion is None:
                return None
            present, timescale = max(now, float(data.t.max())), self.span_of(self.hyper.timescale)
            forecast = policy.forecast(criterion, self._state.policy, present, timescale)
        departures = np.full(len(self._active), np.inf)
        departures[thinning.rows] = present
        departures[rows[list(forecast)]] = list(forecast.values())
        return departures

    def posterior(self, now: float) -> Posterior:
        """The posterior given everything told; kept until the next ask or tell."""
        return self._conditioned(now)[0]

    def _conditioned(self, now: float) -> tuple[Posterior, Array, list[Outcome]]:
        """The posterior, the values that it was conditioned on, and the models of the values under a constraint."""
        key = (self._state.asks, self._active.told)
        if self._cached is None or self._cached[0] != key:
            model = self.model
            rows = self.thinned(Step(), np.arange(len(self._active)), now)
            rows = rows[~self.outlying(rows)]
            data = self._active.dataset.take(rows)
            z = self.sign * model.standardized(data.y)
            posterior = condition(model.kernel, model.noise, self.inputs(data), self.axis.rows(rows), z)
            self._cached = key, (posterior, z, Outcomes(self).conditioned(rows))
        return self._cached[1]

    def _in_user_unit(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return self.model.standardization.back(self.sign * mean, std)
