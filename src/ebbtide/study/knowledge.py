"""What is known about a study: what follows from its facts, without fitting a model."""

import math
import sys
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ebbtide.gp.arrays import Array, Mask, Rows
from ebbtide.gp.criterion import relevance
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.kernels import Cycle, Cyclic, Matern
from ebbtide.gp.outliers import is_suspicious, outliers
from ebbtide.gp.priors import Prior, TimeLimits, weak_prior
from ebbtide.gp.standardization import FORMS, PLAIN, Form, Standardization
from ebbtide.parts.maximization import Bounds
from ebbtide.parts.staleness import WassersteinBudget
from ebbtide.records import Model
from ebbtide.space import Params
from ebbtide.study.active import Dataset
from ebbtide.study.contexts import Completed, complete
from ebbtide.study.course import Input
from ebbtide.study.definition import Definition
from ebbtide.study.facts import Facts
from ebbtide.study.family import Family
from ebbtide.study.step import Step

SPARE = 128  # rows beyond the capacity that are modelled, and then removed by the policy; or a tenth of the capacity
TRIM_BLOCK = 256  # rows scored at a time, when more were told than that


class Knowledge(Facts):
    """The facts of a study, and what follows from them at once."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._prior: tuple[TimeLimits | None, Prior] | None = None  # for the limits of l_T, which move with every value

    @cached_property
    def families(self) -> Families:
        """The kernels of the model: the algorithm's, with the cycles and the context of the study."""
        temporal, conditions = self.algorithm.temporal, self.definition.conditions
        if conditions.cycles and temporal is not None:
            share = 1.0 / (1.0 + len(conditions.cycles))
            temporal = Cyclic(1.0, temporal, tuple(Cycle(period, share) for period in conditions.cycles.values()))
        context = None if conditions.context is None else Matern(2.5, (1.0,) * conditions.context.width)
        return Families(self.algorithm.spatial, temporal, context)

    @property
    def contexts(self) -> Array | None:
        """A sample of the contexts that were ever seen; None for a study without."""
        return None if self.families.context is None or not self._state.contexts else np.array(self._state.contexts)

    def inputs(self, data: Dataset) -> Array:
        """What the model is a function of, besides time: the coordinates in space, then those of the context."""
        return data.x if self.families.context is None else np.column_stack([data.x, data.c])

    def inputs_between(self, first: int, end: int) -> tuple[Rows, Array, Array]:
        """The lines that are active, or were since the model's anchor, from the first one to before the end; and for
        each what the model is a function of, and its position on the axis of time.
        """
        known = self._active.lines
        rows = slice(*known.searchsorted((first, end)).tolist())
        lines, X, t = known[rows], self.inputs(self._active.dataset)[rows], self.axis.rows(rows)
        gone = {line: told for line, told in self._gone.items() if first <= line < end}
        if not gone:
            return lines, X, t
        lines = np.append(lines, list(gone))
        order = np.argsort(lines)
        X = np.vstack([X, [told.x for told in gone.values()]])
        t = np.append(t, list(gone) if self.axis.by_step else [told.time for told in gone.values()])
        return lines[order], X[order], t[order]

    def measured(self, lines: Rows) -> Mask:
        """Which values under a constraint were told with such lines (lines × constraints)."""
        measured = np.empty((len(lines), len(self.definition.conditions.constraints)), dtype=bool)
        if not measured.size:
            return measured
        rows, active = self._found(lines)
        measured[active] = np.isfinite(self._active.dataset.outcomes[rows[active]])
        for at in np.flatnonzero(~active):
            measured[at] = self._gone[int(lines[at])].measured
        return measured

    def _found(self, lines: Rows) -> tuple[Rows, Mask]:
        """The active rows of lines, and which lines are active; the others have gone."""
        known = self._active.lines
        rows = known.searchsorted(lines)
        active: Mask = np.append(known, -1)[rows] == lines
        return rows, active

    @property
    def _gone(self) -> Mapping[int, Input]:
        return {} if self._course is None else self._course.gone

    @property
    def family(self) -> Family | None:
        """What the siblings are like, as of the latest look at them; None if there are none."""
        return Family.from_json(self._state.family)

    @property
    def sign(self) -> float:
        """The model maximizes."""
        return 1.0 if self.definition.direction == "maximize" else -1.0

    @property
    def hyper(self) -> Hyperparameters:
        """As last fitted; before the first fit, the prior's centre."""
        return self._state.hyper or self.default_hyperparameters()

    @property
    def model(self) -> Model:
        """Kernel, noise, and how y is standardised, as last fitted."""
        z = self.standardization
        kernel = self.families.kernel(self.hyper)
        return Model(kernel, self.hyper.noise, **vars(z))

    @property
    def standardization(self) -> Standardization:
        """As last fitted, if it suits all values told since; otherwise of the values that are modelled."""
        fitted, held = self._state.hyper is not None, self._state.standardization
        if fitted and held.power == 1.0:
            return held
        rows = np.arange(len(self._active))
        y = self._active.dataset.y[rows[~self.outlying(rows)]]
        if fitted:
            return held if held.suits(y) else Standardization.of(y)
        return Standardization.of(y, self.usual_form, self.sign)

    @property
    def usual_form(self) -> Form:
        """The form of the transform, as last chosen or as the algorithm says."""
        return {"none": PLAIN, "log": Form(0.0), "auto": self._state.standardization.form}[self.algorithm.transform]

    @property
    def forms(self) -> tuple[Form, ...]:
        """Among which "auto" chooses. Where moving costs, nothing is bent: a cost counts the same everywhere."""
        movement = self.definition.live.movement
        return FORMS if movement is None or movement.cost <= 0.0 else tuple(form for form in FORMS if not form.bent)

    def outlying(self, rows: Rows) -> Mask:
        """Which of these active rows are outliers, by the model as last fitted; of many, only the newest are judged."""
        mask = np.zeros(len(rows), dtype=bool)
        if self.algorithm.robust and len(rows):
            judged = rows[-self._most_modelled :]
            mask[-len(judged) :] = self._outliers(judged)
        return mask

    def _outliers(self, rows: Rows) -> Mask:
        data, held = self._active.dataset.take(rows), self._state.standardization
        fitted = self._state.hyper is not None and held.suits(data.y)
        unit = held if fitted else Standardization.by_quartiles(data.y, self.usual_form, self.sign)
        # Bending closes the gap that tells a gross error on the worse side from the others.
        told = unit.unbent.apply(data.y)
        if not is_suspicious(told):
            return np.zeros(len(rows), dtype=bool)
        kernel = self.families.kernel(self.hyper)
        moments, lines = self.axis.rows(rows), self._active.lines[rows]
        X, z = self.inputs(data), unit.apply(data.y)
        return outliers(kernel, self.hyper.noise, X, moments, z, lines, told=told, rescale=not fitted)

    def prior(self) -> Prior:
        limits = None if self.algorithm.temporal is None else self.axis.limits()
        if self._prior is None or self._prior[0] != limits:
            self._prior = limits, self._prior_with(limits)
        return self._prior[1]

    def _prior_with(self, limits: TimeLimits | None) -> Prior:
        families, conditions = self.families, self.definition.conditions
        if self._prior is not None and limits is not None:  # the rest does not change
            return self._prior[1].limited(limits, families.timescale_at(len(self._prior[1].center)))
        return weak_prior(
            families.spatial.ard,
            self.space.width,
            limits,
            self.algorithm.inference,
            context=families.context_size,
            periods=tuple(conditions.cycles.values()) if families.cycles else (),
        )

    def default_hyperparameters(self) -> Hyperparameters:
        """The prior's centre, until there is something to fit."""
        prior = self.prior()
        return self.families.hyperparameters(prior.clip(prior.center))

    def span_of(self, timescale: float | None) -> float:
        """l_T in the clock's unit; for a model without one, a typical span."""
        interval = self._active.interval
        if timescale is None:
            return TimeLimits.of(interval, span=0.0).typical
        return timescale * interval if self.axis.by_step else timescale

    def pace(self, timescale: float | None) -> float | None:
        """Queries per l_T, at the present sampling interval; None for a model without an l_T."""
        return None if timescale is None else self.span_of(timescale) / self._active.interval

    def completed(self, measured: Params, moment: float) -> Completed:
        """The context at a moment; what was not measured is taken from the latest measurements within one l_T."""
        conditions, hyper = self.definition.conditions, self._state.hyper
        if conditions.context is None:
            return Completed()
        span = math.inf if hyper is None else self.span_of(hyper.timescale)
        return complete(conditions, self._state.latest, measured, moment, span)

    @property
    def setting_in_force(self) -> Params | None:
        """The setting handed out or told last; at first the start."""
        start = self.definition.live.start
        found = self._active.in_force
        return dict(found) if found is not None else start[0] if start else None

    @property
    def bounds(self) -> Bounds | None:
        """Where the movement allows the next setting to be; None: anywhere."""
        movement, origin = self.definition.live.movement, self.setting_in_force
        if movement is None or not movement.limit or origin is None:
            return None
        return movement.bounds(self.space, origin)

    def scores(self, rows: Rows, now: float) -> Array:
        """The relevance of active rows, by the model as last fitted."""
        data, moments, present = self._active.dataset.take(rows), self.axis.rows(rows), self.axis.place(now)
        if self.algorithm.temporal is None:
            return data.t - now  # without relevance, rows are removed by age
        policy, model = self.algorithm.staleness, self.model
        method = policy.method if isinstance(policy, WassersteinBudget) else "bound"
        z = model.standardized(data.y)
        return relevance(
            self.inputs(data),
            moments,
            z,
            kernel=model.kernel,
            noise=model.noise,
            now=present,
            method=method,
            contexts=self.contexts,
        )

    def thinned(self, step: Step, rows: Rows, now: float) -> Rows:
        """The rows to model. Fitting far more rows than may stay would take minutes: blocks are removed before it."""
        if len(rows) > self._most_modelled:
            step.guards += ("max_active",)
        while len(rows) > self._most_modelled:
            rows = self._trim_block(step, rows, now)
        return rows

    @property
    def _most_modelled(self) -> int:
        """How many rows are modelled at most."""
        capacity = self.algorithm.staleness.capacity
        return sys.maxsize if capacity is None else capacity + max(SPARE, capacity // 10)

    def _trim_block(self, step: Step, rows: Rows, now: float) -> Rows:
        """Remove most of a block of the oldest rows, those with the lowest scores. The newest that may stay all do."""
        size = min(TRIM_BLOCK, len(rows) - (self.algorithm.staleness.capacity or 0))
        oldest = rows[np.argsort(self._active.dataset.t[rows], kind="stable")[:size]]
        scores = self.scores(oldest, now)
        lowest = np.argsort(scores, kind="stable")[: 3 * size // 4]
        known = self.algorithm.temporal is not None
        step.remove(oldest[lowest], scores[lowest].tolist() if known else [None] * len(lowest))
        return np.setdiff1d(rows, oldest[lowest])
