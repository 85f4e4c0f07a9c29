"""The routes that only read: the same for `ebbtide serve` and for `ebbtide dashboard`."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ebbtide import wire
from ebbtide.errors import EbbtideError, ObservationError, ServiceError
from ebbtide.service import events, schemas
from ebbtide.service.access import Access, access_of
from ebbtide.service.errors import ERRORS, UNKNOWN
from ebbtide.service.middleware import Limits
from ebbtide.service.reader import Reader, Slice, as_json
from ebbtide.study.storage import Storage
from ebbtide.study.storage.store import MAX_NAME
from ebbtide.version import __version__

MAX_PAGE = 10_000
STUDIES, MAX_STUDIES = 100, 1000  # of a page: usually, and at most
OK = {"status": "ok", "version": __version__}
NOT_READY = "the service cannot do its work at the moment; whoever runs it can see why"
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "asks and tells, as they happen", "content": {"text/event-stream": {}}}
}


def read_routes(reader: Reader, limits: Limits, still_allowed: Callable[[Access], bool]) -> APIRouter:
    """`still_allowed` says whether what a request was allowed still is; streams end where it is not."""
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.get("", response_model=schemas.Studies, summary="Studies, a page at a time")
    async def studies(
        request: Request,
        after: Annotated[str | None, Query(max_length=MAX_NAME, description="the last name of the page before")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_STUDIES)] = STUDIES,
    ) -> Response:
        listed = _Listed(access_of(request.scope).prefix, after, limit)
        is_usual = after is None and limit in (STUDIES, MAX_STUDIES)  # many want the same
        content = await (reader.read_shared(listed) if is_usual else reader.read_much(listed))
        return Response(content, media_type="application/json")

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
        request: Request,
        name: str,
        since: Annotated[str | None, Header(alias="Last-Event-ID", description="id of the last event seen")] = None,
    ) -> Response:
        end = await reader.end(name)
        cursor = end if since is None else events.parse(since)
        if cursor is None:
            raise ObservationError(f"Last-Event-ID={since!r}: give the id of an event, such as 12.11")
        access = access_of(request.scope)
        stream = streams.follow(reader, name, cursor, lambda: still_allowed(access))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return routes


@dataclass(frozen=True)
class _Listed:
    """A page of the studies that a token may see."""

    prefix: str
    after: str | None = None
    limit: int = STUDIES

    def __call__(self, storage: Storage) -> bytes:
        found = storage.listed(self.prefix, self.after, self.limit)
        names = [{"name": study.name} for study in found.damaged]
        shown = {"studies": list(map(wire.study, found.summaries)), "damaged": names, "next": found.next}
        return as_json(shown).encode()


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
    async def readyz(request: Request) -> Response:
        try:
            await reader.check()
        except EbbtideError:
            if access_of(request.scope).sees_all:
                raise
            raise ServiceError(NOT_READY) from None  # the reason may be what other tenants do
        return JSONResponse(OK)

    @routes.get("/healthz", response_model=schemas.Health, summary="The same as /readyz")
    async def healthz(request: Request) -> Response:
        return await readyz(request)

    return routes
