"""The routes that only read: the same for `ebbtide serve` and for `ebbtide dashboard`."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ebbtide import wire
from ebbtide.errors import BusyError, ObservationError
from ebbtide.service import events, schemas
from ebbtide.service.errors import ERRORS, UNKNOWN
from ebbtide.service.middleware import Limits
from ebbtide.service.reader import Reader
from ebbtide.version import __version__

MAX_PAGE = 10_000
OK = {"status": "ok", "version": __version__}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "asks and tells, as they happen", "content": {"text/event-stream": {}}}
}


def read_routes(reader: Reader, limits: Limits) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.get("", response_model=schemas.Studies, summary="All studies")
    async def studies() -> Response:
        summaries, damaged = await reader.overview()
        names = [{"name": study.name} for study in damaged]
        return JSONResponse({"studies": list(map(wire.study, summaries)), "damaged": names})

    @routes.get("/{name}", response_model=schemas.Study, responses=UNKNOWN, summary="One study")
    async def study(name: str) -> Response:
        return JSONResponse(await reader.study(name))

    @routes.get(
        "/{name}/observations",
        response_model=schemas.Observations,
        responses=UNKNOWN,
        summary="Observations, a page at a time",
    )
    async def observations(
        name: str,
        start: Annotated[int, Query(ge=0, lt=2**63, description="the first line")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 1000,
        active: Annotated[
            bool | None, Query(description="only those that the model sees (true), or only the others (false)")
        ] = None,
    ) -> Response:
        page = await reader.page(name, start, limit, active)
        lines = [wire.observation(line, observation) for line, observation in page.observations]
        return JSONResponse({"observations": lines, "next": page.next})

    @routes.get("/{name}/trials/{trial_id}", response_model=schemas.Trial, responses=UNKNOWN, summary="One trial")
    async def trial(name: str, trial_id: str) -> Response:
        return JSONResponse(wire.trial(await reader.trial(name, trial_id)))

    streams = 0

    @routes.get(
        "/{name}/events",
        response_class=StreamingResponse,
        responses=UNKNOWN | STREAM,
        summary="Asks and tells, as server-sent events",
    )
    async def follow(
        name: str,
        since: Annotated[str | None, Header(alias="Last-Event-ID", description="id of the last event seen")] = None,
    ) -> Response:
        nonlocal streams
        study = await reader.study(name)
        cursor = (study["asked"], study["told"]) if since is None else events.parse(since)
        if cursor is None:
            raise ObservationError(f"Last-Event-ID={since!r}: give the id of an event, such as 12.11")
        if streams >= limits.streams:
            raise BusyError(
                f"{streams} event streams are already open, as many as this service allows; try again later"
            )

        def ended() -> None:
            nonlocal streams
            streams -= 1

        streams += 1  # nothing was awaited since the check
        return Stream(events.stream(reader, name, cursor), ended)

    return routes


class Stream(StreamingResponse):
    """Events until the study or the client is gone; then `ended` is called."""

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self.ended = ended

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.ended()


def health_routes(reader: Reader) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=ERRORS)

    @routes.get("/livez", response_model=schemas.Health, summary="Whether the service runs: if not, start it again")
    async def livez() -> Response:
        return JSONResponse(OK)

    @routes.get("/readyz", response_model=schemas.Health, summary="Whether the service can do its work")
    async def readyz() -> Response:
        await reader.check()
        return JSONResponse(OK)

    @routes.get("/healthz", response_model=schemas.Health, summary="The same as /readyz")
    async def healthz() -> Response:
        return await readyz()

    return routes
