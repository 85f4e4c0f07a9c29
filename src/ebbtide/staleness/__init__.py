"""Which observations to forget: policies that see the fitted model and say which rows go."""

from ebbtide.staleness.interface import Staleness, Verdict, View
from ebbtide.staleness.resets import EventTriggeredReset, PeriodicReset
from ebbtide.staleness.wasserstein import OldestFirst, RandomRemoval, WassersteinBudget
from ebbtide.staleness.windows import KeepAll, SlidingWindow

__all__ = [
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
]
