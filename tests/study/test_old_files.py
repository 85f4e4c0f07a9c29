"""Files written by an earlier ebbtide can be opened today, and ask what they would have asked then.

`data/v1.db` and `data/v1-*.json` were written before the first release (schema and snapshot version 1); `data/v2.db`
and `data/v2-*.json` before there were contexts and constraints (schema version 2, snapshot version 1); `data/v3.db` and
`data/v3-*.json` before there were tokens (schema version 3); `data/v4.db` and `data/v4-*.json` before there were
running counts (schema version 4). Another build of NumPy or another processor may round differently, hence the
tolerances.
"""

import json
import math
import shutil
from pathlib import Path

import pytest

import ebbtide as eb

DATA = Path(__file__).with_name("data")
EXPECTED = {v: json.loads((DATA / f"{v}-expected.json").read_text(encoding="utf-8")) for v in ("v1", "v2", "v3", "v4")}
STUDIES = [(version, name) for version, studies in EXPECTED.items() for name in studies]


def value(params, t):
    """The objective of the studies."""
    best = 10.0 + 5.0 * math.sin(t / 20.0)
    return -abs(math.log(params["power"] / best)) - 0.1 * abs(params["width"] - 4) - 0.3 * (params["codec"] == "b")


def check_alike(params, expected):
    assert params == expected | {"power": pytest.approx(expected["power"], rel=1e-4)}


def approximately(number):
    if isinstance(number, dict):
        return {name: approximately(each) for name, each in number.items()}
    return pytest.approx(tuple(number) if isinstance(number, list) else number)


def stored(version, name, folder):
    shutil.copy(DATA / f"{version}.db", folder)
    clock = eb.ManualClock(start=EXPECTED[version][name]["now"])
    with pytest.warns(eb.EbbtideWarning, match=f"upgraded from schema version {version[1:]}"):
        return eb.Optimizer.open(f"sqlite:///{folder}/{version}.db", name, clock=clock)


def saved(version, name, folder):
    return eb.Optimizer.load(DATA / f"{version}-{name}.json")


@pytest.mark.parametrize("opened", [stored, saved])
@pytest.mark.parametrize(("version", "name"), STUDIES)
def test_an_old_file_asks_what_it_would_have_asked(version, name, opened, tmp_path):
    expected = EXPECTED[version][name]
    opt = opened(version, name, tmp_path)
    assert opt.clock.now() == expected["now"]
    assert (opt.told, opt.asked, opt.pending) == (expected["told"], expected["asked"], expected["pending"])
    assert len(opt.dataset) == expected["active"]
    assert opt.guards == expected["guards"]
    for name, number in expected["hyperparameters"].items():
        assert opt.hyperparameters[name] == approximately(number)
    if expected["relevance"] is not None:
        assert opt.relevance().tolist() == pytest.approx(expected["relevance"], rel=1e-6, abs=1e-6)
    for asked in expected["asks"]:
        trial = opt.ask()
        assert (trial.id, trial.time) == (asked["id"], asked["time"])
        check_alike(trial.params, asked["params"])
        opt.tell(trial, value(trial.params, trial.time))
        opt.clock.advance(1.0)


@pytest.mark.parametrize("name", list(EXPECTED["v2"]))
def test_a_study_without_conditions_is_saved_as_it_was_before_there_were_any(name, tmp_path):
    eb.Optimizer.load(DATA / f"v2-{name}.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (DATA / f"v2-{name}.json").read_text()


def test_an_old_study_is_the_same_as_one_defined_now(tmp_path):
    opt = stored("v2", "w-dbo", tmp_path)
    space, seed = opt.space, opt.seed
    opt.close()

    def again(**changes):
        return eb.Optimizer(
            space,
            direction="maximize",
            algorithm="w-dbo",
            clock=eb.ManualClock(),
            seed=seed,
            storage=f"sqlite:///{tmp_path}/v2.db",
            name="w-dbo",
            **changes,
        )

    again().close()
    with pytest.raises(eb.StudyError, match=r"its cycles is {}, not {'day': 24.0}"):
        again(cycles={"day": 24.0})


@pytest.mark.parametrize("form", [1, 2])
def test_a_name_may_stand_for_another_algorithm_later(form, tmp_path):
    """A stored study keeps the one that it was created with, also if it is opened by the name."""
    tide, storage = eb.algorithms.get("tide"), f"sqlite:///{tmp_path}/tuner.db"
    before = eb.algorithms.forms("tide")[form]
    assert before != tide
    space = {"x": eb.Float(0.0, 1.0)}
    eb.Optimizer(space, algorithm=before, storage=storage, name="edge", seed=0).close()
    for algorithm in (None, "tide", tide, before):
        with eb.Optimizer(space, algorithm=algorithm, storage=storage, name="edge") as opt:
            assert opt.algorithm == before
    with eb.Optimizer.open(storage, "edge", algorithm="tide") as opt:
        assert opt.algorithm == before
    with pytest.raises(eb.StudyError, match="another definition"):
        eb.Optimizer(space, algorithm="w-dbo", storage=storage, name="edge")
    eb.Optimizer(space, algorithm="tide", storage=storage, name="new", seed=0).close()
    with pytest.raises(eb.StudyError, match="another definition"):  # what was given is not what the name stands for
        eb.Optimizer(space, algorithm=before, storage=storage, name="new")
