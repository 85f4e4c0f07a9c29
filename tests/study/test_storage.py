"""Studies in a file: what is read back is what was recorded."""

import json
import sqlite3
import tempfile
import tracemalloc
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from helpers.drifting import UNIT_SQUARE, drive, moving_bump
from helpers.studies import (
    HASTY,
    KINDS,
    MEMORY,
    WINDOW,
    Tables,
    column,
    events,
    happen,
    named,
    pending,
    same,
    study,
    tiny,
    url,
    value_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.gp.posterior import Posterior
from ebbtide.records import Observation
from ebbtide.study.active import REMEMBERED_ASKS
from ebbtide.study.storage import Storage
from ebbtide.study.storage.sqlite import SqliteDatabase

# --- a study continues as if nothing had happened ---------------------------------------------------------------------


def go_through(script, algorithm, path=None, reopen=()):
    """All trials asked, and the optimizer at the end."""
    opt, asked = study(algorithm, path), []
    for number, event in enumerate(script):
        if number in reopen:
            opt.close()
            opt = eb.Optimizer.open(url(path), "edge", clock=opt.clock)
        asked += happen(opt, event, asked)
    return asked, opt


@pytest.mark.parametrize("algorithm", ["w-dbo", "abo", "r-gp-ucb"])
def test_a_stored_study_equals_the_same_study_in_memory(algorithm, tmp_path):
    settings = {"direction": "maximize", "algorithm": algorithm, "seed": 5}
    memory = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(), **settings)
    stored = eb.Optimizer(UNIT_SQUARE, clock=eb.ManualClock(), storage=url(tmp_path / "s.db"), name="edge", **settings)
    assert (drive(memory, moving_bump, 30) == drive(stored, moving_bump, 30)).all()
    same(memory, stored)
    stored.close()
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        same(memory, again)
        assert again.clock.now() == memory.clock.now() - 1.0  # its last advance came after the last tell
        assert isinstance(again.clock, eb.ManualClock)
        again.clock.advance(1.0)
        assert again.ask() == memory.ask()


@pytest.mark.parametrize(
    "algorithm",
    [
        *named(quick=("tv-gp-ucb",)),
        pytest.param(WINDOW, id="window", marks=pytest.mark.slow),
        pytest.param(HASTY, id="hasty"),
    ],
)
def test_a_study_reopened_all_the_time_asks_the_same(algorithm, tmp_path):
    script = events(seed=4, n=42)
    expected, memory = go_through(script, algorithm)
    asked, stored = go_through(script, algorithm, tmp_path / "s.db", reopen=range(len(script)))
    assert asked == expected
    assert len(asked) > 15
    same(memory, stored)
    assert {observation.failed for observation in stored.history} == {True, False}
    assert pending(stored) != []
    assert any(observation.removed_at is not None for observation in stored.history) or algorithm not in (WINDOW, HASTY)
    stored.close()


@pytest.mark.slow
@given(
    script=st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 31), st.floats(0.0, 1.0)), min_size=4, max_size=25
    ),
    reopen=st.sets(st.integers(0, 24)),
    algorithm=st.sampled_from(["w-dbo", "abo", WINDOW, HASTY, "et-gp-ucb", "tv-gp-ucb"]),
)
@settings(max_examples=25)
def test_a_study_reopened_at_any_moment_asks_the_same(script, reopen, algorithm):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        expected, memory = go_through(script, algorithm)
        asked, stored = go_through(script, algorithm, f"{folder}/s.db", reopen)
        assert asked == expected
        same(memory, stored)
        stored.close()


def test_a_study_can_be_saved_to_a_snapshot_that_continues_independently(tmp_path):
    _, stored = go_through(events(seed=4, n=30), "w-dbo", tmp_path / "s.db")
    stored.save(tmp_path / "s.json")
    copy = eb.Optimizer.load(tmp_path / "s.json")
    assert copy.ask() == stored.ask()
    copy.tell({"x": 0.5, "rate": 0.1, "n": 3, "codec": "a"}, 1.0)
    assert len(copy.history) == len(stored.history) + 1
    stored.close()


