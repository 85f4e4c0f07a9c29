"""The routes, as an ASGI application."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from ebbtide import wire
from ebbtide.definition import define
from ebbtide.errors import (
    EbbtideError,
    NumericalError,
    ObservationError,
    ParameterError,
    SnapshotError,
    StorageError,
    StudyError,
    TrialError,
    UnknownStudyError,
)
from ebbtide.service import events, schemas
from ebbtide.service.desk import Desk
from ebbtide.service.gate import LOOPBACK, App, Gate, Limits, error_body
from ebbtide.service.metrics import Metrics
from ebbtide.service.turns import BusyError
from ebbtide.service.workshop import WorkshopError
from ebbtide.space import Space
from ebbtide.storage.database import path_of
from ebbtide.version import __version__

MAX_PAGE = 10_000
WARM_UP_AFTER_S = 0.5
EVERYWHERE = {
    400: "what was sent cannot be read",
    401: "the token is missing or wrong",
    403: "a page of another site may not write here",
    408: "the body did not come",
    413: "the body is too long",
    415: "the body is not JSON",
    421: "the service does not go by that name",
    422: "what was sent does not fit",
    429: "too many requests",
    431: "the head of the request is too long",
    503: "the service cannot do that now",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": why} for status, why in EVERYWHERE.items()
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Error, "description": "no such study"}}
CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": schemas.Error, "description": "it contradicts the log"}}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "asked and told, as they happen", "content": {"text/event-stream": {}}}
}

# The first that fits
STATUS: tuple[tuple[type[EbbtideError], int], ...] = (
    (UnknownStudyError, 404),
    (StudyError, 409),
    (TrialError, 409),
    (SnapshotError, 409),  # a study whose algorithm is somebody's own
    (StorageError, 503),
    (NumericalError, 503),
    (BusyError, 503),
    (WorkshopError, 503),
    (EbbtideError, 422),
)


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
    desk = Desk(storage, processes, limits.studies, limits.width)
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Not at once: a service that is started again and again must not spend itself on workers.
        warming = asyncio.get_running_loop().call_later(WARM_UP_AFTER_S, desk.warm_up)
        yield
        warming.cancel()
        desk.close()

    app = FastAPI(
        title="ebbtide",
        version=__version__,
        description="Bayesian optimization for objectives that drift: ask for a query, tell its value, for weeks.",
        lifespan=lifespan,
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # one path each; what is not there is not there
    )
    app.include_router(_studies(desk, limits))
    app.include_router(_service(desk, metrics))
    _answer_errors(app, str(path_of(storage)))
    _document_token(app)
    return Gate(_measured(app, metrics), token=token, hosts=hosts, any_address=any_address, limits=limits)


def _studies(desk: Desk, limits: Limits) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.post("", status_code=201, response_model=schemas.Study, responses=CONFLICT, summary="Create a study")
    async def create(study: schemas.NewStudy) -> Response:
        desk.check_width(study.width)
        space = Space.from_json({name: parameter.model_dump() for name, parameter in study.space.items()})
        definition = define(space, study.direction, study.algorithm, None, study.seed, study.n_initial)
        return JSONResponse(await desk.create(study.name, definition), status_code=201)

    @routes.get("", response_model=schemas.Studies, summary="All studies")
    async def studies() -> Response:
        return JSONResponse({"studies": await desk.studies()})

    @routes.get("/{name}", response_model=schemas.Study, responses=UNKNOWN, summary="A study at a glance")
    async def study(name: str) -> Response:
        return JSONResponse(await desk.study(name))

    @routes.delete("/{name}", status_code=204, responses=UNKNOWN, summary="Delete a study and all that was told")
    async def delete(name: str) -> Response:
        await desk.delete(name)
        return Response(status_code=204)

    @routes.post(
        "/{name}/ask",
        response_model=schemas.Trial | schemas.Trials,
        responses=UNKNOWN | CONFLICT,
        summary="What to measure next",
    )
    async def ask(name: str, wanted: schemas.AskFor | None = None) -> Response:
        n, lease = (None, None) if wanted is None else (wanted.n, wanted.lease)
        if n is None:
            return JSONResponse(wire.trial(await desk.ask(name, lease)))
        if n > limits.trials:
            raise ObservationError(f"n={n}: this service gives {limits.trials} trials at most at once")
        trials = [await desk.ask(name, lease) for _ in range(n)]
        return JSONResponse({"trials": [wire.trial(trial) for trial in trials]})

    @routes.post("/{name}/tell", response_model=schemas.Told, responses=UNKNOWN | CONFLICT, summary="What was measured")
    async def tell(
        name: str,
        said: schemas.Tell,
        key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
    ) -> Response:
        what = said.id if said.params is None else said.params if said.id is None else None
        if what is None:
            raise ObservationError('tell either the "id" of a trial, or the "params" that were measured')
        if (given := len(said.params or ())) > limits.width:
            raise ParameterError(f"{given} parameters, and this service takes {limits.width} at most")
        await desk.tell(name, what, said.value, said.failed, said.time, said.idempotency_key or key)
        return JSONResponse({"told": True})

    @routes.get(
        "/{name}/recommend",
        response_model=schemas.Recommendation,
        responses=UNKNOWN | CONFLICT,
        summary="The best now, by the model",
    )
    async def recommend(name: str) -> Response:
        return JSONResponse(wire.recommendation(await desk.recommend(name)))

    @routes.get(
        "/{name}/observations",
        response_model=schemas.Observations,
        responses=UNKNOWN,
        summary="What was told, a page at a time",
    )
    async def observations(
        name: str,
        start: Annotated[int, Query(ge=0, lt=2**63, description="the line to start from")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1000,
        active: Annotated[bool | None, Query(description="only those that the model sees, or only the others")] = None,
    ) -> Response:
        page = await desk.page(name, start, limit, active)
        shown = [wire.observation(line, told) for line, told in page.observations]
        return JSONResponse({"observations": shown, "next": page.next})

    @routes.get(
        "/{name}/state", response_model=schemas.Model, responses=UNKNOWN | CONFLICT, summary="What the model believes"
    )
    async def model(name: str) -> Response:
        return JSONResponse(await desk.model(name))

    listening = 0

    @routes.get(
        "/{name}/events",
        response_class=StreamingResponse,
        responses=UNKNOWN | STREAM,
        summary="What happens, as server-sent events",
    )
    async def follow(
        name: str,
        since: Annotated[str | None, Header(alias="Last-Event-ID", description="asks.tells that were seen")] = None,
    ) -> Response:
        nonlocal listening
        study = await desk.study(name)
        cursor = (study["asked"], study["told"]) if since is None else events.parse(since)
        if cursor is None:
            raise ObservationError(f"Last-Event-ID={since!r}: give the id of an event, such as 12.11")
        if listening >= limits.streams:
            raise BusyError(f"{listening} streams are open already, the most that this service serves")

        def ended() -> None:
            nonlocal listening
            listening -= 1

        listening += 1  # with nothing to wait for since it was looked at
        return Stream(events.stream(desk, name, cursor), ended)

    return routes


class Stream(StreamingResponse):
    """Events, until they or the reader end; then that is said."""

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self.ended = ended

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.ended()


def _service(desk: Desk, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=ERRORS)

    @routes.get("/healthz", response_model=schemas.Health, summary="Whether all is well")
    async def healthz() -> Response:
        await desk.check()
        return JSONResponse({"status": "ok", "version": __version__})

    @routes.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "for Prometheus"}},
        summary="Figures for Prometheus",
    )
    async def scrape() -> Response:
        return Response(metrics.text(await desk.summaries()), media_type=CONTENT_TYPE_LATEST)

    return routes


def _document_token(app: FastAPI) -> None:
    """The gate looks at the token; the document says so, for those who generate clients from it."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]  # or none, where the service has none


