"""Trials that were asked for and not told yet, as the acquisition sees them."""

from itertools import islice

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.posterior import Posterior
from ebbtide.records import Trial
from ebbtide.study.knowledge import Knowledge

MAX_PENDING = 64  # pending trials taken into account: clients that never answer must not slow down an ask


def believing_pending(known: Knowledge, posterior: Posterior, now: float, context: Array | None) -> Posterior:
    """Treat pending trials as if they had been told the posterior mean, until their leases (one l_T) end."""
    lease = known.span_of(posterior.kernel.timescale)
    newest = islice(known.active.newest_pending(), MAX_PENDING)
    pending = [p for p in newest if now <= (p.time + lease if p.expires is None else p.expires)]
    if not pending:
        return posterior
    X = np.array([known.space.encode(p.params) for p in pending])
    if context is not None:
        X = np.column_stack([X, [_context_of(known, p, context) for p in pending]])
    return posterior.believing(X, np.array([known.axis.place(p.time) for p in pending]))


def _context_of(known: Knowledge, trial: Trial, present: Array) -> Array:
    """The context that a trial was asked in; without one, the present one."""
    return present if trial.context is None else known.definition.conditions.encode(trial.context)