@pytest.mark.slow
def test_trials_from_more_than_a_thousand_asks_ago_are_forgotten_also_after_reopening(tmp_path):
    storage = Storage.of(url(tmp_path / "s.db"), create=True)
    opt = tiny(storage=storage, name="edge")
    with storage.database.transaction():
        trials = opt.ask(REMEMBERED_ASKS + 10)
        opt.tell(trials[500], 1.0)
    assert opt.pending == REMEMBERED_ASKS - 1
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        same(opt, again)
        again.tell(trials[0], 2.0)  # it can still be told
        assert again.history[-1] == Observation(trials[0].params, 0.0, 2.0, "0", kind="explore")
    opt.close()


def test_the_system_clock_continues_from_the_last_reading(tmp_path):
    ahead = eb.SystemClock()
    ahead.never_before(ahead.now() + 3600.0)
    with closing(tiny(tmp_path / "s.db", clock=ahead)) as opt:
        opt.tell(opt.ask(), 1.0)
        told = opt.ask().time
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        assert again.ask().time >= told


@pytest.mark.slow
def test_a_study_of_ten_thousand_observations_loads_only_the_active_ones(tmp_path):
    algorithm = eb.Algorithm(staleness=eb.WassersteinBudget(max_active=200))
    storage = Storage.of(url(tmp_path / "s.db"), create=True)
    opt = tiny(storage=storage, name="edge", algorithm=algorithm, n_initial=3)
    assert isinstance(opt.clock, eb.ManualClock)
    rng = np.random.default_rng(8)
    with storage.database.transaction():
        for x, y in rng.random((10_000, 2)).tolist():
            opt.clock.advance(1.0)
            opt.tell({"x": x}, y)
    opt.ask()
    tracemalloc.start()
    with closing(eb.Optimizer.open(url(tmp_path / "s.db"), "edge")) as again:
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 500_000  # bytes: the history of 10,000 would take several megabytes
        assert again.told == len(again.history) == 10_000
        assert len(again.dataset) == 200
        same(opt, again)
        again.save(tmp_path / "s.json")
        trial = again.ask()
        assert eb.Optimizer.load(tmp_path / "s.json").ask() == trial
        opt.tell(trial, 0.5)
    opt.close()


# --- the log holds everything -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "forgets"),
    [
        pytest.param(HASTY, True, id="hasty"),
        ("tv-gp-ucb", False),
        pytest.param(WINDOW, True, id="window", marks=pytest.mark.slow),
        *(pytest.param(name, False, marks=pytest.mark.slow) for name in ("w-dbo", "abo", "et-gp-ucb")),
    ],
)
def test_every_ask_can_be_recomputed_from_the_log(algorithm, forgets, tmp_path):
    asked, opt = go_through(events(seed=7, n=45), algorithm, tmp_path / "s.db", reopen={10, 20, 40})
    opt.close()
    log = Tables(tmp_path / "s.db")
    assert len(log.asks) == len(asked) > 15
    for k, trial in enumerate(asked):
        assert log.recomputed(k) == log.recorded(k)
        assert log.recorded(k)[:2] == (trial.params, trial.time)
    assert len(log.removals) >= (5 if forgets else 0)


def test_an_ask_with_until_can_be_recomputed_from_the_log(tmp_path):
    with closing(study("abo", tmp_path / "s.db")) as opt:
        assert isinstance(opt.clock, eb.ManualClock)
        for _ in range(12):
            trial = opt.ask(until=opt.clock.now() + 0.5)
            wait_until(opt.clock, trial.time)
            opt.tell(trial, value_of(trial.params, trial.time))
            opt.clock.advance(1.0)
    log = Tables(tmp_path / "s.db")
    for k in range(12):
        assert log.recomputed(k) == log.recorded(k)