# --- errors: one shape, and never a traceback --------------------------------------------------------------------


def _answer_errors(app: FastAPI, path: str) -> None:
    def refused(request: Request, error: Exception) -> Response:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        headers = {"Retry-After": "1"} if status == 503 else None
        said = str(error)
        if said.startswith(f"{path}:"):  # where the database is, is not for everybody
            said = "the database" + said.removeprefix(path)
        return JSONResponse(error_body(type(error).__name__, said), status, headers)

    def unfit(request: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        # What was sent is not repeated: it may be anything, and long.
        said = "; ".join(f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:10])
        return JSONResponse(error_body("ValidationError", said or "the request cannot be read"), 422)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = f"{request.method} {request.scope['path']}: {HTTPStatus(status).phrase.lower()}"
        headers = dict(getattr(error, "headers", None) or {})
        if status == 405:  # of all routes with that path, not only of the first
            path = getattr(request.scope.get("route"), "path", "")
            headers["Allow"] = ", ".join(sorted(map(str.upper, app.openapi()["paths"].get(path, ()))))
        return JSONResponse(error_body(HTTPStatus(status).phrase, said), status, headers)

    def broken(request: Request, error: Exception) -> Response:
        return JSONResponse(error_body("InternalError", "the service met an error of its own; its log has it"), 500)

    app.add_exception_handler(EbbtideError, refused)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Exception, broken)


def _place(location: Iterable[int | str]) -> str:
    return ".".join(str(part).encode("ascii", "backslashreplace").decode()[:50] for part in location)


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
