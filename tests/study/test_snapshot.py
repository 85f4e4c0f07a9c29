import json
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump

import ebbtide as eb


@pytest.fixture
def snapshot(tmp_path):
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", clock=eb.ManualClock(), seed=1)
    drive(opt, moving_bump, 30)
    opt.ask()
    path = tmp_path / "study.json"
    opt.save(path)
    return opt, path


def test_everything_comes_back(snapshot):
    opt, path = snapshot
    again = eb.Optimizer.load(path)
    assert again.history == opt.history
    assert again.hyperparameters == opt.hyperparameters
    assert again.model == opt.model
    assert again.algorithm == opt.algorithm
    assert again.clock.now() == opt.clock.now()
    assert (again.dataset.x == opt.dataset.x).all()
    again.save(path.with_name("again.json"))
    assert path.with_name("again.json").read_text() == path.read_text()


def refused(path, says):
    before = path.read_bytes()
    with pytest.raises(eb.SnapshotError, match=says):
        eb.Optimizer.load(path)
    assert path.read_bytes() == before


def test_an_incomplete_file(snapshot):
    _, path = snapshot
    path.write_bytes(path.read_bytes()[:-100])
    refused(path, "not a complete snapshot")
    path.write_bytes(b"")
    refused(path, "not a complete snapshot")
    path.write_bytes(b"\xff\xfe\x00")
    refused(path, "not a complete snapshot")


def test_an_edited_file(snapshot):
    _, path = snapshot
    document = json.loads(path.read_text())
    document["payload"]["history"][0][2] = 123.0
    path.write_text(json.dumps(document))
    refused(path, "checksum")


@pytest.mark.parametrize("version", [3, "1", None, 0, -3, True])
def test_a_newer_version(snapshot, version):
    _, path = snapshot
    document = json.loads(path.read_text())
    document["version"] = version
    path.write_text(json.dumps(document))
    refused(path, "upgrade")


def test_a_file_with_nan(snapshot):
    _, path = snapshot
    path.write_text(path.read_text().replace('"seed": 1', '"seed": NaN'))
    refused(path, "NaN is not a JSON number")


def test_a_link_is_followed_not_replaced(snapshot, tmp_path):
    opt, path = snapshot
    link = tmp_path / "link.json"
    link.symlink_to(path)
    opt.tell({"x": 0.5, "y": 0.5}, 1.0)
    opt.save(link)
    assert link.is_symlink()
    assert len(eb.Optimizer.load(path).history) == len(opt.history)


def test_a_given_system_clock_continues_from_the_last_reading(tmp_path):
    ahead = eb.SystemClock()
    ahead.never_before(ahead.now() + 3600.0)
    opt = eb.Optimizer(UNIT_SQUARE, seed=0, clock=ahead)
    trial = opt.ask()
    opt.save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json", clock=eb.SystemClock()).ask().time >= trial.time


def test_a_wrong_algorithm_is_an_error(snapshot):
    _, path = snapshot
    with pytest.raises(eb.ConfigurationError, match=r"eb\.Algorithm"):
        eb.Optimizer.load(path, algorithm=3)  # type: ignore[arg-type]


def test_parts_with_numpy_numbers_can_be_saved(tmp_path):
    import numpy as np

    policy = eb.WassersteinBudget(alpha=np.float32(0.5), max_active=np.int64(500))  # type: ignore[arg-type]
    algorithm = eb.Algorithm(staleness=policy, acquisition=eb.UCB(np.float64(2.0)))
    eb.Optimizer(UNIT_SQUARE, algorithm=algorithm, seed=0).save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json").algorithm == algorithm


def test_another_file(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"a": 1}')
    refused(path, "not an ebbtide snapshot")


def test_a_missing_file(tmp_path):
    with pytest.raises(eb.SnapshotError, match=r"nothing\.json cannot be read \(No such file.*\); give the path"):
        eb.Optimizer.load(tmp_path / "nothing.json")


def test_a_folder(tmp_path):
    with pytest.raises(eb.SnapshotError, match=r"cannot be read \(Is a directory\)"):
        eb.Optimizer.load(tmp_path)


