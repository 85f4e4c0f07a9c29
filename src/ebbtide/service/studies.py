"""The studies of the service. They are changed in the writing thread only; models are worked on in other processes.

ask:  writer (plan) → worker (step) → writer (commit)          tell:  writer
"""

import asyncio
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.errors import ConfigurationError, EbbtideError, StudyError, TrialError
from ebbtide.optimizer import Optimizer
from ebbtide.records import Recommendation, Trial
from ebbtide.service import workers
from ebbtide.service.queues import AskQueues
from ebbtide.service.reader import Reader
from ebbtide.service.workers import Workers
from ebbtide.service.writer import Writer
from ebbtide.study.asks import Plan, name_pending
from ebbtide.study.definition import Definition
from ebbtide.study.step import Step
from ebbtide.study.storage import Storage

T = TypeVar("T")
MAX_DEFINITION = 1 << 16  # characters: it is in every list of studies, and its names are in every observation
MAX_OPEN = 256  # studies kept in memory; the others are opened again when needed


@dataclass(frozen=True)
class OpenStudy:
    number: int  # in the database; no other study ever has the same
    optimizer: Optimizer


class Studies(Reader):
    def __init__(self, url: str, processes: int, max_studies: int, max_width: int) -> None:
        self.max_studies, self.max_width = max_studies, max_width
        self._storage = Storage.of(url, create=True)  # before the reader's: this one creates the file
        super().__init__(url)
        self._open: OrderedDict[str, OpenStudy] = OrderedDict()  # by name; used by the writing thread only
        self._writer = Writer(self._storage.database, self._open.clear)
        self._workers = Workers(processes, workers.NICENESS)
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
        """To be called before a space is made: one with a million choices takes hours to check."""
        if width > self.max_width:
            raise ConfigurationError(
                f"the space has {width} coordinates (a category counts one per choice), "
                f"and this service accepts at most {self.max_width}"
            )

    async def create(self, name: str, definition: Definition) -> dict[str, Any]:
        if (length := len(json.dumps(definition.to_json()))) > MAX_DEFINITION:
            raise ConfigurationError(
                f"the definition is {length} characters long, and this service accepts at most {MAX_DEFINITION}; "
                "shorten the names and the choices"
            )

        def make() -> None:
            if len(self._storage.names()) >= self.max_studies:
                raise StudyError(
                    f"there are {self.max_studies} studies already, the most that this service keeps; delete one first"
                )
            self._storage.create(name, definition)

        await self._write(make)
        return await self.study(name)

    async def delete(self, name: str) -> None:
        def remove() -> None:
            self._open.pop(name, None)
            self._storage.delete(name)

        await self._write(remove)
        self.notifier.announce(name)

    # --- verbs --------------------------------------------------------------------------------------------

    async def ask(self, name: str, lease: float | None) -> Trial:
        async with self._queues.of(name):
            trial = None
            while trial is None:  # another process may have asked meanwhile
                trial = await self._ask(name, lease)
        self.notifier.announce(name)
        return trial

    async def ask_many(self, name: str, n: int, lease: float | None) -> list[Trial]:
        """All of them: after an error, those that were made before it are called off."""
        trials: list[Trial] = []
        try:
            while len(trials) < n:
                trials.append(await self.ask(name, lease))
        except Exception as error:
            name_pending(error, [trial for trial in trials if not await self._call_off(name, trial)])
            raise
        return trials

    async def _call_off(self, name: str, trial: Trial) -> bool:
        """Tell that a trial was abandoned; whether that could be recorded."""
        try:
            await self.tell(name, trial.id, {"abandoned": True}, None, None)
        except EbbtideError:
            return False
        return True

    async def _ask(self, name: str, lease: float | None) -> Trial | None:
        def plan(study: OpenStudy) -> tuple[int, Plan, bytes]:
            plan = study.optimizer._plan()
            return study.number, plan, pickle.dumps(plan)

        def commit(study: OpenStudy) -> Trial | None:
            if study.number != number:  # deleted since, and created again
                return None
            return study.optimizer._commit(planned, step, lease)

        number, planned, packed = await self._change(name, plan)
        step: Step = await self._workers.do(workers.step, packed)
        return await self._change(name, commit)

    async def tell(
        self,
        name: str,
        trial: str | Mapping[str, Any],
        outcome: Mapping[str, Any],
        time: float | None,
        key: str | None,
    ) -> None:
        """Record a value for a trial, by its id, or for parameters; or that it failed or was abandoned."""

        def record(study: OpenStudy) -> None:
            asked = study.optimizer.trial(trial) if isinstance(trial, str) else trial
            study.optimizer.tell(asked, **outcome, time=time, key=key)

        await self._change(name, record)
        self.notifier.announce(name)

    async def recommend(self, name: str) -> Recommendation:
        def pack(study: OpenStudy) -> tuple[bytes, float]:
            plan = study.optimizer._plan()
            return pickle.dumps(plan.engine), plan.now

        packed, now = await self._change(name, pack)
        return await self._workers.do(workers.recommend, packed, now)

    async def model(self, name: str) -> dict[str, Any]:
        def describe(study: OpenStudy) -> dict[str, Any]:
            study.optimizer._plan()  # to catch up with other processes
            return wire.model(study.optimizer)

        return await self._write(lambda: self._with(name, describe))

    async def check(self) -> None:
        """An error unless both the writing and the reading thread can work."""
        await self._write(self._storage.names)
        await super().check()

    # --- in the writing thread ----------------------------------------------------------------------------

    async def _write(self, operation: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._writer.submit(operation))

    async def _change(self, name: str, change: Callable[[OpenStudy], T]) -> T:
        def by_our_clock(study: OpenStudy) -> T:
            if (clock := study.optimizer.definition.clock) != "SystemClock":
                raise StudyError(
                    f"the study {name!r} runs by a {clock}, which only its own program can read; "
                    "the service accepts studies that run by the system's clock"
                )
            return change(study)

        return await self._write(lambda: self._with(name, by_our_clock))

    def _with(self, name: str, use: Callable[[OpenStudy], T]) -> T:
        """An open study is not looked up: its optimizer notices a deletion when it catches up with the log.

        Another process may have deleted it, and created another of the same name: then that one is used.
        """
        study = self._opened(name)
        try:
            return use(study)
        except (StudyError, TrialError):
            self._open.pop(name, None)
            if self._storage.identify(name) == study.number:
                self._open[name] = study
                raise
            return use(self._opened(name))

    def _opened(self, name: str) -> OpenStudy:
        study = self._open.get(name)
        if study is None:
            study = OpenStudy(self._storage.identify(name), Optimizer.open(self._storage, name))
        self._open[name] = study
        self._open.move_to_end(name)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return study
