"""What a user sees of objectives that jump."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.drifting import moving_bump
from helpers.studies import url

import ebbtide as eb
from ebbtide import wire
from ebbtide.service.schemas import Model
from ebbtide.study import codec, snapshot

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
TIDE = eb.algorithms.get("tide")


def hopping(params, t):
    """A hill that is somewhere else every 25 s."""
    x, y = np.random.default_rng(int(t // 25)).random(2)
    return float(np.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.1))


def begun(**options):
    return eb.Optimizer(SPACE, direction="maximize", clock=eb.ManualClock(), **({"seed": 3} | options))


def go_on(opt, steps, objective=hopping, **constraints):
    """The settings asked; noisy values of them are told."""
    asked = []
    for _ in range(steps):
        trial = opt.ask()
        opt.clock.advance(1.0)
        noise = 0.05 * float(np.random.default_rng(int(trial.id)).normal())
        opt.tell(trial, objective(trial.params, trial.time) + noise, **constraints)
        asked.append(trial.params)
    return asked


def test_an_objective_that_jumps_is_modelled_as_one_that_does():
    opt = begun()
    go_on(opt, 150)
    assert opt.hyperparameters["jumps"] is True
    assert opt.model.kernel.temporal == eb.Matern(0.5, opt.hyperparameters["timescale"])
    assert opt.recommend().std > 0.0
    assert np.isfinite(opt.relevance()).all()
    assert opt.departures() is not None


def test_one_that_moves_smoothly_is_not():
    opt = begun()
    go_on(opt, 100, moving_bump)
    assert "jumps" not in opt.hyperparameters
    assert opt.model.kernel.temporal == eb.Matern(1.5, opt.hyperparameters["timescale"])


def test_published_algorithms_keep_their_kernel():
    opt = begun(algorithm="w-dbo")
    go_on(opt, 150)
    assert "jumps" not in opt.hyperparameters
    assert isinstance(opt.model.kernel.temporal, eb.Matern)
    assert opt.model.kernel.temporal.nu == 1.5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": replace(TIDE, staleness=eb.WassersteinBudget(alpha=4.0, min_active=20, method="exact"))},
        {"cycles": {"day": 9.0}, "constraints": {"p99": eb.AtMost(0.5)}},
    ],
    ids=["tide", "exact", "cycle and constraint"],
)
def test_a_study_that_is_interrupted_again_and_again_asks_the_same(options, tmp_path):
    """Also around the asks in which the kernel changes."""
    given = options.get("algorithm")
    told = {"constraints": {"p99": 0.3}} if "constraints" in options else {}
    whole, opt, stored = (
        begun(**options),
        begun(**options),
        begun(**options, storage=url(tmp_path / "s.db"), name="edge"),
    )
    jumped = []
    for k in range(26):
        asked = go_on(whole, 5, **told)
        assert go_on(opt, 5, **told) == asked
        assert go_on(stored, 5, **told) == asked
        assert whole.hyperparameters == opt.hyperparameters == stored.hyperparameters
        jumped.append("jumps" in whole.hyperparameters)
        if k % 3 == 0:
            opt.save(tmp_path / "s.json")
            opt = eb.Optimizer.load(tmp_path / "s.json", clock=opt.clock, algorithm=given)
        if k % 2 == 0:
            stored.close()
            stored = eb.Optimizer.open(url(tmp_path / "s.db"), "edge", clock=stored.clock, algorithm=given)
    stored.close()
    assert not jumped[0]
    assert any(jumped)


def test_an_objective_that_no_longer_jumps_is_modelled_as_smooth_again():
    opt = begun()
    go_on(opt, 150)
    assert "jumps" in opt.hyperparameters
    go_on(opt, 250, moving_bump)
    assert "jumps" not in opt.hyperparameters


def test_everything_that_is_read_is_of_the_kernel_that_was_chosen(tmp_path):
    """The same study with Matérn-½ for its kernel, so that nothing had to be chosen, says the same."""
    hasty = replace(TIDE, staleness=eb.WassersteinBudget(alpha=2.0, min_active=40))
    opt = begun(algorithm=hasty)
    go_on(opt, 150)
    opt.save(tmp_path / "s.json")
    payload = json.loads((tmp_path / "s.json").read_text())["payload"]
    assert payload["state"]["hyper"].pop("jumps") is True
    payload["algorithm"] = codec.algorithm_to_json(replace(hasty, temporal=eb.Matern(0.5), jumps=False))
    snapshot.write(tmp_path / "rough.json", payload)
    rough = eb.Optimizer.load(tmp_path / "rough.json", clock=opt.clock)
    departures = opt.departures()
    assert departures is not None
    assert np.isfinite(departures).any()
    assert rough.departures() == pytest.approx(departures, rel=0.0)
    assert np.array_equal(rough.relevance(), opt.relevance())
    assert rough.recommend() == opt.recommend()


def test_the_service_says_so():
    opt = begun()
    go_on(opt, 150)
    assert Model.model_validate(wire.model(opt)).hyperparameters["jumps"] is True


def test_it_is_stored_only_while_it_jumps(tmp_path):
    for objective, jumps in ((moving_bump, None), (hopping, True)):
        opt = begun()
        go_on(opt, 150, objective)
        opt.save(tmp_path / "s.json")
        state = json.loads((tmp_path / "s.json").read_text())["payload"]["state"]
        assert state["hyper"].get("jumps") == jumps


@pytest.mark.parametrize("temporal", [None, eb.StepDecay()], ids=str)
def test_only_a_model_that_reads_the_clock_knows_of_jumps(temporal):
    with pytest.raises(eb.ConfigurationError, match="jumps=True, temporal="):
        eb.Algorithm(temporal=temporal, staleness=eb.KeepAll(), jumps=True)


def test_an_algorithm_without_it_is_stored_as_before():
    assert "jumps" not in codec.algorithm_to_json(replace(TIDE, jumps=False))
    assert codec.algorithm_to_json(TIDE)["jumps"] is True
