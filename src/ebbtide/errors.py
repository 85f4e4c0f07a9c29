"""All errors and warnings, one tree.

EbbtideError
├── SpaceError           the definition of a search space is wrong
├── ParameterError       parameters do not fit the space (all problems listed at once)
├── ObservationError     a value or a time that cannot be recorded
├── TrialError           a trial that is unknown, or that was told something else before
├── ConfigurationError   an algorithm, a part or an option that does not fit
├── StudyError           a stored study that is there already, or is defined otherwise
│   └── UnknownStudyError     … that is not there
├── SnapshotError        a file that is torn, edited or from a newer version
├── StorageError         a database that is full, read-only, busy, damaged or from a newer version
├── ServiceError         a service that cannot be reached, or that refused
│   ├── BusyError             … because too many requests are waiting already
│   └── WorkerError           … because its worker processes keep dying
└── NumericalError       a matrix that no jitter could make positive definite

EbbtideWarning
├── FitWarning           hyperparameters could not be fitted; what was used instead
├── ClockWarning         the clock did something that a clock should not do
└── CallbackWarning      a callback raised; the optimizer went on

The first six are ValueErrors too, so that code which knows nothing of ebbtide can catch them.
An error leaves the optimizer exactly as it was.
"""


class EbbtideError(Exception):
    """Anything that ebbtide refuses."""


class SpaceError(EbbtideError, ValueError):
    """The definition of a search space is wrong."""


class ParameterError(EbbtideError, ValueError):
    """Parameters do not fit the space; all that is wrong with them is listed at once."""


class ObservationError(EbbtideError, ValueError):
    """A value or a time that cannot be recorded."""


class TrialError(EbbtideError, ValueError):
    """A trial that is unknown, or that was told something else before."""


class ConfigurationError(EbbtideError, ValueError):
    """An algorithm, a part or an option that does not fit."""


class StudyError(EbbtideError, ValueError):
    """A stored study that is there already, or is defined otherwise."""


class UnknownStudyError(StudyError):
    """A stored study that is not there."""


class SnapshotError(EbbtideError):
    """A file that is torn, edited or from a newer version."""


class StorageError(EbbtideError):
    """A database that is full, read-only, busy, damaged or from a newer version."""


class ServiceError(EbbtideError):
    """A service that cannot be reached, or that refused."""


class BusyError(ServiceError):
    """Too many requests are waiting already; try again in a moment."""


class WorkerError(ServiceError):
    """The processes that work on models died again and again."""


class NumericalError(EbbtideError, ArithmeticError):
    """A matrix that no jitter could make positive definite."""


class EbbtideWarning(UserWarning):
    """Anything that ebbtide worked around; the message says what it did."""


class FitWarning(EbbtideWarning):
    """Hyperparameters could not be fitted; the warning says what was used instead."""


class ClockWarning(EbbtideWarning):
    """The clock did something that a clock should not do."""


class CallbackWarning(EbbtideWarning):
    """A callback raised; the optimizer went on."""
