"""The pages, their files, and the numbers that they draw."""

import asyncio
import gzip
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from ebbtide.dashboard import assets
from ebbtide.service.reader import Reader

VARY = {"Vary": "Accept-Encoding"}
UNPACKS = re.compile(r"\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*$)[\d.]+\s*)?", re.IGNORECASE)  # unless it is offered with q=0
FOR_EVER = "public, max-age=31536000, immutable"
PAGE_HEADERS = {
    "Content-Security-Policy": assets.SERVED_POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
Last = Annotated[int | None, Query(ge=1, lt=2**63, description="observations to look back on; all, if not given")]


def is_public(method: str, path: str) -> bool:
    """Pages hold nothing of a study: they ask for it with the token that their reader gives them."""
    return method == "GET" and (path == "/" or path.startswith(("/view/", "/static/")))


def pages(reader: Reader, mode: assets.Mode) -> APIRouter:
    routes = APIRouter(include_in_schema=False)  # what the page asks for may change with the page

    @routes.get("/")
    @routes.get("/view/{name}")
    async def page() -> Response:
        content = await asyncio.to_thread(assets.page, mode)  # at first it takes a while, for which no tell shall wait
        return Response(content, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    @routes.get("/static/{name}")
    async def static(request: Request, name: str) -> Response:
        asset = (await asyncio.to_thread(assets.assets)).get(name)
        if asset is None:
            raise HTTPException(404)
        headers = {"Cache-Control": FOR_EVER if "v" in request.query_params else "no-cache"}
        if not _unpacks(request):
            return Response(asset.content, media_type=asset.type, headers=headers | VARY)
        return _packed(request, await asyncio.to_thread(lambda: asset.packed), asset.type, headers)

    @routes.get("/studies/{name}/view")
    async def view(request: Request, name: str, last: Last = None, parameter: str | None = None) -> Response:
        return _packed(request, await reader.viewer.look("study", name, last, parameter))

    @routes.get("/studies/{name}/trail")
    async def trail(request: Request, name: str, last: Last = None) -> Response:
        return _packed(request, await reader.viewer.look("trail", name, last))

    return routes


def _packed(
    request: Request, content: bytes, media_type: str = "application/json", headers: dict[str, str] | None = None
) -> Response:
    """Packed for those who can unpack it."""
    headers = {"Cache-Control": "no-store"} | VARY | (headers or {})
    if not _unpacks(request):
        return Response(gzip.decompress(content), media_type=media_type, headers=headers)
    return Response(content, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"})


def _unpacks(request: Request) -> bool:
    return any(map(UNPACKS.fullmatch, request.headers.get("accept-encoding", "").split(",")))
