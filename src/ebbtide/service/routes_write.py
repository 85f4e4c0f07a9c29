"""The routes that change a study, or ask its optimizer."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse

from ebbtide import wire
from ebbtide.service import schemas
from ebbtide.service.access import access_of
from ebbtide.service.errors import CONFLICT, ERRORS, UNKNOWN
from ebbtide.service.problems import STUDY
from ebbtide.service.studies import Studies
from ebbtide.service.verbs import Verbs
from ebbtide.space import Space
from ebbtide.study.definition import define


def write_routes(studies: Studies, verbs: Verbs) -> APIRouter:
    routes = APIRouter(prefix="/studies", tags=["studies"], responses=ERRORS)

    @routes.post("", status_code=201, response_model=schemas.Study, responses=CONFLICT, summary="Create a study")
    async def create(study: schemas.NewStudy, request: Request) -> Response:
        request.scope[STUDY] = study.name  # for the log
        access = access_of(request.scope)
        access.check_new(study.name)
        studies.check_width(study.width)
        space = Space.from_json({name: parameter.model_dump() for name, parameter in study.space.items()})
        definition = define(space, study.direction, study.algorithm, None, study.seed, study.n_initial, **study.options)
        return JSONResponse(await studies.create(study.name, definition, access), status_code=201)

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
        return JSONResponse(await verbs.ask(name, body or schemas.AskFor(n=None, lease=None)))

    @routes.post("/{name}/tell", response_model=schemas.Told, responses=UNKNOWN | CONFLICT, summary="What was measured")
    async def tell(
        name: str,
        body: schemas.Tell,
        key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
    ) -> Response:
        return JSONResponse(await verbs.tell(name, body, key))

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
