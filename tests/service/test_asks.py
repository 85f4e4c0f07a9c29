"""Asks that are overtaken, that wait, or that fail halfway, in this process."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from helpers.direct import ThreadWorkers, running

import ebbtide as eb
from ebbtide.errors import NumericalError
from ebbtide.service import app
from ebbtide.service import studies as studies_module
from ebbtide.service.queues import AskQueues
from ebbtide.service.worker import compute_step

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
ASK = ("POST", "/studies/s/ask")


@pytest.fixture
def direct(tmp_path):
    with running(tmp_path / "s.db") as direct:
        assert direct.call("POST", "/studies", {"name": "s", "space": SPACE, "seed": 0}).status == 201
        yield direct


def test_an_ask_that_other_processes_always_overtake_makes_them_wait(direct, tmp_path, monkeypatch):
    rivals, outcomes = [], []

    def overtaken(plan):
        if len(rivals) < studies_module.RACES:
            rivals.append(rival.ask().id)
        else:
            with closing(sqlite3.connect(tmp_path / "s.db", timeout=0.0, isolation_level=None)) as third:
                try:
                    third.execute("BEGIN IMMEDIATE")
                    outcomes.append("nobody waits")
                except sqlite3.OperationalError as error:
                    outcomes.append(error.sqlite_errorname)
        return compute_step(plan)

    monkeypatch.setattr(studies_module, "compute_step", overtaken)
    with closing(eb.Optimizer.open(f"sqlite:///{tmp_path}/s.db", "s")) as rival:
        assert direct.call(*ASK).json["id"] == "2"
        assert rivals == ["0", "1"]
        assert outcomes == ["SQLITE_BUSY"]
        assert rival.ask().id == "3"
    assert direct.call("POST", "/studies/s/tell", {"id": "2", "value": 1.0}).status == 200


def test_an_ask_that_takes_too_long_is_answered_and_the_next_one_is_served(direct, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(studies_module, "compute_step", lambda plan: released.wait(60) and compute_step(plan))
    with monkeypatch.context() as impatient:
        impatient.setattr(studies_module, "ANSWER_S", 0.05)
        late = direct.call(*ASK)
    assert (late.status, late.error, late.headers["retry-after"]) == (503, "BusyError", "1")
    assert "0.05 s" in late.json["error"]["message"]
    released.set()
    assert direct.call(*ASK).json["id"] == "0"


def test_after_an_error_the_trials_made_before_it_are_called_off(direct, monkeypatch):
    steps = []

    def third_fails(plan):
        steps.append(plan)
        if len(steps) == 3:
            raise NumericalError("no")
        return compute_step(plan)

    monkeypatch.setattr(studies_module, "compute_step", third_fails)
    failed = direct.call(*ASK, {"n": 4})
    assert (failed.status, failed.error) == (503, "NumericalError")
    assert failed.json["error"]["message"] == "no"
    study = direct.call("GET", "/studies/s").json
    assert (study["asked"], study["abandoned"]) == (2, 2)


def test_the_oldest_wait_is_that_of_the_ask_that_came_first():
    async def wait():
        queues, ages = AskQueues(), []
        assert queues.oldest_wait == 0.0
        async with queues.of("a"):
            await asyncio.sleep(0.02)
            async with queues.of("b"):
                ages.append(queues.oldest_wait)
            ages.append(queues.oldest_wait)
        return [*ages, queues.oldest_wait]

    first, second, last = asyncio.run(wait())
    assert 0.0 < first <= second
    assert last == 0.0


def test_a_service_says_that_it_is_ready_when_its_workers_are(tmp_path, monkeypatch):
    """Tells are taken before that."""
    said = []

    class Starting(ThreadWorkers):
        alive = 0

        def __init__(self, *_):
            self.processes = 2

    monkeypatch.setattr("helpers.direct.ThreadWorkers", Starting)
    with running(tmp_path / "s.db", on_ready=lambda: said.append(Starting.alive)) as direct:
        for alive in (0, 1, 2):
            Starting.alive = alive
            assert direct.call("POST", "/studies", {"name": f"s{alive}", "space": SPACE}).status == 201
            direct.run(asyncio.sleep(4 * app.LOOK_S))
    assert said == [2]
