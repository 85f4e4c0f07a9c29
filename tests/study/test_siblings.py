"""Siblings in a storage: who they are, what they share, and that asks stay repeatable."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers.studies import Tables, contents, python, same, url

import ebbtide as eb
from ebbtide.study.schedule import SIBLINGS_EVERY
from ebbtide.study.storage import Storage, tokens
from ebbtide.study.storage.copying import copy
from ebbtide.study.storage.siblings import MOST

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
KIN = 6


def value(params, t, shift):
    return 50.0 + 5.0 * float(np.sin(4.0 * params["x"] + shift + t / 40.0) + (params["y"] - 0.5) ** 2)


def run(opt, asks, shift=0.0):
    """Ask and tell; returns the settings."""
    asked = []
    for _ in range(asks):
        trial = opt.ask()
        asked.append(trial.params)
        opt.tell(trial, value(trial.params, trial.time, shift))
        opt.clock.advance(1.0)
    return asked


def study(path, name, seed=3, family="edge", **options):
    clock = options.pop("clock", None) or eb.ManualClock()
    return eb.Optimizer(SPACE, storage=url(path), name=name, seed=seed, clock=clock, family=family, **options)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """A file with some studies of a family, and one of another tenant."""
    path = tmp_path_factory.mktemp("siblings") / "s.db"
    for number in range(KIN):
        with study(path, f"team-a.{number}", number) as opt:
            run(opt, 35, shift=0.3 * number)
    with study(path, "team-b.0", 7) as opt:
        run(opt, 12)
    return path


@pytest.fixture
def file(family, tmp_path):
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(family)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
    return path


# --- what is asked ------------------------------------------------------------------------------------------------


def test_the_first_of_a_family_asks_as_if_it_had_none(tmp_path):
    first, plain = study(tmp_path / "a.db", "edge"), study(tmp_path / "b.db", "edge", family=None)
    assert run(first, 15) == run(plain, 15)
    assert first.siblings == 0
    assert "family" not in contents(first)["state"]


def test_a_sibling_fills_the_space_with_half_as_many_asks(file):
    with study(file, "team-a.new", 9) as opt, study(file, "team-a.alone", 9, family=None) as alone:
        asked, without = run(opt, 8), run(alone, 8)
        assert opt.siblings == KIN
        assert asked[:3] == without[:3]
        assert asked[3] != without[3]
        assert opt.n_initial == alone.n_initial == 6


def test_whoever_gives_n_initial_gets_it(file):
    with study(file, "team-a.new", 9, n_initial=7) as opt, study(file, "team-a.alone", 9, None, n_initial=7) as alone:
        assert run(opt, 7) == run(alone, 7)
        assert run(opt, 1) != run(alone, 1)


def test_what_was_seen_of_the_siblings_is_recorded_with_each_ask(file):
    with study(file, "team-a.new") as opt:
        run(opt, SIBLINGS_EVERY + 2)
    states = [json.loads(row["state"])["family"] for row in Tables(file, "team-a.new").asks]
    assert all(state == states[0] for state in states[:SIBLINGS_EVERY])
    with study(file, "team-a.1", 1, clock=eb.ManualClock(100.0)) as sibling:
        run(sibling, 3)
    with closing(Storage.of(url(file))) as storage, study(file, "team-a.new", clock=eb.ManualClock(12.0)) as opt:
        assert storage.log("team-a.new").siblings() != states[0]  # it has gone on
        run(opt, 2)
    states = [json.loads(row["state"])["family"] for row in Tables(file, "team-a.new").asks]
    assert states[-1] == states[SIBLINGS_EVERY]  # until the next look


def test_no_raw_data_of_a_sibling_is_read(file):
    with study(file, "team-a.new") as opt:
        before = opt._log.siblings()
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE tells SET value = 0, params = '{}'")
        assert opt._log.siblings() == before
        assert set(before) == {"siblings", "weight", "power", "center", "spread", "level", "level_spread"}


# --- repeatable ---------------------------------------------------------------------------------------------------


def test_every_ask_follows_from_what_is_recorded(file):
    with study(file, "team-a.new") as opt:
        run(opt, 2 * SIBLINGS_EVERY + 5)
    tables = Tables(file, "team-a.new")
    for k in range(len(tables.asks)):
        assert tables.recomputed(k) == tables.recorded(k)


def test_a_study_that_is_opened_again_before_each_ask_asks_the_same(file, tmp_path):
    copied = tmp_path / "copy.db"
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copied)) as target:
        source.backup(target)
    with study(file, "team-a.new") as opt:
        asked = run(opt, 14)
        again = []
        for moment in range(14):
            with study(copied, "team-a.new", clock=eb.ManualClock(float(moment))) as reopened:
                again += run(reopened, 1)
        assert again == asked
        with study(copied, "team-a.new", clock=eb.ManualClock(14.0)) as reopened:
            same(opt, reopened)


def test_a_snapshot_goes_on_with_what_was_seen_last(file, tmp_path):
    """It has no storage any more, so it sees no siblings; until the next look, it asks the same."""
    with study(file, "team-a.new") as opt:
        run(opt, 11)
        opt.save(tmp_path / "s.json")
        loaded = eb.Optimizer.load(tmp_path / "s.json")
        assert loaded.siblings == opt.siblings == KIN
        assert run(loaded, 8) == run(opt, 8)
        run(loaded, 5)
        assert loaded.siblings == KIN
    assert json.loads((tmp_path / "s.json").read_text())["version"] == 2


def test_a_damaged_family_in_a_snapshot_is_found(file, tmp_path):
    with study(file, "team-a.new") as opt:
        opt.ask()
        payload = contents(opt)
    from ebbtide.study.snapshot import rebuild

    payload["state"]["latest_reading"] = 0.0
    rebuild(payload)
    for wrong in ({"weight": -1.0}, {"center": [1.0]}, {"spread": [0.0] * 4}, {"power": "x"}):
        damaged = payload | {"state": payload["state"] | {"family": payload["state"]["family"] | wrong}}
        with pytest.raises((ValueError, TypeError), match=r"family|in the state"):
            rebuild(damaged)


KILLED = """
    import os, sys
    import ebbtide as eb
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}, storage=sys.argv[1], name="team-a.new",
                       seed=3, clock=clock, family="edge")
    for k in range(12):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"])
        clock.advance(1.0)
    opt.ask()
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_killed_process_is_continued_exactly(file):
    with python(KILLED, url(file)) as process:
        assert process.wait() == -9
    tables = Tables(file, "team-a.new")
    assert len(tables.asks) == 13
    with study(file, "team-a.new", clock=eb.ManualClock(12.0)) as opt:
        opt.tell(opt.trial("12"), 0.5)
        opt.clock.advance(1.0)
        run(opt, 3)
    tables = Tables(file, "team-a.new")
    for k in range(10, 16):
        assert tables.recomputed(k) == tables.recorded(k)


