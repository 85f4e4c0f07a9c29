"""The bodies of requests and answers, as the OpenAPI document shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, FiniteFloat, field_validator

from ebbtide.records import Kind
from ebbtide.space import check_description
from ebbtide.study.live import WORDS
from ebbtide.study.storage.store import MAX_NAME

Choice = Annotated[str | bool | int | FiniteFloat | None, Field(description="one of the choices")]
Params = dict[str, Choice]


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


class NewStudy(Request):
    name: str = Field(min_length=1, max_length=MAX_NAME)
    space: dict[str, Parameter] = Field(min_length=1)
    direction: Literal["minimize", "maximize"] = "minimize"
    algorithm: str | None = Field(None, description="the name of an algorithm; by default the recommended one")
    seed: int | None = Field(None, ge=0, lt=2**63)
    n_initial: int | None = Field(
        None, ge=0, lt=2**31, description="asks that fill the space before the model takes over"
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

    @property
    def live(self) -> dict[str, Any]:
        """How the study behaves on a live system, as given."""
        given = self.model_dump(include=set(WORDS))
        return {word: given[word] for word in WORDS}

    @field_validator("space", mode="before")
    @classmethod
    def clear(cls, space: Any) -> Any:
        """What is wrong with the keys of a parameter is said in the same words everywhere."""
        if isinstance(space, dict):
            for name, description in space.items():
                check_description(name, description)
        return space

    @property
    def width(self) -> int:
        """Coordinates of its space: a category has one per choice."""
        return sum(len(p.choices) if isinstance(p, CategoricalParameter) else 1 for p in self.space.values())

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

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "0", "value": 3.2}]})


class Study(BaseModel):
    name: str
    space: dict[str, Any]
    direction: Literal["minimize", "maximize"]
    algorithm: str | dict[str, Any]
    seed: int
    n_initial: int
    on_failure: Literal["worst", "ignore"] | float
    explore: float
    start: list[Params]
    movement: Movement | None
    baseline: Params | None
    baseline_every: int
    clock: str
    created: float
    asked: int
    told: int
    failed: int
    abandoned: int
    active: int
    removed: int
    last_told: float | None


class Damaged(BaseModel):
    name: str


class Studies(BaseModel):
    studies: list[Study]
    damaged: list[Damaged] = Field(description="studies that cannot be read; GET /studies/{name} says why")


class Trial(BaseModel):
    id: str
    params: Params
    time: float
    expires: float | None
    kind: Kind


class Trials(BaseModel):
    trials: list[Trial]


class Told(BaseModel):
    told: Literal[True]


class Recommendation(BaseModel):
    params: Params
    mean: float
    std: float
    time: float
    support: float = Field(description="what is known about this setting is worth this many fresh measurements")
    failure: float = Field(description="the probability that an evaluation fails there")


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


class Observations(BaseModel):
    observations: list[Observation]
    next: int | None = Field(description="where the next page starts; null after the last one")


class Model(BaseModel):
    asked: int
    told: int
    active: int
    pending: int
    hyperparameters: dict[str, float | list[float] | dict[str, dict[str, float]]]
    mean: float
    scale: float
    response: float | None
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
