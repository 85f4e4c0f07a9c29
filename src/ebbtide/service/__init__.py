"""Studies over HTTP: `ebbtide serve`. JSON in, JSON out, the same words as the library's."""

from ebbtide.service.application import application
from ebbtide.service.middleware import Limits
from ebbtide.service.server import serve, show

__all__ = ["Limits", "application", "serve", "show"]
