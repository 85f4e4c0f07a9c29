"""`ebbtide serve` and `ebbtide dashboard`: the application behind a socket."""

import gc
import ipaddress
import logging.config
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from types import FrameType

import uvicorn

from ebbtide.errors import ConfigurationError
from ebbtide.service import descriptors
from ebbtide.service.admission import Admission
from ebbtide.service.app import application, read_only_application
from ebbtide.service.logs import TO_STDERR, line, logger
from ebbtide.service.middleware import LOOPBACK, Limits
from ebbtide.service.protocol import protocol
from ebbtide.service.recorder import Recorder
from ebbtide.study.storage import shown
from ebbtide.version import __version__

IDLE_S = 75  # for which a connection without a request stays open
SWITCH_S = 0.0005  # after which a thread yields to another: a flushed tell must not wait for a busy loop
SEND_BUFFER = 1 << 17  # bytes that the system keeps for a client that does not read; Linux doubles it
GRACE_S = 3  # for answers in progress and for streams, when the service stops
STOP_S = 6.0  # after which it ends whatever is still at work; everything confirmed is on the disk by then


def serve(
    storage: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8411,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    processes: int | None = None,
    limits: Limits | None = None,
    access_log: bool = False,
) -> None:
    """Serve until told to stop (Ctrl-C, SIGTERM)."""
    local, limits = is_loopback(host), limits or Limits()
    if not local and not token:
        raise ConfigurationError(
            f"host={host!r} can be reached from other machines, and there is no token: set EBBTIDE_TOKEN to a long "
            "secret, or serve on 127.0.0.1"
        )
    with _listening(host, port) as listener:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        app = application(
            storage,
            token=token,
            hosts=[*LOOPBACK, host, *([] if local else [socket.gethostname()]), *allowed_hosts],
            any_address=not local,
            processes=processes or max(2, (os.cpu_count() or 2) - 1),
            limits=limits,
            access_log=access_log,
            on_ready=lambda: _say(f"ebbtide serves {shown(storage)} at {address}  (Ctrl-C stops it)"),
        )
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what is here now stays; scanning it again would take as long as many tells
        about = {"storage": shown(storage), "address": address, "token": "yes" if token else "no"} | asdict(limits)
        _run(app, listener, limits, about)


def show(storage: str, *, port: int = 0) -> None:
    """Serve the dashboard of a database to this machine, until told to stop. The database is only read."""
    with _listening("127.0.0.1", port) as listener:
        app = read_only_application(storage)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        _say(f"Look at {address}  (Ctrl-C stops it)")
        _run(app, listener, Limits(), {"storage": shown(storage), "address": address})


def _say(sentence: str) -> None:
    with suppress(OSError):  # a full disk, or a pipe that nobody reads: no reason not to serve
        print(sentence, flush=True)


def _run(app: Recorder, listener: socket.socket, limits: Limits, about: dict[str, object]) -> None:
    if not logger.hasHandlers():  # unless whoever called us has said where the log goes
        logging.config.dictConfig(TO_STDERR)
    logger.info(line({"verb": "start", "version": __version__} | about))
    room = descriptors.raise_limit(limits.connections)
    if room < limits.connections:
        logger.warning(line({"verb": "start", "connections": room, "reason": "the limit of open files (ulimit -Hn)"}))
    admission = Admission(room, min(limits.connections_per_address, room))
    Server(_config(app, admission)).run([listener])


class Server(uvicorn.Server):
    """Ends in time, whatever is still at work: a model, a stopped worker, a query, a database that is locked."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        last_resort = threading.Timer(STOP_S, _end_now)
        last_resort.daemon = True
        last_resort.start()
        super().handle_exit(sig, frame)


def _end_now() -> None:
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)  # without a word: who reads our log may be what we wait for


def _config(app: Recorder, admission: Admission) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol(app, admission),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # otherwise any local process could pretend to be any client
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
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of each connection made to it
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigurationError(f"cannot listen at {host}, port {port}: {error}; choose another --port") from error
    return listener
