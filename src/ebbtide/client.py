"""A client of the service, with the methods of the Optimizer.

    study = eb.Client("http://127.0.0.1:8411").study("edge-7")
    trial = study.ask()
    study.tell(trial, 3.2)

While the service restarts or is busy, the client tries again: sending an ask or a tell twice does no harm. An error of
the service is raised as the exception that the library itself would raise.
"""

import http.client
import json
import math
import threading
import time
import urllib.parse
import uuid
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Self, overload

import ebbtide.errors
from ebbtide import wire
from ebbtide.errors import (
    ConfigurationError,
    EbbtideError,
    ObservationError,
    ParameterError,
    ServiceError,
    StudyError,
    UnknownStudyError,
)
from ebbtide.records import Observation, Recommendation, Trial, Violations
from ebbtide.space import Parameter, Space
from ebbtide.space.space import as_mapping
from ebbtide.study import conditions, live, tells
from ebbtide.study.conditions import Conditions
from ebbtide.study.definition import Direction, check_same
from ebbtide.study.gain import Gain, gain
from ebbtide.study.live import LiveOptions

PASSING = (429, 502, 503, 504)  # temporary: worth trying again
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
PAGE, STUDIES_PAGE = 5000, 1000
WORDS = (*live.WORDS, *conditions.WORDS)
LOOK_AGAIN_S = 60.0  # monotonic time may stop while a machine sleeps


class Client:
    """The service at a URL. A call is tried again for `patience` seconds before a ServiceError is raised."""

    def __init__(self, url: str, token: str | None = None, *, patience: float = 30.0, timeout: float = 60.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f'url={url!r}: give the address of a service, such as "http://127.0.0.1:8411"')
        if token:
            wire.check_token(token)
        self.url = url.rstrip("/")
        self.patience, self.timeout = patience, timeout
        self._parts = parts
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._local = threading.local()

    # --- studies ------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        space: Mapping[str, Parameter] | Space,
        *,
        direction: Direction = "minimize",
        algorithm: str | None = None,
        seed: int | None = None,
        n_initial: int | None = None,
        family: str | None = None,
        **options: Any,
    ) -> "RemoteStudy":
        """Create a study; an error if one of that name exists.

        `options` are explore, start, movement, baseline, baseline_every, on_failure, context, cycles, constraints,
        violation_rate and failures_violate, as in `eb.Optimizer`.
        """
        searched = space if isinstance(space, Space) else Space(space)
        said = _said(searched, options)
        body: dict[str, Any] = {
            "name": name,
            "space": searched.to_json(),
            "direction": direction,
            "algorithm": algorithm,
        }
        body |= {"seed": seed, "n_initial": n_initial, "family": family, **said}
        self.call("POST", "/studies", {key: value for key, value in body.items() if value is not None})
        return RemoteStudy(self, name)

    def create_or_open(self, name: str, space: Mapping[str, Parameter] | Space, **options: Any) -> "RemoteStudy":
        """Create a study, or open the existing one, whose definition must be the same (where options are not None)."""
        try:
            return self.create(name, space, **options)
        except StudyError:
            study = self.study(name)
        searched = space if isinstance(space, Space) else Space(space)
        words = {word: options[word] for word in options if word in WORDS}
        given = {"space": searched.to_json()} | options | _said(searched, words)
        check_same(name, study.describe(), {key: value for key, value in given.items() if value is not None})
        return study

    def study(self, name: str) -> "RemoteStudy":
        """Open an existing study."""
        study = RemoteStudy(self, name)
        study.describe()
        return study

    def studies(self) -> list[dict[str, Any]]:
        """The definition of each study, and how much was asked and told."""
        page = self.call("GET", "/studies")
        found: list[dict[str, Any]] = page["studies"]
        while page.get("next") is not None:
            query = urllib.parse.urlencode({"after": page["next"], "limit": STUDIES_PAGE})
            page = self.call("GET", f"/studies?{query}")
            found += page["studies"]
        return found

    def delete(self, name: str) -> None:
        """Delete a study and everything recorded in it."""
        self.call("DELETE", _path(name))

    # --- one call -----------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the service, as JSON; tried again while the service is unreachable or busy."""
        deadline, pause = time.monotonic() + self.patience, FIRST_PAUSE_S
        while True:
            try:
                status, answer = self._send(method, path, body)
                if status < 300:
                    return answer
                problem = _error(status, answer)
                passing = status in PASSING
            except (OSError, http.client.HTTPException) as error:
                self.close()
                problem, passing = ServiceError(f"{self.url} cannot be reached: {error!r}; is it running?"), True
            if not passing or time.monotonic() + pause > deadline:
                raise problem
            time.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE_S)

    def _send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        connection = self._connection()
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        content = None if body is None else json.dumps(body, allow_nan=False)
        connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
        response = connection.getresponse()
        text = response.read()
        try:
            return response.status, json.loads(text) if text else None
        except ValueError:
            return response.status, None  # not from the service, but from a proxy in between

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's connection, which is kept open."""
        if (kept := getattr(self._local, "connection", None)) is None:
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            host = self._parts.hostname or ""
            kept = kinds[self._parts.scheme](host, self._parts.port, timeout=self.timeout)
            weakref.finalize(self, kept.close)
            self._local.connection = kept
        connection: http.client.HTTPConnection = kept
        return connection

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        self._connection().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"


