"""Worker processes that are late, frozen, dead or out of memory, and who gets the next one."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from helpers.serving import PATIENCE_S, gone

import ebbtide as eb
from ebbtide.service.jobs import Job, Jobs
from ebbtide.service.worker import Bounds, Worker
from ebbtide.service.workers import Workers

GENEROUS = Bounds(seconds=PATIENCE_S)


@contextmanager
def pool(processes=1, bounds=GENEROUS):
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("worker", "workers"):
            patch.setattr(f"ebbtide.service.{module}.TICK_S", 0.1)  # what is stopped is noticed sooner
        started = Workers(processes, 0, bounds)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture(scope="module")
def two():
    with pool(2) as workers:
        yield workers


@pytest.fixture(name="workers")
def both(two):
    """Two of them, whatever the test before has done to them."""
    two.start()
    until(lambda: two.alive == 2)
    return two


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 3 * PATIENCE_S))


async def pid_of(workers, study="a"):
    return await workers.do(study, 0, os.getpid)


def opened(path):
    """The other end of a pipe, as soon as somebody has opened the one; open until both have noticed."""
    with path.open("w"):
        time.sleep(0.2)


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_the_next_is_done():
    async def too_long():
        late = await pid_of(workers)
        with pytest.raises(eb.WorkerError, match=r"longer than 1 s.*forgets"):
            await workers.do("a", 0, time.sleep, 2 * PATIENCE_S)
        assert await pid_of(workers) != late
        assert gone(late)

    with pool(bounds=Bounds(seconds=1.0)) as workers:
        run(too_long())


@pytest.mark.slow
def test_a_worker_says_how_long_a_core_was_busy(workers):
    """Waiting does not count: on a busy machine every model takes long, and that makes no study slow."""

    async def work():
        spent = await workers.use("a", 0, lambda worker: [worker.do(time.sleep, 0.5), worker.spent][1])
        busy = await workers.use("a", 0, lambda worker: [worker.do(sum, range(10**7)), worker.spent][1])
        assert spent < busy

    run(work())


def test_a_worker_imports_no_web_framework():
    """It would take as long as everything else."""
    command = "import sys, ebbtide.service.viewer as viewer; sys.exit('fastapi' in sys.modules or viewer is None)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0


@pytest.mark.slow
def test_what_needs_too_much_memory_is_refused_and_the_next_is_done():
    async def too_much():
        greedy = await pid_of(workers)
        with pytest.raises(eb.WorkerError, match=r"more than 64 MB of memory.*forgets"):
            await workers.do("a", 0, bytearray, 1 << 27)
        assert len(await workers.do("a", 0, bytearray, 1 << 20)) == 1 << 20
        assert gone(greedy)

    with pool(bounds=Bounds(PATIENCE_S, 64 << 20)) as workers:
        run(too_much())


@pytest.mark.slow
def test_what_kills_every_worker_is_given_up_and_others_are_served(workers):
    async def deadly():
        with pytest.raises(eb.WorkerError, match="keep dying"):
            await workers.do("a", 0, os._exit, 1)
        assert not gone(await pid_of(workers, "b"))

    run(deadly())


@pytest.mark.slow
def test_only_what_a_frozen_worker_held_is_done_again(workers, tmp_path):
    """A worker is stopped while it waits for the other end of a pipe; the other worker goes on."""
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def freeze():
        asked = asyncio.create_task(workers.do("a", 0, os.open, path, os.O_RDONLY))
        while "a" not in workers._jobs._running:  # otherwise the worker of "b" may take it later
            await asyncio.sleep(0.01)
        other = await pid_of(workers, "b")
        (held,) = set(pids(workers)) - {other}
        os.kill(held, signal.SIGSTOP)
        assert await pid_of(workers, "b") == other
        while not gone(held):
            await asyncio.sleep(0.02)
        assert not asked.done()
        await asyncio.to_thread(opened, path)  # what it waited for: now its successor can go on
        await asked

    run(freeze())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_worker_that_is_stopped_or_killed_while_it_has_nothing_to_do_is_replaced(workers, how):
    victim = pids(workers)[0]
    os.kill(victim, how)
    until(lambda: gone(victim) and victim not in pids(workers))
    until(lambda: workers.alive == 2)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["starting", "busy", "stopped", "full"])
def test_the_end_waits_for_no_worker(state):
    """A stopped worker does not notice SIGTERM, one that imports does so late. "full": its pipe, stopped as it is."""

    async def occupy():
        if state == "starting":
            workers.start()
            until(lambda: pids(workers))
            return
        worker = await pid_of(workers)
        if state != "busy":
            os.kill(worker, signal.SIGSTOP)
        arguments = (len, bytes(1 << 22)) if state == "full" else (time.sleep, 2 * PATIENCE_S)
        task = asyncio.create_task(workers.do("a", 0, *arguments))
        await asyncio.sleep(0.2)
        task.cancel()

    with pool() as workers:
        run(occupy())
        found = pids(workers)
        assert found
    assert all(map(gone, found))


@pytest.mark.slow
def test_one_study_never_has_two_workers(workers, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def ask():
        first, second = (asyncio.create_task(workers.do("a", 0, os.open, path, os.O_RDONLY)) for _ in range(2))
        for _ in range(3):
            await pid_of(workers, "b")
        assert not first.done()
        assert not second.done()
        for task in (first, second):
            await asyncio.to_thread(opened, path)
            await task

    run(ask())


def pids(workers):
    return [worker._process.pid for worker in list(workers._workers)]


class Idle:
    """A worker, as the jobs see it."""

    spent = 0.0
    alive = True


def idle():
    return cast(Worker, Idle())


def do_all(jobs):
    """In one thread. What they are to do needs no worker."""
    order, worker = [], idle()
    while (job := jobs._next(worker)) is not None:
        order.append(job.study)
        jobs.do(job, worker)
    return order


def nothing(worker):
    pass


def taken(jobs):
    """The studies that two free workers would serve now."""
    found = [jobs._next(idle()), jobs._next(idle())]
    return [job.study for job in found if job is not None]


def test_studies_take_turns():
    jobs = Jobs(1)
    for study in "aaabbc":
        jobs.put(study, 0, nothing)
    assert do_all(jobs) == list("abcaba")


def test_studies_with_large_models_leave_a_worker_to_the_others():
    jobs = Jobs(2)
    for study, size in (("large", 2000), ("larger", 2000), ("small", 10)):
        jobs.put(study, size, nothing)
    assert taken(jobs) == ["large", "small"]


def test_a_study_counts_as_slow_by_its_last_model():
    jobs = Jobs(2)
    for study, seconds in (("small and slow", 5.0), ("large and quick", 0.1)):
        jobs.put(study, 0, nothing)
        worker = idle()
        jobs._done(cast(Job, jobs._next(worker)), worker, seconds)
        jobs.forget(worker)
    for study, size in (("small and slow", 10), ("unknown and large", 2000), ("large and quick", 2000)):
        jobs.put(study, size, nothing)
    assert taken(jobs) == ["small and slow", "large and quick"]


def test_what_was_cancelled_is_not_done():
    jobs, done = Jobs(1), []
    futures = [jobs.put("a", 0, lambda worker, n=n: done.append(n)) for n in range(3)]  # type: ignore[misc]
    futures[1].cancel()
    do_all(jobs)
    assert done == [0, 2]


def test_nothing_is_accepted_after_the_end():
    jobs = Jobs(1)
    waiting = jobs.put("a", 0, nothing)
    jobs.close()
    assert waiting.cancelled()
    with pytest.raises(eb.BusyError, match="stopping"):
        jobs.put("a", 0, nothing)


@pytest.fixture
def clock(monkeypatch):
    """The time that the jobs see."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr("ebbtide.service.jobs.time", clock)
    return clock


