"""The routes that change a study, or ask its optimizer."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import JSONResponse

from ebbtide import wire
from ebbtide.definition import define
from ebbtide.errors import ObservationError, ParameterError
from ebbtide.service import schemas
from ebbtide.service.answers import CONFLICT, ERRORS, UNKNOWN
from ebbtide.service.desk import Desk
from ebbtide.service.gate import Limits
from ebbtide.space import Space


def verbs(desk: Desk, limits: Limits) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.post("", status_code=201, response_model=schemas.Study, responses=CONFLICT, summary="Create a study")
    async def create(study: schemas.NewStudy) -> Response:
        desk.check_width(study.width)
        space = Space.from_json({name: parameter.model_dump() for name, parameter in study.space.items()})
        definition = define(space, study.direction, study.algorithm, None, study.seed, study.n_initial)
        return JSONResponse(await desk.create(study.name, definition), status_code=201)

    @routes.delete("/{name}", status_code=204, responses=UNKNOWN, summary="Delete a study and all that was told")
    async def delete(name: str) -> Response:
        await desk.delete(name)
        return Response(status_code=204)

    @routes.post(
        "/{name}/ask",
        response_model=schemas.Trial | schemas.Trials,
        responses=UNKNOWN | CONFLICT,
        summary="What to measure next",
    )
    async def ask(name: str, wanted: schemas.AskFor | None = None) -> Response:
        n, lease = (None, None) if wanted is None else (wanted.n, wanted.lease)
        if n is None:
            return JSONResponse(wire.trial(await desk.ask(name, lease)))
        if n > limits.trials:
            raise ObservationError(f"n={n}: this service gives {limits.trials} trials at most at once")
        trials = [await desk.ask(name, lease) for _ in range(n)]
        return JSONResponse({"trials": [wire.trial(trial) for trial in trials]})

    @routes.post("/{name}/tell", response_model=schemas.Told, responses=UNKNOWN | CONFLICT, summary="What was measured")
    async def tell(
        name: str,
        said: schemas.Tell,
        key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
    ) -> Response:
        what = said.id if said.params is None else said.params if said.id is None else None
        if what is None:
            raise ObservationError('tell either the "id" of a trial, or the "params" that were measured')
        if (given := len(said.params or ())) > limits.width:
            raise ParameterError(f"{given} parameters, and this service takes {limits.width} at most")
        await desk.tell(name, what, said.value, said.failed, said.time, said.idempotency_key or key)
        return JSONResponse({"told": True})

    @routes.get(
        "/{name}/recommend",
        response_model=schemas.Recommendation,
        responses=UNKNOWN | CONFLICT,
        summary="The best now, by the model",
    )
    async def recommend(name: str) -> Response:
        return JSONResponse(wire.recommendation(await desk.recommend(name)))

    @routes.get(
        "/{name}/state", response_model=schemas.Model, responses=UNKNOWN | CONFLICT, summary="What the model believes"
    )
    async def model(name: str) -> Response:
        return JSONResponse(await desk.model(name))

    return routes
