"""One service for all tests that leave it as it was, with a token and an access log."""

import pytest
from helpers.serving import TOKEN, operations, served

import ebbtide as eb

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service"), "--access-log", token=TOKEN) as running:
        assert running.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        yield running


@pytest.fixture
def client(server):
    client = eb.Client(server.url, TOKEN, patience=30.0)
    yield client
    client.close()


@pytest.fixture(scope="session")
def document(server):
    return server.call("GET", "/openapi.json").json


@pytest.fixture(scope="session")
def routes(document):
    """Every route, the OpenAPI document itself, and paths that lead nowhere."""
    found = operations(document, "edge")
    assert ("POST", "/studies/edge/tell") in found
    return [*found, ("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/nowhere"), ("OPTIONS", "/studies")]


@pytest.fixture
def untouched(server):
    """The test changes nothing."""
    before = server.call("GET", "/studies").json
    yield
    assert server.call("GET", "/studies").json == before
