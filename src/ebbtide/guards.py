"""The safeguards that an ask may need, by the names under which `Optimizer.guards` counts them."""

from typing import Literal

Guard = Literal[
    "timescale_floor",
    "timescale_ceiling",
    "budget_capped",
    "min_active",
    "max_active",
    "jitter",
    "fit_fallback",
    "clock_went_back",
    "outlier",
    "drift",
]

# What happened, for a user who sees only the name.
MEANING: dict[Guard, str] = {
    "timescale_floor": "The objective seems to change faster than the values told can show, so the timescale was kept "
    "at the shortest that they allow. Often this is noise, or you ask too rarely.",
    "timescale_ceiling": "The objective has hardly changed so far, so the timescale was kept at the longest that the "
    "history allows. Nothing needs to be done.",
    "budget_capped": "More than one timescale passed between two asks, a pause; it counted as one timescale. Nothing "
    "needs to be done.",
    "min_active": "More observations were due to be removed, but then too few would be left, so they stayed. This is "
    "usual for the first asks, and where the objective drifts fast. Nothing needs to be done.",
    "max_active": "There were more observations than may stay active, so the least relevant were removed. This is "
    "usual when values come fast.",
    "jitter": "Some observations are so alike that the model needed a little more noise to be computed. Usually the "
    "same place was measured several times at once. Nothing needs to be done.",
    "fit_fallback": "The model could not be fitted to the values told, so the last good fit was used. Look for values "
    "that are extremely large.",
    "clock_went_back": "The clock went back, and observations that are dated after it were set aside. Look at how the "
    "machine sets its clock.",
    "drift": "Rounding errors had added up, so the model was made afresh. Nothing needs to be done.",
    "outlier": "Values that contradict everything around them were not modelled. If there are few, they are errors of "
    "measurement; if many, the system answers quite differently at times.",
}
