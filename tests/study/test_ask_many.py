"""`ask(n=4)` with an error in the middle: all or nothing, and what could not be undone is named."""

import sqlite3
from contextlib import closing

import pytest
from helpers.serving import served
from helpers.studies import TINY, tiny, url

import ebbtide as eb

NO_THIRD_ASK = "CREATE TRIGGER no_third_ask BEFORE INSERT ON asks WHEN NEW.ask = 2 BEGIN SELECT RAISE(FAIL, 'no'); END"
NO_TELL = "CREATE TRIGGER no_tell BEFORE INSERT ON tells BEGIN SELECT RAISE(FAIL, 'no'); END"


def let_fail(path, *triggers):
    with closing(sqlite3.connect(path)) as connection:
        for trigger in triggers:
            connection.execute(trigger)


def test_the_trials_made_before_an_error_are_called_off(tmp_path):
    with tiny(tmp_path / "s.db") as opt:
        let_fail(tmp_path / "s.db", NO_THIRD_ASK)
        with pytest.raises(eb.StorageError, match="SQLite reported an error") as caught:
            opt.ask(4)
        assert "pending" not in str(caught.value)
        assert opt.pending == 0
        assert [(o.trial_id, o.abandoned) for o in opt.history] == [("0", True), ("1", True)]
    with eb.Optimizer.open(url(tmp_path / "s.db"), "edge") as again:
        assert again.pending == 0


def test_those_that_cannot_be_called_off_are_named(tmp_path):
    with tiny(tmp_path / "s.db") as opt:
        let_fail(tmp_path / "s.db", NO_THIRD_ASK, NO_TELL)
        with pytest.raises(eb.StorageError, match="made before this error, and still pending: 0, 1"):
            opt.ask(4)
        assert [trial.id for trial in opt.pending_trials] == ["0", "1"]


def test_without_a_file_and_with_an_error_of_the_users_own():
    class Tired:
        """A clock that is read twice per ask, and gives up in the third one."""

        def __init__(self):
            self.left = 5

        def now(self):
            self.left -= 1
            if not self.left:
                raise OSError("the clock is broken")
            return 0.0

    opt = eb.Optimizer(TINY, clock=Tired(), seed=0)
    with pytest.raises(OSError, match="the clock is broken"):
        opt.ask(4)
    assert opt.pending == 0
    assert [o.abandoned for o in opt.history] == [True, True]


@pytest.mark.slow
def test_through_the_service(tmp_path):
    with served(tmp_path) as server, eb.Client(server.url, patience=0.0) as client:
        study = client.create("edge", TINY, seed=0)
        let_fail(tmp_path / "s.db", NO_THIRD_ASK)
        with pytest.raises(eb.StorageError) as caught:
            study.ask(4)
        assert "pending" not in str(caught.value)
        assert [(o.trial_id, o.abandoned) for o in study.history] == [("0", True), ("1", True)]
        assert study.state()["pending"] == 0
        client.create("other", TINY, seed=0)
        let_fail(tmp_path / "s.db", NO_TELL)
        with pytest.raises(eb.StorageError, match="still pending: 0, 1"):
            client.study("other").ask(4)
        assert server.alive()  # what was answered before this is in the log by now
        server.excused = len(server.log)  # errors of the disk are logged with their traceback
