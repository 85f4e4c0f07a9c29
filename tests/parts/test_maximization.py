import itertools

import numpy as np
import pytest
from helpers.drifting import observations, product_kernel
from scipy.optimize import minimize

import ebbtide as eb
from ebbtide.gp.posterior import Moment, condition
from ebbtide.parts.acquisition import Context, LowerBound
from ebbtide.parts.maximization import BLIND, climb, maximize
from ebbtide.space import Space

pytestmark = pytest.mark.usefixtures("one_thread")

ACQUISITIONS = [eb.UCB(), eb.EI(), eb.PI()]


def cube(d):
    return Space({f"x{i}": eb.Float(0.0, 1.0) for i in range(d)})


def value_at(acquisition, moment, X, n):
    """With the incumbent that `maximize` would have: any fixed one ranks UCB, and ranks EI and PI consistently."""
    return acquisition(*moment.predict(X), Context(n, X.shape[1], 1.0))[0]


@pytest.mark.parametrize("d", [1, 2, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_as_good_as_scipy_from_many_more_starts(d):
    """L-BFGS-B to convergence from 30 starts, on 10 posteriors: we are at most 0.1 σ_y behind, mostly equal."""
    gaps = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        moment = condition(product_kernel(0.4), 0.02, *observations(rng, 40, d=d)).at(1.05)

        def negative(x, moment=moment):
            mean, std, gradient = moment.predict_with_gradient(x[None])
            value, by_mean, by_std = eb.UCB()(mean, std, Context(40, d, 0.0))
            return -value[0], -gradient(by_mean, by_std)[0]

        starts = rng.random((30, d))
        theirs = -min(minimize(negative, x, jac=True, bounds=[(0.0, 1.0)] * d).fun for x in starts)
        x = maximize(eb.UCB(), moment, cube(d), rng, 40)
        gaps.append(theirs - value_at(eb.UCB(), moment, x[None], 40)[0])
    assert max(gaps) < 0.1
    assert np.median(gaps) < 1e-3


def test_the_climb_finds_the_top_of_a_quadratic_inside_and_on_the_edge():
    top = np.array([0.3, 1.4])  # outside: the best of the cube is (0.3, 1)

    def objective(X):
        gradient = -2 * (X - top) * [1.0, 30.0]
        return -((X - top) ** 2) @ [1.0, 30.0], gradient

    starts = np.array([[0.9, 0.1], [0.05, 0.6], [0.5, 1.0]])
    there, value = climb(objective, starts, reach=0.05, steps=40, enough=0.0)
    assert np.allclose(there, [0.3, 1.0], atol=0.01)
    assert np.array_equal(value, objective(there)[0])
    early, _ = climb(objective, starts, reach=0.05, steps=40)  # it may end when one of them is there
    assert objective(early)[0].max() == pytest.approx(-30.0 * 0.4**2, abs=1e-3)


def test_the_climb_learns_from_a_step_that_overshoots_and_goes_no_farther_than_told():
    places = []

    def objective(X):  # a first step of length 0.5 leads far beyond the top
        places.append(X)
        rise = np.exp(-0.5 * ((X - 0.5) ** 2).sum(axis=1) / 0.1**2)
        return rise, -rise[:, None] * (X - 0.5) / 0.1**2

    start = np.array([[0.4, 0.45]])
    _, value = climb(objective, start, reach=0.5, enough=1e-6)
    assert value[0] == pytest.approx(1.0, abs=1e-5)
    assert len(places) <= 9
    places.clear()
    climb(objective, start, reach=0.02, enough=1e-6, farthest=0.03)
    assert max(np.linalg.norm(later - earlier) for earlier, later in itertools.pairwise(places)) < 0.06


@pytest.mark.parametrize("acquisition", ACQUISITIONS, ids=repr)
def test_discrete_spaces_against_brute_force(acquisition):
    """What is suggested is what is modelled: the best of all 8 × 3 × 5 points is found."""
    space = Space({"w": eb.Int(1, 8), "c": eb.Categorical(["a", "b", "z"]), "v": eb.Int(1, 5, log=True)})
    every = [space.encode({"w": w, "c": c, "v": v}) for w, c, v in itertools.product(range(1, 9), "abz", range(1, 6))]
    found_best = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.array(every)[rng.integers(0, 120, 25)]
        y = rng.normal(size=25)
        moment = condition(product_kernel(0.8), 0.05, X, np.sort(rng.random(25)), y).at(1.0)
        x = maximize(acquisition, moment, space, rng, 25)
        assert any(np.allclose(x, point, atol=1e-9) for point in every)
        if isinstance(acquisition, eb.UCB):
            mean, std = moment.predict(np.array(every))
            best = eb.UCB()(mean, std, Context(25, 3, 0.0))[0].max()
            found_best += eb.UCB()(*moment.predict(x[None]), Context(25, 3, 0.0))[0][0] > best - 1e-9
    assert found_best >= 9 or not isinstance(acquisition, eb.UCB)


class Hostile:
    """An acquisition that returns nonsense."""

    def __init__(self, value):
        self.value = value

    def __call__(self, mean, std, context):
        bad = np.full_like(mean, self.value)
        return bad, bad, bad


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_always_a_feasible_finite_point(value, rng):
    moment = condition(product_kernel(), 0.05, *observations(rng)).at(1.0)
    x = maximize(Hostile(value), moment, cube(2), rng, 20)
    assert x.shape == (2,)
    assert ((x >= 0) & (x <= 1)).all()


def test_a_flat_acquisition_does_not_always_give_the_same_point():
    moment = condition(product_kernel(), 0.05, np.empty((0, 2)), np.empty(0), np.empty(0)).at(0.0)
    points = {tuple(maximize(eb.UCB(), moment, cube(2), np.random.default_rng(k), 0)) for k in range(5)}
    assert len(points) == 5


@pytest.mark.parametrize("acquisition", [*ACQUISITIONS, LowerBound(1.0)], ids=repr)
def test_with_many_observations_the_same_candidates_win_as_if_all_were_scored(acquisition, monkeypatch):
    rng = np.random.default_rng(5)
    X, t, y = observations(rng, 400, d=3, span=4.0)
    moment = condition(product_kernel(0.3), 0.1, X, t, y).at(4.02)
    outline = moment.outline(X)
    assert outline is not None
    mean, bound = outline[:2]
    exact_mean, std = moment.predict(X)
    np.testing.assert_allclose(mean, exact_mean)
    assert (bound >= std * (1.0 - 1e-9)).all()
    screened = maximize(acquisition, moment, cube(3), np.random.default_rng(1), 400)
    monkeypatch.setattr(Moment, "outline", lambda *_: None)
    np.testing.assert_allclose(
        maximize(acquisition, moment, cube(3), np.random.default_rng(1), 400), screened, atol=1e-9
    )


def test_with_many_observations_it_is_as_good_as_a_dense_search():
    gaps = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        moment = condition(product_kernel(0.3), 0.1, *observations(rng, 400, d=2, span=4.0)).at(4.02)
        x = maximize(eb.UCB(), moment, cube(2), rng, 400)
        dense = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 101)] * 2), -1).reshape(-1, 2)
        gaps.append(value_at(eb.UCB(), moment, dense, 400).max() - value_at(eb.UCB(), moment, x[None], 400)[0])
    assert max(gaps) < 0.02