# --- who they are -------------------------------------------------------------------------------------------------


def siblings_of(path, name, **options):
    with study(path, name, **options) as opt:
        opt.ask()
        return opt.siblings


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("team-a.new", {}, KIN),
        ("team-a.new", {"family": "cloud"}, 0),
        ("team-a.new", {"direction": "maximize"}, 0),
        ("team-a.new", {"algorithm": "w-dbo"}, 0),
        ("team-b.new", {}, 1),
        ("team-c.new", {}, 0),
        ("team-a.plant.new", {}, 0),
        ("team-a", {}, 0),
        ("team-", {}, 0),
        ("new", {}, 0),
    ],
)
def test_families_end_at_the_border_of_a_tenant(name, options, expected, file):
    assert siblings_of(file, name, **options) == expected


def test_tokens_draw_borders_too(tmp_path):
    """Prefixes need not end with a dot."""
    path = tmp_path / "s.db"
    for name in ("alpha-1", "alpha-2", "beta-1"):
        with study(path, name) as opt:
            run(opt, 8)
    assert siblings_of(path, "alpha-3") == 3
    with closing(Storage.of(url(path))) as storage:
        _, token = tokens.create(storage.database, "alpha", ["ask"], "alpha-*")
    assert siblings_of(path, "alpha-4") == 2  # the third has no fit yet
    assert siblings_of(path, "beta-2") == 1
    with closing(Storage.of(url(path))) as storage:
        tokens.revoke(storage.database, token.id)
    assert siblings_of(path, "beta-3") == 1  # they are still alpha's studies


def test_of_a_large_family_the_first_and_the_newest_are_looked_at(file):
    with closing(Storage.of(url(file))) as storage:
        definition = eb.Optimizer.open(storage, "team-a.0").definition
        for number in range(2 * MOST):
            storage.create(f"team-a.more-{number}", definition)
        log = storage.log("team-a.0")
        assert (log.siblings() or {})["siblings"] == KIN - 1  # the others are among the first
        plan = storage.database.rows(
            "EXPLAIN QUERY PLAN SELECT study FROM studies WHERE family = ? AND study <> 1 ORDER BY study DESC LIMIT 1",
            ("team-a./edge",),
        )
        assert "siblings (family=?)" in str(plan)
        assert "TEMP B-TREE" not in str(plan)  # no sorting


