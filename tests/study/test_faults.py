"""A full disk, a failing disk, a power cut: everything acknowledged is there exactly once, and the study continues."""

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.faulty import Disk, Done, after_power_cut
from helpers.studies import contents

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.study import asks
from ebbtide.study.storage import sqlite

SPACE = {"x": eb.Float(0.0, 1.0), "n": eb.Int(1, 9)}
# Cheap, and it forgets, so that asks also write removals.
ALGORITHM = eb.Algorithm(temporal=None, acquisition=eb.Random(), staleness=eb.SlidingWindow(size=1))
STEPS = 3
pytestmark = pytest.mark.slow
SAYS = {"ENOSPC": "the disk is full; nothing was recorded", "EIO": "the disk could not be read or written"}


@pytest.fixture
def folder(tmp_path):
    """In memory if possible: no real disk is needed here, and hundreds of studies are created."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


def study(folder=None):
    stored: dict[str, Any] = {} if folder is None else {"storage": f"sqlite:///{folder}/study.db", "name": "edge"}
    return eb.Optimizer(SPACE, algorithm=ALGORITHM, clock=eb.ManualClock(), seed=3, n_initial=2, **stored)


def use(opt, step):
    """One operation of the scenario: in turn an ask, a tell of it, and a tell of parameters measured elsewhere."""
    kind, k = step % 3, step // 3
    wait_until(opt.clock, float((step + 1) // 3))  # time passes before a tell of parameters
    if kind == 0:
        opt.ask(lease=5.0)
    elif kind == 1:
        opt.tell(opt.trial(str(k)), 10.0 + k)
    else:
        opt.tell({"x": k / STEPS, "n": 1 + k}, float(k), key=f"outside {k}")


@pytest.fixture(scope="module")
def undisturbed():
    """What is known after 0, 1, 2, ... operations, without a disk."""
    opt = study()
    known = [contents(opt)]
    for step in range(3 * STEPS):
        use(opt, step)
        known.append(contents(opt))
    return known


@dataclass
class Run:
    """The scenario on a disk, each operation repeated on the same optimizer until it succeeds."""

    disk: Disk
    errors: list[str] = field(default_factory=list)

    def go(self, fault=None, begun=False):
        """Run with a fault from the beginning, or once the study exists; returns what is known at the end."""
        if fault is not None and not begun:
            self.disk.fail(*fault)
        opt = self.insist(lambda: study(self.disk.folder))
        if fault is not None and begun:
            self.disk.fail(*fault)
        for step in range(3 * STEPS):
            self.insist(lambda step=step: use(opt, step))
        known = contents(opt)
        opt.close()
        return known

    def insist(self, act):
        for attempt in range(3):
            try:
                return act()
            except eb.StorageError as error:
                self.errors.append(str(error))
                if attempt == 1:
                    self.disk.heal()
        raise AssertionError(f"it still fails after healing: {self.errors}")


def whole(folder):
    """The study as the standard library's SQLite and a new process would see it."""
    with closing(sqlite3.connect(folder / "study.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return eb.Optimizer.open(f"sqlite:///{folder}/study.db", "edge")


def counted(folder, pages, begun=False):
    """How many disk operations the scenario needs on a disk that works."""
    disk = Disk(folder, pages)
    disk.folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "connect", disk.connect)
        Run(disk).go((None, "EIO", False), begun)
    return disk.counted


@pytest.mark.parametrize(
    ("error", "lasting", "pages"),
    [
        ("ENOSPC", True, None),
        ("EIO", False, None),
        ("ENOSPC", False, 8),
        ("EIO", True, 8),
        pytest.param("EIO", False, 8, marks=pytest.mark.very_slow),
    ],
    ids=lambda value: {None: "no checkpoint", 8: "checkpoints", True: "until healed", False: "once"}.get(value, value),
)
def test_a_write_that_fails_is_reported_and_leaves_no_trace(error, lasting, pages, folder, undisturbed, monkeypatch):
    heard = unheard = full = 0
    begun = pages is not None  # without checkpoints, also test the creation of the study
    for at in range(counted(folder / "plain", pages, begun)):
        disk = Disk(folder / str(at), pages)
        disk.folder.mkdir()
        run = Run(disk)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "connect", disk.connect)
            known = run.go((at, error, lasting), begun)
        must_be_heard = any(to_be_heard for _, to_be_heard in disk.struck)
        assert disk.struck, at
        assert bool(run.errors) == must_be_heard, (at, disk.struck, run.errors)
        said = {words for message in run.errors for words in SAYS.values() if words in message}
        assert said <= {SAYS[error], SAYS["EIO"]}, run.errors
        assert bool(said) == bool(run.errors)
        full += SAYS["ENOSPC"] in said
        heard += must_be_heard
        unheard += not all(to_be_heard for _, to_be_heard in disk.struck)
        with closing(whole(disk.folder)) as again:
            assert contents(again) == known == undisturbed[-1], (at, disk.struck)
    assert heard > (20 if begun else 50)
    assert full > (20 if error == "ENOSPC" else -1)
    assert unheard > (20 if begun else 5)  # in a checkpoint, which is repeated later


