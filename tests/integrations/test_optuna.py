"""The sampler for Optuna: Optuna's own suite, an Optimizer as the oracle, and studies that live long."""

import copy
import datetime
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
from optuna.trial import TrialState

import ebbtide as eb
from ebbtide.clock import SystemClock
from ebbtide.integrations.optuna import EbbtideSampler, recommend
from ebbtide.integrations.optuna_record import NOTE, RECENT, TIME

optuna.logging.set_verbosity(optuna.logging.ERROR)


class TestOptunasOwnSuite(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Of Optuna's cases only the multi-objective ones do not apply: the criterion is of one objective."""

    @pytest.fixture
    def sampler(self):
        return lambda: EbbtideSampler(seed=0, n_initial=2)


SPACE = {
    "power": FloatDistribution(1.0, 100.0, log=True),
    "gain": FloatDistribution(-1.0, 1.0),
    "share": FloatDistribution(0.0, 1.0, step=0.25),
    "width": IntDistribution(1, 8),
    "depth": IntDistribution(2, 64, log=True),
    "codec": CategoricalDistribution(["a", "b"]),
}
OURS = {
    "power": eb.Float(1.0, 100.0, log=True),
    "gain": eb.Float(-1.0, 1.0),
    "share": eb.Int(0, 4),
    "width": eb.Int(1, 8),
    "depth": eb.Int(2, 64, log=True),
    "codec": eb.Categorical(["a", "b"]),
}


class Knowing(EbbtideSampler):
    """Knows the space before the first trial, as an Optimizer does."""

    space = SPACE

    def infer_relative_search_space(self, study, trial):
        return dict(self.space)


def storage_of(kind, folder):
    if kind == "memory":
        return InMemoryStorage()
    if kind == "journal":
        return JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    return RDBStorage(f"sqlite:///{folder / 'optuna.db'}")


def hill(x, t):
    """A hill in [0, 10] that goes to and fro, and sinks."""
    return -((x - best(t)) ** 2) - 0.02 * t


def best(t):
    return 5.0 + 3.0 * math.sin(t / 25.0)


def follow(study, clock, trials, sign=1.0, step=1.0, more=False):
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, sign * hill(trial.suggest_float("x", 0.0, 10.0), clock.now()))
        if more and trial.number % 3 == 0:
            trial = study.ask()
            conditional = trial.suggest_float("y", 0.0, 1.0)
            study.tell(trial, conditional + sign * hill(trial.suggest_float("x", 0.0, 10.0), clock.now()))
        clock.advance(step)


def forgotten(study):
    """Numbers of the trials that the notes say were forgotten."""
    return {number for trial in study.trials for number in trial.system_attrs.get(NOTE, {}).get("forgot", [])}


def remembered(study):
    """Times of the trials with a finite value that were not forgotten, in their order."""
    gone, completed = forgotten(study), study.get_trials(states=[TrialState.COMPLETE])
    known = [trial for trial in completed if trial.number not in gone and math.isfinite(trial.value)]
    return [trial.system_attrs[NOTE]["time"] for trial in known]


# --- the oracle: an Optimizer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("algorithm", ["tide", "w-dbo", "tv-gp-ucb", "r-gp-ucb"])
def test_it_asks_what_an_optimizer_asks(direction, algorithm):
    ours, theirs = eb.ManualClock(), eb.ManualClock()
    opt = eb.Optimizer(OURS, direction=direction, algorithm=algorithm, clock=ours, seed=7)
    study = optuna.create_study(direction=direction, sampler=Knowing(algorithm, clock=theirs, seed=7))
    rng = np.random.default_rng(0)
    for k in range(40):
        asked, trial = opt.ask(), study.ask(SPACE)
        assert trial.params == asked.params | {"share": 0.25 * asked.params["share"]}
        value = float(rng.normal()) + asked.params["gain"]
        if k == 20:
            opt.tell(asked, failed=True)
            study.tell(trial, state=TrialState.FAIL)
        elif k == 22:
            opt.tell(asked, failed=True)
            study.tell(trial, math.inf)
        elif k == 24:
            opt.tell(asked, abandoned=True)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            opt.tell(asked, value)
            study.tell(trial, value)
        ours.advance(1.0)
        theirs.advance(1.0)
    theirs_best, ours_best = recommend(study), opt.recommend()
    assert remembered(study) == opt.dataset.t.tolist()
    assert len(opt.dataset.t) < 37 or algorithm != "w-dbo"
    assert theirs_best.mean == ours_best.mean
    assert theirs_best.params["power"] == ours_best.params["power"]


