"""Report a missing library before the work, not after it."""

import importlib.util

from ebbtide.errors import ConfigurationError, how_to_install


def need(*libraries: str, extra: str = "experiments") -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ConfigurationError(f"this needs {library}: {how_to_install(extra)}")
