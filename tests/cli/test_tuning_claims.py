"""Which trials are being measured, and which were left behind by a process that is gone."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from helpers.tuning import AMPLE

import ebbtide as eb
from ebbtide.tuning import Claims, Outcome, tune

OWN = 40.125  # the lease of a process
TRIAL = eb.Trial("3", {"x": 0.5}, 1.7e9 + 0.1, 1.7e9 + 0.1 + OWN)
LEASE = 40.0


@pytest.fixture
def at(tmp_path):
    """Claims of a process, on one of the studies."""
    return lambda study="edge": Claims(tmp_path / "new", "tuner.db-tune-", study)


def left_behind(claims):
    return [(claim.first, claim.last, claim.lease) for claim in claims.left_behind()]


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "new").iterdir())


def test_a_trial_is_left_behind_only_when_its_process_is_gone_and_only_once(at, tmp_path):
    first, second = at(), at()
    assert left_behind(second) == []  # without a folder
    first.hold(2, None, OWN)
    assert left_behind(second) == []
    assert second.is_measured(TRIAL)
    first.hold(3, 3, OWN)
    assert left_behind(second) == []
    assert second.is_measured(TRIAL)
    assert not second.is_measured(replace(TRIAL, id="4"))
    assert not second.is_measured(replace(TRIAL, id="2"))
    assert not second.is_measured(replace(TRIAL, expires=None))
    assert not second.is_measured(replace(TRIAL, expires=TRIAL.time + LEASE))
    assert not at("another").is_measured(TRIAL)
    first.close()
    assert not second.is_measured(TRIAL)
    assert left_behind(at("another")) == []
    assert left_behind(second) == [(3, 3, OWN)]
    assert left_behind(second) == []
    assert files(tmp_path) == []


def test_one_that_was_told_leaves_nothing(at, tmp_path):
    claims = at()
    for _ in range(2):
        claims.hold(3, 3, OWN)
        assert len(files(tmp_path)) == 1
        claims.release()
        assert files(tmp_path) == []
    claims.release()


def test_it_stays_until_it_is_settled(at):
    claims = at()
    claims.hold(12345678, None, OWN)
    claims.hold(3, 3, OWN)
    claims.close()
    for _ in at().left_behind():
        break  # as by Ctrl-C
    assert left_behind(at()) == [(3, 3, OWN)]


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b'["edge", 3, "x", 1.0]', b'["edge", 3]', b"\xff" * 9000])
def test_other_files_are_left_alone(at, tmp_path, content):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "tuner.db-tune-x").write_bytes(content)
    (tmp_path / "new" / "tuner.db-tune-folder").mkdir()
    os.mkfifo(tmp_path / "new" / "tuner.db-tune-pipe")
    (tmp_path / "new" / "tuner.db").write_bytes(b'["edge", 3, 3, 1.0]')
    (tmp_path / "new" / "tuner.db-tune-link").symlink_to("tuner.db")
    before = files(tmp_path)
    assert left_behind(at()) == []
    assert not at().is_measured(TRIAL)
    assert files(tmp_path) == before


def test_where_nothing_can_be_written_nothing_is_claimed(tmp_path):
    (tmp_path / "file").touch()
    claims = Claims(tmp_path / "file", "x", "edge")
    claims.hold(3, 3, OWN)
    assert left_behind(claims) == []
    claims.release()


# --- in the loop ------------------------------------------------------------------------------------------------------


def measured(params):
    return Outcome(1.0, None, 0.0)


def optimizer(clock, seed=0):
    return eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=seed)


def loop(opt, claims):
    tune(opt, measured, every=None, show=lambda status: None, stop_after=1, lease=LEASE, claims=claims)


def test_only_the_trial_of_a_loop_that_is_gone_is_abandoned_at_the_next_start(at, tmp_path):
    clock = eb.ManualClock()
    opt = optimizer(clock)
    gone, alive = at(), at()
    opt.ask(lease=LEASE + 0.25)
    gone.hold(0, 0, LEASE + 0.25)
    opt.ask(lease=LEASE + 0.75)
    alive.hold(1, 1, LEASE + 0.75)
    opt.ask(lease=LEASE)  # by other means
    gone.close()
    loop(opt, at())
    assert [(o.trial_id, o.abandoned, o.failed) for o in opt.history] == [("0", True, False), ("3", False, False)]
    clock.advance(2.0 * LEASE)  # the one that is alive was suspended
    loop(opt, at())
    assert [(o.trial_id, o.abandoned) for o in opt.history][2:] == [("2", True), ("4", False)]
    assert [trial.id for trial in opt.pending_trials] == ["1"]
    assert len(files(tmp_path)) == 1


def test_what_was_left_behind_and_told_since_or_never_asked_here_is_forgotten(at, tmp_path):
    opt = optimizer(eb.ManualClock())
    opt.tell(opt.ask(lease=OWN), 2.0)
    opt.tell(opt.ask(lease=OWN), failed=True)
    opt.ask(lease=7.0)
    for first, last, lease in ((0, 0, OWN), (1, 1, OWN), (2, 2, OWN), (2, None, OWN), (3, 3, 7.0), (99, None, 7.0)):
        claims = at()
        claims.hold(first, last, lease)
        claims.close()
    loop(opt, at())
    assert [o.value for o in opt.history] == [2.0, None, 1.0]
    assert [trial.id for trial in opt.pending_trials] == ["2"]
    assert files(tmp_path) == []


@pytest.mark.parametrize("recorded", [True, False])
def test_one_that_is_killed_while_it_asks(at, recorded):
    """The trial may be recorded, but nobody knows its number."""

    class Killed(BaseException):
        pass

    class Deadly(eb.Optimizer):
        def ask(self, *args, **options):
            if recorded:
                super().ask(*args, **options)
            raise Killed

    opt = Deadly({"x": eb.Float(0.0, 1.0)}, clock=eb.ManualClock(), seed=0)
    eb.Optimizer.ask(opt, lease=LEASE)
    claims = at()
    with pytest.raises(Killed):
        loop(opt, claims)
    eb.Optimizer.ask(opt, lease=LEASE + 0.5)  # of somebody else, since
    claims.close()
    opt.__class__ = eb.Optimizer  # type: ignore[assignment]
    loop(opt, at())
    assert [(o.trial_id, o.abandoned) for o in opt.history] == [("1", True)] * recorded + [(str(2 + recorded), False)]


HELD = """
import sys, time
from pathlib import Path
import ebbtide as eb
from ebbtide.tuning import Claims

claims = Claims(Path(sys.argv[1]), "tuner.db-tune-", "edge")
claims.hold(3, 3, 40.125)
print("claimed", flush=True)
time.sleep(1000)
"""


def test_a_stopped_process_is_alive_and_a_killed_one_is_gone(at, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HELD, str(tmp_path / "new")], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"claimed\n"
        process.send_signal(signal.SIGSTOP)
        assert left_behind(at()) == []
        process.kill()
        process.wait(AMPLE)
    assert left_behind(at()) == [(3, 3, OWN)]
