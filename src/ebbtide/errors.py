"""All errors and warnings, in one tree.

EbbtideError
├── SpaceError           the definition of a search space is wrong
├── ParameterError       parameters do not fit the space (all problems listed at once)
├── ObservationError     a value, a time or a context that cannot be recorded
├── TrialError           a trial that is unknown, or was told another value before
├── ConfigurationError   an algorithm, a part or an option that does not fit
├── NothingKnownError    nothing to recommend: no value was told yet
├── StudyError           a stored study that already exists, or has another definition
│   └── UnknownStudyError     … or does not exist
├── SnapshotError        a file that cannot be read, or is incomplete, edited or from a newer version
├── StorageError         a database that is full, read-only, busy, damaged, gone or from a newer version
│   └── DamagedError          … or a study in it whose rows cannot be read
├── ServiceError         a service that cannot be reached, or refused a request
│   ├── AccessError           … because the token does not allow it
│   ├── BusyError             … because too many requests are already waiting
│   └── WorkerError           … because a model takes too long or too much memory, or its workers keep dying
└── NumericalError       a matrix that no jitter could make positive definite

EbbtideWarning
├── FitWarning           the hyperparameters could not be fitted; others were used instead
├── ClockWarning         the clock did something that a clock should not do
├── ContextWarning       a part of the context was not measured; an earlier value was used instead
└── CallbackWarning      a callback raised an exception; the optimizer continued

The first seven are also ValueErrors, so code that knows nothing about ebbtide can catch them.
An error leaves the optimizer exactly as it was.
"""


class EbbtideError(Exception):
    """Base class of all errors that ebbtide raises."""


class SpaceError(EbbtideError, ValueError):
    """The definition of a search space is wrong."""


class ParameterError(EbbtideError, ValueError):
    """Parameters do not fit the space; the message lists all problems at once."""


class ObservationError(EbbtideError, ValueError):
    """A value, a time or a context that cannot be recorded."""


class TrialError(EbbtideError, ValueError):
    """A trial that is unknown, or was told another value before."""


class ConfigurationError(EbbtideError, ValueError):
    """An algorithm, a part or an option that does not fit."""


class NothingKnownError(EbbtideError, ValueError):
    """There is nothing to recommend: no value was told yet."""


class StudyError(EbbtideError, ValueError):
    """A stored study that already exists, or has another definition."""


class UnknownStudyError(StudyError):
    """A stored study that does not exist."""


class SnapshotError(EbbtideError):
    """A file that cannot be read, or is incomplete, edited or from a newer version."""


class StorageError(EbbtideError):
    """A database that is full, read-only, busy, damaged, gone or from a newer version."""


class DamagedError(StorageError):
    """A stored study that cannot be read, because its rows or the file are damaged."""


class ServiceError(EbbtideError):
    """A service that cannot be reached, or refused a request."""


class AccessError(ServiceError):
    """The token does not allow that: it lacks a scope, or its names have another prefix."""


class BusyError(ServiceError):
    """Too many requests are already waiting; try again in a moment."""


class WorkerError(ServiceError):
    """A model takes longer or needs more memory than the service allows, or its worker processes keep dying."""


class NumericalError(EbbtideError, ArithmeticError):
    """A matrix that no jitter could make positive definite."""


class EbbtideWarning(UserWarning):
    """Base class of all warnings: ebbtide worked around a problem, and the message says how."""


class FitWarning(EbbtideWarning):
    """The hyperparameters could not be fitted; the message says what was used instead."""


class ClockWarning(EbbtideWarning):
    """The clock did something that a clock should not do."""


class ContextWarning(EbbtideWarning):
    """A part of the context was not measured; the message says which earlier value was used, and how old it is."""


class CallbackWarning(EbbtideWarning):
    """A callback raised an exception; the optimizer continued."""


def how_to_install(extra: str) -> str:
    """The commands that install an extra: that of a release, and that of a checkout."""
    return f"pip install 'ebbtide[{extra}]', or in a checkout: pip install '.[{extra}]'"
