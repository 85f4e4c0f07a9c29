"""The routes, as an ASGI application."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from ebbtide import wire
from ebbtide.errors import StorageError
from ebbtide.service.access import access_of, guard
from ebbtide.service.errors import ERRORS, answer_errors
from ebbtide.service.figures import Place, Scrapers
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import LOOPBACK, Limits, Middleware
from ebbtide.service.news import listen
from ebbtide.service.reader import Reader
from ebbtide.service.recorder import Recorder
from ebbtide.service.routes_bulk import bulk_routes
from ebbtide.service.routes_pages import is_public, page_routes
from ebbtide.service.routes_read import health_routes, read_routes
from ebbtide.service.routes_write import write_routes
from ebbtide.service.shortcut import Shortcut
from ebbtide.service.studies import Studies
from ebbtide.service.tokens import Tokens
from ebbtide.service.verbs import Verbs
from ebbtide.study.storage import Storage, place_of
from ebbtide.version import __version__

WORKERS_AFTER_S = 0.0
VIEWER_AFTER_S = 3.0  # later: a service that is restarted again and again must not spend its time on starting processes
READY_S = 30.0  # for the workers; after that a service says that it is ready, because it takes tells
LOOK_S = 0.05  # between two looks whether they are


def application(
    storage: str,
    *,
    token: str | None = None,
    hosts: Iterable[str] = LOOPBACK,
    any_address: bool = False,
    processes: int = 1,
    limits: Limits | None = None,
    access_log: bool = False,
    on_ready: Callable[[], None] = lambda: None,
) -> Recorder:
    """The service of the studies in `storage`. Without a token it must be reachable from this machine only.

    `on_ready` is called once the workers can answer; until then tells are taken already, and asks wait.
    """
    if token is not None:
        wire.check_token(token)
    limits = limits or Limits()
    studies = Studies(storage, processes, limits)
    metrics = Metrics()
    tokens = Tokens(token, studies.tokens())
    later = {WORKERS_AFTER_S: studies.start_workers, VIEWER_AFTER_S: studies.viewer.start}
    news = partial(listen, storage, studies.notifier)
    app = _app(studies, later, [_once_ready(studies, on_ready), lambda: tokens.watch(studies.read), news])
    verbs = Verbs(studies, limits, metrics)
    app.include_router(writing := write_routes(studies, verbs))
    app.include_router(bulk_routes(verbs, place_of(storage)))
    app.include_router(read_routes(studies, limits, tokens.accepts))
    app.include_router(health_routes(studies))
    app.include_router(_metrics_route(studies, metrics))
    app.include_router(page_routes(studies, "service"))
    answer_errors(app, place_of(storage))
    _document_token(app)
    guarded = Middleware(
        Shortcut(app, verbs, writing.routes, place_of(storage)),
        access=tokens.access,
        hosts=hosts,
        any_address=any_address,
        limits=limits,
        is_public=is_public,
        refusal=studies.refusal,
    )
    return Recorder(guarded, metrics, access_log)


def read_only_application(storage: str) -> Recorder:
    """The dashboard of the studies in `storage`, for this machine; it can change nothing."""
    reader, limits = Reader(storage), Limits()
    app = _app(reader, {0.0: reader.viewer.start}, [partial(listen, storage, reader.notifier)])
    app.include_router(read_routes(reader, limits, lambda access: True))
    app.include_router(health_routes(reader))
    app.include_router(page_routes(reader, "file"))
    answer_errors(app, place_of(storage))
    everybody = Tokens(None).access  # whoever can read the file, which is why tokens in it do not matter
    guarded = Middleware(
        app, access=everybody, hosts=LOOPBACK, any_address=False, limits=limits, refusal=reader.refusal
    )
    return Recorder(guarded, Metrics())


def _once_ready(studies: Studies, act: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def wait() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                while not studies.workers_ready:
                    await asyncio.sleep(LOOK_S)
        act()

    return wait


def _app(
    reader: Reader,
    later: Mapping[float, Callable[[], None]],
    beside: Iterable[Callable[[], Coroutine[Any, Any, None]]] = (),
) -> FastAPI:
    """`later` maps seconds after the start to what is to be done then; `beside` run while requests are served."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Handle | asyncio.Task[None]] = [
            loop.call_later(seconds, act) for seconds, act in later.items()
        ]
        waiting += [asyncio.create_task(run()) for run in beside]
        yield
        for each in waiting:
            each.cancel()
        reader.close()

    return FastAPI(
        title="ebbtide",
        version=__version__,
        description="Bayesian optimization for objectives that drift: ask what to try, tell what you measured.",
        lifespan=lifespan,
        dependencies=[Depends(guard)],
        docs_url=None,  # it would fetch its scripts from another site
        redoc_url=None,
        redirect_slashes=False,  # one path per route
    )


def _metrics_route(studies: Studies, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=ERRORS)

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "for Prometheus"}},
        summary="Figures for Prometheus",
    )
    async def scrape(request: Request) -> Response:
        metrics.oldest_ask.set(studies.oldest_wait)
        scraped = _Scraped(access_of(request.scope).prefix, metrics, scrapers)
        return Response(await studies.read_shared(scraped), media_type=CONTENT_TYPE_LATEST)

    scrapers = Scrapers()
    return routes


@dataclass(frozen=True)
class _Scraped:
    """What the holders of tokens with the same prefix share."""

    prefix: str
    metrics: Metrics
    scrapers: Scrapers

    def __call__(self, storage: Storage) -> bytes:
        try:
            found = self.scrapers.of(self.prefix).read(storage)
        except StorageError:  # a scrape that failed could not say why
            found = None
        if self.prefix:
            return self.metrics.text_of_studies(found)
        return self.metrics.text(found, Place.of(storage.database))


def _document_token(app: FastAPI) -> None:
    """The middleware checks the token; the OpenAPI document says so, for generated clients."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]  # or none, where the service has none
