"""ebbtide: Bayesian optimization for objectives that drift.

Old observations ebb away; the optimizer keeps up with the tide.
"""

from ebbtide import algorithms, benchmarks, experiments
from ebbtide.algorithms import Algorithm
from ebbtide.client import Client
from ebbtide.clock import ManualClock, SystemClock
from ebbtide.errors import (
    AccessError,
    BusyError,
    CallbackWarning,
    ClockWarning,
    ConfigurationError,
    ContextWarning,
    DamagedError,
    EbbtideError,
    EbbtideWarning,
    FitWarning,
    NothingKnownError,
    NumericalError,
    ObservationError,
    ParameterError,
    ServiceError,
    SnapshotError,
    SpaceError,
    StorageError,
    StudyError,
    TrialError,
    UnknownStudyError,
    WorkerError,
)
from ebbtide.gp.criterion import relevance
from ebbtide.gp.kernels import Matern, SpaceTimeKernel, SquaredExponential, StepDecay
from ebbtide.optimizer import Optimizer
from ebbtide.parts.acquisition import EI, PI, UCB, Random, TrackingUCB
from ebbtide.parts.staleness import (
    EventTriggeredReset,
    KeepAll,
    OldestFirst,
    PeriodicReset,
    RandomRemoval,
    ResponseBudget,
    SlidingWindow,
    Staleness,
    Verdict,
    View,
    WassersteinBudget,
)
from ebbtide.parts.timing import Immediate, Occasion, Window, WithinHorizon
from ebbtide.records import Asked, Model, Observation, Recommendation, Told, Trial, Violations
from ebbtide.space import Categorical, Float, Int, Ordinal, Space
from ebbtide.study.limits import AtLeast, AtMost
from ebbtide.study.movement import Movement
from ebbtide.version import __version__

__all__ = [
    "EI",
    "PI",
    "UCB",
    "AccessError",
    "Algorithm",
    "Asked",
    "AtLeast",
    "AtMost",
    "BusyError",
    "CallbackWarning",
    "Categorical",
    "Client",
    "ClockWarning",
    "ConfigurationError",
    "ContextWarning",
    "DamagedError",
    "EbbtideError",
    "EbbtideWarning",
    "EventTriggeredReset",
    "FitWarning",
    "Float",
    "Immediate",
    "Int",
    "KeepAll",
    "ManualClock",
    "Matern",
    "Model",
    "Movement",
    "NothingKnownError",
    "NumericalError",
    "Observation",
    "ObservationError",
    "Occasion",
    "OldestFirst",
    "Optimizer",
    "Ordinal",
    "ParameterError",
    "PeriodicReset",
    "Random",
    "RandomRemoval",
    "Recommendation",
    "ResponseBudget",
    "ServiceError",
    "SlidingWindow",
    "SnapshotError",
    "Space",
    "SpaceError",
    "SpaceTimeKernel",
    "SquaredExponential",
    "Staleness",
    "StepDecay",
    "StorageError",
    "StudyError",
    "SystemClock",
    "Told",
    "TrackingUCB",
    "Trial",
    "TrialError",
    "UnknownStudyError",
    "Verdict",
    "View",
    "Violations",
    "WassersteinBudget",
    "Window",
    "WithinHorizon",
    "WorkerError",
    "__version__",
    "algorithms",
    "benchmarks",
    "experiments",
    "relevance",
]
