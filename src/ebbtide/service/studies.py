"""What the routes do. Studies are changed in the writing thread only; models are worked on in other processes.

ask:  writer (plan) → workers (step) → writer (commit)          tell:  writer
"""

import asyncio
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.errors import ConfigurationError, StudyError
from ebbtide.optimizer import Optimizer
from ebbtide.records import Recommendation, Trial
from ebbtide.service import workers
from ebbtide.service.queues import AskQueues
from ebbtide.service.reader import Reader
from ebbtide.service.workers import Workers
from ebbtide.service.writer import Writer
from ebbtide.study.asks import Plan
from ebbtide.study.definition import Definition
from ebbtide.study.step import Step
from ebbtide.study.storage import Storage

T = TypeVar("T")
MAX_DEFINITION = 1 << 16  # characters: it is a part of every list, and its words of every observation
MAX_OPEN = 256  # studies kept in memory; the others are opened again when needed


class Studies(Reader):
    def __init__(self, url: str, processes: int, max_studies: int, max_width: int) -> None:
        self.max_studies, self.max_width = max_studies, max_width
        self._storage = Storage.of(url, create=True)  # first, because it creates the file
        super().__init__(url)
        self._open: OrderedDict[int, Optimizer] = OrderedDict()  # by study; touched by the writing thread only
        self._writer = Writer(self._storage.database, self._open.clear)
        self._workers = Workers(processes)
        self._queues = AskQueues()

    def warm_up(self) -> None:
        self._workers.warm_up()

    def close(self) -> None:
        self._workers.close()
        self._writer.close()
        super().close()
        self._storage.close()

    # --- studies ------------------------------------------------------------------------------------------

    def check_width(self, width: int) -> None:
        """To be asked before a space is made: that of a million choices takes hours to check."""
        if width > self.max_width:
            raise ConfigurationError(
                f"the space has {width} coordinates (a category counts one a choice), "
                f"and this service takes {self.max_width} at most"
            )

    async def create(self, name: str, definition: Definition) -> dict[str, Any]:
        if (length := len(json.dumps(definition.to_json()))) > MAX_DEFINITION:
            raise ConfigurationError(
                f"the definition is {length} characters long, and this service takes {MAX_DEFINITION} at most; "
                "shorten the names and the choices"
            )

        def make() -> None:
            if len(self._storage.names()) >= self.max_studies:
                raise StudyError(f"there are {self.max_studies} studies already, the most that this service keeps")
            self._storage.create(name, definition)

        await self._write(make)
        return await self.study(name)

    async def delete(self, name: str) -> None:
        def remove() -> None:
            self._open.pop(self._storage.identify(name), None)
            self._storage.delete(name)

        await self._write(remove)
        self.notifier.announce(name)

    # --- verbs --------------------------------------------------------------------------------------------

    async def ask(self, name: str, lease: float | None) -> Trial:
        async with self._queues.of(name):
            trial = None
            while trial is None:  # unless another process asked meanwhile
                trial = await self._ask(name, lease)
        self.notifier.announce(name)
        return trial

    async def _ask(self, name: str, lease: float | None) -> Trial | None:
        study, plan, packed = await self._write(lambda: self._plan(name))
        step = await self._workers.do(workers.step, packed)
        return await self._write(lambda: self._commit(name, study, plan, step, lease))

    def _plan(self, name: str) -> tuple[int, Plan, bytes]:
        plan = self._optimizer(name)._plan()
        return self._storage.identify(name), plan, pickle.dumps(plan)

    def _commit(self, name: str, study: int, plan: Plan, step: Step, lease: float | None) -> Trial | None:
        """By the optimizer of now: the one that planned may have been put away meanwhile, to make room for others."""
        if self._storage.identify(name) != study:  # deleted since, and made anew
            return None
        return self._optimizer(name)._commit(plan, step, lease)

    async def tell(
        self,
        name: str,
        what: str | Mapping[str, Any],
        value: float | None,
        failed: bool,
        time: float | None,
        key: str | None,
    ) -> None:
        """A value for a trial, by its id, or for parameters."""

        def record() -> None:
            optimizer = self._optimizer(name)
            told = optimizer.trial(what) if isinstance(what, str) else what
            optimizer.tell(told, value, failed=failed, time=time, key=key)

        await self._write(record)
        self.notifier.announce(name)

    async def recommend(self, name: str) -> Recommendation:
        packed, now = await self._write(lambda: self._known(name))
        return await self._workers.do(workers.recommend, packed, now)

    def _known(self, name: str) -> tuple[bytes, float]:
        plan = self._optimizer(name)._plan()
        return pickle.dumps(plan.engine), plan.now

    async def model(self, name: str) -> dict[str, Any]:
        return await self._write(lambda: wire.model(self._optimizer(name, to_change=False)))

    async def check(self) -> None:
        """An error unless both the writing thread and the reading one can do their work."""
        await self._write(self._storage.names)
        await super().check()

    # --- where things run -----------------------------------------------------------------------------------

    def _optimizer(self, name: str, to_change: bool = True) -> Optimizer:
        study = self._storage.identify(name)  # another process may have deleted it, and made one of the same name
        optimizer = self._open.get(study) or Optimizer.open(self._storage, name)
        if to_change and optimizer.definition.clock != "SystemClock":
            raise StudyError(
                f"the study {name!r} runs by a {optimizer.definition.clock}, which only its own program can read; "
                "the service takes those that run by the system's clock"
            )
        self._open[study] = optimizer
        self._open.move_to_end(study)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return optimizer

    async def _write(self, operation: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._writer.submit(operation))
