"""Long answers wait for one thread: only so many may, and what nobody wants any more is not read."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

import ebbtide as eb
from ebbtide.errors import BusyError, StudyError
from ebbtide.service.events import Streams
from ebbtide.service.reader import MAX_WAITING, Reader
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0)}


@pytest.fixture
def reader(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    with eb.Optimizer(SPACE, algorithm="random", seed=0, storage=url, name="s") as optimizer:
        optimizer.tell({"x": 0.5}, 1.0)
    reader = Reader(url)
    yield reader
    reader.close()


@contextmanager
def occupied(reader):
    """The thread for long answers is at work for somebody else."""
    done = threading.Event()
    task = asyncio.ensure_future(reader.read_news(lambda storage: done.wait()))
    try:
        yield
    finally:
        done.set()
        task.add_done_callback(lambda task: task.result())


def first_slice(reader):
    return reader.first_slice("s", 0, 10, None)


def test_if_too_many_long_answers_wait_one_more_is_refused(reader):
    async def run():
        with occupied(reader):
            waiting = [asyncio.create_task(first_slice(reader)) for _ in range(MAX_WAITING)]
            await asyncio.sleep(0)
            for refused in (first_slice(reader), reader.end("s")):  # a page, a stream
                with pytest.raises(BusyError, match=f"^{MAX_WAITING} long answers are already waiting; try again"):
                    await refused
            begun = asyncio.create_task(reader.next_slice("s", 0, 10, None))
            assert (await reader.study("s"))["told"] == 1  # whoever reads little does not wait
            assert not any(task.done() for task in (*waiting, begun))
        slices = await asyncio.gather(*waiting, begun)
        assert all(each.lines.startswith(b'{"line":0,') for each in slices)
        assert await reader.end("s") == (0, 1)

    asyncio.run(run())


def test_streams_that_have_caught_up_do_not_count_among_those_who_wait(reader):
    async def run():
        streams = Streams(100)
        following = [streams.follow(reader, "s", (0, 1)) for _ in range(MAX_WAITING + 1)]
        for stream in following:
            assert await anext(stream) == "retry: 1000\n\n"
        news = [asyncio.ensure_future(anext(stream)) for stream in following]
        await asyncio.sleep(0)
        await reader.read_on(lambda storage: None)  # after those before it, so now they have caught up
        with occupied(reader):
            reader.notifier.announce("s")
            await asyncio.sleep(0.01)  # now all of them read
            page = asyncio.create_task(first_slice(reader))
        assert (await page).lines
        for task in news:
            task.cancel()
        await asyncio.gather(*news, return_exceptions=True)

    asyncio.run(run())


def test_a_stream_that_was_ended_while_it_waited_is_not_read(reader):
    async def run():
        streams = Streams(1)
        old, new = (streams.follow(reader, "s", (0, 0)) for _ in range(2))
        with occupied(reader):
            await anext(old)
            late = asyncio.ensure_future(anext(old, "ended"))
            await asyncio.sleep(0)
            await anext(new)
        assert await late == "ended"
        assert (await anext(new)).startswith("id: 0.1\nevent: told\n")

    asyncio.run(run())


def test_what_is_the_same_for_everybody_is_read_once_for_all_who_wait_for_it(reader):
    times = 0

    def names(storage):
        nonlocal times
        times += 1
        return ",".join(storage.names()).encode()

    async def run():
        with occupied(reader):
            many = [asyncio.create_task(reader.read_shared(names)) for _ in range(10 * MAX_WAITING)]
            await asyncio.sleep(0)
        assert set(await asyncio.gather(*many)) == {b"s"}
        assert times == 1
        Storage.of(f"sqlite:///{reader._long.storage.database.path}").delete("s")
        assert await reader.read_shared(names) == b""  # not what was read before

    asyncio.run(run())


def test_whoever_shares_an_error_gets_it_and_the_next_one_tries_again(reader):
    outcomes = iter([StudyError("once"), None])

    def read(storage):
        if error := next(outcomes):
            raise error
        return b"well"

    async def run():
        with occupied(reader):
            both = [asyncio.create_task(reader.read_shared(read)) for _ in range(2)]
            await asyncio.sleep(0)
        for task in both:
            with pytest.raises(StudyError, match="once"):
                await task
        assert await reader.read_shared(read) == b"well"

    asyncio.run(run())
