"""`ebbtide serve`, `dashboard`, `report` and `upgrade`."""

import signal
import warnings
from pathlib import Path

import click

from ebbtide.cli.requirements import need
from ebbtide.errors import ConfigurationError, EbbtideWarning, StorageError
from ebbtide.study.storage import Storage
from ebbtide.study.storage.urls import SQLITE, is_postgresql, shown


def serve(
    storage: str,
    host: str,
    port: int,
    token: str | None,
    allowed_hosts: tuple[str, ...],
    max_studies: int,
    access_log: bool,
) -> None:
    need("fastapi", "plotly", "prometheus_client", "uvicorn", extra="service")
    from ebbtide import service

    _stop_at_hangup()
    service.serve(
        storage,
        host=host,
        port=port,
        token=token,
        allowed_hosts=allowed_hosts,
        limits=service.Limits(studies=max_studies),
        access_log=access_log,
    )


def dashboard(file: str, port: int) -> None:
    need("fastapi", "plotly", "prometheus_client", "uvicorn", extra="service")
    from ebbtide import service

    _stop_at_hangup()
    service.show(_url(file), port=port)


def _stop_at_hangup() -> None:
    """A terminal that is closed stops it as cleanly as SIGTERM does; `nohup` still works."""
    hangup = getattr(signal, "SIGHUP", None)  # which Windows does not have
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
        signal.signal(hangup, lambda number, frame: signal.raise_signal(signal.SIGTERM))


def report(file: str, name: str | None, out: Path) -> None:
    need("plotly", extra="service")
    from ebbtide.dashboard import report

    url = _url(file)
    if not is_postgresql(url) and out.exists() and out.samefile(url.removeprefix(SQLITE)):
        raise ConfigurationError(f"--out {out} is the database itself; choose another file")
    storage = Storage.of(url, read_only=True)
    report.write(storage, _only(storage.names(), shown(file)) if name is None else name, out)
    click.echo(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")


def upgrade(file: str, copy: bool) -> None:
    with warnings.catch_warnings(record=True) as notices:  # where the copy is
        warnings.simplefilter("always", EbbtideWarning)
        before, after = Storage.upgrade(_url(file), copy=copy)
    for notice in notices:
        click.echo(notice.message)
    if not notices:
        click.echo(f"{shown(file)} has schema version {after}" + ("" if before == after else f" now; it had {before}"))


def _url(file: str) -> str:
    """The file may be given as a path, or as the URL that other commands take."""
    if is_postgresql(file):
        return file
    url = file if file.startswith(SQLITE) else f"{SQLITE}{file}"
    if not Path(url.removeprefix(SQLITE)).is_file():
        raise StorageError(
            f"{url.removeprefix(SQLITE)} does not exist, or is not a file: give the database of the studies, "
            "such as tuner.db"
        )
    return url


def _only(names: list[str], file: str) -> str:
    if not names:
        raise ConfigurationError(f"{file} holds no studies; `ebbtide create` adds one")
    if len(names) > 1:
        raise ConfigurationError(f"{file} holds {len(names)} studies: choose one with --name ({', '.join(names[:10])})")
    return names[0]
