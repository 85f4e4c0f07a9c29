"""The `ebbtide` command for tests that serve: fewer processes, none of them at a low priority.

Tests keep all cores busy, and a worker that yields to everything else would make each of them wait for it.
"""

from functools import partial

from ebbtide import service
from ebbtide.cli import main
from ebbtide.service import app, viewer, workers

if __name__ == "__main__":
    workers.NICENESS = viewer.NICENESS = 0
    app.VIEWER_AFTER_S = 3600.0  # the viewer's process starts with the first view
    app.WORKERS_AFTER_S, app.READY_S = 0.5, 0.0  # few tests need a worker
    service.serve = partial(service.serve, processes=1)
    main()
