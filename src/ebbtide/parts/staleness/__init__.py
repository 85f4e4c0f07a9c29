"""Which observations to forget: a policy sees the fitted model and names the rows to remove."""

from ebbtide.parts.staleness.accounts import Account, agreed
from ebbtide.parts.staleness.interface import Staleness, Verdict, View
from ebbtide.parts.staleness.resets import EventTriggeredReset, PeriodicReset
from ebbtide.parts.staleness.wasserstein import OldestFirst, RandomRemoval, WassersteinBudget
from ebbtide.parts.staleness.windows import KeepAll, SlidingWindow

__all__ = [
    "Account",
    "EventTriggeredReset",
    "KeepAll",
    "OldestFirst",
    "PeriodicReset",
    "RandomRemoval",
    "SlidingWindow",
    "Staleness",
    "Verdict",
    "View",
    "WassersteinBudget",
    "agreed",
]
