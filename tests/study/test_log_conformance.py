"""A study gives the same answers wherever its log is: in memory, in a snapshot, in a file, behind a service."""

import math
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from helpers.serving import served
from helpers.studies import TINY, url

import ebbtide as eb

SETTINGS: dict[str, Any] = {"seed": 3, "n_initial": 1000}  # every ask fills the space, and does not depend on the time


class Kept:
    """A study, and a way to come back to it later."""

    def __init__(self, study, again):
        self.study, self._again = study, again

    def now_and_later(self):
        """The study as it is, and after it was opened again, twice."""
        yield self.study
        for _ in range(2):
            self.study = self._again(self.study)
            yield self.study


@contextmanager
def in_memory(folder):
    yield Kept(eb.Optimizer(TINY, **SETTINGS), lambda study: study)


@contextmanager
def in_a_snapshot(folder):
    def again(study):
        study.save(folder / "s.json")
        return eb.Optimizer.load(folder / "s.json")

    yield Kept(eb.Optimizer(TINY, **SETTINGS), again)


@contextmanager
def in_a_file(folder):
    def again(study):
        study.close()
        return eb.Optimizer.open(url(folder / "s.db"), "edge")

    kept = Kept(eb.Optimizer(TINY, **SETTINGS, storage=url(folder / "s.db"), name="edge"), again)
    yield kept
    kept.study.close()


@contextmanager
def saved_from_a_file(folder):
    def again(study):
        study.save(folder / "s.json")
        study.close()
        return eb.Optimizer.load(folder / "s.json")

    yield Kept(eb.Optimizer(TINY, **SETTINGS, storage=url(folder / "s.db"), name="edge"), again)


@contextmanager
def behind_a_service(folder, server):
    with eb.Client(server.url) as client:
        yield Kept(client.create(folder.name, TINY, **SETTINGS), lambda study: client.study(folder.name))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as server:
        yield server


@pytest.fixture(
    params=[in_memory, in_a_snapshot, in_a_file, saved_from_a_file, behind_a_service], ids=lambda kind: kind.__name__
)
def kept(request, tmp_path):
    with ExitStack() as stack:
        more = [request.getfixturevalue("server")] if request.param is behind_a_service else []
        yield stack.enter_context(request.param(tmp_path, *more))


def seen(study):
    """The history; a client makes its own keys for parameters, so keys are not compared."""
    return [replace(observation, key=None) for observation in study.history]


def test_a_trial_stays_as_it_was_asked_whatever_is_told(kept):
    study = kept.study
    plain, later, lost, leased, pending = (study.ask(lease=60.0 if k == 3 else None) for k in range(5))
    trials = [plain, later, lost, leased, pending]
    assert [trial.id for trial in trials] == ["0", "1", "2", "3", "4"]
    assert (leased.expires, pending.expires) == (leased.time + 60.0, None)
    measured = plain.time - 100.0
    study.tell(plain, 1.0)
    study.tell(later, 2.0, time=measured)
    study.tell(lost, failed=True)
    study.tell(leased, 3.0)
    study.tell({"x": 0.25}, 4.0, time=measured)
    expected = [
        eb.Observation(plain.params, plain.time, 1.0, "0", kind="explore"),
        eb.Observation(later.params, measured, 2.0, "1", kind="explore"),
        eb.Observation(lost.params, lost.time, None, "2", kind="explore"),
        eb.Observation(leased.params, leased.time, 3.0, "3", kind="explore"),
        eb.Observation({"x": 0.25}, measured, 4.0),
    ]
    for later_on in kept.now_and_later():
        assert [later_on.trial(trial.id) for trial in trials] == trials
        assert seen(later_on) == expected
    study = kept.study
    study.tell(study.trial("4"), 5.0)  # by its id alone
    assert seen(study)[-1] == eb.Observation(pending.params, pending.time, 5.0, "4", kind="explore")
    assert study.ask().id == "5"


def test_a_trial_that_was_never_asked_is_an_error(kept):
    kept.study.ask()
    for study in kept.now_and_later():
        for unknown in ("1", "-1", "00", "x", "../0", "9" * 30):
            with pytest.raises(eb.TrialError, match="was never asked for"):
                study.trial(unknown)


@pytest.mark.parametrize("told", ["99", 99, [("x", 0.5)], None])
def test_what_is_neither_parameters_nor_a_trial_is_named(kept, told):
    with pytest.raises(eb.ParameterError, match="is not a dict of parameters or a trial"):
        kept.study.tell(told, 1.0)


def test_returned_objects_cannot_change_the_study(kept):
    trial = kept.study.ask()
    kept.study.trial(trial.id).params["x"] = -9.0
    assert kept.study.trial(trial.id) == trial


def test_a_trial_is_told_once(kept):
    trial, other = kept.study.ask(2)
    kept.study.tell(trial, 1.0)
    kept.study.tell(other, failed=True)
    for study in kept.now_and_later():
        study.tell(trial, 1.0)
        study.tell(other, failed=True)
        for again, value in ((trial, 2.0), (other, 1.0)):
            with pytest.raises(eb.TrialError, match=r"before and .* now"):
                study.tell(again, value)
        with pytest.raises(eb.TrialError, match="before and that it failed now"):
            study.tell(trial, failed=True)
        assert len(study.history) == 2


def test_a_key_is_used_once(kept):
    kept.study.tell({"x": 0.5}, 1.0, key="a")
    for study in kept.now_and_later():
        study.tell({"x": 0.5}, 1.0, key="a")
        with pytest.raises(eb.TrialError, match="under the key 'a'"):
            study.tell({"x": 0.5}, 2.0, key="a")
        assert len(study.history) == 1


REFUSED = [
    (({"x": 0.5}, math.nan), eb.ObservationError),
    (({"x": 0.5}, None), eb.ObservationError),
    (({"x": 7.0}, 1.0), eb.ParameterError),
    (({"y": 0.5}, 1.0), eb.ParameterError),
    ((eb.Trial("7", {"x": 0.5}, 0.0), 1.0), eb.TrialError),
    (("99", 1.0), eb.ParameterError),
]


def test_a_refused_tell_leaves_no_trace(kept):
    for told, error in REFUSED:
        with pytest.raises(error):
            kept.study.tell(*told)
    for time in (4e9, 5.0, math.nan):
        with pytest.raises(eb.ObservationError, match="time="):
            kept.study.tell({"x": 0.5}, 1.0, time=time)
    for study in kept.now_and_later():
        assert seen(study) == []
