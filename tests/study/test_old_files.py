"""Files written by an earlier ebbtide can be opened today, and ask what they would have asked then.

`data/v1.db` and `data/v1-*.json` were written before the first release (schema and snapshot version 1). Another build
of NumPy or another processor may round differently, hence the tolerances.
"""

import json
import math
import shutil
from pathlib import Path

import pytest

import ebbtide as eb

DATA = Path(__file__).with_name("data")
EXPECTED = json.loads((DATA / "v1-expected.json").read_text(encoding="utf-8"))


def value(params, t):
    """The objective of the studies."""
    best = 10.0 + 5.0 * math.sin(t / 20.0)
    return -abs(math.log(params["power"] / best)) - 0.1 * abs(params["width"] - 4) - 0.3 * (params["codec"] == "b")


def check_alike(params, expected):
    assert params == expected | {"power": pytest.approx(expected["power"], rel=1e-4)}


def stored(name, folder):
    shutil.copy(DATA / "v1.db", folder)
    clock = eb.ManualClock(start=EXPECTED[name]["now"])
    with pytest.warns(eb.EbbtideWarning, match="upgraded from schema version 1"):
        return eb.Optimizer.open(f"sqlite:///{folder}/v1.db", name, clock=clock)


def saved(name, folder):
    return eb.Optimizer.load(DATA / f"v1-{name}.json")


@pytest.mark.parametrize("opened", [stored, saved])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_file_of_version_1_asks_what_it_would_have_asked(name, opened, tmp_path):
    expected = EXPECTED[name]
    opt = opened(name, tmp_path)
    assert opt.clock.now() == expected["now"]
    assert (opt.told, opt.asked, opt.pending) == (expected["told"], expected["asked"], expected["pending"])
    assert len(opt.dataset) == expected["active"]
    assert opt.guards == expected["guards"]
    assert opt.hyperparameters == pytest.approx(expected["hyperparameters"])
    if expected["relevance"] is not None:
        assert opt.relevance().tolist() == pytest.approx(expected["relevance"], rel=1e-6, abs=1e-6)
    for asked in expected["asks"]:
        trial = opt.ask()
        assert (trial.id, trial.time) == (asked["id"], asked["time"])
        check_alike(trial.params, asked["params"])
        opt.tell(trial, value(trial.params, trial.time))
        opt.clock.advance(1.0)
