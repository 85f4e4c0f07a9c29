"""The small things that make an object pleasant to use."""

import importlib

import pytest
from helpers.studies import TINY, tiny, url

import ebbtide as eb


def test_an_optimizer_says_what_it_is():
    opt = eb.Optimizer({"power": eb.Float(1.0, 9.0), "n": eb.Int(1, 3)}, direction="maximize", clock=eb.ManualClock())
    opt.tell(opt.ask(), 1.0)
    opt.ask()
    assert repr(opt) == "<Optimizer: maximize over power, n by tide; 2 asked, 1 told, 1 active>"
    mine = eb.Optimizer(TINY, algorithm=eb.Algorithm(acquisition=eb.EI()))
    assert repr(mine) == "<Optimizer: minimize over x by a custom algorithm; 0 asked, 0 told, 0 active>"


def test_a_client_and_its_studies_say_what_they_are():
    client = eb.Client("http://127.0.0.1:1/")
    assert repr(client) == "<Client of http://127.0.0.1:1>"


def test_a_stored_optimizer_is_closed_by_with(tmp_path):
    with tiny(tmp_path / "s.db") as opt:
        trial = opt.ask()
    with pytest.raises(eb.StorageError, match=r"s\.db was closed; open the study again"):
        opt.tell(trial, 1.0)
    with pytest.raises(RuntimeError, match="mine"), eb.Optimizer.open(url(tmp_path / "s.db"), "edge") as opt:
        raise RuntimeError("mine")
    with pytest.raises(eb.StorageError, match="was closed; open the study again"):
        opt.ask()


def test_an_optimizer_in_memory_has_nothing_to_close():
    with eb.Optimizer(TINY) as opt:
        trial = opt.ask()
    opt.tell(trial, 1.0)
    assert [observation.value for observation in opt.history] == [1.0]


@pytest.mark.parametrize("space", [[1], "x", None, 3, {1, 2}])
def test_what_is_no_space_is_named(space):
    with pytest.raises(eb.SpaceError, match=r"space=.*: give a dict"):
        eb.Optimizer(space)


def test_relevance_is_a_function_and_no_module():
    assert callable(eb.relevance)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ebbtide.relevance")


def test_the_errors_are_one_tree():
    kinds = [error for error in vars(eb).values() if isinstance(error, type) and issubclass(error, Exception)]
    assert {eb.BusyError, eb.WorkerError} <= set(kinds)
    assert all(issubclass(kind, eb.EbbtideError | eb.EbbtideWarning) for kind in kinds)
