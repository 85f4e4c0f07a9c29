"""The routes that only read: the same for `ebbtide serve` and for `ebbtide dashboard`."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ebbtide import wire
from ebbtide.errors import EbbtideError, ObservationError
from ebbtide.service import events, schemas
from ebbtide.service.errors import ERRORS, UNKNOWN
from ebbtide.service.middleware import Limits
from ebbtide.service.reader import Reader, Slice, as_json
from ebbtide.study.storage import Storage
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
        return Response(await reader.read_shared(_overview), media_type="application/json")

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
        first = await reader.first_slice(name, start, limit, active)
        return StreamingResponse(_page(reader, name, active, first), media_type="application/json")

    @routes.get("/{name}/trials/{trial_id}", response_model=schemas.Trial, responses=UNKNOWN, summary="One trial")
    async def trial(name: str, trial_id: Annotated[str, Path(examples=["0"])]) -> Response:
        return JSONResponse(wire.trial(await reader.trial(name, trial_id)))

    streams = events.Streams(limits.streams)

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
        end = await reader.end(name)
        cursor = end if since is None else events.parse(since)
        if cursor is None:
            raise ObservationError(f"Last-Event-ID={since!r}: give the id of an event, such as 12.11")
        stream = streams.follow(reader, name, cursor)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return routes


def _overview(storage: Storage) -> bytes:
    summaries, damaged = storage.overview()
    names = [{"name": study.name} for study in damaged]
    return as_json({"studies": list(map(wire.study, summaries)), "damaged": names}).encode()


async def _page(reader: Reader, name: str, active: bool | None, first: Slice) -> AsyncIterator[bytes]:
    yield b'{"observations":[' + first.lines
    last = first
    while last.next is not None and last.left > 0:
        try:
            last = await reader.next_slice(name, last.next, last.left, active)
        except EbbtideError:
            break  # the page ends here; who asks for the next one is told why
        if last.lines:
            yield b"," + last.lines
    yield b'],"next":%s}' % (b"null" if last.next is None else b"%d" % last.next)


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