def test_the_database_itself_refuses_duplicates(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        trial = opt.ask()
        opt.tell(trial, 1.0)
        opt.tell({"x": 0.5}, 2.0, key="a")
        log, before = Storage.of(url(tmp_path / "s.db")).log("edge"), opt.history
        plain = Observation({"x": 0.5}, 0.0, 3.0)
        for attempt in (
            lambda: log.record_tell(Observation(trial.params, 0.0, 3.0, trial.id), 0.0, 2, 1),  # a trial already told
            lambda: log.record_tell(Observation({"x": 0.5}, 0.0, 3.0, key="a"), 0.0, 2, 1),  # a key already used
            lambda: log.record_tell(plain, 0.0, 1, 1),  # a line already written
            lambda: log.record_ask(log.asks_since(0)[0]),  # an ask already recorded
        ):
            with pytest.raises(eb.StorageError, match="UNIQUE"):
                attempt()
        assert opt.history == before
        log.record_tell(plain, 0.0, 2, 1)
        log.close()


def test_the_file_holds_only_numbers_and_json(tmp_path):
    _, opt = go_through(events(seed=4, n=40), WINDOW, tmp_path / "s.db")
    opt.close()
    seen = Counter()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [description[0] for description in cursor.description]
            for row in cursor:
                for name, value in zip(names, row, strict=True):
                    assert value is None or type(value) in (int, float, str)
                    if isinstance(value, str) and name not in ("name", "key", "kind"):
                        assert isinstance(json.loads(value), dict)
                        seen[table, name] += 1
    assert set(seen) == {("studies", "definition"), ("asks", "params"), ("asks", "state"), ("tells", "params")}


# --- idempotency keys -------------------------------------------------------------------------------------------------


def as_it_is(opt, folder):
    return opt


def saved_and_loaded(opt, folder):
    opt.save(folder / "s.json")
    return eb.Optimizer.load(folder / "s.json")


def reopened(opt, folder):
    opt.close()
    return eb.Optimizer.open(url(folder / "s.db"), "edge")


@pytest.mark.parametrize(
    ("stored", "again"), [(False, as_it_is), (False, saved_and_loaded), (True, as_it_is), (True, reopened)]
)
def test_a_tell_with_a_key_is_recorded_once(stored, again, tmp_path):
    opt = tiny(tmp_path / "s.db" if stored else None)
    assert isinstance(opt.clock, eb.ManualClock)
    opt.clock.advance(5.0)
    trial = opt.ask()
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="a")
    opt.tell({"x": 0.25}, failed=True, key="b")
    opt.tell(trial, 2.5, key="c")
    before = opt.history
    assert [observation.key for observation in before] == ["a", "b", "c"]
    opt = again(opt, tmp_path)
    opt.clock.advance(1.0)
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="a")
    opt.tell({"x": 0.25}, 1.5, key="a")  # the time may be left out when it is repeated
    opt.tell({"x": 0.25}, failed=True, key="b")
    opt.tell(trial, 2.5, key="c")
    opt.tell(trial, 2.5)
    assert opt.history == before
    for params, value, key in (
        ({"x": 0.25}, 1.6, "a"),
        ({"x": 0.35}, 1.5, "a"),
        (trial, 1.5, "a"),
        ({"x": 0.25}, 1.5, "b"),
        (dict(trial.params), 2.5, "c"),
        (trial, 2.6, "c"),
    ):
        with pytest.raises(eb.TrialError, match=f"under the key '{key}'.*make a new one for each"):
            opt.tell(params, value, key=key)
    with pytest.raises(eb.TrialError, match="under the key 'a'"):
        opt.tell({"x": 0.25}, failed=True, key="a")
    assert opt.history == before
    opt.tell({"x": 0.25}, 1.5, time=3.0, key="d")
    opt.tell({"x": 0.25}, 1.5, time=3.0)
    assert len(opt.history) == len(before) + 2
    opt.close()


