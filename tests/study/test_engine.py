"""The engine's contract: its own methods are the only ones that change what it knows."""

import re
from pathlib import Path

import pytest
from helpers.studies import TINY

import ebbtide as eb
from ebbtide.records import Observation, Trial
from ebbtide.study.active import Checkpoint
from ebbtide.study.definition import define
from ebbtide.study.engine import Engine
from ebbtide.study.state import State

WRITES = re.compile(
    r"engine\.(?:state|active) = |(?:_|\b)active\.(?:record|remove|open|settle)\("
    r"|(?:_|\b)active\.pending(?:\[.*\])? = "
)


def test_nobody_else_writes_into_it():
    package = Path(eb.__file__).parent
    writers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert writers == {"study/facts.py"}


def test_what_is_known_cannot_be_replaced_from_outside():
    engine = Engine(define(TINY))
    with pytest.raises(AttributeError):
        engine.state = State()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        engine.state.asks = 3  # type: ignore[misc]


def test_what_is_restored_is_what_was_recorded():
    """An engine that followed everything, and one that starts from where the log ends."""
    followed, restored = Engine(define(TINY, seed=0)), Engine(define(TINY, seed=0))
    history = [
        Observation({"x": 0.1}, 1.0, 5.0),
        Observation({"x": 0.2}, 2.0, None),
        Observation({"x": 0.3}, 0.5, 6.0),
        Observation({"x": 0.4}, 4.0, 7.0),
    ]
    for observation in history:
        followed.record(observation, reading=observation.time + 1.0)
    followed.advance(State(asks=2, latest_reading=3.0), removed=[2])
    followed.expect(2, [Trial("1", {"x": 0.5}, 4.0)])
    gone = [*history[:2], Observation({"x": 0.3}, 0.5, 6.0, removed_at=4.0), history[3]]
    restored.restore(State(asks=2, latest_reading=5.0), Checkpoint.of(gone, [Trial("1", {"x": 0.5}, 4.0)]))
    assert followed.state == restored.state
    assert followed.active.lines.tolist() == restored.active.lines.tolist() == [0, 3]
    for name in ("told", "values_told", "interval", "span", "pending"):
        assert getattr(followed.active, name) == getattr(restored.active, name)
    assert followed.recommend(6.0) == restored.recommend(6.0)
