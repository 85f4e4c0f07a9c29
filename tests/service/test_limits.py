"""The limits of the service, in this process."""

import asyncio
import itertools
import json

import pytest
from helpers.direct import running
from helpers.serving import served

from ebbtide import service
from ebbtide.service import middleware, reader
from ebbtide.service import studies as studies_module

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}

LIMITS = service.Limits(rate=0.5, studies=6, width=10, trials=3, active=100, streams=4)


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    with running(tmp_path_factory.mktemp("direct") / "s.db", limits=LIMITS) as direct:
        yield direct


@pytest.fixture
def studies(direct):
    """As many as there may be."""
    names = [f"study {i}" for i in range(LIMITS.studies)]
    for name in names:
        made = direct.call("POST", "/studies", {"name": name, "space": SPACE, "algorithm": "random", "seed": 0})
        assert made.status == 201, made
    yield names
    for name in names:
        direct.call("DELETE", f"/studies/{name}")


def test_there_are_only_so_many_studies_until_one_is_deleted(direct, studies):
    more = {"name": "one more", "space": SPACE}
    refused = direct.call("POST", "/studies", more)
    assert (refused.status, refused.error) == (409, "StudyError")
    assert direct.call("DELETE", f"/studies/{studies[0]}").status == 204
    assert direct.call("POST", "/studies", more).status == 201
    assert direct.call("DELETE", "/studies/one more").status == 204


def test_how_many_there_may_be_is_an_option(tmp_path):
    with served(tmp_path, "--max-studies", "1") as server:
        made = [server.call("POST", "/studies", {"name": name, "space": SPACE}).status for name in ("a", "b")]
    assert made == [201, 409]


def test_an_address_that_sends_too_many_requests_has_to_wait_and_others_do_not(direct):
    answers = [direct.call("GET", "/healthz", address="10.9.9.9") for _ in range(20)]
    assert answers[0].status == 200
    slowed = [answer for answer in answers if answer.status == 429]
    assert slowed
    assert {(answer.error, answer.headers["retry-after"]) for answer in slowed} == {("Too Many Requests", "1")}
    assert direct.call("GET", "/healthz", address="10.9.9.8").status == 200


def test_the_rates_of_so_many_addresses_are_remembered():
    rates = middleware.Rates(1.0)
    assert [rates.allow("first", 0.0) for _ in range(3)] == [True, True, False]
    for number in range(middleware.MAX_ADDRESSES - 1):
        assert rates.allow(str(number), 0.0)
    assert not rates.allow("first", 0.0)
    for number in range(middleware.MAX_ADDRESSES):
        assert rates.allow(f"other {number}", 0.0)
    assert rates.allow("first", 0.0)  # forgotten


def test_only_the_beginning_of_a_long_address_is_remembered(direct):
    """Behind a proxy it is whatever a header says."""
    answers = [direct.call("GET", "/healthz", address="x" * 10**6 + end).status for end in "abc"]
    assert answers == [200, 429, 429]


def test_a_space_has_only_so_many_coordinates(direct):
    wide = {"x": {"type": "categorical", "choices": list(range(LIMITS.width))}, "y": SPACE["x"]}
    refused = direct.call("POST", "/studies", {"name": "wide", "space": wide})
    assert (refused.status, refused.error) == (422, "ConfigurationError")
    del wide["y"]
    assert direct.call("POST", "/studies", {"name": "wide", "space": wide}).status == 201
    assert direct.call("DELETE", "/studies/wide").status == 204


def test_only_so_many_trials_are_given_at_once(direct, studies):
    path = f"/studies/{studies[0]}/ask"
    assert len(direct.call("POST", path, {"n": LIMITS.trials}).json["trials"]) == LIMITS.trials
    for n in (LIMITS.trials + 1, 10**9, 10**400):
        refused = direct.call("POST", path, {"n": n})
        assert (refused.status, refused.error) == (422, "ObservationError")
    assert direct.call("GET", f"/studies/{studies[0]}").json["asked"] == LIMITS.trials


def test_a_model_of_everything_told_has_only_so_many_observations_and_the_study_can_still_be_told(direct):
    """A window of a hundred is served, however many were told."""
    answers = {}
    for algorithm in ("gp-ucb", "sliding-window"):
        new = {"name": algorithm, "space": SPACE, "algorithm": algorithm, "seed": 0}
        assert direct.call("POST", "/studies", new).status == 201
        for told in range(LIMITS.active + 1):
            before = direct.call("POST", f"/studies/{algorithm}/ask") if told == LIMITS.active else None
            tell = {"params": {"x": told / LIMITS.active}, "value": float(told % 7)}
            assert direct.call("POST", f"/studies/{algorithm}/tell", tell).status == 200
        assert before is not None
        assert before.status == 200
        answers[algorithm] = [
            direct.call("POST", f"/studies/{algorithm}/ask"),
            direct.call("GET", f"/studies/{algorithm}/recommend"),
        ]
        assert direct.call("DELETE", f"/studies/{algorithm}").status == 204
    assert [answer.status for answer in answers["sliding-window"]] == [200, 200]
    for refused in answers["gp-ucb"]:
        assert (refused.status, refused.error) == (422, "ConfigurationError")
        message = refused.json["error"]["message"]
        assert all(part in message for part in ("gp-ucb", "101", "at most 100", '"tide"'))


