"""The service's application in this process, called as a server would call it: no socket, no other processes."""

import asyncio
import json
from contextlib import contextmanager

import pytest
from helpers.serving import PATIENCE_S, Answer

from ebbtide import service
from ebbtide.service import app, studies


class ThreadWorkers:
    """Workers in a thread, which need no imports to start."""

    def __init__(self, *_):
        pass

    def warm_up(self):
        pass

    async def do(self, work, *arguments):
        return await asyncio.to_thread(work, *arguments)

    def close(self):
        pass


class Direct:
    def __init__(self, app, runner):
        self.app, self.runner = app, runner
        self.addresses = iter(range(10**9))

    def run(self, coroutine):
        return self.runner.run(asyncio.wait_for(coroutine, PATIENCE_S))

    def call(self, *args, **kwargs):
        return self.run(self.request(*args, **kwargs))

    async def request(
        self,
        method,
        path,
        body=None,
        *,
        query="",
        address=None,
        receive=None,
        send=None,
        headers=(),
        host="localhost",
        content_type="application/json",
    ):
        """Every request comes from an address of its own, unless one is given."""
        sent, content = [], b"" if body is None else json.dumps(body).encode()
        messages = iter([{"type": "http.request", "body": content, "more_body": False}])

        async def honest():
            for message in messages:
                return message
            return await asyncio.Future()  # the client stays

        async def noted(message):
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
def running(path, **options):
    """The service of the studies in a file, from its start to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "Workers", ThreadWorkers)
        patch.setattr(app, "VIEWER_AFTER_S", 3600.0)
        application = service.application(f"sqlite:///{path}", **options)

    async def begin():
        said, heard = asyncio.Queue(), asyncio.Queue()
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
