"""Each system of `examples` is started, measured and stopped: `make test-systems`."""

import sys
from pathlib import Path

import pytest

from ebbtide import tuning

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from running import environment  # noqa: E402
from systems import SYSTEMS  # noqa: E402

NOON = ("--at", "150", "--day", "300")
UNUSABLE = {"pool": 128, "work_mem": 4096}  # more than max_connections


def outcome(system, settings):
    return tuning.evaluator(system.command(*NOON), None, 60.0)(settings)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_default_is_measured_and_nothing_is_left(name):
    system = SYSTEMS[name]
    with system.started() as variables, environment(variables):
        value, problem = outcome(system, system.default).value, outcome(system, system.default).problem
    assert problem is None
    assert value > 0.0
    assert outcome(system, system.default).value is None  # it has ended
    assert not any(Path(path).exists() for path in variables.values() if path.startswith("/"))


def test_postgresql_is_measured_with_p99_and_the_load():
    system = SYSTEMS["postgresql"]
    with system.started() as variables, environment(variables):
        measured = outcome(system, system.default)
    assert measured.context == {"customers": 100}
    assert 12.0 < measured.constraints["p99_ms"] < 1000.0  # customers hold a connection for 12 ms


def test_too_many_connections_fail_with_the_reason():
    system = SYSTEMS["postgresql"]
    with system.started() as variables, environment(variables):
        failed = outcome(system, UNUSABLE)
    assert failed.value is None
    assert "could not create connection" in failed.problem


def test_a_full_cache_fails_with_the_reason(monkeypatch):
    import start_cache

    monkeypatch.setattr(start_cache, "MEMORY", "1500kb")
    system = SYSTEMS["redis-cache"]
    with system.started() as variables, environment(variables):
        failed = outcome(system, {"ttl": 10000.0, "block": 256})
    assert failed.value is None
    assert "OOM" in failed.problem
