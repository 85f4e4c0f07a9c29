"""The bodies of requests and answers, as the OpenAPI document shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, FiniteFloat, field_validator

from ebbtide.records import Kind
from ebbtide.space import check_description
from ebbtide.study import conditions, live
from ebbtide.study.conditions import MAX_CONSTRAINTS, MAX_CYCLES, MAX_WIDTH
from ebbtide.study.definition import MAX_FAMILY
from ebbtide.study.storage.store import MAX_NAME

Choice = Annotated[str | bool | int | FiniteFloat | None, Field(description="one of the choices")]
Params = dict[str, Choice]
MAX_ASKS, MAX_TELLS = 64, 256  # in one request


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FloatParameter(Request):
    type: Literal["float"]
    low: FiniteFloat
    high: FiniteFloat
    log: bool = False
    step: FiniteFloat | None = Field(None, gt=0, description="only low, low + step, ... up to high; not with log")


class IntParameter(Request):
    type: Literal["int"]
    low: int
    high: int
    log: bool = False
    step: int = Field(1, ge=1, description="only low, low + step, ... up to high; not with log")


# The first error is enough: a list of all the errors in a long list would fill gigabytes.
Choices = Annotated[list[Choice], FailFast(), Field(min_length=2)]


class OrdinalParameter(Request):
    type: Literal["ordinal"]
    choices: Choices = Field(description="in their order")


class CategoricalParameter(Request):
    type: Literal["categorical"]
    choices: Choices


Parameter = Annotated[
    FloatParameter | IntParameter | OrdinalParameter | CategoricalParameter, Field(discriminator="type")
]


class Movement(Request):
    limit: dict[str, FiniteFloat] = Field({}, description="how far a parameter may move in one step, in its own unit")
    cost: FiniteFloat = Field(0.0, ge=0, description="of moving one parameter across its whole range")


class AtMost(Request):
    at_most: FiniteFloat


class AtLeast(Request):
    at_least: FiniteFloat


Context = Annotated[
    Params,
    Field(max_length=MAX_WIDTH, description="what was measured of it; the rest is taken from earlier, if it can be"),
]


class NewStudy(Request):
    name: str = Field(min_length=1, max_length=MAX_NAME)
    space: dict[str, Parameter] = Field(min_length=1)
    direction: Literal["minimize", "maximize"] = "minimize"
    algorithm: str | None = Field(None, description="the name of an algorithm; by default the recommended one")
    seed: int | None = Field(None, ge=0, lt=2**63)
    n_initial: int | None = Field(
        None, ge=0, lt=2**31, description="asks that fill the space before the model takes over"
    )
    family: str | None = Field(
        None, min_length=1, max_length=MAX_FAMILY, description="studies that share what their hyperparameters are like"
    )
    explore: FiniteFloat | None = Field(
        None, ge=0, le=1, description="the share of the asks that probe; the others hold the recommended setting"
    )
    start: Params | list[Params] | None = Field(None, description="a setting to ask first, or several")
    movement: Movement | None = None
    baseline: Params | None = Field(None, description="the setting that would be used otherwise")
    baseline_every: int | None = Field(None, ge=2, lt=2**31, description="the baseline is one in this many asks")
    on_failure: Literal["worst", "ignore"] | FiniteFloat | None = Field(
        None, description="what a failed evaluation counts as: the worst of the active values, nothing, or a value"
    )

    context: dict[str, Parameter] | None = Field(
        None, max_length=MAX_WIDTH, description="variables that are measured, not chosen, with their usual ranges"
    )
    cycles: dict[str, Annotated[FiniteFloat, Field(gt=0)]] | None = Field(
        None, max_length=MAX_CYCLES, description="names and periods of what comes back, in seconds"
    )
    constraints: dict[str, AtMost | AtLeast] | None = Field(
        None, max_length=MAX_CONSTRAINTS, description="limits of other values that are told with the objective's"
    )
    violation_rate: FiniteFloat | None = Field(
        None, gt=0, lt=1, description="the share of the asks that may break a constraint, in the long run"
    )
    failures_violate: bool | None = Field(None, description="whether a failed evaluation counts as one that broke one")

    @property
    def options(self) -> dict[str, Any]:
        """How the study behaves on a live system, and the world around it, as given."""
        words = ("family", *live.WORDS, *conditions.WORDS)
        given = self.model_dump(include=set(words))
        return {word: given[word] for word in words}

    @field_validator("space", "context", mode="before")
    @classmethod
    def clear(cls, space: Any) -> Any:
        """What is wrong with the keys of a parameter is said in the same words everywhere."""
        if isinstance(space, dict):
            for name, description in space.items():
                check_description(name, description)
        return space

    @property
    def width(self) -> int:
        """Coordinates of its space and its context: a category has one per choice."""
        described = [*self.space.values(), *(self.context or {}).values()]
        return sum(len(p.choices) if isinstance(p, CategoricalParameter) else 1 for p in described)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "edge-7",
                    "space": {
                        "power": {"type": "float", "low": 1.26, "high": 316, "log": True},
                        "width": {"type": "int", "low": 1, "high": 8},
                        "batch": {"type": "ordinal", "choices": [64, 128, 256]},
                        "codec": {"type": "categorical", "choices": ["a", "b"]},
                    },
                    "direction": "maximize",
                }
            ]
        }
    )


class AskFor(Request):
    n: int | None = Field(None, ge=1, description="how many trials; they take each other into account")
    lease: FiniteFloat | None = Field(
        None, ge=0, le=1e9, description="seconds for which a trial counts as pending; by default one timescale"
    )
    context: Context | None = None


class RecommendFor(Request):
    context: Context | None = None
    current: Params | None = Field(None, description="the setting in force, which is kept unless another is better")


class Tell(Request):
    id: str | int | None = Field(None, description="of the trial; or give params instead")
    params: dict[str, Any] | None = Field(None, description="what was measured, if there is no trial")
    value: FiniteFloat | None = None
    failed: bool = Field(False, description="instead of a value: the evaluation failed")
    abandoned: bool = Field(False, description="instead of a value: the evaluation was called off, and says nothing")
    time: FiniteFloat | None = Field(None, description="seconds since 1970; by default the trial's, or now")
    idempotency_key: str | None = Field(
        None, description="makes a retry safe; the header Idempotency-Key means the same", min_length=1, max_length=200
    )
    context: Context | None = Field(None, description="what was measured of it; the rest is as it was for the trial")
    constraints: dict[str, FiniteFloat] | None = Field(
        None, max_length=MAX_CONSTRAINTS, description="measured values that are under a constraint; some may be missing"
    )

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "0", "value": 3.2}]})


class AskOf(AskFor):
    study: str


class TellOf(Tell):
    study: str


class Asks(Request):
    asks: list[Any] = Field(
        min_length=1,
        max_length=MAX_ASKS,
        description="each with the name of a study, and what POST /studies/{name}/ask takes",
        examples=[[{"study": "edge-7"}, {"study": "edge-8", "n": 2}]],
    )


class Tells(Request):
    tells: list[Any] = Field(
        min_length=1,
        max_length=MAX_TELLS,
        description="each with the name of a study, and what POST /studies/{name}/tell takes",
        examples=[[{"study": "edge-7", "id": "0", "value": 3.2}]],
    )


class Violations(BaseModel):
    rate: float | None = Field(description="the share of those that counted which broke a constraint")
    counted: int = Field(description="asks that were told with values under a constraint")
    target: float
    per_constraint: dict[str, float]


class Study(BaseModel):
    name: str
    space: dict[str, Any]
    direction: Literal["minimize", "maximize"]
    algorithm: str | dict[str, Any]
    seed: int
    n_initial: int
    family: str | None
    on_failure: Literal["worst", "ignore"] | float
    explore: float
    start: list[Params]
    movement: Movement | None
    baseline: Params | None
    baseline_every: int
    context: dict[str, Any] | None
    cycles: dict[str, float]
    constraints: dict[str, AtMost | AtLeast]
    violation_rate: float
    failures_violate: bool
    clock: str
    created: float
    asked: int
    told: int
    failed: int
    abandoned: int
    active: int
    removed: int
    last_told: float | None
    violations: Violations | None = Field(description="null for a study without constraints")


class Damaged(BaseModel):
    name: str


class Studies(BaseModel):
    studies: list[Study]
    damaged: list[Damaged] = Field(description="studies that cannot be read; GET /studies/{name} says why")
    next: str | None = Field(description="give this as `after` for the next page; null after the last one")


class Trial(BaseModel):
    id: str
    params: Params
    time: float
    expires: float | None
    kind: Kind
    context: Params | None = Field(description="what it was chosen for; null for a study without")
    filled: list[str] = Field(description="variables of the context that were not measured, but taken from earlier")


class Trials(BaseModel):
    trials: list[Trial]


class Told(BaseModel):
    told: Literal[True]


class Done(BaseModel):
    status: Literal[200]
    body: Trial | Trials | Told = Field(description="as for a request of its own")


class Failed(BaseModel):
    status: int
    error: "Problem"


class Outcomes(BaseModel):
    answers: list[Done | Failed] = Field(description="in the order of the request")


class Recommendation(BaseModel):
    params: Params
    mean: float
    std: float
    time: float
    support: float = Field(description="what is known about this setting is worth this many fresh measurements")
    failure: float = Field(description="the probability that an evaluation fails there")
    feasible: float = Field(description="the probability that all constraints are met there")


class Observation(BaseModel):
    line: int
    id: str | None
    params: Params
    time: float
    value: float | None
    failed: bool
    abandoned: bool
    kind: Kind | None
    active: bool
    removed_at: float | None
    relevance: float | None
    context: Params | None
    constraints: dict[str, float] | None
    filled: list[str]


class Observations(BaseModel):
    observations: list[Observation]
    next: int | None = Field(description="where the next page starts; null after the last one")


class Model(BaseModel):
    asked: int
    told: int
    active: int
    pending: int
    hyperparameters: dict[str, bool | float | list[float] | dict[str, dict[str, float]]]
    mean: float
    scale: float
    response: float | None
    siblings: int = Field(description="studies of the same family that the prior was learned from")
    guards: dict[str, int]
    warnings: list[str] = Field(description="what somebody who runs the study should know, in plain sentences")
    time: float


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Problem(BaseModel):
    type: str
    message: str


class Error(BaseModel):
    error: Problem
