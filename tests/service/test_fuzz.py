"""Whatever is sent, the service answers or refuses it, in its own words, and goes on.

Seeds are fixed, and every loop ends.
"""

import json
import random
import select
from collections import Counter
from urllib.parse import quote

import pytest
from helpers.fuzzing import (
    BODIES,
    MUTATIONS,
    NAMES,
    NEW,
    PARAMS,
    PLACES,
    SPACE,
    Seen,
    prepare,
    replaced,
    samples,
    send_raw,
    truncated,
)
from helpers.serving import served
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.fixture(autouse=True)
def studies(server):
    """Three studies that every test finds, whatever the one before has deleted."""
    found = {study["name"] for study in server.call("GET", "/studies").json["studies"]}
    for name in set(NAMES) - found:
        prepare(server, name)


def check(answer):
    """The answer is what was asked for, or an error in the one shape; the service never fails."""
    assert answer.status is None or answer.status < 500, answer
    if answer.status is not None and answer.status >= 400:
        assert answer.error


# --- JSON that is invalid, or too much of it --------------------------------------------------------------------------

DEEP = 100_000
ODD_VALUES = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"1e-999",
    b"1" * 4000,
    b"1" * 5000,
    b"-" + b"9" * 400,
    b"0." + b"1" * 100_000,
    b"1" * 1000 + b".5e-999",
    b"-0",
    b"01",
    b"0x10",
    b"1_000",
    b"true",
    b"null",
    b"{}",
    b"[]",
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    rb'"\ud800"',
    rb'"\udfff\ud800"',
    rb'"\u0000"',
    b'"\0"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    rb'"\u202e\u2028\ufeff"',
    b'"' + b"x" * 500_000 + b'"',
    b"'single'",
    b'"unterminated',
    b"/* comment */ 1",
    b"1, 2",
    b"",
]
WHOLE_BODIES = [
    b"null",
    b"[]",
    b"0",
    b'"x"',
    b"{",
    b"}",
    b"{}{}",
    b"{} trailing",
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\0}\0",
    "{}".encode("utf-16"),
    "{}".encode("utf-32"),
    b"\0",
    b"\xff",
    b"   ",
    b'{"n": 1, "n": -1}',
    b'{"' + b"k" * 100_000 + b'": 1}',
    rb'{"\ud800": 1}',
    rb'{"__proto__": {"n": 1}, "constructor": 1}',
    b"{" + b",".join(b'"k%d": 1' % i for i in range(30_000)) + b"}",
]


def _with(body, key, value):
    """The JSON of a body, with one value replaced by bytes."""
    marked = json.dumps(body | {key: "@@@"}).encode()
    return marked.replace(b'"@@@"', value)


@pytest.mark.parametrize("path", BODIES)
def test_no_value_is_too_odd_for_any_field(server, path):
    body = BODIES[path]
    with server.connect() as talk:
        for key in body:
            for value in ODD_VALUES:
                check(talk.say(server.request("POST", path, _with(body, key, value), Content_Type="application/json")))
    assert server.alive()


@pytest.mark.parametrize(("kind", "key"), [("power", "low"), ("power", "log"), ("width", "high"), ("codec", "choices")])
def test_no_value_is_too_odd_for_a_space(server, kind, key):
    with server.connect() as talk:
        for value in ODD_VALUES:
            space = {kind: SPACE[kind] | {key: "@@@"}}
            body = json.dumps(NEW | {"space": space}).encode().replace(b'"@@@"', value)
            check(talk.say(server.request("POST", "/studies", body, Content_Type="application/json")))
            body = json.dumps(NEW | {"space": {kind: "@@@"}}).encode().replace(b'"@@@"', value)
            check(talk.say(server.request("POST", "/studies", body, Content_Type="application/json")))
    assert server.alive()


@pytest.mark.parametrize("value", ODD_VALUES)
def test_no_value_is_too_odd_for_a_parameter_or_for_a_choice(server, value):
    with server.connect() as talk:
        for name in PARAMS:
            body = json.dumps({"params": PARAMS | {name: "@@@"}, "value": 1.0}).encode().replace(b'"@@@"', value)
            check(talk.say(server.request("POST", "/studies/edge-0/tell", body, Content_Type="application/json")))
        body = json.dumps(NEW | {"space": {"c": {"type": "categorical", "choices": ["a", "@@@"]}}}).encode()
        made = talk.say(
            server.request("POST", "/studies", body.replace(b'"@@@"', value), Content_Type="application/json")
        )
        check(made)
        if made.status == 201:  # then it can also be used
            for method, path in (
                ("POST", "/ask"),
                ("GET", ""),
                ("GET", "/state"),
                ("GET", "/recommend"),
                ("DELETE", ""),
            ):
                assert talk.say(server.request(method, f"/studies/new{path}")).status in (200, 204)


def test_no_body_is_too_odd(server):
    for path in BODIES:
        for body in WHOLE_BODIES:
            answer = server.call("POST", path, body, Content_Type="application/json")
            check(answer)
            assert path.endswith("/ask") or answer.status in (400, 422), (body[:100], answer)
    assert server.alive()


def test_of_a_key_given_twice_the_last_counts_as_everywhere_in_python(server):
    body = b'{"n": 1, "n": 2}'
    answer = server.call("POST", "/studies/edge-1/ask", body, Content_Type="application/json")
    assert len(answer.json["trials"]) == 2


