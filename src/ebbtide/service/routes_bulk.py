"""Asks and tells of many studies in one request, for gateways. Each has an outcome of its own, in the order given."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from ebbtide.service import schemas
from ebbtide.service.access import Access, access_of
from ebbtide.service.errors import ERRORS, explained, invalid_request
from ebbtide.service.logs import line, logger
from ebbtide.service.problems import Problem
from ebbtide.service.verbs import Verbs

T = TypeVar("T", schemas.AskOf, schemas.TellOf)
Outcome = tuple[int, dict[str, Any] | Problem]  # a status, and the answer to a request for one study


def bulk_routes(verbs: Verbs, path: str) -> APIRouter:
    """`path` is the database's, which no answer shows."""
    routes = APIRouter(tags=["many studies"], responses=ERRORS)

    @routes.post("/ask", response_model=schemas.Outcomes, summary="What to measure next, for many studies")
    async def ask_many(body: schemas.Asks, request: Request) -> Response:
        items = [_read(schemas.AskOf, item) for item in body.asks]
        verbs.check_trials(sum(item.n or 1 for item in items if isinstance(item, schemas.AskOf)))
        return await _answer(request, items, lambda item: verbs.ask(item.study, item))

    @routes.post("/tell", response_model=schemas.Outcomes, summary="What was measured, for many studies")
    async def tell_many(body: schemas.Tells, request: Request) -> Response:
        items = [_read(schemas.TellOf, item) for item in body.tells]
        return await _answer(request, items, lambda item: verbs.tell(item.study, item))

    async def _answer(
        request: Request, items: list[T | ValidationError], act: Callable[[T], Awaitable[dict[str, Any]]]
    ) -> Response:
        access = access_of(request.scope)
        outcomes = await asyncio.gather(*(_outcome(item, act, access, path) for item in items))
        _log_first_failure(request, outcomes)
        return JSONResponse({"answers": [_described(*outcome) for outcome in outcomes]})

    return routes


def _read(kind: type[T], item: object) -> T | ValidationError:
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        return error


async def _outcome(
    item: T | ValidationError, act: Callable[[T], Awaitable[dict[str, Any]]], access: Access, path: str
) -> Outcome:
    if isinstance(item, ValidationError):
        return 422, invalid_request(item.errors())
    try:
        access.check_study(item.study)
        return 200, await act(item)
    except Exception as error:  # whatever it is, the others are answered
        return explained(error, item.study, access, path)


def _described(status: int, answer: dict[str, Any] | Problem) -> dict[str, Any]:
    return {"status": status} | (answer.body if isinstance(answer, Problem) else {"body": answer})


def _log_first_failure(request: Request, outcomes: list[Outcome]) -> None:
    for status, answer in outcomes:
        if isinstance(answer, Problem) and answer.failure is not None:
            about = {"verb": request.scope["route"].name, "status": status, "error": answer.kind}
            logger.error(line(about | {"reason": answer.message}), exc_info=answer.failure)
            return
