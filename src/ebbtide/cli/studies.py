"""The commands on one study, in a file or on a service: `ebbtide create`, `ask`, `tell`, …, in the service's JSON."""

import json
import warnings
from contextlib import closing
from typing import Any

import click

from ebbtide import wire
from ebbtide.client import Client, RemoteStudy
from ebbtide.errors import ClockWarning, ConfigurationError
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


def ask(storage: str, name: str, token: str | None, n: int | None, lease: float | None) -> None:
    with closing(opened(storage, name, token)) as study:
        if n is None:
            show(wire.trial(study.ask(lease=lease)))
        else:
            show({"trials": [wire.trial(trial) for trial in study.ask(n, lease=lease)]})


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
) -> None:
    if (trial_id is None) == (params is None):
        raise ConfigurationError("give either --id (of a trial) or --params (as JSON)")
    with closing(opened(storage, name, token)) as study:
        told = study.trial(trial_id) if trial_id is not None else _parsed(params or "")
        study.tell(told, value, failed=failed, abandoned=abandoned, time=time, key=key)
    show({"told": True})


def recommend(storage: str, name: str, token: str | None) -> None:
    with closing(opened(storage, name, token)) as study:
        show(wire.recommendation(study.recommend()))


def forget_future(storage: str, name: str) -> None:
    if is_service(storage):
        raise ConfigurationError(
            f"--storage {storage}: give the database's file, on the machine of the service, which may go on serving"
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
