"""The routes, as an ASGI application."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from ebbtide import wire
from ebbtide.service.errors import ERRORS, answer_errors
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import LOOPBACK, App, Limits, Middleware
from ebbtide.service.reader import Reader
from ebbtide.service.routes_pages import is_public, pages
from ebbtide.service.routes_read import health, reads
from ebbtide.service.routes_write import verbs
from ebbtide.service.studies import Studies
from ebbtide.study.storage.database import path_of
from ebbtide.version import __version__

# Not at once: a service that is started again and again must not spend itself on processes.
WARM_UP_AFTER_S = 0.5
VIEWER_AFTER_S = 3.0


def application(
    storage: str,
    *,
    token: str | None = None,
    hosts: Iterable[str] = LOOPBACK,
    any_address: bool = False,
    processes: int = 1,
    limits: Limits | None = None,
) -> App:
    """The service of the studies in `storage`. Without a token it must be reachable from this machine only."""
    if token is not None:
        wire.check_token(token)
    limits = limits or Limits()
    studies = Studies(storage, processes, limits.studies, limits.width)
    metrics = Metrics()
    app = _app(studies, {WARM_UP_AFTER_S: studies.warm_up, VIEWER_AFTER_S: studies.viewer.warm_up})
    app.include_router(verbs(studies, limits))
    app.include_router(reads(studies, limits))
    app.include_router(health(studies))
    app.include_router(_for_prometheus(studies, metrics))
    app.include_router(pages(studies, "service"))
    answer_errors(app, str(path_of(storage)))
    _document_token(app)
    return Middleware(
        _measured(app, metrics), token=token, hosts=hosts, any_address=any_address, limits=limits, is_public=is_public
    )


def looking(storage: str) -> App:
    """The pages of the studies in `storage`, for this machine; nothing can be changed there."""
    reader, limits = Reader(storage), Limits()
    app = _app(reader, {0.0: reader.viewer.warm_up})
    app.include_router(reads(reader, limits))
    app.include_router(health(reader))
    app.include_router(pages(reader, "file"))
    answer_errors(app, str(path_of(storage)))
    return Middleware(_measured(app, Metrics()), token=None, hosts=LOOPBACK, any_address=False, limits=limits)


def _app(reader: Reader, later: Mapping[float, Callable[[], None]]) -> FastAPI:
    """`later` is what is to be done so many seconds after the start."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        waiting = [loop.call_later(seconds, act) for seconds, act in later.items()]
        yield
        for each in waiting:
            each.cancel()
        reader.close()

    return FastAPI(
        title="ebbtide",
        version=__version__,
        description="Bayesian optimization for objectives that drift: ask for a query, tell its value, for weeks.",
        lifespan=lifespan,
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # one path each; what is not there is not there
    )


def _for_prometheus(studies: Studies, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=ERRORS)

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "for Prometheus"}},
        summary="Figures for Prometheus",
    )
    async def scrape() -> Response:
        return Response(metrics.text(await studies.summaries()), media_type=CONTENT_TYPE_LATEST)

    return routes


def _document_token(app: FastAPI) -> None:
    """The gate looks at the token; the document says so, for those who generate clients from it."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]  # or none, where the service has none


def _measured(app: App, metrics: Metrics) -> App:
    """Count what is answered, by route; what matches none is counted together."""

    async def measured(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        began = time.perf_counter()

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "other")
                method = scope["method"] if route != "other" else "other"
                metrics.answered(method, route, message["status"], time.perf_counter() - began)
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        await app(scope, receive, noting)

    return measured
