"""Two teams that share a service, each with a token of its own."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.direct import Direct, ThreadWorkers, running
from helpers.serving import Answer, storage_of

from ebbtide.service import viewer
from ebbtide.study.storage import Storage
from ebbtide.study.storage.tokens import SCOPES, create, revoke

ADMIN = "the-administrators-own-token"
SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
DISCONNECT_S = 0.2  # after which a client leaves that follows events


def make(path: Path, scopes: Any, prefix: str, name: str = "somebody") -> str:
    """A token, stored in a file that exists."""
    with closing(Storage.of(storage_of(path))) as storage:
        return create(storage.database, name, scopes, prefix)[0]


def take_back(path: Path, token: str) -> None:
    with closing(Storage.of(storage_of(path))) as storage:
        revoke(storage.database, token.split("_")[1])


@contextmanager
def shared(path: Path, token: str | None = ADMIN) -> Iterator[Direct]:
    """A service whose views come from a thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viewer, "Workers", ThreadWorkers)
        with running(path, token=token) as direct:
            yield direct


class Team:
    """Calls with a token, or without."""

    def __init__(self, direct: Direct, token: str = "") -> None:
        self.direct, self.token = direct, token

    def call(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        return self.direct.run(self.request(method, path, body, **more))

    async def request(self, method: str, path: str, body: object = None, **more: Any) -> Answer:
        headers = [(b"authorization", f"Bearer {self.token}".encode())] if self.token else []
        asked = self.direct.request(method, path, body, headers=headers, **more)
        if not path.endswith("/events"):
            return await asked
        try:
            async with asyncio.timeout(DISCONNECT_S):
                return await asked
        except TimeoutError:
            return Answer(200)  # it goes on

    def create(self, name: str, **options: Any) -> Answer:
        return self.call("POST", "/studies", {"name": name, "space": SPACE, "algorithm": "random", "seed": 0} | options)

    def names(self) -> list[str]:
        return [study["name"] for study in self.call("GET", "/studies").json["studies"]]

    def until(self, wanted: Callable[[], bool]) -> None:
        """Let the service go on until something is so."""
        for _ in range(600):
            if wanted():
                return
            self.direct.run(asyncio.sleep(0.05))
        raise AssertionError("it never was")


def everything(path: Path, prefix: str) -> str:
    return make(path, SCOPES, prefix)
