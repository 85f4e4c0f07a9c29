"""The model of an ask, lines 7 and 8 of Algorithm 1: that of the ask before, changed by what was told since, as long as
it still fits; otherwise one whose hyperparameters are fitted afresh, an anchor for the asks to come.
"""

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ebbtide.errors import EbbtideWarning, NumericalError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.inference import MIN_ROWS, SEARCH_ROWS, Fit, Standing, fit, held_guards, likelier, reconsidered
from ebbtide.gp.mean import mean_by, weighted_mean
from ebbtide.gp.posterior import Posterior, condition
from ebbtide.gp.priors import Prior
from ebbtide.gp.standardization import Form, Standardization, chosen_form
from ebbtide.study.active import Dataset
from ebbtide.study.expected import Expected
from ebbtide.study.family import Family
from ebbtide.study.knowledge import Knowledge
from ebbtide.study.outcomes import Outcome, Outcomes
from ebbtide.study.schedule import is_looking, is_searching, is_too_old
from ebbtide.study.step import Step
from ebbtide.study.warm import Anchor, Warm, caught_up


class Modelling:
    """How an ask gets its model, from what is known at the time `now`.

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

    def _fit(self, rows: Rows) -> tuple[Rows, Posterior]:
        """Fit the hyperparameters to the active observations (line 8): maximum likelihood or maximum a posteriori.

        Returns the rows in the order in which the posterior has them.
        """
        if len(rows) < MIN_ROWS:
            return rows, self._unfitted(rows)
        standardization = self._standardization(self.active.dataset.y[rows])
        if standardization.form == self.state.standardization.form:
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
        kernel = self.known.families.kernel(start)
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
            form = self.state.standardization.form
            if self._chosen(model.P, y, form) != form:
                return None, False
        if searching and len(model) <= SEARCH_ROWS and self.algorithm.jumps:
            value = standing.value + prior.log_density(standing.theta)
            if self._likelier(self.known.hyper, (model.X, model.t, standing.z), value) is not None:
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
        search |= standardization.form != self.state.standardization.form
        fitted = self._fitted(start, data, moments, standardization, search=search, fresh=self.fresh)
        self.standing = self.warm = None  # frees the memory of the old model before the new one is made
        if (search or self.fresh is not None) and self.algorithm.transform == "auto":
            form = self._chosen(fitted.posterior.P, data.y, standardization.form)
            if form != standardization.form:
                standardization = Standardization.of(data.y, form, self.known.sign)
                fitted = self._fitted(fitted.hyper, data, moments, standardization, search=True)
        if (search or self.fresh is not None) and self.algorithm.jumps:
            better = self._likelier(fitted.hyper, (self.known.inputs(data), moments, self.step.z))
            if better is not None:
                fitted = self._fitted(better, data, moments, standardization, search=False)
        self.step.hyper = fitted.hyper
        self.step.guards += fitted.guards
        anchor = Anchor()
        self.outcomes = self.constrained.fitted(rows, self.unfit, self.rng, anchor)
        self._anchor(rows, fitted, anchor)
        return fitted.posterior if self.carried is None else self.carried.posterior(self.step.z)

    def _chosen(self, P: Array, y: Array, form: Form) -> Form:
        """How to transform these values, which so far have this form."""
        return chosen_form(P, y, form, self.known.sign, self.known.forms)

    def _likelier(
        self, hyper: Hyperparameters, values: tuple[Array, Array, Array], value: float | None = None
    ) -> Hyperparameters | None:
        """Hyperparameters of an objective that jumps if these are of one that does not, or the other way round; None
        unless they are likelier.
        """
        families = self.known.families
        present, others = (families.jumping, families) if hyper.jumps else (families, families.jumping)
        if present == others:
            return None
        return likelier(present, others, hyper, values, self._prior, self.rng, value)

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
        families, X, standing = self.known.families.of(start), self.known.inputs(data), self.standing
        if standing is not None and self.step.standardization is not None:
            standardization = self.step.standardization  # the mean is known already
        elif self.algorithm.mean == "weighted":
            z = standardization.apply(data.y)
            mean = self.expected.mean(standardization)
            center = weighted_mean(families.kernel(start), start.noise, X, moments, z, mean)
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
        """Of these values, transformed as the algorithm says or as last chosen, if that suits them."""
        standardization = Standardization.of(y, self.expected.form, self.known.sign)
        was_log = self.state.hyper is None or self.state.standardization.power == 0.0
        if self.algorithm.transform == "log" and standardization.power != 0.0 and len(y) >= MIN_ROWS and was_log:
            warnings.warn(
                f'transform="log" needs positive values, but {float(y.min())!r} was told: values are modelled as they '
                "are while it is active",
                EbbtideWarning,
                stacklevel=8,
            )
        return standardization
