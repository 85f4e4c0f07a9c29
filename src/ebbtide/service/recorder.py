"""The outermost layer. Every answer is counted and, if it is a refusal or an error, logged, whoever gave it:
a route, the middleware before it, or the connection before there was a request.
"""

import time
from typing import Any

from ebbtide.service.access import access_of
from ebbtide.service.chunks import in_chunks
from ebbtide.service.logs import Throttle, line, logger
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import App, Message, Receive, Send
from ebbtide.service.problems import STUDY, Problem, problem_of

NOSNIFF = (b"x-content-type-options", b"nosniff")  # an answer is what its type says, and never a page
UNMATCHED, REFUSED = "other", "refused"  # in place of a route
NOT_ALLOWED = 405  # the path has a route, but not for this method


class Recorder:
    def __init__(self, app: App, metrics: Metrics, access_log: bool = False) -> None:
        self.app, self.metrics, self.access_log = app, metrics, access_log
        self._throttle = Throttle()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, complete = time.perf_counter(), None, False
        send = in_chunks(send)

        async def recording(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                self.metrics.answered(*_labels(scope, status), status, time.perf_counter() - began)
                message["headers"] = [*message["headers"], NOSNIFF]
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self.app(scope, receive, recording)
        except Exception as error:
            Problem(type(error).__name__, str(error), failure=error).note(scope)
            if not complete:  # otherwise it was answered with 500, and only has to be logged
                raise
        finally:
            if status is not None:  # None: the client left before there was an answer
                self._log(_about(scope, status), status, time.perf_counter() - began, problem_of(scope))

    def refused(self, status: int, problem: Problem, client: str | None) -> None:
        """A connection was refused before there was a request."""
        self.metrics.answered(UNMATCHED, REFUSED, status, 0.0)
        self._log({"verb": REFUSED, "client": client}, status, 0.0, problem)

    def connected(self) -> None:
        self.metrics.connections.inc()
        self.metrics.open_connections.inc()

    def disconnected(self) -> None:
        self.metrics.open_connections.dec()

    def ended(self, why: str, reason: str, client: str | None) -> None:
        """A connection was ended because of what its client does."""
        self.metrics.ended_connections.labels(why).inc()
        if self._throttle.allow():
            logger.warning(line({"verb": "end", "client": client, "error": why, "reason": reason}))

    def _log(self, about: dict[str, Any], status: int, seconds: float, problem: Problem | None) -> None:
        if not self.access_log and (status < 400 or not self._throttle.allow()):
            return
        text = line(
            about
            | {"status": status, "duration_ms": round(1000.0 * seconds, 1)}
            | ({} if problem is None else {"error": problem.kind, "reason": problem.message})
        )
        if problem is not None and problem.failure is not None:
            logger.error(text, exc_info=problem.failure)
        elif status >= 400:
            logger.warning(text)
        else:
            logger.info(text)


def _labels(scope: Message, status: int) -> tuple[str, str]:
    """Method and route, for Prometheus: no more of them than there are routes, whatever is sent."""
    if (problem := problem_of(scope)) is not None and problem.early:
        return UNMATCHED, REFUSED
    route = getattr(scope.get("route"), "path", None)
    if route is None:
        return UNMATCHED, UNMATCHED
    return (UNMATCHED if status == NOT_ALLOWED else scope["method"]), route  # a client can make up any method


def _about(scope: Message, status: int) -> dict[str, Any]:
    """What a request was about, for the log: its study, or the method and path if they led nowhere."""
    client = {"client": (scope.get("client") or (None, 0))[0], "token_id": access_of(scope).token_id}
    if (route := scope.get("route")) is None or status == NOT_ALLOWED:
        verb = _labels(scope, status)[1] if route is None else UNMATCHED
        return {"verb": verb, "method": scope["method"], "path": scope["path"]} | client
    of_study = route.path.startswith(("/studies/{name}", "/view/{name}"))
    return {"verb": route.name, "study": scope["path_params"]["name"] if of_study else scope.get(STUDY)} | client