def served(jobs, worker, study, clock, seconds=0.005):
    """A job of a study, done by a worker."""
    job = at_work(jobs, worker, study)
    assert job.study == study
    clock.now += seconds
    jobs._done(job, worker, seconds)


def at_work(jobs, worker, study):
    """A worker has begun to work for a study."""
    jobs.put(study, 0, nothing)
    return cast(Job, jobs._next(worker))


def test_a_study_stays_with_its_worker(clock):
    jobs, one, other = Jobs(2), idle(), idle()
    served(jobs, one, "a", clock)
    served(jobs, other, "b", clock)
    for study in "abab":
        jobs.put(study, 0, nothing)
    first, second = jobs._next(other), jobs._next(one)
    assert first is not None
    assert second is not None
    assert (first.study, second.study) == ("b", "a")
    assert jobs._next(other) is None  # the others wait for theirs
    jobs._done(second, one, 0.01)
    assert jobs._next(other) is None


def test_a_study_whose_worker_is_gone_gets_another(clock):
    jobs, one, other = Jobs(2), idle(), idle()
    served(jobs, one, "a", clock)
    jobs.put("a", 0, nothing)
    assert jobs._next(other) is None
    jobs.forget(one)
    assert jobs._next(other) is not None


def test_a_study_whose_worker_is_busy_for_long_gets_another_even_if_that_one_has_enough_to_do(clock):
    jobs, one, other = Jobs(3), idle(), idle()
    served(jobs, one, "a", clock, seconds=0.005)
    served(jobs, one, "long", clock, seconds=0.005)
    served(jobs, other, "b", clock)
    at_work(jobs, one, "long")
    for study in "ab":
        jobs.put(study, 0, nothing)
    clock.now += 0.09
    assert at_work(jobs, other, "b").study == "b"
    clock.now += 0.02
    assert cast(Job, jobs._next(other)).study == "a"


