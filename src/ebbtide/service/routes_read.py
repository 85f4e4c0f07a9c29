"""The routes that read: the same for a service and for a file that is only looked at."""

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
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "asked and told, as they happen", "content": {"text/event-stream": {}}}
}


def reads(reader: Reader, limits: Limits) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.get("", response_model=schemas.Studies, summary="All studies")
    async def studies() -> Response:
        return JSONResponse({"studies": await reader.studies()})

    @routes.get("/{name}", response_model=schemas.Study, responses=UNKNOWN, summary="A study at a glance")
    async def study(name: str) -> Response:
        return JSONResponse(await reader.study(name))

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
        page = await reader.page(name, start, limit, active)
        shown = [wire.observation(line, told) for line, told in page.observations]
        return JSONResponse({"observations": shown, "next": page.next})

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
        study = await reader.study(name)
        cursor = (study["asked"], study["told"]) if since is None else events.parse(since)
        if cursor is None:
            raise ObservationError(f"Last-Event-ID={since!r}: give the id of an event, such as 12.11")
        if listening >= limits.streams:
            raise BusyError(f"{listening} streams are open already, the most that this service serves")

        def ended() -> None:
            nonlocal listening
            listening -= 1

        listening += 1  # with nothing to wait for since it was looked at
        return Stream(events.stream(reader, name, cursor), ended)

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


def health(reader: Reader) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=ERRORS)

    @routes.get("/healthz", response_model=schemas.Health, summary="Whether all is well")
    async def healthz() -> Response:
        await reader.check()
        return JSONResponse({"status": "ok", "version": __version__})

    return routes
