"""The service's application in this process, called as a server would call it: no socket, no other processes."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest
from helpers.serving import PATIENCE_S, Answer, storage_of

from ebbtide import service
from ebbtide.service import app, studies

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Message = MutableMapping[str, Any]


class ThreadWorkers:
    """Workers in a thread, which need no imports to start."""

    def __init__(self, *_: object) -> None:
        self.processes = self.alive = 1

    def start(self) -> None:
        pass

    async def do(self, study: str, size: int, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        return await asyncio.to_thread(work, *arguments)

    async def use(self, study: str, size: int, use: Callable[["ThreadWorker"], T]) -> T:
        return await asyncio.to_thread(use, ThreadWorker())

    def close(self) -> None:
        pass


class ThreadWorker:
    def do(self, work: Callable[[*Ts], T], *arguments: *Ts, seconds: float | None = None) -> T:
        return work(*arguments)


class Direct:
    def __init__(self, app: Any, runner: asyncio.Runner) -> None:
        self.app, self.runner = app, runner
        self.addresses = iter(range(10**9))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(coroutine, PATIENCE_S))

    def call(self, *args: Any, **kwargs: Any) -> Answer:
        return self.run(self.request(*args, **kwargs))

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: str = "",
        address: str | None = None,
        receive: Callable[[], Coroutine[Any, Any, Message]] | None = None,
        send: Callable[[Message], Coroutine[Any, Any, None]] | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
        host: str = "localhost",
        content_type: str = "application/json",
    ) -> Answer:
        """Every request comes from an address of its own, unless one is given."""
        sent: list[Message] = []
        content = b"" if body is None else json.dumps(body).encode()
        messages: Iterator[Message] = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def honest() -> Message:
            for message in messages:
                return message
            return await asyncio.Future[Message]()  # the client stays

        async def noted(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "headers": [(b"host", host.encode()), (b"content-type", content_type.encode()), *headers],
            "client": (address or f"10.0.0.{next(self.addresses)}", 1),
            "server": ("127.0.0.1", 8411),
        }
        await self.app(scope, receive or honest, send or noted)
        if not sent:
            return Answer(None)
        given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], given, b"".join(message.get("body", b"") for message in sent[1:]))


@contextmanager
def running(path: str | Path, **options: Any) -> Iterator[Direct]:
    """The service of the studies in a file, from its start to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "Workers", ThreadWorkers)
        patch.setattr(app, "VIEWER_AFTER_S", 3600.0)
        application = service.application(storage_of(path), **options)

    async def begin() -> tuple[asyncio.Task[None], asyncio.Queue[Message]]:
        said, heard = asyncio.Queue[Message](), asyncio.Queue[Message]()
        task = asyncio.create_task(application({"type": "lifespan", "asgi": {"version": "3.0"}}, said.get, heard.put))
        await said.put({"type": "lifespan.startup"})
        assert (await heard.get())["type"] == "lifespan.startup.complete"
        return task, said

    with asyncio.Runner() as runner:
        task, said = runner.run(begin())
        try:
            yield Direct(application, runner)
        finally:
            runner.run(said.put({"type": "lifespan.shutdown"}))
            runner.run(asyncio.wait_for(task, PATIENCE_S))
