"""A study's log as server-sent events."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice

import pytest
from helpers.serving import read_chunk, storage_of

import ebbtide as eb

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


def _events(stream):
    """Each event with its fields, as a client parses them."""
    text = ""
    while True:
        while "\n\n" not in text:
            part = read_chunk(stream)
            if not part:
                return
            text += part.decode()
        block, text = text.split("\n\n", 1)
        yield dict(line.split(": ", 1) for line in block.split("\n"))


@pytest.mark.parametrize(
    "since",
    ["", ".", "0", "0.", ".0", "-1.0", "0.0.0", "1e3.0", "٣.٣", "0x0.0", " 0 . 0", "9" * 30 + ".0", "a" * 50_000, "²."],
)
def test_a_stream_does_not_start_from_nonsense(server, since):
    answer = server.call("GET", "/studies/edge/events", Last_Event_ID=since.encode().decode("latin-1"))
    assert (answer.status, answer.error) == (422, "ObservationError")
    assert len(answer.body) < 10_000


def test_a_stream_that_starts_after_the_end_waits_for_what_may_never_come(server):
    for since in ("999999999999999999.999999999999999999", "0.999999999999999999", "999999999999999999.0"):
        with server.connect() as talk:
            stream = talk.say(server.request("GET", "/studies/edge/events", Last_Event_ID=since), head_only=True)
            assert stream.status == 200
            assert next(_events(talk.stream)) == {"retry": "1000"}
    assert server.alive()


def test_no_name_can_break_out_of_its_event(server):
    break_out = 'a\n\nevent: told\ndata: {"value": 1}\n\r\r\n: \u2028'
    space = {"c": {"type": "categorical", "choices": [break_out, "b"]}, break_out: {"type": "int", "low": 1, "high": 8}}
    assert server.call("POST", "/studies", {"name": "breakout", "space": space}).status == 201
    for c in (break_out, "b"):
        told = {"params": {"c": c, break_out: 2}, "value": 0.5}
        assert server.call("POST", "/studies/breakout/tell", told).status == 200
    with server.connect() as talk:
        talk.say(server.request("GET", "/studies/breakout/events", Last_Event_ID="0.0"), head_only=True)
        events = _events(talk.stream)
        assert next(events) == {"retry": "1000"}
        for number, c in enumerate((break_out, "b")):
            event = next(events)
            assert (event["id"], event["event"]) == (f"0.{number + 1}", "told")
            assert json.loads(event["data"])["params"] == {"c": c, break_out: 2}
    assert server.call("DELETE", "/studies/breakout").status == 204


def test_a_stream_ends_with_its_study(server):
    assert server.call("POST", "/studies", {"name": "ending", "space": SPACE}).status == 201
    for value in (1.0, 2.0, 3.0):
        trial = server.call("POST", "/studies/ending/ask", {}).json
        assert server.call("POST", "/studies/ending/tell", {"id": trial["id"], "value": value}).status == 200
    with server.connect() as talk:
        request = server.request("GET", "/studies/ending/events", Last_Event_ID="0.0")
        assert talk.say(request, head_only=True).status == 200
        events = _events(talk.stream)
        assert next(events) == {"retry": "1000"}
        assert [next(events)["event"] for _ in range(6)] == ["asked", "told"] * 3
        assert server.call("DELETE", "/studies/ending").status == 204
        assert list(events) == []
        assert talk.say(request).error == "UnknownStudyError"  # on the same connection


def _next(server, name, since, count):
    """So many events after one of them; comments and hints are left out."""
    with server.connect() as talk:
        talk.say(server.request("GET", f"/studies/{name}/events", Last_Event_ID=since), head_only=True)
        events = (event for event in _events(talk.stream) if "data" in event)
        return [event | {"data": json.loads(event["data"])} for event in islice(events, count)]


def test_events_come_as_they_happen_and_none_is_missed(server, client):
    study = client.create("followed", {"x": eb.Float(0.0, 1.0)}, seed=0)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(_next, server, "followed", "0.0", 6)
        for _ in range(2):
            study.tell(study.ask(), 1.0)
        study.tell({"x": 0.1}, 2.0)
        with closing(eb.Optimizer.open(storage_of(server.folder), "followed")) as other:  # another process
            other.tell({"x": 0.2}, 3.0)
        events = following.result()
    assert [event["event"] for event in events] == ["asked", "told", "asked", "told", "told", "told"]
    assert [event["id"] for event in events] == ["1.0", "1.1", "2.1", "2.2", "2.3", "2.4"]
    assert [event["data"].get("value") for event in events[-2:]] == [2.0, 3.0]
    assert _next(server, "followed", "2.2", 2) == events[4:]  # a client that comes back
