"""Rows come and go, time passes: what is carried along must stay what a fresh inverse and a fresh criterion give."""

import numpy as np
import pytest

import ebbtide as eb
from ebbtide.errors import NumericalError
from ebbtide.gp.criterion import criterion
from ebbtide.gp.fading import Fading
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.incremental import Incremental
from ebbtide.gp.kernels import Cycle, Cyclic
from ebbtide.gp.likelihood import Likelihood
from ebbtide.gp.posterior import condition

TIMESCALE = 10.0
MATERNS = (0.5, 1.5, 2.5)
SMOOTH = eb.Matern(2.5)


class Story:
    """A model that gains and loses rows at random, and everything needed to make it afresh."""

    def __init__(self, rng, families, hyper, *, method="bound", n=30, d=2):
        self.rng, self.families, self.hyper, self.method, self.d = rng, families, hyper, method, d
        self.now, self.z = 30.0, {label: rng.standard_normal() for label in range(n)}
        X, t = rng.random((n, d)), np.sort(rng.uniform(0.0, self.now, n))
        self.model = Incremental(Likelihood(families, X, t, np.zeros(n))(hyper.to_vector()), np.arange(n))
        self.model.carry(method)

    def add(self, x=None, t=None):
        label = len(self.z)
        x = self.rng.random(self.d) if x is None else x
        self.model.add(x, self.now - self.rng.uniform(0.0, 5.0) if t is None else t, label)
        self.z[label] = self.rng.standard_normal()

    def go_on(self, steps, fewest=20, most=45):
        for _ in range(steps):
            self.now += self.rng.uniform(0.0, 0.2 * TIMESCALE)
            if len(self.model) < fewest or (len(self.model) < most and self.rng.random() < 0.6):
                self.add()
            else:
                self.model.remove(self.rng.choice(len(self.model), self.rng.integers(1, 4), replace=False).tolist())

    @property
    def values(self):
        return np.array([self.z[label] for label in self.model.labels.tolist()])

    def fresh(self):
        model = self.model
        return condition(model.kernel, model.noise, model.X, model.t, self.values)

    def check(self, *, precision=1e-10, relevance=1e-8, delays=(0.0, 0.3, 2.0, 50.0, 1e5)):
        model, fresh, z = self.model, self.fresh(), self.values
        carried = model.posterior(z)
        np.testing.assert_allclose(carried.P, fresh.P, atol=precision * np.abs(fresh.P).max())
        np.testing.assert_allclose(carried.alpha, fresh.alpha, atol=precision * np.abs(fresh.alpha).max())
        for delay in delays:
            now = self.now + delay * TIMESCALE
            ours = model.criterion(carried.alpha, now)
            theirs = criterion(model.kernel, fresh.P, fresh.alpha, model.X, model.t, now, self.method)
            np.testing.assert_allclose(ours.scores(), theirs.scores(), rtol=relevance, atol=1e-12)
            for _ in range(3):
                row, score = theirs.least()
                assert ours.least() == (row, pytest.approx(score, rel=relevance))
                ours.remove(row)
                theirs.remove(row)
            np.testing.assert_allclose(ours.scores(), theirs.scores(), rtol=10.0 * relevance, atol=1e-12)


def story(rng, nu=1.5, *, ard=False, noise=0.02, method="bound", spatial=SMOOTH, n=30):
    hyper = Hyperparameters(1.3, (0.3, 0.5) if ard else 0.3, TIMESCALE, noise)
    return Story(
        rng, Families(spatial.with_lengthscale((1.0, 1.0) if ard else 1.0), eb.Matern(nu)), hyper, method=method, n=n
    )


@pytest.mark.parametrize("method", ["bound", "exact"])
@pytest.mark.parametrize("ard", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["isotropic", "ard"])
@pytest.mark.parametrize("nu", [0.5, 1.5, pytest.param(2.5, marks=pytest.mark.slow)])
def test_a_thousand_changes_later_everything_is_as_if_made_afresh(rng, nu, ard, method):
    told = story(rng, nu, ard=ard, method=method)
    for _ in range(4):
        told.go_on(250)
        told.check()
    assert told.model.drift() < 1e-11


