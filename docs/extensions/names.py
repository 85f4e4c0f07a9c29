"""Every public name is in the reference and says what it is: a warning for each that does not, which fails the build.

Docstrings are written as plain text, with `names` in single quotes of code and displays indented; here they become
what Sphinx reads.
"""

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.util import logging

MODULES = [
    *("ebbtide", "ebbtide.algorithms", "ebbtide.benchmarks", "ebbtide.experiments", "ebbtide.testing"),
    *("ebbtide.integrations.botorch", "ebbtide.integrations.optuna"),
]


def public(module: ModuleType) -> dict[str, Any]:
    """What a module offers: what it declares, or else what it defines."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        offered = {name: getattr(module, name) for name in declared if name != "__version__"}
        return {name: thing for name, thing in offered.items() if not inspect.ismodule(thing)}
    return {name: thing for name, thing in vars(module).items() if _is_own(module, name, thing)}


def _is_own(module: ModuleType, name: str, thing: Any) -> bool:
    return name[0] != "_" and callable(thing) and getattr(thing, "__module__", "") == module.__name__


def undocumented(module: ModuleType) -> Iterator[str]:
    """Names without a docstring, of their own or of what they implement; of classes also the methods."""
    for name, thing in public(module).items():
        if callable(thing) and not _described(thing):
            yield name
        if inspect.isclass(thing):
            members = [member for member in vars(thing) if member[0] != "_" and _is_code(vars(thing)[member])]
            yield from (f"{name}.{member}" for member in members if not _described(getattr(thing, member)))


def _is_code(member: Any) -> bool:
    return callable(member) or isinstance(member, property | classmethod | staticmethod)


def _described(thing: Any) -> bool:
    text = inspect.getdoc(thing) or ""
    made_by_dataclass = inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
    return bool(text) and not made_by_dataclass


def check(app: Sphinx, env: Any) -> None:
    logger = logging.getLogger(__name__)
    referenced = {name for name, *_ in env.get_domain("py").get_objects()}
    for module in map(_imported, MODULES):
        for name in public(module):
            if f"{module.__name__}.{name}" not in referenced:
                logger.warning("%s.%s is public, and not in the reference", module.__name__, name)
        for name in undocumented(module):
            logger.warning("%s.%s is public, and has no docstring", module.__name__, name)


def _imported(name: str) -> ModuleType:
    with mock(["torch", "gpytorch"]):
        return importlib.import_module(name)


def as_sphinx_reads_it(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    made: list[str] = []
    for line in lines:
        indented = line.startswith("    ")
        if indented and made and made[-1] == "" and not _displayed(made):
            made += ["::", ""]  # a display is a literal block
        made.append(line if indented or line.startswith(">>>") else line.replace("|", "\\|"))
    lines[:] = made


def _displayed(lines: list[str]) -> bool:
    """Whether the block before is indented too, or announced."""
    before = [line for line in lines if line]
    return bool(before) and (before[-1].startswith("    ") or before[-1].endswith("::"))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", as_sphinx_reads_it)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
