"""`ebbtide serve`: the application behind a socket."""

import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Iterable

import uvicorn

from ebbtide.errors import ConfigurationError
from ebbtide.service.application import application, looking
from ebbtide.service.middleware import LOOPBACK, App, Limits
from ebbtide.service.protocol import HttpProtocol

IDLE_S = 75  # for which a connection without a request stays open
SWITCH_S = 0.0005  # after which a thread lets another one go: a flushed tell must not wait for a busy loop
GRACE_S = 3  # for answers under way and streams, when the service is to stop


def serve(
    storage: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8411,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    processes: int | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until told to stop (Ctrl-C, SIGTERM)."""
    local = is_loopback(host)
    if not local and not token:
        raise ConfigurationError(
            f"host={host!r} can be reached from other machines, and there is no token: set EBBTIDE_TOKEN to a long "
            "secret, or serve on 127.0.0.1"
        )
    with _listening(host, port) as listening:
        app = application(
            storage,
            token=token,
            hosts=[*LOOPBACK, host, *([] if local else [socket.gethostname()]), *allowed_hosts],
            any_address=not local,
            processes=processes or max(2, (os.cpu_count() or 2) - 1),
            limits=limits,
        )
        shown = f"[{host}]" if ":" in host else host
        print(f"ebbtide serves {storage} at http://{shown}:{listening.getsockname()[1]}  (Ctrl-C stops it)", flush=True)
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what is here now stays: to look through all of it again takes as long as many tells
        uvicorn.Server(_config(app)).run([listening])


def show(storage: str, *, port: int = 0) -> None:
    """Show the studies of a database to this machine, until told to stop; it is only read."""
    with _listening("127.0.0.1", port) as listening:
        app = looking(storage)
        print(f"Look at http://127.0.0.1:{listening.getsockname()[1]}  (Ctrl-C stops it)", flush=True)
        uvicorn.Server(_config(app)).run([listening])


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HttpProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # or whoever is local could pass for anybody
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=IDLE_S,
        lifespan="on",
        ws="none",
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigurationError(f"cannot listen at {host}, port {port}: {error}; choose another --port") from error
    return listening