@pytest.mark.parametrize("key", ["", "x" * 201, 7, b"a", "\ud800"])
def test_a_bad_key_is_refused(key, tmp_path):
    for opt in (tiny(), tiny(tmp_path / "s.db")):
        with pytest.raises(eb.ObservationError, match="key="):
            opt.tell({"x": 0.5}, 1.0, key=key)
        assert opt.told == 0
        opt.close()


def test_keys_belong_to_a_study(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt, closing(tiny(tmp_path / "s.db", name="other")) as other:
        opt.tell({"x": 0.5}, 1.0, key="a")
        other.tell({"x": 0.5}, 2.0, key="a")
        assert (opt.history[0].value, other.history[0].value) == (1.0, 2.0)


# --- leases -----------------------------------------------------------------------------------------------------------


def believed(opt, folder):
    """How many pending trials the next ask will keep away from."""
    counted = []
    believing = Posterior.believing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Posterior, "believing", lambda self, X, t: counted.extend(X) or believing(self, X, t))
        opt.save(folder / "before the ask.json")
        eb.Optimizer.load(folder / "before the ask.json").ask()
    return len(counted)


@pytest.mark.parametrize("again", [as_it_is, reopened])
def test_a_trial_counts_as_pending_until_its_lease_ends(again, tmp_path):
    opt = tiny(tmp_path / "s.db", n_initial=3)
    drive(opt, lambda params, t: (params["x"] - 0.5) ** 2, 8)
    leased, other = opt.ask(lease=2.0), opt.ask(lease=0.5)
    assert (leased.expires, other.expires) == (leased.time + 2.0, other.time + 0.5)
    opt = again(opt, tmp_path)
    assert believed(opt, tmp_path) == 2
    opt.clock.advance(1.0)
    assert believed(opt, tmp_path) == 1
    opt.clock.advance(1.0)
    assert believed(opt, tmp_path) == 1  # up to and including its end
    opt.clock.advance(0.5)
    assert believed(opt, tmp_path) == 0
    assert opt.trial(leased.id) == leased
    opt = again(opt, tmp_path)
    opt.tell(leased, 1.0)  # late, and accepted
    assert opt.history[-1] == Observation(leased.params, leased.time, 1.0, leased.id, kind="explore")
    assert [trial.id for trial in pending(opt)] == [other.id]
    opt.close()


def test_pending_trials_move_the_next_ask_and_expired_ones_do_not(tmp_path):
    asked = {}
    for lease in (0.5, 50.0):
        with closing(tiny(tmp_path / f"{lease}.db", n_initial=3)) as opt:
            drive(opt, lambda params, t: (params["x"] - 0.5) ** 2, 8)
            opt.ask(lease=lease)
            assert isinstance(opt.clock, eb.ManualClock)
            opt.clock.advance(1.0)
            asked[lease] = opt.ask()
    assert asked[50.0].params != asked[0.5].params


def test_a_lease_may_be_a_numpy_number(tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        opt.ask(lease=np.float32(2.0))  # type: ignore[call-overload]
    assert column(tmp_path / "s.db", "SELECT expires FROM asks") == [2.0]


@pytest.mark.parametrize("lease", [-1.0, float("nan"), float("inf"), "1", True])
def test_a_bad_lease_is_refused(lease, tmp_path):
    with closing(tiny(tmp_path / "s.db")) as opt:
        with pytest.raises(eb.ConfigurationError, match="lease="):
            opt.ask(lease=lease)
        assert pending(opt) == []


def test_a_summary_does_not_look_at_every_line(tmp_path):
    """The service makes one for each stream that begins, and all of them for each list."""
    path, taken = tmp_path / "a.db", []
    opt, storage = tiny(path), Storage.of(url(path))
    assert isinstance(storage.database, SqliteDatabase)
    storage.database._connection.set_progress_handler(lambda: steps.update(["ten"]), 10)
    for lines in (10, 300):
        for _ in range(lines):
            opt.tell({"x": 0.5}, 1.0)
        steps = Counter[str]()
        assert storage.summary("edge").told == len(opt.history)
        taken.append(steps["ten"])
    assert taken[1] < 2 * taken[0]
