"""In which asks the hyperparameters are looked at. The more observations there are, the less a new one changes."""

from ebbtide.gp.inference import SEARCH_ROWS
from ebbtide.study.knowledge import Knowledge

SEARCH_EVERY = 10  # asks between two searches for hyperparameters from scratch, for each SEARCH_ROWS rows
LONGEST = 64  # asks from one anchor to the next, which also bounds rounding errors
SIBLINGS_EVERY = 10  # asks between two looks at the siblings
# Of so many rows one must be new, on average, before the fit is checked again. When m of n rows are new, a refit gains
# about m/n nats for each hyperparameter, and must gain 0.1 to be worth it (`WORTH` in inference.py).
LOOK_EVERY = 10


def is_searching(known: Knowledge) -> bool:
    """Whether this ask searches for hyperparameters from scratch: for those of all models, which are then made afresh
    together; if there are many observations, when they are made afresh anyway.
    """
    every = SEARCH_EVERY * (1 + len(known.active) // SEARCH_ROWS)
    if every < LONGEST or known.state.anchor is None:
        return known.state.asks % every == 0
    return is_too_old(known)


def is_looking_at_siblings(known: Knowledge) -> bool:
    """Whether this ask looks at what the fits of its siblings have become."""
    return known.definition.family is not None and known.state.asks % SIBLINGS_EVERY == 0


def is_too_old(known: Knowledge) -> bool:
    """Whether the models must be made afresh, whatever they promise."""
    anchor = known.state.anchor
    return anchor is None or known.state.asks - anchor >= LONGEST


def is_looking(known: Knowledge) -> bool:
    """Whether this ask checks if the hyperparameters of the objective still fit."""
    return known.state.asks % (1 + len(known.active) // LOOK_EVERY) == 0
