"""The `ebbtide` command for tests that serve: fewer processes, none of them at a low priority.

Tests keep all cores busy, and a worker that yields to everything else would make each of them wait for it.

Environment variables shorten what a test would have to wait for, and lower the limits of the system: WORKERS_AFTER_S,
WRITE_S, POLL_S, and SOFT_FILES and HARD_FILES for descriptors.
"""

import os
from functools import partial


def limit_files() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = int(os.environ.get("HARD_FILES", hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(int(os.environ.get("SOFT_FILES", soft)), hard), hard))


if __name__ == "__main__":  # not in the workers and the viewer, which import this file but need none of it
    from ebbtide import service
    from ebbtide.cli import main
    from ebbtide.service import app, events, health, protocol, viewer, workers

    if {"SOFT_FILES", "HARD_FILES"} & os.environ.keys():
        limit_files()
    events.POLL_S = float(os.environ.get("POLL_S", events.POLL_S))
    protocol.WRITE_S = float(os.environ.get("WRITE_S", protocol.WRITE_S))
    workers.NICENESS = viewer.NICENESS = 0
    app.VIEWER_AFTER_S = 3600.0  # the viewer's process starts with the first view
    app.WORKERS_AFTER_S = float(os.environ.get("WORKERS_AFTER_S", 1800.0))  # a worker starts with the first ask
    app.READY_S, health.KEPT_S = 0.0, 0.1
    service.serve = partial(service.serve, processes=1)
    main()
