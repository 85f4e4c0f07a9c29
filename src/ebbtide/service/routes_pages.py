"""The dashboard: its pages, their files, and the views that they draw."""

import asyncio
import gzip
import io
import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from ebbtide.dashboard import assets
from ebbtide.service.chunks import CHUNK
from ebbtide.service.reader import Reader

VARY = {"Vary": "Accept-Encoding"}
GZIP = re.compile(r"\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*$)[\d.]+\s*)?", re.IGNORECASE)  # but not with q=0
FOREVER = "public, max-age=31536000, immutable"
PAGE_HEADERS = {
    "Content-Security-Policy": assets.SERVED_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
Last = Annotated[int | None, Query(ge=1, lt=2**63, description="how many of the newest observations; by default all")]


def is_public(method: str, path: str) -> bool:
    """Pages hold nothing of a study: they fetch it with the token that their user enters."""
    return method == "GET" and (path == "/" or path.startswith(("/view/", "/static/")))


def page_routes(reader: Reader, mode: assets.Mode) -> APIRouter:
    routes = APIRouter(include_in_schema=False)  # views may change with the page
    files: dict[str, assets.Asset] = {}

    @routes.get("/")
    @routes.get("/view/{name}")
    async def page() -> Response:
        content = await asyncio.to_thread(assets.page, mode)  # slow the first time, and no tell should wait for it
        return Response(content, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    @routes.get("/static/{name}")
    async def static(request: Request, name: str) -> Response:
        if not files:
            files.update(await asyncio.to_thread(assets.assets))
        asset = files.get(name)
        if asset is None:
            raise HTTPException(404)
        headers = {"Cache-Control": FOREVER if "v" in request.query_params else "no-cache"}
        if not _accepts_gzip(request):
            return Response(asset.content, media_type=asset.type, headers=headers | VARY)
        return _packed(request, await asyncio.to_thread(lambda: asset.packed), asset.type, headers)

    @routes.get("/studies/{name}/view")
    async def view(
        request: Request,
        name: str,
        last: Last = None,
        parameter: str | None = None,
        across: str | None = None,
        context: str | None = None,
    ) -> Response:
        return _packed(request, await reader.viewer.study(name, last, parameter, across, context))

    @routes.get("/studies/{name}/trail")
    async def trail(request: Request, name: str, last: Last = None) -> Response:
        return _packed(request, await reader.viewer.trail(name, last))

    return routes


def _packed(
    request: Request, content: bytes, media_type: str = "application/json", headers: dict[str, str] | None = None
) -> Response:
    """Gzipped content, unpacked for clients that do not accept it."""
    headers = {"Cache-Control": "no-store"} | VARY | (headers or {})
    if not _accepts_gzip(request):
        return StreamingResponse(_unpacked(content), media_type=media_type, headers=headers)
    return Response(content, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"})


async def _unpacked(content: bytes) -> AsyncIterator[bytes]:
    with gzip.open(io.BytesIO(content)) as unpacked:
        while part := unpacked.read(CHUNK):
            yield part


def _accepts_gzip(request: Request) -> bool:
    return any(map(GZIP.fullmatch, request.headers.get("accept-encoding", "").split(",")))
