"""What a worker is told about a study: everything at first, later only what has happened since."""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, TypeVarTuple

from ebbtide.optimizer import Optimizer
from ebbtide.records import Observation
from ebbtide.study.definition import Definition
from ebbtide.study.engine import Engine
from ebbtide.study.log import Ask, Updates

Ts = TypeVarTuple("Ts")
OURS = ("_told", "_changes", "_changing")
MOST_CHANGES = 1000  # that are remembered; after more of them, everything is told again
_versions = count()  # of all studies, so that no two are ever the same


class News(NamedTuple):
    """Everything about a study (`engine`), or what has changed since the version `base`; then it has this version."""

    study: str
    version: int
    base: int | None = None
    changes: tuple[tuple[Any, ...], ...] = ()  # methods of the engine, with their arguments
    engine: Engine | None = None


class FollowedEngine(Engine):
    """An engine that remembers how it has changed since a worker was told about it. Pickled, it is a plain one."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._told: int | None = None  # the version that a worker was told last; None: it must be told everything
        self._changes: list[tuple[Any, ...]] = []  # since then
        self._changing = False

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.__getstate__()
        return _plain, ({name: value for name, value in state.items() if name not in OURS},)

    def news(self, study: str, *, whole: bool = False) -> News:
        """What a worker must be told that knows what was told before; to be pickled before anything else happens."""
        base, changes = None if whole else self._told, tuple(self._changes)
        self._told, self._changes = next(_versions), []
        if base is None:
            return News(study, self._told, engine=self)
        return News(study, self._told, base, changes)

    def apply(self, ask: Ask) -> None:
        self._change(super().apply, ask)

    def record(self, observation: Observation, reading: float | None = None) -> None:
        self._change(super().record, observation, reading)

    def learn(self, updates: Updates) -> None:
        if updates.asks or updates.tells:
            self._change(super().learn, updates)

    def _change(self, change: Callable[[*Ts], None], *arguments: *Ts) -> None:
        if self._changing:  # a part of another change
            change(*arguments)
            return
        told, self._told, self._changing = self._told, None, True  # an error may leave it half changed
        try:
            change(*arguments)
        finally:
            self._changing = False
        if told is not None and len(self._changes) < MOST_CHANGES:
            self._changes.append((change.__name__, *arguments))
            self._told = told


class FollowedOptimizer(Optimizer):
    _engine_type = FollowedEngine
    _engine: FollowedEngine

    def news(self, study: str, *, whole: bool = False) -> News:
        return self._engine.news(study, whole=whole)


def _plain(state: dict[str, Any]) -> Engine:
    engine = Engine.__new__(Engine)
    engine.__dict__.update(state)
    return engine
