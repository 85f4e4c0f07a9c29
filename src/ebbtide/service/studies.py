"""The studies of the service. They are changed in the writing thread only; models are worked on in other processes.

ask:  writer (plan) → worker (step) → writer (commit)          tell:  writer

After a few asks of other processes that came first, the writer keeps them waiting: writer (plan → worker → commit). In
PostgreSQL, only their asks of the same study wait, for a turn.
"""

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from ebbtide import wire
from ebbtide.errors import (
    BusyError,
    ConfigurationError,
    EbbtideError,
    ServiceError,
    StorageError,
    StudyError,
    TrialError,
)
from ebbtide.records import Recommendation, Trial
from ebbtide.service import workers
from ebbtide.service.access import Access
from ebbtide.service.followed import FollowedOptimizer
from ebbtide.service.health import PATIENCE_S, Probe
from ebbtide.service.middleware import Limits
from ebbtide.service.queues import AskQueues
from ebbtide.service.reader import Reader
from ebbtide.service.turns import Turns
from ebbtide.service.worker import Worker, compute_recommendation, compute_step, packed
from ebbtide.service.workers import Workers
from ebbtide.service.writer import Writer
from ebbtide.study.asks import Plan, name_pending
from ebbtide.study.definition import Definition
from ebbtide.study.storage import Storage
from ebbtide.study.storage.tokens import Token, stored
from ebbtide.study.storage.urls import is_postgresql

T = TypeVar("T")
MAX_DEFINITION = 1 << 16  # characters: it is in every list of studies, and its names are in every observation
MAX_OPEN = 256  # studies kept in memory; the others are opened again when needed
ANSWER_S = 25.0  # for an ask or a recommendation, whatever it waits for
HEALTH = "/health"  # instead of a study; no name has a slash
RACES = 2  # how often other processes may overtake an ask before it makes them wait
ALONE_S = 5.0  # for which they may have to wait, and with them every tell


@dataclass(frozen=True)
class OpenStudy:
    number: int  # in the database; no other study ever has the same
    optimizer: FollowedOptimizer