class RemoteStudy:
    """A study in a service: ask, tell, recommend."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return self.client.call(method, _path(self.name) + path, body)

    def close(self) -> None:
        """Close this thread's connection to the service."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStudy {self.name!r} of {self.client.url}>"

    def describe(self) -> dict[str, Any]:
        """The definition, and how much was asked and told."""
        description: dict[str, Any] = self._call("GET", "")
        return description

    @overload
    def ask(self, *, lease: float | None = None, context: Mapping[str, Any] | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, lease: float | None = None, context: Mapping[str, Any] | None = None) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, lease: float | None = None, context: Mapping[str, Any] | None = None
    ) -> Trial | list[Trial]:
        """What to measure next, as in `Optimizer.ask`; `trial.filled` says what was missing in the context."""
        answer = self._call("POST", "/ask", {"n": n, "lease": lease} | _given(context=context))
        return _trial(answer) if n is None else [_trial(trial) for trial in answer["trials"]]

    def tell(
        self,
        trial: Trial | Mapping[str, Any],
        value: float | None = None,
        *,
        time: float | None = None,
        failed: bool = False,
        abandoned: bool = False,
        key: str | None = None,
        context: Mapping[str, Any] | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Record what was measured, as in `Optimizer.tell`."""
        subject: dict[str, Any]
        if isinstance(trial, Trial):
            subject = {"id": trial.id, "idempotency_key": tells.checked_key(key)}
        else:
            subject = {"params": _as_json(trial), "idempotency_key": tells.checked_key(key) or str(uuid.uuid4())}
        outcome = {"value": tells.checked_value(value, failed, abandoned), "failed": failed, "abandoned": abandoned}
        moment = None if time is None else tells.finite_time(time)
        around = _given(context=context, constraints=constraints)
        self._call("POST", "/tell", subject | outcome | {"time": moment} | around)

    def trial(self, trial_id: str | int) -> Trial:
        """A trial that was asked for, by its id."""
        trial_id = tells.as_id(trial_id)
        if not (isinstance(trial_id, str) and trial_id.isascii() and trial_id.isalnum()):  # it is a part of the path
            raise tells.never_asked(trial_id)
        return _trial(self._call("GET", f"/trials/{trial_id}"))

    @cached_property
    def clock(self) -> "ServiceClock":
        """The service's clock, which dates its trials."""
        return ServiceClock(self)

    def recommend(
        self, context: Mapping[str, Any] | None = None, current: Mapping[str, Any] | None = None
    ) -> Recommendation:
        """The best parameters now, according to the model, as in `Optimizer.recommend`."""
        body = _given(context=context, current=current)
        return Recommendation(**self._call("POST" if body else "GET", "/recommend", body or None))

    def observations(self) -> Iterator[Observation]:
        """Everything told, in the order told, a page at a time."""
        start: int | None = 0
        while start is not None:
            page = self._call("GET", f"/observations?start={start}&limit={PAGE}")
            for row in page["observations"]:
                yield Observation(
                    params=row["params"],
                    time=row["time"],
                    value=row["value"],
                    trial_id=row["id"],
                    removed_at=row["removed_at"],
                    relevance=row["relevance"],
                    abandoned=row["abandoned"],
                    kind=row["kind"],
                    context=row["context"],
                    constraints=row["constraints"],
                    filled=tuple(row["filled"]),
                )
            start = page["next"]

    @property
    def history(self) -> list[Observation]:
        """Everything told, in the order told."""
        return list(self.observations())

    @property
    def asked(self) -> int:
        """How many trials were ever asked for."""
        count: int = self.describe()["asked"]
        return count

    @property
    def told(self) -> int:
        """How many observations were ever told."""
        count: int = self.describe()["told"]
        return count

    @property
    def gain(self) -> Gain | None:
        """How much better the holds are than the baseline, as in `Optimizer.gain`; computed here, from the history."""
        described = self.describe()
        return None if described["baseline"] is None else gain(self.observations(), described["direction"])

    @property
    def violations(self) -> Violations | None:
        """How often asks broke a constraint, as in `Optimizer.violations`."""
        found = self.describe()["violations"]
        return None if found is None else Violations(**found)

    @property
    def warnings(self) -> list[str]:
        """What you should know, in plain sentences, as in `Optimizer.warnings`."""
        said: list[str] = self.state()["warnings"]
        return said

    def state(self) -> dict[str, Any]:
        """What the model believes: hyperparameters, sizes, guards."""
        state: dict[str, Any] = self._call("GET", "/state")
        return state


class ServiceClock:
    """The clock of a service, as estimated here; compared with the service again every minute."""

    def __init__(self, study: RemoteStudy) -> None:
        self._study = study
        self._ahead, self._looked = 0.0, -math.inf

    def now(self) -> float:
        if time.monotonic() - self._looked > LOOK_AGAIN_S:
            self._ahead = self._study.state()["time"] - time.monotonic()
            self._looked = time.monotonic()
        return time.monotonic() + self._ahead


def _as_json(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that can be sent: whether they fit the space, the service knows."""
    return _plain(as_mapping(params), ParameterError)


def _given(**around: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was given of these, as JSON."""
    given = {name: values for name, values in around.items() if values is not None}
    for name, values in given.items():
        if not isinstance(values, Mapping):
            raise ObservationError(f"{name}={values!r}: give a dict")
    return {name: _plain(values, ObservationError) for name, values in given.items()}


def _plain(values: Mapping[str, Any], error: type[EbbtideError]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(values), allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise error(f"{values!r} cannot be sent as JSON: {problem}") from None
    return plain


def _said(space: Space, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a study's options that were given, as JSON."""
    around = {word: value for word, value in options.items() if word in conditions.WORDS}
    others = {word: value for word, value in options.items() if word not in around}
    described = LiveOptions.of(space, **others).to_json() | Conditions.of(**around).to_json()
    return {word: described[word] for word, value in options.items() if value is not None}


def _trial(answer: Mapping[str, Any]) -> Trial:
    return Trial(**{**answer, "filled": tuple(answer["filled"])})


def _path(name: str) -> str:
    quoted = urllib.parse.quote(name, safe="")
    if quoted in ("", ".", ".."):  # a path cannot hold these
        raise UnknownStudyError(f"there is no study {name!r}")
    return f"/studies/{quoted}"


def _error(status: int, answer: Any) -> EbbtideError:
    """The exception that the library would have raised, if the answer names one."""
    try:
        kind, message = answer["error"]["type"], answer["error"]["message"]
        known = getattr(ebbtide.errors, kind, None)
    except (KeyError, TypeError):
        return ServiceError(f"the service answered {status} without a reason")
    if isinstance(known, type) and issubclass(known, EbbtideError):
        return known(message)
    return ServiceError(f"the service answered {status}: {message}")