def test_a_page_holds_fewer_observations_if_they_are_long_and_none_is_left_out(direct, studies, monkeypatch):
    path = f"/studies/{studies[0]}"
    for value in range(5):
        assert direct.call("POST", f"{path}/tell", {"params": {"x": 0.5}, "value": value}).status == 200
    space = len(json.dumps(direct.call("GET", path).json["space"]))
    monkeypatch.setattr(reader, "PAGE_CHARACTERS", 2 * space + 1)
    values, sizes, start = [], [], 0
    while start is not None:
        page = direct.call("GET", f"{path}/observations", query=f"start={start}").json
        values += [observation["value"] for observation in page["observations"]]
        sizes.append(len(page["observations"]))
        start = page["next"]
    assert values == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sizes == [2, 2, 1]
    monkeypatch.setattr(reader, "PAGE_CHARACTERS", 1)
    assert len(direct.call("GET", f"{path}/observations").json["observations"]) == 1


def test_only_so_many_streams_are_open_at_once_and_one_more_ends_the_oldest(direct, studies):
    path = f"/studies/{studies[0]}/events"

    async def listener(ended, number):
        async def reads():
            if next(times) == 0:
                return {"type": "http.request", "body": b"", "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def hears(message):
            if message["type"] == "http.response.start":
                begun.set_result(message["status"])
            elif not message.get("more_body"):
                ended.append(number)

        times, gone, begun = itertools.count(), asyncio.Event(), asyncio.Future()
        task = asyncio.create_task(direct.request("GET", path, receive=reads, send=hears))
        assert await begun == 200
        return task, gone

    async def one_after_the_other(count):
        ended = []
        streams = [await listener(ended, number) for number in range(count)]
        while len(ended) < count - LIMITS.streams:
            await asyncio.sleep(0.05)
        for _, gone in streams:
            gone.set()
        await asyncio.gather(*(task for task, _ in streams))
        return ended

    for _ in range(2):
        assert sorted(direct.run(one_after_the_other(3 * LIMITS.streams))) == list(range(2 * LIMITS.streams))


def test_a_page_that_is_read_in_slices_is_one_page(direct, studies, monkeypatch):
    path = f"/studies/{studies[0]}"
    for value in range(7):
        assert direct.call("POST", f"{path}/tell", {"params": {"x": 0.5}, "value": value}).status == 200
    pages = ["start=0", "start=2&limit=3", "start=2&limit=5", "start=2&active=true", "start=7", "active=false"]
    whole = [direct.call("GET", f"{path}/observations", query=page).json for page in pages]
    space = len(json.dumps(direct.call("GET", path).json["space"]))
    for lines in (1, 2, 3):
        monkeypatch.setattr(reader, "SLICE_CHARACTERS", lines * space)
        assert [direct.call("GET", f"{path}/observations", query=page).json for page in pages] == whole


def test_a_page_ends_early_if_its_study_is_deleted_meanwhile(direct, studies, monkeypatch):
    path = f"/studies/{studies[0]}"
    for value in range(3):
        assert direct.call("POST", f"{path}/tell", {"params": {"x": 0.5}, "value": value}).status == 200
    monkeypatch.setattr(reader, "SLICE_CHARACTERS", 1)

    async def delete_meanwhile():
        parts = []

        async def hears(message):
            parts.append(message.get("body", b""))
            if len(parts) == 2:
                assert (await direct.request("DELETE", path)).status == 204

        await direct.request("GET", f"{path}/observations", send=hears)
        return json.loads(b"".join(parts))

    page = direct.run(delete_meanwhile())
    assert [observation["line"] for observation in page["observations"]] == list(range(page["next"]))
    assert direct.call("GET", f"{path}/observations", query=f"start={page['next']}").status == 404


def test_a_body_that_does_not_arrive_is_not_waited_for_for_ever(direct, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_S", 0.05)
    answer = direct.call("POST", "/studies", receive=lambda: asyncio.Future())
    assert (answer.status, answer.error, answer.headers["connection"]) == (408, "Request Timeout", "close")


def test_a_cancelled_request_is_answered_and_stops_nothing_else(direct, studies):
    """A server that stops cancels its requests: clients that wait are told to come back."""

    async def cancel_some():
        tell = {"params": {"x": 0.5}, "value": 1.0}
        ways = [("POST", f"/studies/{studies[0]}/{verb}", tell if verb == "tell" else {}) for verb in ("tell", "ask")]
        cancelled = []
        for method, path, body in ways * 20:
            task = asyncio.create_task(direct.request(method, path, body))
            for _ in range(1 + len(cancelled) % 7):
                await asyncio.sleep(0)
            task.cancel()
            cancelled += await asyncio.gather(task, return_exceptions=True)
        return [answer for answer in cancelled if not isinstance(answer, asyncio.CancelledError)]  # it was answered

    cancelled = direct.run(cancel_some())
    assert {answer.status for answer in cancelled} <= {200, 503}
    refused = [answer for answer in cancelled if answer.status == 503]
    assert refused
    assert {(answer.error, answer.headers["retry-after"]) for answer in refused} == {("Service Unavailable", "1")}
    assert direct.call("GET", "/healthz").status == 200
    assert direct.call("POST", f"/studies/{studies[0]}/ask").status == 200


def test_more_studies_than_are_kept_open_are_all_served(direct, studies, monkeypatch):
    """An ask may find that its study was closed meanwhile, to make room; it must not start again forever."""
    monkeypatch.setattr(studies_module, "MAX_OPEN", 1)

    async def ask_all():
        return await asyncio.gather(*(direct.request("POST", f"/studies/{name}/ask") for name in studies))

    for k in range(3):
        answers = direct.run(ask_all())
        assert [(answer.status, answer.json["id"]) for answer in answers] == [(200, str(k))] * len(studies)