# --- wrong types everywhere -------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec=None, categories=None), max_size=8)  # with halves of surrogate pairs
NUMBERS = st.integers() | st.integers(min_value=2**62, max_value=2**66) | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


@settings(max_examples=250)
@given(where=st.sampled_from(PLACES), junk=JSON, extra=st.booleans())
def test_a_body_may_hold_anything_anywhere(server, where, junk, extra):
    path, place = where
    body = replaced(BODIES[path], place, junk)
    if extra and isinstance(body, dict):
        body = body | {"extra": junk}
    answer = server.call("POST", path, body)
    check(answer)
    if answer.status == 201:
        name = answer.json["name"]
        assert name == body["name"]
    if extra and isinstance(body, dict):
        assert answer.status == 422


@settings(max_examples=120)
@given(
    path=st.sampled_from(["/studies/edge-1/observations", "/studies/edge-1/state", "/studies", "/studies/{}", "/{}"]),
    name=st.text(max_size=12).map(lambda text: "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "replace"))),
    query=st.dictionaries(
        st.sampled_from(["start", "limit", "active", "x"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=30)
        | st.integers().map(str)
        | st.integers(min_value=2**62, max_value=2**66).map(str),
    ),
)
def test_a_path_and_a_query_may_hold_anything(server, path, name, query):
    asked = "&".join(f"{key}={value}" for key, value in query.items())
    answer = server.call("GET", f"{path.format(name)}?{asked}")
    check(answer)
    assert answer.status in (200, 404, 422)


# --- invalid HTTP ------------------------------------------------------------------------------------------------


def _answer(server, data, wait):
    """The answer to bytes that may be incomplete: a server that waits for more learns that there is none."""
    with server.connect() as talk:
        talk.send(data)
        if not select.select([talk.socket], [], [], wait)[0]:
            talk.send(half_close=True)
        return talk.hear()


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_damaged_request_is_answered_or_refused(server, mutate):
    rng = random.Random(mutate.__name__)
    valid = samples(server)
    seen = Counter()
    for _ in range(80):
        answer = _answer(server, mutate(rng, rng.choice(valid)), 0.0 if mutate is truncated else 0.05)
        check(answer)
        seen[answer.status] += 1
    assert seen.keys() == {None} if mutate is truncated else len(seen) > 1, seen
    assert server.alive()


def test_noise_is_refused(server):
    rng = random.Random(20240523)
    starts = [
        b"",
        b"GET ",
        b"POST /studies HTTP/1.1\r\n",
        b"\x16\x03\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n",
    ]
    for _ in range(150):
        answer = server.say(rng.choice(starts) + rng.randbytes(rng.choice([1, 10, 100, 5000])), half_close=True)
        assert answer.status in (400, 421, None), answer
        check(answer)
    assert server.alive()


def test_requests_in_a_row_are_answered_in_that_order(server):
    with server.connect() as talk:
        paths = ["/healthz", "/nowhere", "/studies/edge-1", "/studies/nobody", "/metrics"] * 20
        talk.send(b"".join(server.request("GET", path) for path in paths))
        assert [talk.hear().status for _ in paths] == [200, 404, 200, 404, 200] * 20


def test_generated_requests_are_answered_or_refused(server):
    """The same as in `make fuzz`, only fewer."""
    seen = Seen()
    send_raw(server, random.Random(20240523), 1000, seen)
    assert not seen.wrong
    assert seen.requests == 1000
    assert {200, 201, 400, 404, 409, 422} < seen.statuses.keys()
    assert server.alive()


# --- memory -----------------------------------------------------------------------------------------------------------


def _wear(server, rng, rounds):
    """All sorts of requests, each round with long names, keys and addresses that are new to the service."""
    with server.connect() as talk:
        for _ in range(rounds):
            new = f"{rng.getrandbits(64):x}"
            long = new * 3000
            for method, path, body in (
                ("GET", f"/{long}", None),
                ("GET", f"/studies/{long}", None),
                ("GET", f"/studies/{long}/events", None),
                ("POST", f"/studies/{long}/ask", {}),
                ("POST", f"/studies/{long}/tell", {"id": long, "value": 1.0}),
                ("POST", "/studies/level/tell", {"id": long, "value": 1.0}),
                ("POST", "/studies/level/tell", {"params": {long: 1}, "value": 1.0, "idempotency_key": new}),
                ("POST", "/studies", {"name": new, "space": {}, long: 1}),
                ("POST", "/studies", NEW | {"name": new, "space": {long: SPACE["width"]}}),
                ("GET", f"/studies/{new}/state", None),
                ("GET", "/metrics", None),
                ("DELETE", f"/studies/{new}", None),
            ):
                check(talk.say(server.request(method, path, body, X_Forwarded_For=long[:8000], Last_Event_ID=new)))
            check(server.say(b"\0" + long.encode(), half_close=True))
            assert server.call("GET", "/studies/level/events", head_only=True).status == 200


def test_memory_stays_level_however_much_is_asked_and_refused(server):
    if server.memory() is None:
        pytest.skip("there is no /proc to read it from")
    for study in server.call("GET", "/studies").json["studies"]:  # which /metrics would list each time
        assert server.call("DELETE", f"/studies/{quote(study['name'], safe='')}").status == 204
    prepare(server, "level")
    rng = random.Random(20240523)
    _wear(server, rng, 25)
    _wear(server, rng, 25)
    after_n = server.memory()
    _wear(server, rng, 25)
    assert server.memory() - after_n < MIB  # one long name per round, if it were kept, would be more
