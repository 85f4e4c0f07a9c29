"""What is answered when something is wrong: one shape, and never a traceback."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ebbtide.errors import (
    EbbtideError,
    NumericalError,
    ServiceError,
    SnapshotError,
    StorageError,
    StudyError,
    TrialError,
    UnknownStudyError,
)
from ebbtide.service import schemas
from ebbtide.service.middleware import error_body

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

# The first that fits
STATUS: tuple[tuple[type[EbbtideError], int], ...] = (
    (UnknownStudyError, 404),
    (StudyError, 409),
    (TrialError, 409),
    (SnapshotError, 409),  # a study whose algorithm is somebody's own
    (StorageError, 503),
    (NumericalError, 503),
    (ServiceError, 503),
    (EbbtideError, 422),
)


def answer_errors(app: FastAPI, path: str) -> None:
    def refused(request: Request, error: Exception) -> Response:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        headers = {"Retry-After": "1"} if status == 503 else None
        said = str(error)
        if said.startswith(path):  # where the database is, is not for everybody
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
            documented = map(str.upper, app.openapi()["paths"].get(path, ()))
            headers["Allow"] = ", ".join(sorted(documented)) or "GET"  # pages are not in the document
        return JSONResponse(error_body(HTTPStatus(status).phrase, said), status, headers)

    def broken(request: Request, error: Exception) -> Response:
        return JSONResponse(error_body("InternalError", "the service met an error of its own; its log has it"), 500)

    app.add_exception_handler(EbbtideError, refused)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Exception, broken)


def _place(location: Iterable[int | str]) -> str:
    return ".".join(str(part).encode("ascii", "backslashreplace").decode()[:50] for part in location)