def test_a_damaged_or_deleted_sibling_is_left_out(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE asks SET state = '{' WHERE study = 1")
        connection.execute("UPDATE studies SET definition = '[]' WHERE study = 2")
    with closing(Storage.of(url(file))) as storage:
        storage.delete("team-a.2")
    assert siblings_of(file, "team-a.new") == KIN - 3


@pytest.mark.parametrize(
    "hyper",
    [
        {"scale": 1.0, "lengthscale": [1.0, 2.0], "timescale": 1.0, "noise": 0.1},
        {"scale": 1.0, "lengthscale": 1.0, "timescale": None, "noise": 0.1},
        {"scale": "x", "lengthscale": 1.0, "timescale": 1.0, "noise": 0.1},
        {"scale": 0.0, "lengthscale": 1.0, "timescale": 1.0, "noise": 0.1},
        {"scale": 1.0, "lengthscale": -1.0, "timescale": 1.0, "noise": 0.1},
        {"scale": 1.0},
    ],
)
def test_a_fit_that_cannot_be_is_left_out(hyper, file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE asks SET state = json_set(state, '$.hyper', json(?)) WHERE study = 1", [json.dumps(hyper)]
        )
    assert siblings_of(file, "team-a.new") == KIN - 1


def test_a_row_that_cannot_be_read_is_no_reason_not_to_ask(file):
    with study(file, "team-a.new") as opt:
        run(opt, SIBLINGS_EVERY)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE studies SET definition = CAST(x'ff' AS TEXT) WHERE study = 2")
        assert opt._log.siblings() is None
        run(opt, 2)
        assert opt.siblings == KIN  # as seen before


def test_copied_studies_are_siblings(file, tmp_path):
    with closing(Storage.of(url(file))) as source, closing(Storage.of(url(tmp_path / "t.db"), create=True)) as target:
        list(copy(source, target))
        assert target.log("team-a.0").siblings() == source.log("team-a.0").siblings()


# --- definitions --------------------------------------------------------------------------------------------------


def test_a_family_needs_a_storage():
    with pytest.raises(eb.ConfigurationError, match="family='edge': siblings are found in a storage"):
        eb.Optimizer(SPACE, family="edge")


@pytest.mark.parametrize("family", ["", " ", "a/b", "x" * 101, "a\nb", 3, "\ud800"])
def test_a_bad_name_is_refused_and_nothing_is_created(family, tmp_path):
    with pytest.raises(eb.ConfigurationError, match="give 1 to 100 printable characters"):
        study(tmp_path / "s.db", "edge", family=family)
    assert not (tmp_path / "s.db").exists()


def test_maximum_likelihood_has_no_prior(tmp_path):
    with pytest.raises(eb.ConfigurationError, match='choose inference="map"'):
        study(tmp_path / "s.db", "edge", algorithm=eb.Algorithm(inference="mle"))


def test_the_family_is_a_part_of_the_definition(file):
    with study(file, "team-a.0", seed=0, family=None) as opt:
        assert opt.definition.family == "edge"
    with pytest.raises(eb.StudyError, match="its family is 'edge', not 'cloud'"):
        study(file, "team-a.0", seed=0, family="cloud")
    with study(file, "plain", family=None):
        pass
    with pytest.raises(eb.StudyError, match="its family is None, not 'edge'"):
        study(file, "plain")


def test_constraints_are_modelled_without_the_family(file):
    """The fits of siblings are those of the objective."""
    around = {"constraints": {"p99": eb.AtMost(10.0)}}
    with study(file, "team-a.new", **around) as opt:
        for _ in range(12):
            trial = opt.ask()
            opt.tell(trial, value(trial.params, trial.time, 0.0), constraints={"p99": 20.0 * trial.params["y"]})
            opt.clock.advance(1.0)
        assert opt.siblings == KIN
        opt.recommend()
    tables = Tables(file, "team-a.new")
    assert json.loads(tables.asks[-1]["state"])["outcomes"]["p99"]["hyper"] is not None


def test_a_sibling_that_jumps_counts_only_for_studies_that_may_jump(file):
    """Its l_T means something else to a kernel that always stays smooth."""
    state = json.loads(Tables(file, "team-a.0").asks[-1]["state"])
    state["hyper"]["jumps"] = True
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE asks SET state = ? WHERE ask = (SELECT MAX(ask) FROM asks AS a WHERE a.study = asks.study) "
            "AND study = (SELECT study FROM studies WHERE name = 'team-a.0')",
            (json.dumps(state),),
        )
    smooth = replace(eb.algorithms.get("tide"), jumps=False)
    for algorithm, count in (("tide", KIN), (smooth, KIN - 1)):
        with study(file, f"team-a.{count}-new", 9, algorithm=algorithm) as opt:
            opt.ask()
            assert opt.siblings == count