def test_a_slow_study_waits_longer_for_its_worker_but_not_forever(clock):
    jobs, one, other = Jobs(3), idle(), idle()
    served(jobs, one, "slow", clock, seconds=0.9)
    served(jobs, one, "long", clock)
    served(jobs, other, "a", clock)
    at_work(jobs, one, "long")
    jobs.put("slow", 0, nothing)
    clock.now += 1.9
    assert jobs._next(other) is None
    clock.now += 0.2
    assert jobs._next(other) is not None


def test_a_worker_that_has_nothing_to_do_takes_over_what_has_waited_for_long(clock):
    """Its own worker is busy with one short job after the other."""
    jobs, one, other = Jobs(2), idle(), idle()
    for study in "abcd":
        served(jobs, one, study, clock)
    for study in "efg":
        served(jobs, other, study, clock)
    for study in "abcd":
        jobs.put(study, 0, nothing)
    for study, seconds in zip("abc", (0.09, 0.005, 0.006), strict=True):
        found = cast(Job, jobs._next(one))
        assert found.study == study
        clock.now += seconds
        assert (jobs._next(other) is None) == (study != "c")
        jobs._done(found, one, 0.01)
    assert jobs._running.keys() == {"d"}


def test_a_worker_that_has_nothing_to_do_takes_over_a_study_of_one_that_has_two_more(clock):
    jobs, one, other = Jobs(2), idle(), idle()
    for study in "abcde":
        served(jobs, one, study, clock)
    jobs.put("a", 0, nothing)
    assert jobs._next(other) is None  # its worker is free
    moved = []
    jobs._begin(jobs._waiting["a"][0], one, clock.now)
    for study in "bcde":
        jobs.put(study, 0, nothing)
        if (job := jobs._next(other)) is not None:
            moved.append(job.study)
            jobs._done(job, other, 0.01)
    assert moved == ["b", "c"]


@pytest.mark.slow
def test_the_jobs_of_a_study_are_done_by_the_same_process(workers, monkeypatch):
    monkeypatch.setattr("ebbtide.service.jobs.SHORTEST_S", PATIENCE_S)
    monkeypatch.setattr("ebbtide.service.jobs.LONGEST_S", PATIENCE_S)
    monkeypatch.setattr("ebbtide.service.jobs.IN_USE_S", 0.0)  # none has too many studies, so none is moved for that

    async def ask():
        found = [[await pid_of(workers, study) for study in "abcd"] for _ in range(3)]
        assert found[0] == found[1] == found[2]
        os.kill(found[0][0], signal.SIGKILL)
        until(lambda: gone(found[0][0]))
        assert await pid_of(workers, "a") != found[0][0]

    run(ask())
