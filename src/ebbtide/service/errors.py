"""How errors are answered: in one shape, and never with a traceback."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ebbtide.errors import (
    AccessError,
    DamagedError,
    EbbtideError,
    NothingKnownError,
    NumericalError,
    ServiceError,
    SnapshotError,
    StorageError,
    StudyError,
    TrialError,
    UnknownStudyError,
)
from ebbtide.service import schemas
from ebbtide.service.access import Access, access_of, unknown
from ebbtide.service.middleware import Message
from ebbtide.service.problems import STUDY, Problem
from ebbtide.study.storage.urls import is_postgresql

EVERYWHERE = {
    400: "the request cannot be read",
    401: "the token is missing or wrong",
    403: "the token does not allow that, or a page of another site sent it",
    408: "the body did not arrive",
    413: "the body is too long",
    415: "the body is not JSON",
    421: "the service is not known by that name",
    422: "the request does not fit the schema or the study",
    429: "too many requests",
    431: "the head of the request is too long",
    503: "the service cannot do that now; try again in a moment",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error, "description": why} for status, why in EVERYWHERE.items()
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Error, "description": "no such study"}}
CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": schemas.Error, "description": "it contradicts the log"}}

SHARED = "the database cannot be used at the moment; try again, or ask whoever runs the service"
# The first that matches
STATUS: tuple[tuple[type[EbbtideError], int], ...] = (
    (UnknownStudyError, 404),
    (StudyError, 409),
    (TrialError, 409),
    (NothingKnownError, 409),
    (SnapshotError, 409),  # a study whose algorithm has parts of the user's own
    (AccessError, 403),
    (StorageError, 503),
    (NumericalError, 503),
    (ServiceError, 503),
    (EbbtideError, 422),
)


def answer_errors(app: FastAPI, path: str) -> None:
    """`path` is the database's, which no answer shows.

    Coroutines, because each function would be run by a thread: a flood of errors would start dozens.
    """

    async def refused(request: Request, error: Exception) -> Response:
        name = request.path_params.get("name", request.scope.get(STUDY))
        return answered(request.scope, error, name, path)

    async def invalid(request: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        for cause in (problem.get("ctx", {}).get("error") for problem in problems):
            if isinstance(cause, EbbtideError):  # from a validator that asked the library
                return await refused(request, cause)
        return _answer(request.scope, invalid_request(problems), 422)

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        phrase = HTTPStatus(status).phrase
        headers = dict(getattr(error, "headers", None) or {})
        if status == 405:  # of all routes with that path, not only of the first
            path = getattr(request.scope.get("route"), "path", "")
            documented = map(str.upper, app.openapi()["paths"].get(path, ()))
            headers["Allow"] = ", ".join(sorted(documented)) or "GET"  # pages are not in the document
        problem = Problem(phrase, f"{request.method} {request.scope['path']}: {phrase.lower()}")
        return _answer(request.scope, problem, status, headers)

    app.add_exception_handler(EbbtideError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Exception, refused)


def answered(scope: Message, error: Exception, name: str | None, path: str) -> Response:
    """The answer to a request that met this error."""
    status, problem = explained(error, name, access_of(scope), path)
    if isinstance(error, TrialError) and scope["method"] == "GET":
        status = 404  # nothing is contradicted: there is no such trial
    return _answer(scope, problem, status, {"Retry-After": "1"} if status == 503 else None)


def invalid_request(problems: Sequence[Any]) -> Problem:
    """What does not fit the schema, in Pydantic's words. The input itself is not repeated: it may be anything."""
    message = "; ".join(f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:10])
    return Problem("ValidationError", message or "the request cannot be read")


def explained(error: Exception, name: str | None, access: Access, path: str) -> tuple[int, Problem]:
    """The status of an error about the study `name`, and its words. They do not show the path of the database nor, to a
    token with a prefix, anything of other studies.
    """
    status = next((status for kind, status in STATUS if isinstance(error, kind)), None)
    if status is None:
        return 500, Problem("InternalError", "the service failed; its log says why", failure=error)
    failure = error if status == 503 and not isinstance(error, ServiceError) else None  # these say it all
    message = str(error)
    if message.startswith(path):
        message = "the database" + message.removeprefix(path)
        if is_postgresql(path):  # the rest are the words of libpq, which say where it is; the log has them
            message = message.partition(" (")[0]
    if not access.sees_all:
        if isinstance(error, UnknownStudyError):
            message = str(unknown(name or ""))
        elif isinstance(error, StorageError) and not isinstance(error, DamagedError):  # of a batch of all tenants
            message = SHARED
    return status, Problem(type(error).__name__, message, failure=failure)


def _answer(scope: Message, problem: Problem, status: int, headers: dict[str, str] | None = None) -> Response:
    problem.note(scope)
    return JSONResponse(problem.body, status, headers)


def _place(location: Iterable[int | str]) -> str:
    return ".".join(str(part).encode("ascii", "backslashreplace").decode()[:50] for part in location)
