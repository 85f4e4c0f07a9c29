"""The safeguards that an ask may need, by the names under which `Optimizer.guards` counts them."""

from typing import Literal

Guard = Literal[
    "timescale_floor",  # l_T would be shorter than the sampling interval allows
    "timescale_ceiling",  # l_T would be longer than the history's span allows
    "budget_capped",  # more than one l_T passed between two asks
    "min_active",  # the budget would pay for more removals, but too few observations would be left
    "max_active",  # there were more observations than may stay active
    "jitter",  # a covariance matrix had to be made positive definite
    "fit_fallback",  # the fit failed; the last good hyperparameters were used
    "clock_went_back",  # observations dated after the clock were set aside
    "outlier",  # values that contradict everything around them were not modelled
]
