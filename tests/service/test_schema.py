"""The service does what its OpenAPI document says, for requests that Schemathesis makes up."""

from collections import Counter, defaultdict

import pytest
from helpers.serving import served

pytestmark = pytest.mark.slow


SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture
def server(tmp_path):
    """With a few studies, each with a value and a trial, which it would hardly make by itself, and soon deletes."""
    with served(tmp_path) as running:
        for name in map(str, range(5)):
            new = {"name": name, "space": SPACE, "algorithm": "random", "seed": 0}
            assert running.call("POST", "/studies", new).status == 201
            assert running.call("POST", f"/studies/{name}/ask").json["id"] == "0"
            assert running.call("POST", f"/studies/{name}/tell", {"params": {"x": 0.5}, "value": 1.0}).status == 200
        yield running


CHECKS = {
    # JSON Schema cannot say that low < high, that a trial is told once, or that a name is free.
    "positive_data_acceptance": {"enabled": False},
}


def test_the_service_does_what_its_document_says(server):
    """Valid requests, invalid ones and whole sequences of them."""
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import events, from_schema

    config = SchemathesisConfig.from_dict(
        {
            "seed": 20240523,
            "continue-on-failure": True,
            "cache": {"enabled": False},
            "generation": {"max-examples": 12, "deterministic": True, "database": "none"},
            "phases": {"stateful": {"generation": {"max-examples": 12}, "max-steps": 6}},
            "checks": CHECKS,
        }
    )
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
    answered, failures, errors = defaultdict(Counter), {}, []
    for event in from_schema(schema.exclude(path_regex="/events$")).execute():  # a stream has no end
        if isinstance(event, events.NonFatalError | events.FatalError):
            errors.append(event)
        if isinstance(event, events.ScenarioFinished):
            for number, interaction in event.recorder.interactions.items():
                case = event.recorder.cases[number].value
                if interaction.response is not None:
                    answered[f"{case.method} {case.path}"][interaction.response.status_code] += 1
            for checks in event.recorder.checks.values():
                for failed in (check.failure_info for check in checks if check.failure_info is not None):
                    failures.setdefault(str(failed.failure), failed.code_sample)
    assert not errors
    assert not failures, "\n\n".join(f"{failure}\n{sample}" for failure, sample in failures.items())
    assert server.alive()
    document = server.call("GET", "/openapi.json").json
    described = {f"{m.upper()} {path}" for path, item in document["paths"].items() for m in item}
    fulfilled = {route for route, statuses in answered.items() if any(200 <= status < 300 for status in statuses)}
    assert described - fulfilled == {"GET /studies/{name}/events"}
    assert described - answered.keys() == {"GET /studies/{name}/events"}
    assert sum(statuses.total() for statuses in answered.values()) > 300
