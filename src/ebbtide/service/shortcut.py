"""Asks and tells that are in order, past FastAPI, which would take longer to find their route and to read their bodies
than everything else that the service does for them.

Whatever is not in order (a body that does not fit the schema, a token without the scope, another study) is left to the
ordinary routes, which refuse it.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.routing import BaseRoute, Route

from ebbtide.service import schemas
from ebbtide.service.access import NEEDS, access_of
from ebbtide.service.errors import answered
from ebbtide.service.middleware import Message, Receive, Send, replayed
from ebbtide.service.verbs import Verbs

PATH = re.compile(r"/studies/([^/]+)/(ask|tell)")
IDEMPOTENCY_KEY = b"idempotency-key"
BODIES: dict[str, type[schemas.AskFor | schemas.Tell]] = {"ask": schemas.AskFor, "tell": schemas.Tell}


class Shortcut:
    """`routes` are those of asks and tells, and others; `path` is the database's, which no answer shows."""

    def __init__(self, app: FastAPI, verbs: Verbs, routes: Iterable[BaseRoute], path: str) -> None:
        self.app, self.verbs, self.path = app, verbs, path
        self.routes = {route.name: route for route in routes if isinstance(route, Route) and route.name in BODIES}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        found = PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None or not _may(scope, *found.groups()):
            await self.app(scope, receive, send)
            return
        name, verb = found.groups()
        content = (await receive())["body"]  # all of it: the middleware has waited for that
        try:
            body = BODIES[verb].model_validate(json.loads(content) if content or verb == "tell" else {})
        except (ValidationError, ValueError, RecursionError):
            await self.app(scope, replayed(content, receive), send)
            return
        scope["route"], scope["path_params"] = self.routes[verb], {"name": name}
        try:
            answer: Response = JSONResponse(await self._do(name, body))
        except Exception as error:
            answer = answered(scope, error, name, self.path)
        await answer(scope, receive, send)

    async def _do(self, name: str, body: schemas.AskFor | schemas.Tell) -> dict[str, Any]:
        if isinstance(body, schemas.AskFor):
            return await self.verbs.ask(name, body)
        return await self.verbs.tell(name, body)


def _may(scope: Message, name: str, verb: str) -> bool:
    """Whether the token allows it; a key in a header is for the ordinary route."""
    access = access_of(scope)
    allowed = access.allows(NEEDS["POST", f"/studies/{{name}}/{verb}"]) and access.covers(name)
    return allowed and all(header != IDEMPOTENCY_KEY for header, _ in scope["headers"])