def test_running_trials_count_as_pending_as_with_an_optimizer():
    ours, theirs = eb.ManualClock(), eb.ManualClock()
    opt = eb.Optimizer(OURS, clock=ours, seed=3, n_initial=4)
    study = optuna.create_study(sampler=Knowing(clock=theirs, seed=3, n_initial=4))
    for _ in range(6):
        batch, trials = opt.ask(n=3), [study.ask(SPACE) for _ in range(3)]
        for asked, trial in zip(batch, trials, strict=True):
            assert trial.params["power"] == asked.params["power"]
            opt.tell(asked, asked.params["gain"] ** 2)
            study.tell(trial, trial.params["gain"] ** 2)
        ours.advance(1.0)
        theirs.advance(1.0)


# --- what it is for ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_it_follows_the_optimum_where_the_best_trial_does_not(direction, sign):
    clock = eb.ManualClock()
    study = optuna.create_study(direction=direction, sampler=EbbtideSampler(clock=clock, seed=0))
    follow(study, clock, 150, sign)
    now = recommend(study)
    assert abs(now.params["x"] - best(150.0)) < 0.5
    assert now.time == 150.0
    assert abs(now.mean - sign * hill(best(150.0), 150.0)) < 0.5
    assert abs(study.best_trial.params["x"] - best(150.0)) > 1.0


def test_trials_stay_and_the_active_set_is_small():
    clock = eb.ManualClock()
    study = optuna.create_study(direction="maximize", sampler=EbbtideSampler(clock=clock, seed=0))
    follow(study, clock, 200)
    assert len(study.trials) == 200
    assert len(forgotten(study)) > 50
    assert len(remembered(study)) == 200 - len(forgotten(study))


# --- a long life ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "journal", "sqlite"])
def test_a_study_goes_on_as_if_nothing_had_happened(kind, tmp_path):
    """A new sampler on a stored study asks what the old one would have asked: its notes are all it needs."""

    def lived(name, restarts):
        clock = eb.ManualClock()
        folder = tmp_path / name
        folder.mkdir()
        storage = storage_of(kind, folder)
        study = optuna.create_study(study_name="s", storage=storage, sampler=EbbtideSampler(clock=clock, seed=1))
        for _ in range(4):
            follow(study, clock, 20, step=0.5, more=True)
            if restarts:
                storage = storage if kind == "memory" else storage_of(kind, folder)
                study = optuna.load_study(study_name="s", storage=storage, sampler=EbbtideSampler(clock=clock, seed=1))
        return [trial.params for trial in study.trials], recommend(study)

    straight, now = lived("straight", restarts=False)
    again, later = lived("again", restarts=True)
    assert again == straight
    assert (later.params, later.mean) == (now.params, now.mean)


def test_a_study_of_another_sampler_is_taken_over():
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: -((trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2), n_trials=30)
    study.sampler = EbbtideSampler(seed=0)
    assert abs(recommend(study).params["x"] - 0.3) < 0.1
    # An Optimizer that was told the same values at the dates that Optuna gave them believes the same, but for the
    # moments that pass between the two.
    oracle = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, direction="maximize", seed=0)
    for trial in study.trials:
        oracle.tell(trial.params, trial.value, time=trial.datetime_start.timestamp())
    assert recommend(study).params == pytest.approx(oracle.recommend().params, abs=0.05)
    assert recommend(study).mean == pytest.approx(oracle.recommend().mean, abs=0.02)


def test_workers_share_what_is_forgotten(tmp_path):
    clock = eb.ManualClock()
    workers = []
    for seed in (0, 1):
        storage = storage_of("journal", tmp_path)
        workers.append(
            optuna.create_study(
                study_name="s",
                storage=storage,
                direction="maximize",
                sampler=EbbtideSampler(clock=clock, seed=seed),
                load_if_exists=True,
            )
        )
    for _ in range(60):
        for study in workers:
            follow(study, clock, 1, step=0.5)
    assert len(forgotten(workers[0])) > 10
    one, other = map(recommend, workers)  # as believed by two samplers that never met
    assert other.mean == pytest.approx(one.mean, rel=1e-4)  # each seed looks for the best from other places
    assert other.std == pytest.approx(one.std, rel=1e-3)
    assert abs(recommend(workers[1]).params["x"] - best(clock.now())) < 0.5


