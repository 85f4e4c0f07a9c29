"""Backups taken while a study is in use, and what is restored from them: with pg_dump, and to a point in time."""

import os
import subprocess
import time

from helpers.postgres import BINARIES, PASSWORD, USER, Cluster, cluster, scratch, unprivileged
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


def test_a_study_comes_back_as_it_was_at_a_point_in_time():
    clock = eb.ManualClock(1.0)

    def work(study):
        for value in range(4):
            clock.advance(1.0)
            study.tell(study.ask(), float(value % 3))

    with scratch() as archive, scratch() as folder:
        with (
            cluster("archive_mode=on", f"archive_command=cp %p {archive}/%f") as server,
            eb.Optimizer(TINY, storage=server.url(), name="edge", seed=0, n_initial=3, clock=clock) as study,
        ):
            work(study)
            _tool(server, "pg_basebackup", f"--pgdata={folder / 'data'}", "--checkpoint=fast")
            work(study)
            wanted, moment, now = study.history, server.run("SELECT clock_timestamp()::text")[0][0], clock.now()
            work(study)  # by mistake, say
            _wait_until_archived(server)
        (folder / "data" / "recovery.signal").touch()
        restored = Cluster(
            folder,
            f"restore_command=cp {archive}/%f %p",
            f"recovery_target_time={moment}",
            "recovery_target_action=promote",
        )
        try:
            _wait_for(lambda: not restored.run("SELECT pg_is_in_recovery()")[0][0])
            with eb.Optimizer.open(restored.url(), "edge", clock=eb.ManualClock(now)) as again:
                assert again.history == wanted
                assert (again.asked, again.told) == (8, 8)
                again.tell(again.ask(), 1.0)
                assert again.told == 9
        finally:
            restored.stop()


def _wait_until_archived(server):
    """All that was committed so far."""
    segment = server.run("SELECT pg_walfile_name(pg_switch_wal())")[0][0]
    _wait_for(lambda: (server.run("SELECT last_archived_wal FROM pg_stat_archiver")[0][0] or "") >= segment)


def _wait_for(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _tool(server, name, *options, given=None):
    where = ["--host=127.0.0.1", f"--port={server.port}", f"--username={USER}"]
    command = [str(BINARIES[-1] / name), *where, *options]
    environment = os.environ | {"PGPASSWORD": PASSWORD}
    return subprocess.run(
        command, input=given, env=environment, check=True, capture_output=True, **unprivileged()
    ).stdout
