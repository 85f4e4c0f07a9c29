"""The model step of an ask: fit → staleness policy → condition → acquisition. Lines 5-24 of Algorithm 1."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from statistics import median

import numpy as np

from ebbtide.errors import ClockWarning, ConfigurationError
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.posterior import Interval, Moment, Posterior
from ebbtide.parts.maximization import RECENT, maximize, maximize_over
from ebbtide.parts.outlook import Outlook
from ebbtide.parts.staleness import BY_CRITERION, Account, Verdict, View, WassersteinBudget, agreed
from ebbtide.parts.timing import Occasion
from ebbtide.records import Kind
from ebbtide.study.believed import believing_pending
from ebbtide.study.course import Turn
from ebbtide.study.model_fit import Modelling
from ebbtide.study.outcomes import feasibility, level, safest
from ebbtide.study.prospects import outlook
from ebbtide.study.recommending import recommended
from ebbtide.study.step import Step, checked_memory, checked_verdict

WAITING = 30  # observations after which an outlier that nothing has confirmed is removed
PATIENCE = 10  # observations made after a clock went back, before those from its future are dropped


class ModelStep(Modelling):
    """One ask of the model, computed from what is known, at the time `now`."""

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
        if type(policy) not in BY_CRITERION and (rows[1:] < rows[:-1]).any():
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
        saving = policy.saving(verdict.state)
        accounts = [
            Account(policy, self._view(o.posterior, o.excess, o.rows, o.policy, o.carried), o.rows, saving)
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
