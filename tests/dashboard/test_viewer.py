"""The viewer: who shares a view, who waits, and what happens when a view fails."""

import asyncio
import gc
import gzip
import json
import os
import sqlite3
from contextlib import closing

import pytest
from helpers.serving import PATIENCE_S
from helpers.stories import made, url

from ebbtide.errors import BusyError, StorageError, UnknownStudyError
from ebbtide.service import viewer
from ebbtide.service.viewer import Viewer, study_view, trail_view

URL = "sqlite:///s.db"


class Bench:
    """Workers that wait for `go` before they work."""

    def __init__(self):
        self.begun, self.go = [], asyncio.Event()
        self.fails = None

    async def do(self, study, size, view, *arguments):
        self.begun.append((view, *arguments))
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        return repr(arguments).encode()


@pytest.fixture
def bench(monkeypatch):
    bench = Bench()
    monkeypatch.setattr(viewer, "Workers", lambda *_: bench)
    return bench


@pytest.fixture
def views(bench):
    return Viewer(URL)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE_S))


async def begin(*coroutines):
    """Tasks that have got as far as they get."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_viewers_of_the_same_share_one_view(views, bench):
    async def crowd():
        same = await begin(*(views.study("edge", 250, None) for _ in range(200)))
        other = await begin(views.study("edge", 250, "x"), views.trail("edge", 250))
        assert bench.begun == [
            (study_view, URL, "edge", 250, None, None, None),
            (study_view, URL, "edge", 250, "x", None, None),
            (trail_view, URL, "edge", 250),
        ]
        bench.go.set()
        assert set(await asyncio.gather(*same)) == {repr((URL, "edge", 250, None, None, None)).encode()}
        assert len(set(await asyncio.gather(*other))) == 2

    run(crowd())


def test_a_view_is_kept_for_a_moment_and_no_longer(views, bench, monkeypatch):
    monkeypatch.setattr(viewer, "STUDY_KEPT_S", 0.3)

    async def again():
        bench.go.set()
        for _ in range(3):
            await views.study("edge", None, None)
        assert len(bench.begun) == 1
        while len(bench.begun) == 1:
            await asyncio.sleep(0.01)
            await views.study("edge", None, None)

    run(again())


def test_only_so_many_views_wait(views, bench):
    async def crowd():
        waiting = await begin(*(views.study(f"edge-{i}", None, None) for i in range(viewer.MAX_WAITING)))
        for number in range(3):
            with pytest.raises(BusyError, match="try again"):
                await views.study(f"more-{number}", None, None)
        joined = await begin(views.study("edge-0", None, None))  # which is being worked out anyway
        assert len(bench.begun) == viewer.MAX_WAITING
        bench.go.set()
        seen = await asyncio.gather(*waiting, *joined)
        assert len(set(seen)) == viewer.MAX_WAITING
        assert seen[0] == seen[-1]

    run(crowd())


def test_a_view_that_is_kept_does_not_count_as_waiting(views, bench):
    async def one_after_the_other():
        bench.go.set()
        for number in range(2 * viewer.MAX_WAITING):
            await views.study(f"edge-{number}", None, None)

    run(one_after_the_other())


def test_a_viewer_that_leaves_does_not_cancel_the_view_of_others(views, bench):
    async def leave():
        first, second, third = await begin(*(views.study("edge", None, None) for _ in range(3)))
        first.cancel()
        third.cancel()
        answers = await asyncio.gather(first, third, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
        (late,) = await begin(views.study("edge", None, None))
        bench.go.set()
        assert len(set(await asyncio.gather(second, late))) == 1
        assert len(bench.begun) == 1

    run(leave())


def test_all_viewers_learn_of_a_failure_which_is_then_forgotten(views, bench, monkeypatch):
    monkeypatch.setattr(viewer, "STUDY_KEPT_S", 0.0)

    async def fail():
        bench.fails = UnknownStudyError("there is no study 'edge'")
        tasks = await begin(*(views.study("edge", None, None) for _ in range(3)))
        tasks[0].cancel()
        bench.go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError, UnknownStudyError, UnknownStudyError]
        bench.fails = None
        await asyncio.sleep(0.01)
        assert await views.study("edge", None, None)

    run(fail())


def test_a_failure_after_all_viewers_have_left_is_not_logged(views, bench):
    """The log would hold a traceback for each study that is deleted while somebody looks at it."""
    logged = []

    async def fail():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context["message"]))
        bench.fails = UnknownStudyError("there is no study 'edge'")
        (alone,) = await begin(views.trail("edge", None))
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)
        bench.go.set()
        while len(bench.begun) == 1:  # until the failure is forgotten
            await asyncio.gather(*await begin(views.trail("edge", None)), return_exceptions=True)
        gc.collect()

    run(fail())
    assert logged == []


def told(path, name="edge"):
    """How many observations the view shows, by the function that runs in the viewer's process."""
    return json.loads(gzip.decompress(study_view(url(path), name, None, None)))["study"]["told"]


def test_a_file_that_cannot_be_read_is_opened_again(tmp_path):
    """It may come back, or be another one."""
    path = tmp_path / "s.db"
    with pytest.raises(StorageError):
        told(path)
    made(path, steps=2)
    assert told(path) == 2
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE studies RENAME TO hidden")
    with pytest.raises(StorageError):
        told(path)
    made(tmp_path / "other.db", steps=3)
    for part in tmp_path.glob("s.db*"):
        part.unlink()
    os.replace(tmp_path / "other.db", path)
    assert told(path) == 3
    with pytest.raises(UnknownStudyError):
        told(path, "nobody")
    assert told(path) == 3
