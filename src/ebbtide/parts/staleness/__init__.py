"""Which observations to forget: a policy sees the fitted model and names the rows to remove."""

from ebbtide.parts.staleness.accounts import Account, agreed
from ebbtide.parts.staleness.interface import Staleness, Verdict, View
from ebbtide.parts.staleness.resets import EventTriggeredReset, PeriodicReset
from ebbtide.parts.staleness.response import ResponseBudget
from ebbtide.parts.staleness.wasserstein import OldestFirst, RandomRemoval, WassersteinBudget
from ebbtide.parts.staleness.windows import KeepAll, SlidingWindow

BY_CRITERION = (WassersteinBudget, ResponseBudget)  # which ask for nothing else, and see rows in the model's order

__all__ = [
    "BY_CRITERION",
    "Account",
    "EventTriggeredReset",
    "KeepAll",
    "OldestFirst",
    "PeriodicReset",
    "RandomRemoval",
    "ResponseBudget",
    "SlidingWindow",
    "Staleness",
    "Verdict",
    "View",
    "WassersteinBudget",
    "agreed",
]
