"""The routes that change a study, or ask its optimizer."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from ebbtide import wire
from ebbtide.errors import ObservationError, ParameterError
from ebbtide.service import schemas
from ebbtide.service.errors import CONFLICT, ERRORS, UNKNOWN
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import Limits
from ebbtide.service.problems import STUDY
from ebbtide.service.studies import Studies
from ebbtide.space import Space
from ebbtide.study.definition import define


def write_routes(studies: Studies, limits: Limits, metrics: Metrics) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.post("", status_code=201, response_model=schemas.Study, responses=CONFLICT, summary="Create a study")
    async def create(study: schemas.NewStudy, request: Request) -> Response:
        request.scope[STUDY] = study.name  # for the log
        studies.check_width(study.width)
        space = Space.from_json({name: parameter.model_dump() for name, parameter in study.space.items()})
        definition = define(space, study.direction, study.algorithm, None, study.seed, study.n_initial, **study.options)
        return JSONResponse(await studies.create(study.name, definition), status_code=201)

    @routes.delete("/{name}", status_code=204, responses=UNKNOWN, summary="Delete a study and its log")
    async def delete(name: str) -> Response:
        await studies.delete(name)
        return Response(status_code=204)

    @routes.post(
        "/{name}/ask",
        response_model=schemas.Trial | schemas.Trials,
        responses=UNKNOWN | CONFLICT,
        summary="What to measure next",
    )
    async def ask(name: str, body: schemas.AskFor | None = None) -> Response:
        n, lease, context = (None, None, None) if body is None else (body.n, body.lease, body.context)
        if n is not None and n > limits.trials:
            raise ObservationError(f"n={n}: this service gives at most {limits.trials} trials at once")
        with metrics.ask_seconds.time():
            trials = [wire.trial(trial) for trial in await studies.ask(name, lease, context, n or 1)]
        return JSONResponse(trials[0] if n is None else {"trials": trials})

    @routes.post("/{name}/tell", response_model=schemas.Told, responses=UNKNOWN | CONFLICT, summary="What was measured")
    async def tell(
        name: str,
        body: schemas.Tell,
        key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
    ) -> Response:
        if (body.id is None) == (body.params is None):
            raise ObservationError('tell either the "id" of a trial, or the "params" that were measured')
        if (given := len(body.params or ())) > limits.width:
            raise ParameterError(f"{given} parameters, and this service accepts at most {limits.width}")
        trial = str(body.id) if body.params is None else body.params
        outcome: dict[str, Any] = {"value": body.value, "failed": body.failed, "abandoned": body.abandoned}
        outcome |= {"context": body.context, "constraints": body.constraints}
        with metrics.tell_seconds.time():
            await studies.tell(name, trial, outcome, body.time, body.idempotency_key or key)
        return JSONResponse({"told": True})

    @routes.get(
        "/{name}/recommend",
        response_model=schemas.Recommendation,
        responses=UNKNOWN | CONFLICT,
        summary="The best parameters now, by the model",
    )
    async def recommend(name: str) -> Response:
        return JSONResponse(wire.recommendation(await studies.recommend(name)))

    @routes.post(
        "/{name}/recommend",
        response_model=schemas.Recommendation,
        responses=UNKNOWN | CONFLICT,
        summary="The best parameters now, for a context",
    )
    async def recommend_for(name: str, body: schemas.RecommendFor | None = None) -> Response:
        context, current = (None, None) if body is None else (body.context, body.current)
        return JSONResponse(wire.recommendation(await studies.recommend(name, context, current)))

    @routes.get(
        "/{name}/state", response_model=schemas.Model, responses=UNKNOWN | CONFLICT, summary="What the model believes"
    )
    async def model(name: str) -> Response:
        return JSONResponse(await studies.model(name))

    return routes
