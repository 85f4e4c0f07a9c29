"""The model step of an ask: fit → staleness policy → condition → acquisition. Lines 5-24 of Algorithm 1."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from statistics import median

import numpy as np

from ebbtide.errors import ClockWarning, ConfigurationError, EbbtideWarning, NumericalError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.inference import MIN_ROWS, SEARCH_ROWS, Fit, Standing, fit, held_guards, reconsidered
from ebbtide.gp.mean import mean_by, weighted_mean
from ebbtide.gp.posterior import Interval, Moment, Posterior, condition
from ebbtide.gp.priors import Prior
from ebbtide.gp.standardization import Standardization, chosen_power, is_positive
from ebbtide.parts.maximization import RECENT, maximize, maximize_over
from ebbtide.parts.outlook import Outlook
from ebbtide.parts.staleness import Account, Verdict, View, WassersteinBudget, agreed
from ebbtide.parts.timing import Occasion
from ebbtide.records import Kind
from ebbtide.study.active import Dataset
from ebbtide.study.believed import believing_pending
from ebbtide.study.course import Turn
from ebbtide.study.expected import Expected
from ebbtide.study.family import Family
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.outcomes import Outcome, Outcomes, feasibility, level, safest
from ebbtide.study.prospects import outlook
from ebbtide.study.recommending import recommended
from ebbtide.study.schedule import is_looking, is_searching, is_too_old
from ebbtide.study.step import Step, checked_memory, checked_verdict
from ebbtide.study.warm import Anchor, Warm, caught_up

WAITING = 30  # observations after which an outlier that nothing has confirmed is removed
PATIENCE = 10  # observations made after a clock went back, before those from its future are dropped


class ModelStep:
    """One ask of the model, computed from what is known, at the time `now`.

    `warm` is a model of some earlier ask, if there is one; afterwards it is that of this ask, for the next one.
    """

    def __init__(
        self,
        known: Knowledge,
        now: float,
        until: float,
        context: Array | None = None,
        warm: Warm | None = None,
        family: Family | None = None,
    ) -> None:
        self.known, self.now, self.until, self.context, self.warm = known, now, until, context, warm
        self.expected = Expected(known, family)
        self.space, self.algorithm = known.space, known.algorithm
        self.state, self.active = known.state, known.active
        self.rng, self.step = np.random.default_rng([known.seed, known.state.asks]), Step(modelled=True)
        self.constrained, self.outcomes = Outcomes(known), list[Outcome]()
        self.carried: Incremental | None = None  # the model of the ask before, if it still fits
        self.standing: Standing | None = None  # the same, if it does not: a refit starts there,
        self.fresh: Array | None = None  # and where a search from scratch has led
        self.unfit: Mapping[str, Array | None] | None = None  # of the values under a constraint

    def compute(self, kind: Kind = "explore") -> Step:
        """Fit, forget, condition, acquire."""
        self.step.kind = kind
        rows = self._without_outliers(self.known.thinned(self.step, self._dated_before(), self.now))
        rows, posterior = self._fit(rows)
        rows, posterior = self._forget(rows, posterior)
        if kind == "hold":
            self._hold(posterior)
        else:
            self._acquire(rows, posterior)
        if self.outcomes:
            self.step.outcomes = {outcome.name: outcome.to_json() for outcome in self.outcomes}
            self.step.level = level(self.known)
        return self.step

    def _without_outliers(self, rows: Rows) -> Rows:
        """The rows to model. Outliers stay active for a while, in case later values confirm them."""
        if not self.algorithm.robust or not (outlying := self.known.outlying(rows)).any():
            return rows
        self.step.guards += ("outlier",)
        aside = rows[outlying]
        old = aside[self.active.told - self.active.lines[aside] > WAITING]
        self.step.remove(old, [None if self.algorithm.temporal is None else 0.0] * len(old))
        return rows[~outlying]

    def _fit(self, rows: Rows) -> tuple[Rows, Posterior]:
        """Fit the hyperparameters to the active observations (line 8): maximum likelihood or maximum a posteriori.

        Returns the rows in the order in which the posterior has them.
        """
        if len(rows) < MIN_ROWS:
            return rows, self._unfitted(rows)
        standardization = self._standardization(self.active.dataset.y[rows])
        if standardization.power == self.state.standardization.power:
            held = self._held(rows, standardization)
            if held is not None:
                return held
        return rows, self._refit(rows, standardization)

    def _held(self, rows: Rows, standardization: Standardization) -> tuple[Rows, Posterior] | None:
        """The model of the ask before, with what was told since, if it still fits; otherwise a refit starts there."""
        warm = self._warm_model(rows)
        if warm is None:
            return None
        in_model = warm.rows(self.known)
        posterior = self._conditioned(warm.model, in_model, standardization)
        self.standing, prior = Standing(warm.model, self.step.z, posterior.alpha), self._prior
        self.fresh, fits = self._still_fits(self.standing, prior)
        self.outcomes = self.constrained.carried(warm)
        self.unfit = self.constrained.unfit(self.outcomes, self.rng)
        if not fits or self.unfit:
            return None
        self.carried = warm.model
        self.step.hyper, self.step.anchor = warm.held[None], self.state.anchor
        self.step.guards += held_guards(self.known.families, warm.model.theta, prior)
        return in_model, posterior

    def _unfitted(self, rows: Rows) -> Posterior:
        """After a reset, keep the hyperparameters fitted last, and the scale that they were fitted on."""
        self.warm = None
        data, moments, held = self.active.dataset.take(rows), self.known.axis.rows(rows), self.state.hyper
        kept = held is not None and self.state.standardization.suits(data.y)
        own = self.expected.standardization(data.y) or self._standardization(data.y)
        unit = self.state.standardization if kept else own
        self._standardize(data.y, unit)
        start = self.expected.hyperparameters(unit) if held is None else held
        kernel = start.kernel(*self.known.families)
        self.outcomes = self.constrained.fitted(rows, None, self.rng, Anchor())
        return condition(kernel, start.noise, self.known.inputs(data), moments, self.step.z)

    def _warm_model(self, rows: Rows) -> Warm | None:
        """The model of the ask before with what was told since; None if it is not that of these rows."""
        if self.state.anchor is None or self.step.rows:
            return None
        warm = caught_up(self.known, self.warm)
        if warm is None:
            return None
        try:
            warm.come(self.known, self.active.told)
        except NumericalError:
            self.step.guards += ("drift",)
            return None
        if not warm.is_accurate:
            self.step.guards += ("drift",)
            return None
        self.warm = warm
        labels = np.sort(warm.model.labels)
        return warm if len(labels) == len(rows) and (labels == self.active.lines[rows]).all() else None

    def _conditioned(self, model: Incremental, rows: Rows, standardization: Standardization) -> Posterior:
        """The posterior of a model that holds its hyperparameters."""
        y = self.active.dataset.y[rows]
        if self.algorithm.mean == "weighted":
            z, expected = standardization.apply(y), self.expected.mean(standardization)
            standardization = standardization.around(mean_by(model.P.sum(axis=0), z, expected))
        self._standardize(y, standardization)
        return model.posterior(self.step.z)

    def _still_fits(self, standing: Standing, prior: Prior) -> tuple[Array | None, bool]:
        """What a search has found, if it was due and worth it; and whether the hyperparameters of a model still fit."""
        searching, model = is_searching(self.known), standing.model
        if is_too_old(self.known):
            return None, False
        if searching and len(model) <= SEARCH_ROWS and self.algorithm.transform == "auto":
            y = self.active.dataset.y[np.searchsorted(self.active.lines, model.labels)]
            power = self.state.standardization.power
            if is_positive(y) and chosen_power(model.P, y, power) != power:
                return None, False
        looking = is_looking(self.known)
        return reconsidered(standing, self.known.hyper, prior, self.rng, looking=looking, searching=searching)

    def _refit(self, rows: Rows, standardization: Standardization) -> Posterior:
        """Fit the hyperparameters, from where they are `standing`, and make the models afresh. Of the values under a
        constraint, those that are `unfit` are fitted; None means that no model was kept.
        """
        data, moments = self.active.dataset.take(rows), self.known.axis.rows(rows)
        held = self.state.hyper
        start = self.expected.hyperparameters(standardization) if held is None else held
        search = held is None or (is_searching(self.known) and self.fresh is None)
        search |= standardization.power != self.state.standardization.power
        fitted = self._fitted(start, data, moments, standardization, search=search, fresh=self.fresh)
        self.standing = self.warm = None  # frees the memory of the old model before the new one is made
        if (search or self.fresh is not None) and self.algorithm.transform == "auto" and is_positive(data.y):
            power = chosen_power(fitted.posterior.P, data.y, standardization.power)
            if power != standardization.power:
                changed = Standardization.of(data.y, power)
                fitted = self._fitted(fitted.hyper, data, moments, changed, search=True)
        self.step.hyper = fitted.hyper
        self.step.guards += fitted.guards
        anchor = Anchor()
        self.outcomes = self.constrained.fitted(rows, self.unfit, self.rng, anchor)
        self._anchor(rows, fitted, anchor)
        return fitted.posterior if self.carried is None else self.carried.posterior(self.step.z)

    def _anchor(self, rows: Rows, fitted: Fit, anchor: Anchor) -> None:
        """Keep the models for later asks, if they are of all active rows, needed no jitter and are not too large."""
        if fitted.evaluation is None or len(rows) < len(self.active) or self.step.rows:
            return
        anchor.add(None, fitted.evaluation, self.active.lines[rows])
        if anchor.is_sound:
            self.step.anchor = self.state.asks
            self.warm = anchor.warm(self.known)
            self.carried = self.warm.model
            self.outcomes = [replace(outcome, carried=self.warm.models.get(outcome.name)) for outcome in self.outcomes]

    def _fitted(
        self,
        start: Hyperparameters,
        data: Dataset,
        moments: Array,
        standardization: Standardization,
        *,
        search: bool,
        fresh: Array | None = None,
    ) -> Fit:
        families, X, standing = self.known.families, self.known.inputs(data), self.standing
        if standing is not None and self.step.standardization is not None:
            standardization = self.step.standardization  # the mean is known already
        elif self.algorithm.mean == "weighted":
            z = standardization.apply(data.y)
            mean = self.expected.mean(standardization)
            center = weighted_mean(start.kernel(*families), start.noise, X, moments, z, mean)
            standardization = standardization.around(center)
        self._standardize(data.y, standardization)
        values, prior = (X, moments, self.step.z), self._prior
        return fit(families, start, values, prior, search=search, rng=self.rng, fresh=fresh, standing=standing)

    @property
    def _prior(self) -> Prior:
        return self.expected.prior(self.step.standardization or self.state.standardization)

    def _standardize(self, y: Array, standardization: Standardization) -> None:
        self.step.standardization = standardization
        self.step.z = self.known.sign * standardization.apply(y)

    def _standardization(self, y: Array) -> Standardization:
        """Of these values, transformed as the algorithm says or as last chosen, if all of them are positive."""
        standardization = Standardization.of(y, self.expected.power)
        was_log = self.state.hyper is None or self.state.standardization.power == 0.0
        if self.algorithm.transform == "log" and standardization.power != 0.0 and len(y) >= MIN_ROWS and was_log:
            warnings.warn(
                f'transform="log" needs positive values, but {float(y.min())!r} was told: values are modelled as they '
                "are while it is active",
                EbbtideWarning,
                stacklevel=8,
            )
        return standardization

    def _forget(self, rows: Rows, posterior: Posterior) -> tuple[Rows, Posterior]:
        """Remove what the staleness policy selects (lines 9-20 and 24)."""
        gone: list[int] = []
        if len(posterior) and not len(self.behind):
            gone = self._stale(rows, posterior)
        if self.step.anchor is None or self.warm is None:
            self.outcomes = [outcome.without(rows[gone]) for outcome in self.outcomes]
            return np.delete(rows, gone), posterior.without(gone)
        self.warm.go(Turn.of(self.active.told, self.active.lines.take(rows.take(gone)).tolist()))
        if not gone:
            return rows, posterior
        self.outcomes = [self.constrained.after(outcome, self.warm) for outcome in self.outcomes]
        left = self.warm.rows(self.known)
        z = np.zeros(len(self.active))
        z[rows] = self.step.z
        return left, self.warm.model.posterior(z[left])

    def _stale(self, rows: Rows, posterior: Posterior) -> list[int]:
        """The rows of the posterior that the policy selects."""
        policy, z, carried, order = self.algorithm.staleness, self.step.z, self.carried, None
        if type(policy) is not WassersteinBudget and (rows[1:] < rows[:-1]).any():
            order, carried = np.argsort(rows), None
            posterior, z, rows = posterior.taken(order), z[order], rows[order]
        verdict = policy.review(self._view(posterior, z, rows, self.state.policy, carried))
        if self.outcomes and isinstance(policy, WassersteinBudget):
            verdict = self._agreed(policy, verdict, rows)
        gone, scores = checked_verdict(verdict, len(rows))
        self.step.policy = checked_memory(verdict.state, "staleness policy")
        self.step.guards += verdict.guards
        self.step.remove(rows.take(gone), scores)
        return gone if order is None else order[gone].tolist()

    def _view(
        self, posterior: Posterior, z: Array, rows: Rows, memory: Mapping[str, float], carried: Incremental | None
    ) -> View:
        """What the staleness policy sees of a model of these rows."""
        return View(
            posterior,
            z=z,
            t=self.active.dataset.t[rows],
            index=self.active.lines[rows],
            told=self.active.told,
            now=self.now,
            state=dict(memory),
            rng=self.rng,
            inference=self.algorithm.inference,
            contexts=self.known.contexts,
            carried=carried,
        )

    def _agreed(self, policy: WassersteinBudget, verdict: Verdict, rows: Rows) -> Verdict:
        """An observation goes when the objective and every constrained value that needs it can pay for it."""
        accounts = [
            Account(policy, self._view(o.posterior, o.excess, o.rows, o.policy, o.carried), o.rows)
            for o in self.outcomes
        ]
        verdict = agreed(policy, verdict, rows, accounts)
        self.outcomes = [replace(o, policy=a.state) for o, a in zip(self.outcomes, accounts, strict=True)]
        return verdict

    def _acquire(self, rows: Rows, posterior: Posterior) -> None:
        """Maximize the acquisition at the time of the query (line 5), or over all times that the timing allows."""
        n, bounds = len(posterior), self.known.bounds
        near = self.active.dataset.x[np.sort(rows)[-RECENT:]]
        posterior = believing_pending(self.known, posterior, self.now, self.context)
        if len(posterior) > n:  # with the pending trials
            near = np.vstack([near, posterior.points[n:]])[-RECENT:]
        landing = self.now + median(self.state.responses or [0.0])
        earliest, latest = self._window(landing)
        acquisition, pace = self.algorithm.acquisition, self.known.pace(posterior.kernel.timescale)
        if latest > earliest and self.known.axis.is_clock:
            interval = posterior.during(earliest, latest, self.context)
            view = self._outlook(interval, earliest)
            self.step.x, share = maximize_over(
                acquisition, view, self.space, self.rng, n, pace=pace, bounds=bounds, near=near
            )
            chosen = float(interval.time(np.array(share)))
        else:
            chosen = earliest  # for a model that does not see the clock, all times are equally good
            view = self._outlook(posterior.at(self.known.axis.place(chosen), self.context), chosen)
            self.step.x = maximize(acquisition, view, self.space, self.rng, n, pace=pace, bounds=bounds, near=near)
        self._stay_feasible(view)
        self.step.wait = chosen if chosen > landing else None

    def _hold(self, posterior: Posterior) -> None:
        """Keep a setting in force that is good beyond reasonable doubt."""
        landing = self.now + median(self.state.responses or [0.0])
        view = self._outlook(posterior.at(self.known.axis.place(landing), self.context), landing)
        self.step.x = recommended(view, self.space, self.rng, bounds=self.known.bounds)
        self._stay_feasible(view)

    def _stay_feasible(self, view: Outlook) -> None:
        """If no setting in sight is likely enough to meet the constraints, take the safest one known."""
        if view.feasibility is not None and not view.feasibility.met(self.step.x[None])[0]:
            self.step.x = safest(view.feasibility, self.step.x, self.known, view.posterior.points, self.rng)

    def _outlook(self, predictor: Moment | Interval, time: float) -> Outlook:
        unit = self.step.standardization or self.state.standardization
        constraints = feasibility(self.known, self.outcomes, time, self.context)
        return outlook(self.known, predictor, self.step.z, unit, time, constraints)

    def _window(self, landing: float) -> tuple[float, float]:
        """The times from which the timing lets the acquisition choose."""
        hyper = self.step.hyper or self.state.hyper
        timescale = hyper.timescale if hyper is not None and self.known.axis.is_clock else None
        told, memory = self.active.told, dict(self.state.timing)
        window = self.algorithm.timing.window(Occasion(self.now, landing, timescale, self.until, told, memory))
        if not -math.inf < window.earliest <= window.latest < math.inf:
            raise ConfigurationError(
                f"{self.algorithm.timing!r} returned {window}: return two finite times, earliest ≤ latest"
            )
        self.step.timing = checked_memory(window.memory, "timing")
        last = max(landing, self.until)
        return min(window.earliest, last), min(window.latest, last)

    def _dated_before(self) -> Rows:
        """All active rows, except those that lie in the future because the clock went back for good."""
        rows = np.arange(len(self.active))
        behind, since = self.behind, self.state.behind_since
        self.step.behind_since = None if not len(behind) else self.active.told if since is None else since
        if self.step.behind_since is not None and self.active.told - self.step.behind_since >= PATIENCE:
            warnings.warn(
                f"the clock went back to {self.now!r}: {len(behind)} observations dated after it are set aside",
                ClockWarning,
                stacklevel=7,
            )
            self.step.guards += ("clock_went_back",)
            self.step.behind_since = None
            self.step.clock_was_wrong = self.known.by_system_clock
            self.step.remove(behind, [None] * len(behind))
            rows = np.delete(rows, behind)
        return rows

    @cached_property
    def behind(self) -> Rows:
        """Rows dated more than l_T after now: the clock went back. While there are any, the policy removes nothing.

        For a model that does not read the clock, there are none.
        """
        if not self.known.axis.is_clock:
            return np.empty(0, dtype=np.intp)
        hyper = self.state.hyper
        timescale = None if hyper is None else hyper.timescale
        return (self.active.dataset.t > self.now + (0.0 if timescale is None else timescale)).nonzero()[0]
