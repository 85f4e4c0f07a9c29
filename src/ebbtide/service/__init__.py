"""Studies over HTTP: `ebbtide serve`. JSON in, JSON out, with the library's own words."""

from ebbtide.service.app import application
from ebbtide.service.middleware import Limits
from ebbtide.service.server import serve, show

__all__ = ["Limits", "application", "serve", "show"]