def test_a_state_of_another_algorithm_is_not_taken_over():
    clock = eb.ManualClock()
    study = optuna.create_study(sampler=EbbtideSampler("tv-gp-ucb", clock=clock, seed=0))
    follow(study, clock, 30)
    in_steps = study.trials[-1].system_attrs[NOTE]["state"]
    study.sampler = EbbtideSampler("w-dbo", clock=clock, seed=0)
    assert recommend(study).time == 30.0
    follow(study, clock, 1)
    in_seconds = study.trials[-1].system_attrs[NOTE]["state"]
    assert in_seconds["hyper"]["timescale"] != in_steps["hyper"]["timescale"]
    fresh = optuna.create_study(sampler=EbbtideSampler("w-dbo", clock=eb.ManualClock(30.0), seed=0))
    for trial in study.trials[:30]:
        fresh.add_trial(trial)
    follow(fresh, fresh.sampler.clock, 1)
    assert fresh.trials[-1].params == study.trials[-1].params  # as if nothing had been fitted before


# --- trials of all kinds ----------------------------------------------------------------------------------------------


def small_and_safe(lost):
    """The smaller x, the better, but below 0.3 a measurement is lost, in the way given; and how x was sampled."""
    clock = eb.ManualClock()
    study = optuna.create_study(sampler=EbbtideSampler(clock=clock, seed=0))

    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        clock.advance(1.0)
        return lost(trial) if x < 0.3 else x

    study.optimize(objective, n_trials=40, catch=(RuntimeError,))
    late = [trial.params["x"] for trial in study.trials[20:]]
    return recommend(study), np.mean(np.array(late) < 0.3)


def fails(trial):
    raise RuntimeError("the machine is off")


@pytest.mark.parametrize("lost", [fails, lambda trial: math.inf], ids=["failed", "infinite"])
def test_where_trials_fail_is_learned(lost):
    best, below = small_and_safe(lost)
    assert 0.3 <= best.params["x"] < 0.5
    assert abs(best.mean - best.params["x"]) < 0.1
    assert below < 0.75  # it tries the border again and again, where the best values are


def prune(trial):
    raise optuna.TrialPruned


def call_off(trial):
    trial.set_user_attr("ebbtide:abandoned", True)
    raise RuntimeError("somebody else needs the machine")


@pytest.mark.parametrize("lost", [prune, call_off])
def test_a_trial_that_was_pruned_or_called_off_says_nothing(lost):
    _, below = small_and_safe(lost)
    assert below > 0.8  # nothing speaks against the best place


def test_a_study_of_an_older_version_continues_with_the_same_algorithm():
    """What is hashed must not change, or every stored study would start a new belief."""
    clock = eb.ManualClock()
    study = optuna.create_study(sampler=EbbtideSampler("w-dbo", clock=clock, seed=0))
    for _ in range(3):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
    assert study.trials[-1].system_attrs[NOTE]["of"] == "93402eb13671075a"  # as 0.1.0 wrote it


def test_by_default_it_is_the_librarys_default():
    assert EbbtideSampler().algorithm == eb.Optimizer({"x": eb.Float(0.0, 1.0)}).algorithm


def test_parallel_trials_are_all_told():
    study = optuna.create_study(sampler=EbbtideSampler(seed=0))
    study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2, n_trials=60, n_jobs=4)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 60
    assert abs(recommend(study).params["x"] - 0.3) < 0.05


def test_asks_from_many_threads_leave_a_note_each():
    study = optuna.create_study(sampler=EbbtideSampler(seed=0, n_initial=3))
    study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2, n_trials=5)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda _: study.ask().suggest_float("x", 0.0, 1.0), range(24)))
    assert len(set(values)) > 20  # they keep away from each other
    assert all(trial.system_attrs[NOTE]["params"] == trial.params for trial in study.trials[5:])


