"""The service does what its OpenAPI document says, for requests that Schemathesis makes up."""

import pytest
from helpers.schemas import make_up
from helpers.serving import served

pytestmark = pytest.mark.slow


SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}
SPACE_OF_CONTEXT = {"load": {"type": "float", "low": 0.0, "high": 2000.0}}


@pytest.fixture
def server(tmp_path):
    """With a few studies, each with a value and a trial, which it would hardly make by itself, and soon deletes."""
    with served(tmp_path) as running:
        for name in map(str, range(5)):
            new = {"name": name, "space": SPACE, "algorithm": "random", "seed": 0}
            assert running.call("POST", "/studies", new).status == 201
            assert running.call("POST", f"/studies/{name}/ask").json["id"] == "0"
            assert running.call("POST", f"/studies/{name}/tell", {"params": {"x": 0.5}, "value": 1.0}).status == 200
        around = {"context": SPACE_OF_CONTEXT, "cycles": {"day": 86400.0}, "constraints": {"p99": {"at_most": 50.0}}}
        assert running.call("POST", "/studies", {"name": "5", "space": SPACE, "seed": 0} | around).status == 201
        assert running.call("POST", "/studies/5/ask", {"context": {"load": 5}}).json["filled"] == []
        assert (
            running.call("POST", "/studies/5/tell", {"id": "0", "value": 1.0, "constraints": {"p99": 9}}).status == 200
        )
        yield running


def test_the_service_does_what_its_document_says(server):
    report = make_up(server.url, seed=20240523, examples=6)
    report.check()
    assert server.alive()
    document = server.call("GET", "/openapi.json").json
    described = {f"{m.upper()} {path}" for path, item in document["paths"].items() for m in item}
    fulfilled = {
        route for route, statuses in report.answered.items() if any(200 <= status < 300 for status in statuses)
    }
    assert described - fulfilled == {"GET /studies/{name}/events"}
    assert described - report.answered.keys() == {"GET /studies/{name}/events"}
    assert report.requests > 300