def test_a_failed_ask_that_locked_out_others_leaves_no_trace(folder, undisturbed, monkeypatch):
    monkeypatch.setattr(asks, "RACES", 0)  # as if every ask had been overtaken
    test_a_write_that_fails_is_reported_and_leaves_no_trace("EIO", False, None, folder, undisturbed, monkeypatch)


# --- power cuts -------------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """Everything that the scenario does to a disk, and how much of it was done when each step was acknowledged."""

    done: list[Done]
    acknowledged: list[int]

    def steps_at(self, cut):
        """How many operations had returned; -1 if not even the study was created."""
        return sum(length <= cut for length in self.acknowledged) - 1


def recorded(folder, monkeypatch, synchronous=None, restored=False):
    disk = Disk(folder, checkpoint_pages=8, synchronous=synchronous)
    disk.folder.mkdir()
    if restored:
        restore_backup(disk)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "connect", disk.connect)
        opt = study(folder)
        acknowledged = [len(disk.done)]
        for step in range(3 * STEPS):
            use(opt, step)
            acknowledged.append(len(disk.done))
            if step == 4:
                opt.close()
                opt = eb.Optimizer.open(f"sqlite:///{folder}/study.db", "edge", clock=opt.clock)
        opt.close()
    assert {d.kind for d in disk.done} >= {"write", "truncate", "link", "unlink"}
    return Recording(disk.done, acknowledged)


def restore_backup(disk):
    """Start from a copy made by SQLite, which has no write-ahead log; it is certainly on the disk."""
    study(disk.folder).close()
    original, copy = disk.folder / "study.db", disk.folder / "copy.db"
    with closing(sqlite3.connect(original)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    copy.replace(original)
    number = disk.files[str(original)] = next(disk.numbers)
    content = original.read_bytes()
    disk.done += [Done("link", number, "study.db"), Done("write", number, data=content), Done("sync", number)]
    disk.done.append(Done("sync folder"))


def put(files, folder):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


CUTS = {
    "nothing that was not synced": lambda done, cut: after_power_cut(done),
    "only the process died": lambda done, cut: after_power_cut(done, keep_all=True),
    "any part of what was not synced": lambda done, cut: after_power_cut(done, np.random.default_rng([1, cut])),
    "another part": lambda done, cut: after_power_cut(done, np.random.default_rng([2, cut])),
}


def survives(cut, left, recording, place, undisturbed):
    """Check that everything acknowledged is there and that the study continues; True if there is more than that."""
    put(CUTS[left](recording.done[:cut], cut), place)
    steps = recording.steps_at(cut)
    if steps < 0:
        study(place).close()  # remains of a file must not be in the way
        steps = 0
    with closing(whole(place)) as opt:
        there = undisturbed.index(contents(opt))
        assert there in (steps, steps + 1), cut
        goal = min(there + 2, 3 * STEPS)
        for step in range(there, goal):
            use(opt, step)
        assert contents(opt) == undisturbed[goal], cut
    return there > steps


@pytest.mark.parametrize(
    "left", [pytest.param(left, marks=[pytest.mark.very_slow] if left == "another part" else []) for left in CUTS]
)
def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(left, folder, undisturbed, monkeypatch):
    recording = recorded(folder / "before", monkeypatch)
    cuts = range(len(recording.done) + 1)
    more = [survives(cut, left, recording, folder / str(cut), undisturbed) for cut in cuts]
    assert any(more)  # some cuts came in the middle of an operation


def test_a_study_that_was_restored_from_a_backup_survives_power_cuts_too(folder, undisturbed, monkeypatch):
    recording = recorded(folder / "before", monkeypatch, restored=True)
    for cut in range(4, len(recording.done) + 1):
        survives(cut, "nothing that was not synced", recording, folder / str(cut), undisturbed)


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_without_syncs_a_power_cut_would_lose_what_was_acknowledged(synchronous, folder, undisturbed, monkeypatch):
    recording = recorded(folder / "before", monkeypatch, synchronous)
    lost = []
    for cut in range(recording.acknowledged[0], len(recording.done) + 1):
        put(after_power_cut(recording.done[:cut]), place := folder / str(cut))
        try:
            with closing(whole(place)) as opt:
                there = undisturbed.index(contents(opt))
        except (eb.UnknownStudyError, eb.StorageError):  # the study is lost, or even the tables
            there = -1
        if there < recording.steps_at(cut):
            lost.append(cut)
    assert len(lost) > 20


def test_a_process_that_dies_after_a_failure_leaves_what_was_acknowledged(folder, undisturbed, monkeypatch):
    """And possibly more: later processes see a commit that was written, even if its sync failed."""
    surplus = 0
    for at in range(counted(folder / "plain", 8)):
        disk = Disk(folder / str(at), 8)
        disk.folder.mkdir()
        disk.fail(at, "EIO", True)
        done, steps = [], -1
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "connect", disk.connect)
            try:
                opt = study(disk.folder)
                for step in range(3 * STEPS):
                    steps = step
                    use(opt, step)
                steps = 3 * STEPS
            except eb.StorageError:
                done = list(disk.done)
        if done:
            recording = Recording(done, [0] * (steps + 1))
            surplus += survives(len(done), "only the process died", recording, folder / f"{at} after", undisturbed)
    assert surplus > 5
