"""The commands on one study, in a file or on a service: `ebbtide create`, `ask`, `tell`, …, in the service's JSON."""

import json
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from ebbtide import wire
from ebbtide.cli.described import measured, setting
from ebbtide.client import Client, RemoteStudy
from ebbtide.errors import ClockWarning, ConfigurationError, ContextWarning
from ebbtide.optimizer import Optimizer
from ebbtide.space import Space


def is_service(storage: str) -> bool:
    return storage.startswith(("http://", "https://"))


def opened(storage: str, name: str, token: str | None) -> Optimizer | RemoteStudy:
    """An existing study."""
    return Client(storage, token).study(name) if is_service(storage) else Optimizer.open(storage, name)


def define(
    storage: str,
    token: str | None,
    name: str,
    space: Space,
    options: dict[str, Any],
) -> Optimizer | RemoteStudy:
    """A new study, or the existing one if it is defined in the same way; `options` as `eb.Optimizer` takes them."""
    if not is_service(storage):
        return Optimizer(space, storage=storage, name=name, **options)
    return Client(storage, token).create_or_open(name, space, **options)


def show(answer: Any) -> None:
    click.echo(json.dumps(answer))


def ask(
    storage: str, name: str, token: str | None, n: int | None, lease: float | None, context: str | None = None
) -> None:
    around = measured("--context", context)
    with closing(opened(storage, name, token)) as study, _saying_what_was_filled():
        if n is None:
            show(wire.trial(study.ask(lease=lease, context=around)))
        else:
            show({"trials": [wire.trial(trial) for trial in study.ask(n, lease=lease, context=around)]})


def tell(
    storage: str,
    name: str,
    token: str | None,
    trial_id: str | None,
    params: str | None,
    value: float | None,
    failed: bool,
    abandoned: bool,
    time: float | None,
    key: str | None,
    context: str | None = None,
    constraints: str | None = None,
) -> None:
    around = {"context": measured("--context", context), "constraints": measured("--constraints", constraints)}
    if (trial_id is None) == (params is None):
        raise ConfigurationError("give either --id (of a trial) or --params (as JSON)")
    with closing(opened(storage, name, token)) as study, _saying_what_was_filled():
        told = study.trial(trial_id) if trial_id is not None else _parsed(params or "")
        study.tell(told, value, failed=failed, abandoned=abandoned, time=time, key=key, **around)
    show({"told": True})


def recommend(
    storage: str, name: str, token: str | None, context: str | None = None, current: str | None = None
) -> None:
    around = measured("--context", context)
    with closing(opened(storage, name, token)) as study, _saying_what_was_filled():
        in_force = None if current is None else setting("--current", current, _space(study))
        show(wire.recommendation(study.recommend(context=around, current=in_force)))


def _space(study: Optimizer | RemoteStudy) -> Space:
    return study.space if isinstance(study, Optimizer) else Space.from_json(study.describe()["space"])


@contextmanager
def _saying_what_was_filled() -> Iterator[None]:
    """On the standard error, without where in the program it is said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ContextWarning)
        yield
    for warning in said:
        click.echo(f"Warning: {warning.message}", err=True)


def forget_future(storage: str, name: str) -> None:
    if is_service(storage):
        raise ConfigurationError(
            f"--storage {storage}: give the database itself, sqlite:///FILE or postgresql://USER@HOST/DATABASE; "
            "the service may go on serving"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClockWarning)  # that time was recorded wrongly is why this was called
        with Optimizer.open(storage, name) as study:
            show({"set_aside": study.forget_future()})


def _parsed(params: str) -> dict[str, Any]:
    try:
        found = json.loads(params)
    except ValueError as error:
        raise ConfigurationError(f"--params {params}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"--params {params}: give an object, such as '{{\"power\": 3.2}}'")
    return found
