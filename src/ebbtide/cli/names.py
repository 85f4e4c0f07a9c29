"""Algorithms and benchmarks by name, or as `module:attribute` for the user's own."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem
from ebbtide.errors import ConfigurationError, EbbtideError


def labelled(names: Sequence[str]) -> dict[str, str | Algorithm]:
    return {name: algorithm(name) for name in names}


def algorithm(name: str) -> str | Algorithm:
    if ":" in name:
        own: Algorithm = _own(name, Algorithm, "an eb.Algorithm")
        return own
    algorithms.get(name)  # refuse an unknown name here, before the work
    return name


def problem(name: str) -> str | Problem:
    if ":" in name:
        own: Problem = _own(name, Problem, "an eb.benchmarks.Problem")
        return own
    benchmarks.get(name)
    return name


def _own(name: str, kind: type, wanted: str) -> Any:
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does; workers inherit it
    try:
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, type) and issubclass(found, kind):
            found = found()
    except EbbtideError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{name} could not be imported ({type(error).__name__}: {error}); give MODULE:ATTRIBUTE"
        ) from error
    if not isinstance(found, kind):
        raise ConfigurationError(f"{name} is {found!r}, not {wanted}")
    return found