@pytest.mark.very_slow
@pytest.mark.parametrize("method", ["bound", "exact"])
def test_ten_thousand_changes_later_too(rng, method):
    told = story(rng, method=method)
    told.go_on(10_000)
    told.check(precision=1e-9, relevance=1e-7)


@pytest.mark.parametrize("spatial", [eb.SquaredExponential(), eb.Matern(0.5), eb.Matern(1.5)], ids=repr)
def test_every_kernel_in_space_with_a_closed_form(rng, spatial):
    told = story(rng, spatial=spatial)
    told.go_on(200)
    told.check()


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_the_same_place_again_and_again_with_hardly_any_noise(rng, method):
    told = story(rng, noise=1.3e-6, method=method)
    for _ in range(40):
        told.now += 0.01
        told.add(x=np.full(2, 0.5), t=told.now)
    for _ in range(20):
        told.model.remove([int(told.rng.integers(len(told.model)))])
    assert told.model.drift() < 1e-8
    model, fresh, z = told.model, told.fresh(), told.values
    np.testing.assert_allclose(model.P, fresh.P, atol=1e-7 * np.abs(fresh.P).max())
    # Copies matter so little that neither has digits of their scores: of what matters, both do.
    ours = model.criterion(model.P @ z, told.now).scores()
    theirs = criterion(model.kernel, fresh.P, fresh.alpha, model.X, model.t, told.now, method).scores()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("method", ["bound", "exact"])
@pytest.mark.parametrize("gap", [3.0, 30.0, 1e6])
@pytest.mark.parametrize("nu", MATERNS)
def test_a_pause_of_many_timescales(rng, nu, gap, method):
    told = story(rng, nu, method=method)
    told.now += gap * TIMESCALE
    told.go_on(60)
    told.check()


def test_a_late_value_for_a_time_long_past(rng):
    told = story(rng)
    for age in (1.0, 20.0, 1e4):
        told.add(t=told.now - age * TIMESCALE)
    told.check()


def test_the_last_row_may_go_and_all_others(rng):
    told = story(rng)
    told.model.remove([len(told.model) - 1])
    told.model.remove([0, len(told.model) - 1, 3])
    told.check()
    told.model.remove(list(range(5, len(told.model))))
    assert len(told.model) == 5
    told.check(delays=(0.0,))


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_the_same_changes_give_the_same_bits(method):
    told, twin = (story(np.random.default_rng(1), method=method) for _ in range(2))
    told.go_on(100)
    twin.go_on(100)
    left = told.model.criterion(told.values, told.now)
    left.remove(3)
    left.remove(1)
    told.model.remove([3, 1])  # it need not be worked out again
    twin.model.remove([3, 1])
    told.model.criterion(told.values, told.now).remove(2)  # this leaves no trace
    told.model.remove([4])
    twin.model.remove([4])
    later = told.now + 3.0
    scores = [each.model.criterion(each.model.P @ each.values, later).scores().tobytes() for each in (told, twin)]
    assert told.model.P.tobytes() == twin.model.P.tobytes()
    assert scores[0] == scores[1]


