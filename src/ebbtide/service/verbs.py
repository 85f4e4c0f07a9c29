"""Ask and tell, as a request describes them: alone, or among many in one request."""

from typing import Any

from ebbtide import wire
from ebbtide.errors import ObservationError, ParameterError
from ebbtide.service import schemas
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import Limits
from ebbtide.service.studies import Studies


class Verbs:
    def __init__(self, studies: Studies, limits: Limits, metrics: Metrics) -> None:
        self.studies, self.limits, self.metrics = studies, limits, metrics

    def check_trials(self, n: int) -> None:
        if n > self.limits.trials:
            raise ObservationError(f"n={n}: this service gives at most {self.limits.trials} trials at once")

    async def ask(self, name: str, body: schemas.AskFor) -> dict[str, Any]:
        self.check_trials(body.n or 1)
        with self.metrics.ask_seconds.time():
            asked = await self.studies.ask(name, body.lease, body.context, body.n or 1)
        trials = [wire.trial(trial) for trial in asked]
        return trials[0] if body.n is None else {"trials": trials}

    async def tell(self, name: str, body: schemas.Tell, key: str | None = None) -> dict[str, Any]:
        if (body.id is None) == (body.params is None):
            raise ObservationError('tell either the "id" of a trial, or the "params" that were measured')
        if (given := len(body.params or ())) > self.limits.width:
            raise ParameterError(f"{given} parameters, and this service accepts at most {self.limits.width}")
        trial = str(body.id) if body.params is None else body.params
        outcome: dict[str, Any] = {"value": body.value, "failed": body.failed, "abandoned": body.abandoned}
        outcome |= {"context": body.context, "constraints": body.constraints}
        with self.metrics.tell_seconds.time():
            await self.studies.tell(name, trial, outcome, body.time, body.idempotency_key or key)
        return {"told": True}