def test_a_conditional_parameter_is_sampled_independently():
    study = optuna.create_study(sampler=EbbtideSampler(seed=0))

    def objective(trial):
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number % 3:
            return x
        return x + trial.suggest_float("extra", 0.0, 1.0)

    study.optimize(objective, n_trials=20)
    assert set(study.trials[-1].system_attrs[NOTE]["params"]) == {"x"}
    assert any("extra" in trial.params for trial in study.trials[10:])
    assert set(recommend(study).params) == {"x"}


def test_a_range_may_change_and_a_parameter_may_come():
    clock = eb.ManualClock()
    study = optuna.create_study(sampler=EbbtideSampler(clock=clock, seed=0))

    def run(trials, high, more=False):
        for _ in range(trials):
            trial = study.ask()
            value = abs(trial.suggest_float("x", 0.0, high) - 7.0)
            study.tell(trial, value + (trial.suggest_float("z", 0.0, 1.0) if more else 0.0))
            clock.advance(1.0)

    run(20, 5.0)
    run(20, 10.0)
    assert study.trials[-1].system_attrs[NOTE]["params"].keys() == {"x"}
    assert abs(recommend(study).params["x"] - 7.0) < 0.5
    run(RECENT + 1, 10.0, more=True)
    assert study.trials[-1].system_attrs[NOTE]["params"].keys() == {"x", "z"}
    run(2, 4.0, more=True)  # most of what is known lies outside now
    assert study.trials[-1].params["x"] <= 4.0


def test_enqueued_and_added_trials_are_modelled_at_their_time():
    clock = eb.ManualClock(start=100.0)
    study = optuna.create_study(sampler=EbbtideSampler(clock=clock, seed=0))
    study.enqueue_trial({"x": 3.0})
    follow(study, clock, 1)
    distributions = {"x": FloatDistribution(0.0, 10.0)}
    added = {"params": {"x": 4.0}, "distributions": distributions, "value": 1.0}
    study.add_trial(optuna.create_trial(**added, user_attrs={TIME: 90.0}))
    study.add_trial(optuna.create_trial(**added))  # by this clock nobody knows when
    with pytest.warns(eb.EbbtideWarning, match=r"no time by this clock are not modelled \(1, first number 2\)"):
        recommend(study)
    oracle = eb.Optimizer({"x": eb.Float(0.0, 10.0)}, clock=clock, seed=0)
    oracle.tell({"x": 3.0}, study.trials[0].value, time=100.0)
    oracle.tell({"x": 4.0}, 1.0, time=90.0)
    believed, expected = recommend(study), oracle.recommend()
    assert (believed.params, believed.mean, believed.std) == (expected.params, expected.mean, expected.std)


def test_a_trial_that_hangs_stops_counting_and_holds_nobody_up():
    clock = eb.ManualClock()
    study = optuna.create_study(direction="maximize", sampler=EbbtideSampler(clock=clock, seed=0))
    follow(study, clock, 10)
    study.ask().suggest_float("x", 0.0, 10.0)  # its worker dies
    follow(study, clock, 60)
    assert abs(recommend(study).params["x"] - best(clock.now())) < 0.5
    assert [trial.number for trial in study.get_trials(states=[TrialState.RUNNING])] == [10]


def test_steps_are_counted_exactly_and_what_cannot_be_counted_is_sampled_independently():
    study = optuna.create_study(sampler=EbbtideSampler(seed=0, n_initial=2))

    def objective(trial):
        trial.suggest_int("huge", 0, 2**50)
        trial.suggest_float("one", 1.0, 1.0)
        odd = trial.suggest_int("odd", 3, 11, step=2)
        return odd + trial.suggest_float("tenth", -10.2, 10.2, step=0.1)

    study.optimize(objective, n_trials=25)
    assert set(study.trials[-1].system_attrs[NOTE]["params"]) == {"odd", "tenth"}
    for params in (trial.params for trial in study.trials):
        assert 0 <= params["huge"] <= 2**50
        assert params["one"] == 1.0
        assert -10.2 <= params["tenth"] <= 10.2
        assert params["tenth"] == pytest.approx(round(10.0 * params["tenth"]) / 10.0, abs=1e-9)
    assert {trial.params["odd"] for trial in study.trials} <= {3, 5, 7, 9, 11}
    assert type(study.trials[-1].params["odd"]) is int


# --- small print ------------------------------------------------------------------------------------------------------