@pytest.mark.parametrize("ard", [False, True], ids=["isotropic", "ard"])
@pytest.mark.parametrize("temporal", [eb.Matern(1.5), eb.SquaredExponential(), None], ids=repr)
def test_the_gradient_and_the_information_of_the_likelihood(rng, temporal, ard):
    families = Families(eb.Matern(2.5, (1.0, 1.0) if ard else 1.0), temporal)
    hyper = Hyperparameters(1.3, (0.3, 0.5) if ard else 0.3, None if temporal is None else TIMESCALE, 0.02)
    told = Story(rng, families, hyper)
    told.go_on(300)
    model, z = told.model, told.values
    fresh = Likelihood(families, model.X, model.t, z)(hyper.to_vector())
    assert model.log_likelihood(z, model.P @ z) == pytest.approx(fresh.value, rel=1e-9)
    for ours, theirs in zip(model.derivatives(z, model.P @ z), fresh.derivatives(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_what_cannot_be_carried_is_left_out_but_the_inverse_is_kept(rng):
    hyper = Hyperparameters(1.3, 0.3, TIMESCALE, 0.02)
    told = Story(rng, Families(eb.Matern(2.5), eb.SquaredExponential()), hyper, method="exact")
    told.go_on(200)
    assert told.model.criterion(told.values, told.now) is None
    np.testing.assert_allclose(told.model.P, told.fresh().P, atol=1e-10 * np.abs(told.fresh().P).max())


CYCLIC = Cyclic(1.0, eb.Matern(1.5), (Cycle(5.0, 0.5),))
DAILY = ((0.4, 50.0, 0.7),)
OTHERS = {
    "cycles": (Families(SMOOTH, CYCLIC), Hyperparameters(1.3, 0.3, TIMESCALE, 0.02, (), DAILY)),
    "context": (
        Families(SMOOTH, eb.Matern(1.5), eb.Matern(2.5, (1.0,))),
        Hyperparameters(1.3, 0.3, TIMESCALE, 0.02, (2.0,)),
    ),
    "both": (
        Families(SMOOTH, CYCLIC, eb.Matern(2.5, (1.0,))),
        Hyperparameters(1.3, 0.3, TIMESCALE, 0.02, (2.0,), DAILY),
    ),
    "squared exponential": (Families(SMOOTH, eb.SquaredExponential()), Hyperparameters(1.3, 0.3, TIMESCALE, 0.02)),
}


@pytest.mark.parametrize(("families", "hyper"), OTHERS.values(), ids=OTHERS)
def test_kernels_of_which_only_the_overlaps_in_space_are_carried(rng, families, hyper):
    told = Story(rng, families, hyper, d=2 + families.context_size)
    told.go_on(300)
    told.check(delays=(0.0, 0.3, 2.0))


def test_the_contexts_that_may_come_again(rng):
    told = Story(rng, *OTHERS["both"], d=3)
    told.go_on(100)
    model, fresh, contexts = told.model, told.fresh(), rng.random((7, 1))
    ours = model.criterion(fresh.alpha, told.now, contexts)
    theirs = criterion(model.kernel, fresh.P, fresh.alpha, model.X, model.t, told.now, "bound", contexts=contexts)
    np.testing.assert_allclose(ours.scores(), theirs.scores(), rtol=1e-8)


@pytest.mark.parametrize(("families", "hyper"), OTHERS.values(), ids=OTHERS)
def test_the_score_of_one_row_needs_not_those_of_all(rng, families, hyper):
    told = Story(rng, families, hyper, d=2 + families.context_size)
    one, all_scores = (told.model.criterion(told.model.P @ told.values, told.now) for _ in range(2))
    for row in (3, 17):
        assert one.score(row) == pytest.approx(all_scores.scores()[row], rel=1e-9)
        one.remove(row)
        all_scores.remove(row)
    assert one.score(5) == pytest.approx(all_scores.scores()[5], rel=1e-8)
    one.at(told.now + 7.0)
    all_scores.at(told.now + 7.0)
    assert one.score(5) == pytest.approx(all_scores.scores()[5], rel=1e-8)


def test_it_notices_when_it_is_no_longer_an_inverse(rng):
    told = story(rng)
    told.model.P[:] *= 1.0 + 1e-6
    assert told.model.drift() > 1e-7
    told.model.P[:] = np.nan
    with pytest.raises(NumericalError, match="no longer an inverse"):
        told.add(x=told.model.X[0], t=told.model.t[0])


@pytest.mark.parametrize("nu", MATERNS)
def test_the_form_of_the_kernel(rng, nu):
    kernel, t, s = eb.Matern(nu, 3.0), rng.uniform(0.0, 10.0, 7), np.array([0.0, 0.5, 20.0])
    fading = Fading.of(kernel, 9.0)
    for later in (fading, fading.moved(14.0)[0]):
        decay = np.exp(-later.rate * (11.0 - later.reference))
        form = decay * later.courses(11.0, s).T @ later.features(t)
        np.testing.assert_allclose(form, kernel(11.0 + s[:, None], t[:, None]), rtol=1e-9)
    moved, change = fading.moved(14.0)
    np.testing.assert_allclose(change @ fading.features(t), moved.features(t), rtol=1e-9)