# --- doubts about a model for which the parameters hardly matter --------------------------------------------------


def at_the_corners(reach, *, noise=0.3, slope=0.0):
    """A posterior that knows the corners of a square alone, all of the same value but for a slope."""
    X = np.array(list(itertools.product([0.0, 1.0], repeat=2)) * 5)
    t = np.arange(20.0) / 20.0
    kernel = product_kernel(reach)
    return condition(kernel, noise, X, t, slope * X[:, 0]).at(1.0)


def asked(acquisition, moment, number=200):
    return np.array([maximize(acquisition, moment, cube(2), np.random.default_rng(seed), 20) for seed in range(number)])


def inside(X):
    return ((X > 0.05) & (X < 0.95)).any(axis=1)


def test_while_the_parameters_seem_not_to_matter_some_asks_are_made_at_random():
    moment = at_the_corners(2.5)
    assert not inside(asked(eb.UCB(), moment)).any(), "it goes where it is least certain"
    X = asked(eb.TrackingUCB(), moment)
    assert inside(X).mean() == pytest.approx(BLIND, abs=0.1)
    scattered = X[inside(X)]
    assert scattered.min(axis=0).max() < 0.2
    assert scattered.max(axis=0).min() > 0.8


@pytest.mark.parametrize(
    "moment",
    [at_the_corners(1.0), at_the_corners(2.5, noise=1e-4, slope=1.0), at_the_corners(2.5, slope=5.0)],
    ids=["short lengthscale", "hardly any noise", "a slope"],
)
def test_while_they_matter_no_ask_is_made_at_random(moment):
    class Trusting(eb.TrackingUCB):
        doubts = False

    assert np.array_equal(asked(eb.TrackingUCB(), moment, 40), asked(Trusting(), moment, 40))
