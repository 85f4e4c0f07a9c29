"""Digests of the code that made a run: a version number does not change with every edit."""

import hashlib
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem

# Tables, figures, commands and services do not change a run; of the experiments only _DECIDING do.
_PACKAGE = Path(__file__).parent
_ASIDE = (
    "cli",
    "client.py",
    "dashboard",
    "files.py",
    "integrations",
    "service",
    "study/storage",
    "testing",
    "tuning",
    "wire.py",
)
_DECIDING = ("pace.py", "protocol.py", "simulation.py")


@cache
def of_the_engine() -> str:
    """A digest of everything that decides a run's digits: engine, benchmarks with their data, simulation."""
    root = _PACKAGE.parent
    aside = [_PACKAGE, *(root / name for name in _ASIDE)]
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".npz", ".csv")]
    deciding = [path for path in files if not any(place in (path, *path.parents) for place in aside)]
    return _digest(sorted([*deciding, *(_PACKAGE / name for name in _DECIDING)]), root)


def _digest(files: list[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def of_ones_own(problem: str | Problem, algorithm: str | Algorithm) -> str | None:
    """A digest of the user's own modules that define the problem or parts of the algorithm."""
    parts = [getattr(algorithm, field.name) for field in fields(algorithm)] if is_dataclass(algorithm) else []
    modules = {type(part).__module__ for part in (problem, *parts)} - {"builtins"}
    names = sorted(name for name in modules if name.partition(".")[0] != "ebbtide")
    files = [Path(file) for name in names if (file := getattr(sys.modules[name], "__file__", None))]
    return "-".join(hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files) or None
