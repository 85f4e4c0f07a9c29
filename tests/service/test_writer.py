"""The writing thread: batches, failures in them, and its end."""

import threading
from functools import partial

import pytest

import ebbtide as eb
from ebbtide.errors import StorageError
from ebbtide.service.writer import Writer
from ebbtide.study.storage import Storage


@pytest.fixture
def writer(tmp_path):
    storage = Storage.of(f"sqlite:///{tmp_path}/w.db", create=True)
    undone = []
    writer = Writer(storage.database, lambda: undone.append(True))
    writer.undone = undone  # type: ignore[attr-defined]
    yield writer
    writer.close()
    storage.close()


def _held(writer):
    """Keep the writer busy, so that what is submitted meanwhile is one batch."""
    started, release = threading.Event(), threading.Event()
    busy = writer.submit(lambda: started.set() or release.wait())
    assert started.wait(60)
    return busy, release


def test_one_that_fails_does_not_spoil_the_batch(writer):
    _, release = _held(writer)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"

    def fail():
        with writer.database.transaction():
            writer.database.run(insert, ("never",))
            raise eb.TrialError("no")

    futures = [
        writer.submit(lambda: writer.database.run(insert, ("a",))),
        writer.submit(fail),
        writer.submit(lambda: writer.database.run(insert, ("b",))),
    ]
    release.set()
    futures[0].result(60)
    futures[2].result(60)
    with pytest.raises(eb.TrialError):
        futures[1].result(60)
    assert [name for (name,) in writer.database.rows("SELECT name FROM studies ORDER BY name")] == ["a", "b"]
    assert writer.undone == []


def test_a_disk_that_fails_takes_the_whole_batch_with_it_and_says_so(writer):
    _, release = _held(writer)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"

    def full():
        raise StorageError("the disk is full")

    futures = [writer.submit(lambda: writer.database.run(insert, ("a",))), writer.submit(full)]
    release.set()
    for future in futures:
        with pytest.raises(StorageError, match="full"):
            future.result(60)
    assert writer.database.rows("SELECT name FROM studies") == []
    assert writer.undone == [True]
    writer.submit(lambda: writer.database.run(insert, ("b",))).result(60)  # and it goes on


def test_what_was_submitted_is_finished_before_the_end(tmp_path):
    storage = Storage.of(f"sqlite:///{tmp_path}/w.db", create=True)
    writer = Writer(storage.database, lambda: None)
    insert = "INSERT INTO studies (name, created, definition) VALUES (?, 0, '{}')"
    futures = [writer.submit(partial(storage.database.run, insert, (str(i),))) for i in range(50)]
    writer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    assert not writer.alive
    storage.close()
