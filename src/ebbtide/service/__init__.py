"""Studies over HTTP: `ebbtide serve`. JSON in, JSON out, with the library's own words."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ebbtide.service.app import application
    from ebbtide.service.middleware import Limits
    from ebbtide.service.server import serve, show

__all__ = ["Limits", "application", "serve", "show"]

_MODULES = {"Limits": "middleware", "application": "app", "serve": "server", "show": "server"}


def __getattr__(name: str) -> Any:
    """Imported when it is used: a worker process needs this package, but no web framework, which is slow to import."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