def test_a_file_that_may_not_be_read(snapshot, monkeypatch):
    """Not by its permissions, which do not stop root."""
    _, path = snapshot

    def refuse(self, **options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    with pytest.raises(eb.SnapshotError, match=r"Permission denied.*check that you may read it") as caught:
        eb.Optimizer.load(path)
    assert isinstance(caught.value.__cause__, PermissionError)


def test_a_save_that_fails_leaves_the_old_file(snapshot, monkeypatch):
    import os

    opt, path = snapshot
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        opt.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@dataclass(frozen=True)
class Mine:
    """A user's own staleness policy."""

    capacity: int | None = None
    keep: int = 20

    def review(self, view):
        rows = list(range(max(0, len(view) - self.keep)))
        return eb.Verdict(rows, [0.0] * len(rows))


class Plain:
    """A policy that is not a dataclass and has an attribute that JSON cannot hold."""

    capacity = None

    def __init__(self, keep):
        self.keep, self.secret = keep, object()

    def review(self, view):
        return eb.Verdict()


def test_numpy_numbers_survive_in_a_part(tmp_path):
    window = eb.SlidingWindow(size=np.int64(5), duration=np.float32(7.0))  # type: ignore[arg-type]
    opt = eb.Optimizer(UNIT_SQUARE, algorithm=eb.Algorithm(staleness=window), seed=0, clock=eb.ManualClock())
    opt.save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json").algorithm.staleness == eb.SlidingWindow(size=5, duration=7.0)


def test_a_part_that_is_not_a_dataclass(tmp_path):
    opt = eb.Optimizer(UNIT_SQUARE, algorithm=eb.Algorithm(staleness=Plain(3)), seed=0, clock=eb.ManualClock())
    opt.save(tmp_path / "s.json")
    assert eb.Optimizer.load(tmp_path / "s.json", algorithm=eb.Algorithm(staleness=Plain(3))).ask() == opt.ask()
    with pytest.raises(eb.SnapshotError, match="another algorithm"):
        eb.Optimizer.load(tmp_path / "s.json", algorithm=eb.Algorithm(staleness=Plain(4)))


class MyClock(eb.ManualClock):
    pass


def test_the_users_own_parts_are_passed_again(tmp_path):
    algorithm = eb.Algorithm(staleness=Mine())
    opt = eb.Optimizer(UNIT_SQUARE, direction="maximize", algorithm=algorithm, seed=0, clock=MyClock())
    drive(opt, moving_bump, 30)
    assert len(opt.dataset) <= 21
    path = tmp_path / "mine.json"
    opt.save(path)
    with pytest.raises(eb.SnapshotError, match=r"algorithm=\.\.\."):
        eb.Optimizer.load(path, clock=MyClock(30.0))
    with pytest.raises(eb.SnapshotError, match=r"clock=\.\.\."):
        eb.Optimizer.load(path, algorithm=algorithm)
    with pytest.raises(eb.SnapshotError, match="another algorithm"):
        eb.Optimizer.load(path, algorithm="w-dbo", clock=MyClock(30.0))
    with pytest.raises(eb.SnapshotError, match="another algorithm"):
        eb.Optimizer.load(path, algorithm=eb.Algorithm(staleness=Mine(keep=5)), clock=MyClock(30.0))
    with pytest.raises(eb.SnapshotError, match="clock of the same kind"):
        eb.Optimizer.load(path, algorithm=algorithm, clock=eb.ManualClock(30.0))
    again = eb.Optimizer.load(path, algorithm=eb.Algorithm(staleness=Mine()), clock=MyClock(30.0))
    assert again.ask() == opt.ask()


@pytest.mark.parametrize(
    "algorithm",
    [
        eb.Algorithm(spatial=eb.SquaredExponential((0.5, 0.5)), temporal=eb.Matern(0.5)),
        eb.Algorithm(acquisition=eb.PI(margin=0.2), staleness=eb.KeepAll(), timing=eb.Immediate(aim="now")),
        eb.Algorithm(temporal=None, staleness=eb.KeepAll(), acquisition=eb.EI(), inference="mle"),
        eb.Algorithm(mean="weighted"),
    ],
    ids=["ard", "parts", "static", "weighted-mean"],
)
def test_ebbtides_own_parts_are_in_the_file(algorithm, tmp_path):
    opt = eb.Optimizer(UNIT_SQUARE, algorithm=algorithm, seed=0, clock=eb.ManualClock())
    drive(opt, moving_bump, 12)
    opt.save(tmp_path / "s.json")
    again = eb.Optimizer.load(tmp_path / "s.json")
    assert again.algorithm == algorithm
    assert again.ask() == opt.ask()


def test_with_the_system_clock_time_continues(tmp_path):
    opt = eb.Optimizer(UNIT_SQUARE, seed=0)
    trial = opt.ask()
    opt.save(tmp_path / "s.json")
    again = eb.Optimizer.load(tmp_path / "s.json")
    assert again.ask().time >= trial.time
