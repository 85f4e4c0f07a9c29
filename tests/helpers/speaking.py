"""A server in a thread with the service's protocol in front of any application."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from ebbtide.service import protocol
from ebbtide.service.admission import Admission
from ebbtide.service.metrics import Metrics
from ebbtide.service.middleware import App
from ebbtide.service.recorder import Recorder


@contextmanager
def speaking(app: App, admission: Admission | None = None) -> Iterator[tuple[int, Metrics]]:
    """The port that it listens at, and what it counts."""
    recorder = Recorder(app, Metrics())
    http = protocol.protocol(recorder, admission or Admission(100, 100))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            recorder, http=http, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=5
        )
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[1], recorder.metrics
        running.should_exit = True
        thread.join()
