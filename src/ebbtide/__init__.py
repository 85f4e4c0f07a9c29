"""ebbtide: Bayesian optimization for objectives that drift.

Old observations ebb away; the optimizer keeps up with the tide.
"""

from ebbtide import algorithms
from ebbtide.acquisition import EI, PI, UCB
from ebbtide.algorithms import Algorithm
from ebbtide.clock import ManualClock, SystemClock
from ebbtide.errors import (
    CallbackWarning,
    ClockWarning,
    ConfigurationError,
    EbbtideError,
    EbbtideWarning,
    FitWarning,
    NumericalError,
    ObservationError,
    ParameterError,
    SnapshotError,
    SpaceError,
    TrialError,
)
from ebbtide.kernels import Matern, SpaceTimeKernel, SquaredExponential
from ebbtide.optimizer import Optimizer
from ebbtide.records import Asked, Model, Observation, Recommendation, Told, Trial
from ebbtide.relevance import relevance
from ebbtide.space import Categorical, Float, Int, Space
from ebbtide.staleness import KeepAll, Verdict, WassersteinBudget
from ebbtide.timing import Immediate

__version__ = "0.1.0"

__all__ = [
    "EI",
    "PI",
    "UCB",
    "Algorithm",
    "Asked",
    "CallbackWarning",
    "Categorical",
    "ClockWarning",
    "ConfigurationError",
    "EbbtideError",
    "EbbtideWarning",
    "FitWarning",
    "Float",
    "Immediate",
    "Int",
    "KeepAll",
    "ManualClock",
    "Matern",
    "Model",
    "NumericalError",
    "Observation",
    "ObservationError",
    "Optimizer",
    "ParameterError",
    "Recommendation",
    "SnapshotError",
    "Space",
    "SpaceError",
    "SpaceTimeKernel",
    "SquaredExponential",
    "SystemClock",
    "Told",
    "Trial",
    "TrialError",
    "Verdict",
    "WassersteinBudget",
    "algorithms",
    "relevance",
]
