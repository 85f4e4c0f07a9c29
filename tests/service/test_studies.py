"""How often the service looks a study up."""

import pytest
from helpers.direct import running

from ebbtide.study.storage import sqlite

SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0}}


@pytest.fixture
def statements(monkeypatch):
    """Every SQL statement that any connection runs."""
    connect, statements = sqlite.connect, []

    def traced(path, read_only):
        connection = connect(path, read_only)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite, "connect", traced)
    return statements


@pytest.mark.parametrize(
    ("method", "verb", "body", "most"),
    [
        ("POST", "ask", {}, 2),  # one for the plan, one for the commit
        ("POST", "tell", {"params": {"x": 0.5}, "value": 1.0}, 1),
        ("POST", "tell", {"id": "0", "value": 1.0}, 1),
        ("GET", "recommend", None, 1),
        ("GET", "state", None, 1),
    ],
)
def test_each_step_looks_its_study_up_once(tmp_path, statements, method, verb, body, most):
    with running(tmp_path / "s.db") as direct:
        assert direct.call("POST", "/studies", {"name": "edge", "space": SPACE, "seed": 0}).status == 201
        assert direct.call("POST", "/studies/edge/ask", {}).json["id"] == "0"  # opens it
        direct.call("POST", "/studies/edge/tell", {"params": {"x": 0.25}, "value": 1.0})
        statements.clear()
        assert direct.call(method, f"/studies/edge/{verb}", body).status == 200
        looked_up = [statement for statement in statements if "FROM studies" in statement]
        assert 1 <= len(looked_up) <= most, looked_up