class Studies(Reader):
    def __init__(self, url: str, processes: int, limits: Limits) -> None:
        self.limits = limits
        self._storage = Storage.of(url, create=True)  # before the reader's: this one creates the file
        super().__init__(url)
        self._open: OrderedDict[str, OpenStudy] = OrderedDict()  # by name; used by the writing thread only
        self._writer = Writer(self._storage.database, self._undone, self._tend)
        self._workers = Workers(processes, workers.NICENESS)
        self._queues = AskQueues()
        self._turns = Turns(url) if is_postgresql(url) else None  # in a file, whoever records keeps all others waiting
        self.probes += [
            Probe("the writing thread", lambda: self._write(self._storage.database.touch)),
            Probe("the worker processes", lambda: self._workers.do(HEALTH, 0, os.getpid)),
        ]

    def tokens(self) -> list[Token]:
        """To be called before requests come: from then on, the writing thread uses this connection."""
        return stored(self._storage.database)

    def start_workers(self) -> None:
        self._workers.start()

    @property
    def workers_alive(self) -> int:
        """How many workers can begin at once, or are at work."""
        return self._workers.alive

    @property
    def workers_ready(self) -> bool:
        return self._workers.alive == self._workers.processes

    @property
    def oldest_wait(self) -> float:
        """Seconds since the oldest ask without an answer came; 0 if all are answered."""
        return self._queues.oldest_wait

    def close(self) -> None:
        self._workers.close()
        self._writer.close()
        super().close()
        if self._turns is not None:
            self._turns.close()
        self._storage.close()

    # --- studies ------------------------------------------------------------------------------------------

    def check_width(self, width: int) -> None:
        """To be called before a space is made: one with a million choices takes hours to check."""
        if width > self.limits.width:
            raise ConfigurationError(
                f"the space has {width} coordinates (a category counts one per choice), "
                f"and this service accepts at most {self.limits.width}"
            )

    async def create(self, name: str, definition: Definition, access: Access) -> dict[str, Any]:
        if (length := len(json.dumps(definition.to_json()))) > MAX_DEFINITION:
            raise ConfigurationError(
                f"the definition is {length} characters long, and this service accepts at most {MAX_DEFINITION}; "
                "shorten the names and the choices"
            )

        def make() -> None:
            if self._storage.count() >= self.limits.studies:
                raise StudyError(
                    f"there are {self.limits.studies} studies already, the most that this service keeps; "
                    "delete one first"
                    if access.sees_all
                    else "this service has no room for another study; delete one first, or ask whoever runs it"
                )
            self._storage.create(name, definition)

        await self._write(make, name)
        return await self.study(name)

    async def delete(self, name: str) -> None:
        def remove() -> None:
            self._open.pop(name, None)
            self._storage.delete(name)

        await self._write(remove, name)
        self.notifier.announce(name)

    # --- verbs --------------------------------------------------------------------------------------------

    async def ask(
        self, name: str, lease: float | None, context: Mapping[str, Any] | None = None, n: int = 1
    ) -> list[Trial]:
        """All of them: after an error, those that were made before it are called off."""
        trials: list[Trial] = []
        try:
            async with _in_time():
                while len(trials) < n:
                    trials.append(await self._next_trial(name, lease, context))
        except Exception as error:
            name_pending(error, [trial for trial in trials if not await self._call_off(name, trial)])
            raise
        return trials

    async def _next_trial(self, name: str, lease: float | None, context: Mapping[str, Any] | None) -> Trial:
        async with self._queues.of(name):
            trial, lost = None, 0
            while trial is None:  # another process may have asked meanwhile
                ask = self._ask if lost < RACES else self._ask_alone if self._turns is None else self._ask_in_turn
                trial = await ask(name, lease, context)
                lost += 1
        self.notifier.announce(name)
        return trial

    async def _call_off(self, name: str, trial: Trial) -> bool:
        """Tell that a trial was abandoned; whether that could be recorded."""
        try:
            await self.tell(name, trial.id, {"abandoned": True}, None, None)
        except EbbtideError:
            return False
        return True

    async def _ask(
        self, name: str, lease: float | None, context: Mapping[str, Any] | None, insisting: bool = False
    ) -> Trial | None:
        """None if another process has asked meanwhile, or insists on being the next who does."""

        def plan(study: OpenStudy) -> tuple[int, Plan, bytes] | None:
            if not insisting and self._storage.database.is_taken(name):
                return None
            plan = self._plan(name, study, context)
            return study.number, plan, packed(study.optimizer.news(name, whole=whole), plan)

        def commit(study: OpenStudy) -> Trial | None:
            if step is None or study.number != number:  # deleted since, and created again
                return None
            return study.optimizer._commit(planned, step, lease)

        step, whole = None, False
        while step is None:
            if (found := await self._change(name, plan)) is None:
                return None
            number, planned, work = found
            step = await self._workers.do(name, len(planned.engine.active), compute_step, work)
            whole = True  # if the worker does not know what the news build on
        return await self._change(name, commit)

    async def _ask_in_turn(self, name: str, lease: float | None, context: Mapping[str, Any] | None) -> Trial | None:
        """Other replicas wait with their asks of this study, and with nothing else."""
        async with self._turns.of(name) if self._turns is not None else nullcontext():
            return await self._ask(name, lease, context, insisting=True)

    async def _ask_alone(self, name: str, lease: float | None, context: Mapping[str, Any] | None) -> Trial | None:
        """In one transaction, so that other processes wait. The worker is chosen first: nobody waits for that."""

        def ask(study: OpenStudy, worker: Worker) -> Trial | None:
            plan = self._plan(name, study, context)
            news = study.optimizer.news(name, whole=True)
            step = worker.do(compute_step, packed(news, plan), seconds=ALONE_S)
            return None if step is None else study.optimizer._commit(plan, step, lease)

        def with_worker(worker: Worker) -> Trial | None:
            return self._submit(name, lambda study: ask(study, worker)).result()

        return await self._workers.use(name, 0, with_worker)

    def _plan(self, name: str, study: OpenStudy, context: Mapping[str, Any] | None) -> Plan:
        """An error if the model would be too large to be computed in time."""
        plan = study.optimizer._plan(context=context)
        capacity, size = study.optimizer.algorithm.staleness.capacity, len(plan.engine.active)
        if size > self.limits.active and (capacity is None or capacity > self.limits.active):
            raise ConfigurationError(
                f"the algorithm of {name!r} keeps all of its {size} observations, and this service computes models of "
                f'at most {self.limits.active}: create a study with an algorithm that forgets, such as "tide", or use '
                "this one in a program of your own, with eb.Optimizer.open"
            )
        return plan

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

    async def recommend(
        self, name: str, context: Mapping[str, Any] | None = None, current: Mapping[str, Any] | None = None
    ) -> Recommendation:
        def pack(study: OpenStudy) -> tuple[int, bytes]:
            plan = self._plan(name, study, context)
            in_force = None if current is None else study.optimizer.space.check(current)
            return len(plan.engine.active), packed(study.optimizer.news(name, whole=whole), plan, in_force)

        async with _in_time():
            found, whole = None, False
            while found is None:
                size, work = await self._change(name, pack)
                found = await self._workers.do(name, size, compute_recommendation, work)
                whole = True
            return found

    async def model(self, name: str) -> dict[str, Any]:
        def describe(study: OpenStudy) -> dict[str, Any]:
            study.optimizer._catch_up()
            return wire.model(study.optimizer)

        return await self._write(lambda: self._with(name, describe), name)

    async def check(self) -> None:
        if (oldest := self.oldest_wait) > PATIENCE_S:
            raise ServiceError(f"an ask has been waiting for {oldest:.0f} s; asks are stuck, or far too many")
        if (failure := self._writer.recent_failure) is not None:
            raise StorageError(str(failure)) from failure
        await super().check()

    # --- in the writing thread ----------------------------------------------------------------------------

    def _undone(self) -> None:
        """Nothing of a batch was written: what is in memory may be wrong, and the file may be gone."""
        self._open.clear()
        self.tend()

    def _tend(self) -> None:
        """While there is nothing to write: let go of files that were deleted, moved or replaced."""
        self.tend()
        self._storage.database.tend()

    async def _write(self, operation: Callable[[], T], study: str | None = None) -> T:
        return await asyncio.wrap_future(self._writer.submit(operation, study))

    async def _change(self, name: str, change: Callable[[OpenStudy], T]) -> T:
        return await asyncio.wrap_future(self._submit(name, change))

    def _submit(self, name: str, change: Callable[[OpenStudy], T]) -> "Future[T]":
        def by_our_clock(study: OpenStudy) -> T:
            if (clock := study.optimizer.definition.clock) != "SystemClock":
                raise StudyError(
                    f"the study {name!r} runs by a {clock}, which only its own program can read; "
                    "the service accepts studies that run by the system's clock"
                )
            return change(study)

        return self._writer.submit(lambda: self._with(name, by_our_clock), name)

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
            study = OpenStudy(self._storage.identify(name), FollowedOptimizer.open(self._storage, name))
        self._open[name] = study
        self._open.move_to_end(name)
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return study


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ANSWER_S):
            yield
    except TimeoutError:
        raise BusyError(
            f"there was no answer within {ANSWER_S:g} s: the machine is busy, the models of many studies are waiting, "
            "or another process keeps the database locked; try again in a moment"
        ) from None
