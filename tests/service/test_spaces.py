"""Spaces as they are sent to the service."""

import pytest
from helpers.direct import running


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    with running(tmp_path_factory.mktemp("spaces") / "s.db") as direct:
        yield direct


def test_steps_and_ordered_choices(direct):
    space = {
        "share": {"type": "float", "low": 0.0, "high": 1.0, "log": False, "step": 0.1},
        "cache": {"type": "int", "low": 64, "high": 512, "log": False, "step": 64},
        "block": {"type": "ordinal", "choices": [4, 8, 1024]},
        "plain": {"type": "int", "low": 1, "high": 8, "log": False},
    }
    created = direct.call("POST", "/studies", {"name": "steps", "space": space})
    assert (created.status, created.json["space"]) == (201, space)
    params = direct.call("POST", "/studies/steps/ask").json["params"]
    assert params["share"] in [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert params["cache"] in range(64, 513, 64)
    assert params["block"] in (4, 8, 1024)
    off = direct.call("POST", "/studies/steps/tell", {"params": params | {"cache": 100}, "value": 1.0})
    assert (off.status, off.error) == (422, "ParameterError")
    assert "'cache' is 100, between two steps of 64 from 64; the nearest is 128" in off.json["error"]["message"]


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        (
            {"type": "int", "low": 1, "hihg": 3},
            "'pool': 'high' is missing; 'hihg' is unknown. A parameter of type \"int\" needs low and high, "
            "and may have log and step.",
        ),
        ({"low": 1, "high": 3}, 'give {"type": "float" | "int" | "ordinal" | "categorical", ...}'),
        (7, "'pool' is 7; give"),
        ({"type": "int", "low": 1, "high": 100, "log": True, "step": 2}, "no steps of equal size"),
        ({"type": "ordinal", "choices": [1, 3, 2]}, "sort them"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_said_in_the_words_of_the_library(direct, parameter, says):
    answer = direct.call("POST", "/studies", {"name": "wrong", "space": {"pool": parameter}})
    assert (answer.status, answer.error) == (422, "SpaceError")
    assert says in answer.json["error"]["message"]
