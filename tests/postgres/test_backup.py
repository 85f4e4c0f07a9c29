"""A backup with pg_dump, taken while a study is in use, and what is restored from it."""

import os
import subprocess

from helpers.postgres import BINARIES, PASSWORD, USER
from helpers.studies import TINY

import ebbtide as eb


def test_a_dump_is_restored_and_goes_on_as_the_study_would_have(server, url):
    clock = eb.ManualClock(1.0)
    with eb.Optimizer(TINY, storage=url, name="edge", seed=0, n_initial=3, clock=clock) as study:
        for value in range(8):
            clock.advance(1.0)
            study.tell(study.ask(), float(value % 3))
        dump = _tool(server, "pg_dump", "--format=custom", f"--dbname={url.rpartition('/')[2]}")
        restored = server.database()
        _tool(server, "pg_restore", "--exit-on-error", f"--dbname={restored}", given=dump)
        expected = study.ask(), study.history
    with eb.Optimizer.open(server.url(restored), "edge", clock=eb.ManualClock(clock.now())) as again:
        assert (again.ask(), again.history) == expected
        again.tell({"x": 0.5}, 1.0)
        assert again.told == 9
    with eb.Optimizer(TINY, storage=server.url(restored), name="another", seed=0) as new:  # numbers go on, too
        assert new.told == 0
    server.run(f"DROP DATABASE {restored} WITH (FORCE)")


def _tool(server, name, *options, given=None):
    where = ["--host=127.0.0.1", f"--port={server.port}", f"--username={USER}"]
    command = [str(BINARIES[-1] / name), *where, *options]
    environment = os.environ | {"PGPASSWORD": PASSWORD}
    return subprocess.run(command, input=given, env=environment, check=True, capture_output=True).stdout