def test_recommend_says_what_is_missing():
    study = optuna.create_study(sampler=EbbtideSampler())
    with pytest.raises(eb.ConfigurationError, match="no completed trial"):
        recommend(study)
    study.sampler = optuna.samplers.RandomSampler()
    with pytest.raises(eb.ConfigurationError, match="RandomSampler"):
        recommend(study)
    both = optuna.create_study(directions=["minimize", "maximize"], sampler=EbbtideSampler())
    with pytest.raises(ValueError, match="multi-objective"):
        recommend(both)


def test_recommend_leaves_no_trace():
    def asked(looking):
        clock = eb.ManualClock()
        study = optuna.create_study(sampler=EbbtideSampler(clock=clock, seed=0))
        for _ in range(25):
            follow(study, clock, 1)
            if looking:
                recommend(study)
        return [trial.params["x"] for trial in study.trials[1:]]

    assert asked(True) == asked(False)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_sampler_can_be_copied_and_pickled(again):
    clock = eb.ManualClock()
    study = optuna.create_study(sampler=EbbtideSampler(clock=clock, seed=0))
    follow(study, clock, 15)
    here = recommend(study)
    study.sampler = again(study.sampler)
    assert (recommend(study).params, recommend(study).mean) == (here.params, here.mean)


def test_one_sampler_may_serve_two_studies():
    clock = eb.ManualClock()
    sampler = EbbtideSampler(clock=clock, seed=0)
    studies = [optuna.create_study(direction=direction, sampler=sampler) for direction in ("minimize", "maximize")]
    for _ in range(20):
        for study in studies:
            follow(study, clock, 1)
    assert abs(recommend(studies[1]).params["x"] - best(clock.now())) < 1.0
    assert abs(recommend(studies[0]).params["x"] - best(clock.now())) > 2.0


class Counted(InMemoryStorage):
    reads = 0

    def get_all_trials(self, *arguments, **options):
        self.reads += 1
        return super().get_all_trials(*arguments, **options)


def test_an_ask_reads_the_storage_once():
    clock, storage = eb.ManualClock(), Counted()
    study = optuna.create_study(storage=storage, sampler=EbbtideSampler(clock=clock, seed=0))
    follow(study, clock, 12)
    trial = study.ask()
    before = storage.reads  # Optuna itself looks for enqueued trials
    trial.suggest_float("x", 0.0, 10.0)
    assert storage.reads == before + 1


def test_studies_whose_trials_have_the_same_ids_are_not_confused():
    """Two storages, one sampler, and threads that come between inferring and sampling."""

    def sampled(interleaved):
        clock = eb.ManualClock()
        sampler = EbbtideSampler(clock=clock, seed=0)
        studies = [optuna.create_study(direction=direction, sampler=sampler) for direction in ("minimize", "maximize")]
        for study in studies:
            follow(study, clock, 20)
        numbers = [study.ask().number for study in studies]
        first, second = (study.trials[number] for study, number in zip(studies, numbers, strict=True))
        space = sampler.infer_relative_search_space(studies[0], first)
        if interleaved:
            sampler.infer_relative_search_space(studies[1], second)
        return sampler.sample_relative(studies[0], first, space)

    assert sampled(interleaved=True) == sampled(interleaved=False)


def test_wrong_arguments_are_refused():
    with pytest.raises(eb.ConfigurationError, match="algorithm"):
        EbbtideSampler(3)  # type: ignore[arg-type]
    with pytest.raises(eb.ConfigurationError, match="seed"):
        EbbtideSampler(seed=-1)
    with pytest.raises(eb.ConfigurationError, match="n_initial"):
        EbbtideSampler(n_initial=1.5)  # type: ignore[arg-type]


def test_the_clock_never_goes_behind_what_was_noted():
    study = optuna.create_study(sampler=EbbtideSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    ahead = datetime.datetime.now().timestamp() + 3600.0
    another = EbbtideSampler(seed=0)  # as in a process whose clock was ahead
    assert isinstance(another.clock, SystemClock)
    another.clock.never_before(ahead)
    study.sampler = another
    study.ask().suggest_float("x", 0.0, 1.0)
    study.sampler = EbbtideSampler(seed=0)
    study.ask().suggest_float("x", 0.0, 1.0)
    assert study.sampler.clock.now() >= ahead
