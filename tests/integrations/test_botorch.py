"""prune and relevance on BoTorch's models, against the library's own criterion on the same numbers."""

import math
import warnings

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import ChainedInputTransform, Normalize, Standardize
from botorch.models.transforms.input import InputStandardize
from gpytorch.kernels import AdditiveKernel, LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

import ebbtide as eb
from ebbtide.errors import ConfigurationError, EbbtideWarning
from ebbtide.gp.criterion import criterion
from ebbtide.integrations.botorch import RemovalBudget, prune, relevance

N = 40
NOW = 1.02


def data(dtype=torch.double, seed=0, dims=3, time_dim=-1, n=N):
    """An objective that drifts within a unit of time."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims))
    X[:, time_dim] = np.sort(rng.random(n))
    space = np.delete(X, time_dim % dims, axis=1)
    y = np.sin(5 * space[:, 0] + 4 * X[:, time_dim]) + space[:, -1] ** 2 + 0.1 * rng.normal(size=n)
    return torch.as_tensor(X, dtype=dtype), torch.as_tensor(y[:, None], dtype=dtype)


def matern(nu, lengthscale, dims):
    kernel = MaternKernel(
        nu, ard_num_dims=len(lengthscale) if len(lengthscale) > 1 else None, active_dims=dims
    ).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return kernel


def rbf(lengthscale, dims):
    kernel = RBFKernel(ard_num_dims=len(lengthscale) if len(lengthscale) > 1 else None, active_dims=dims).double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.double)
    return kernel


def scaled(kernel, scale):
    made = ScaleKernel(kernel).double()
    made.outputscale = torch.tensor(scale, dtype=torch.double)
    return made


def model_of(kernel, dtype=torch.double, noise=0.04, **options):
    X, Y = data(dtype, **options)
    model = SingleTaskGP(X, Y, covar_module=kernel, outcome_transform=None).to(dtype)
    model.likelihood.noise = noise
    model.mean_module.constant = 0.3
    return model


def expected(model, kernel, now=NOW, time_dim=-1, method="bound"):
    """eb.relevance, from the model's raw numbers."""
    X = model.train_inputs[0].double().numpy()
    y = model.train_targets.double().numpy() - float(model.mean_module.constant)
    space = np.delete(X, time_dim % X.shape[1], axis=1)
    noise = float(model.likelihood.noise)
    return eb.relevance(space, X[:, time_dim], y, kernel=kernel, noise=noise, now=now, method=method)


PRODUCTS = {
    "matern x matern": (
        lambda: scaled(matern(2.5, [0.3], [0, 1]) * matern(1.5, [0.4], [2]), 1.7),
        eb.SpaceTimeKernel(1.7, eb.Matern(2.5, 0.3), eb.Matern(1.5, 0.4)),
    ),
    "ARD": (
        lambda: scaled(matern(1.5, [0.3, 0.7], [0, 1]) * matern(0.5, [0.4], [2]), 0.6),
        eb.SpaceTimeKernel(0.6, eb.Matern(1.5, (0.3, 0.7)), eb.Matern(0.5, 0.4)),
    ),
    "rbf x matern": (
        lambda: scaled(rbf([0.5, 0.2], [0, 1]) * matern(2.5, [0.8], [2]), 1.0),
        eb.SpaceTimeKernel(1.0, eb.SquaredExponential((0.5, 0.2)), eb.Matern(2.5, 0.8)),
    ),
    "scales inside": (
        lambda: scaled(matern(2.5, [0.3], [0, 1]), 2.0) * scaled(rbf([0.4], [2]), 0.5),
        eb.SpaceTimeKernel(1.0, eb.Matern(2.5, 0.3), eb.SquaredExponential(0.4)),
    ),
    "one ARD RBF": (
        lambda: rbf([0.3, 0.6, 0.4], None),
        eb.SpaceTimeKernel(1.0, eb.SquaredExponential((0.3, 0.6)), eb.SquaredExponential(0.4)),
    ),
    "one isotropic RBF": (
        lambda: scaled(rbf([0.4], None), 1.3),
        eb.SpaceTimeKernel(1.3, eb.SquaredExponential(0.4), eb.SquaredExponential(0.4)),
    ),
    "RBFs on top of each other": (
        lambda: rbf([0.4], None) * rbf([0.4], [2]),
        eb.SpaceTimeKernel(1.0, eb.SquaredExponential(0.4), eb.SquaredExponential(0.4 / math.sqrt(2.0))),
    ),
}


@pytest.mark.parametrize("method", ["bound", "exact"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_scores_are_those_of_the_library(name, method):
    make, kernel = PRODUCTS[name]
    model = model_of(make())
    scores = relevance(model, NOW, method=method)
    np.testing.assert_allclose(scores.numpy(), expected(model, kernel, method=method), rtol=1e-8)
    assert scores.dtype == torch.double


@pytest.mark.parametrize("time_dim", [0, 1, 2, -3])
def test_any_column_may_be_time(time_dim):
    space = [column for column in range(3) if column != time_dim % 3]
    model = model_of(
        scaled(matern(2.5, [0.3, 0.5], space) * matern(1.5, [0.4], [time_dim % 3]), 1.0), time_dim=time_dim
    )
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, (0.3, 0.5)), eb.Matern(1.5, 0.4))
    scores = relevance(model, NOW, time_dim)
    np.testing.assert_allclose(scores.numpy(), expected(model, kernel, time_dim=time_dim), rtol=1e-8)


def test_a_model_in_single_precision_is_scored_in_double():
    model = model_of(scaled(matern(2.5, [0.3], [0, 1]) * matern(1.5, [0.4], [2]), 1.7), torch.float)
    space, time = model.covar_module.base_kernel.kernels
    kernel = eb.SpaceTimeKernel(
        float(model.covar_module.outputscale),
        eb.Matern(2.5, float(space.lengthscale)),
        eb.Matern(1.5, float(time.lengthscale)),
    )
    np.testing.assert_allclose(relevance(model, NOW).numpy(), expected(model, kernel), rtol=1e-8)


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_the_unit_of_space_does_not_matter(method):
    """Data that fills the unit cube, and the same in metres, far from the origin."""
    X, Y = data()
    X[:2, :2] = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    scores = []
    for scale, shift in ((1.0, 0.0), (1000.0, 5000.0)):
        raw = torch.cat([X[:, :2] * scale + shift, X[:, 2:]], 1)
        model = SingleTaskGP(raw, Y, outcome_transform=None)
        model.covar_module.register_constraint("raw_lengthscale", RBFKernel().raw_lengthscale_constraint)
        model.covar_module.lengthscale = torch.tensor([0.3 * scale, 0.6 * scale, 0.4]).double()
        scores.append(relevance(model, NOW, method=method).numpy())
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6)


def test_transforms_are_seen_through():
    """Time in seconds since 1970, space in anybody's units, values of any size: the default model of BoTorch."""
    X, Y = data()
    scale, shift = torch.tensor([50.0, 0.01, 3600.0]).double(), torch.tensor([-7.0, 3.0, 1.8e9]).double()
    raw = X * scale + shift
    model = SingleTaskGP(raw, 1e4 + 300.0 * Y, input_transform=Normalize(3), outcome_transform=Standardize(1))
    model.covar_module.lengthscale = torch.tensor([0.3, 0.6, 0.4])
    low, high = raw.min(0).values, raw.max(0).values
    unit, now = ((raw - low) / (high - low)).numpy(), float((NOW * 3600.0 + 1.8e9 - low[2]) / (high[2] - low[2]))
    y = ((Y - Y.mean()) / Y.std()).numpy().ravel() - float(model.mean_module.constant)
    lengths = model.covar_module.lengthscale.detach().numpy().ravel()
    kernel = eb.SpaceTimeKernel(
        1.0, eb.SquaredExponential(tuple(lengths[:2])), eb.SquaredExponential(float(lengths[2]))
    )
    noise = float(model.likelihood.noise)
    wanted = eb.relevance(unit[:, :2], unit[:, 2], y, kernel=kernel, noise=noise, now=now)
    np.testing.assert_allclose(relevance(model, NOW * 3600.0 + 1.8e9).numpy(), wanted, rtol=1e-7)


def test_noise_may_differ_from_one_observation_to_another():
    X, Y = data()
    variances = torch.linspace(0.01, 0.5, N).double()[:, None]
    model = SingleTaskGP(X, Y, variances, covar_module=rbf([0.3, 0.6, 0.4], None), outcome_transform=None)
    kernel = eb.SpaceTimeKernel(1.0, eb.SquaredExponential((0.3, 0.6)), eb.SquaredExponential(0.4))
    space, t, y = X[:, :2].numpy(), X[:, 2].numpy(), Y.numpy().ravel() - float(model.mean_module.constant)
    P = np.linalg.inv(kernel(space, t) + np.diag(variances.numpy().ravel())).astype(float)
    wanted = criterion(kernel, P, P @ y, space, t, NOW).scores()
    np.testing.assert_allclose(relevance(model, NOW).numpy(), wanted, rtol=1e-8)


ANYTHING = {
    "a Matérn over space and time": lambda: matern(2.5, [0.3, 0.5, 0.4], None),
    "a sum": lambda: AdditiveKernel(scaled(rbf([0.4], [0, 1]), 1.0), scaled(matern(1.5, [0.3], [2]), 0.5)),
    "seasons": lambda: rbf([0.4], [0, 1]) * PeriodicKernel(active_dims=[2]) * matern(0.5, [1.0], [2]),
    "no decay": lambda: rbf([0.4], [0, 1]) * LinearKernel(active_dims=[2]),
    "no time": lambda: rbf([0.4], [0, 1]),
}


@pytest.mark.parametrize("name", ANYTHING)
def test_a_kernel_that_is_no_product_goes_through_quadrature(name):
    model = model_of(ANYTHING[name]())
    scores = relevance(model, NOW).numpy()
    assert np.isfinite(scores).all()
    assert (scores >= 0.0).all()
    keep = prune(model, NOW, RemovalBudget())
    assert 10 <= len(keep) <= N


def test_the_quadrature_is_the_librarys_for_the_same_kernel_and_horizon():
    model = model_of(matern(2.5, [0.3, 0.5, 0.4], None))
    module = model.covar_module

    def kernel(X, t, X2, t2):
        first, second = (torch.as_tensor(np.column_stack(pair)) for pair in ((X, t), (X2, t2)))
        return module(first, second).to_dense().detach().numpy()

    lags = np.linspace(0.0, 2.0, 20001)[:, None]
    decay = eb.Matern(2.5, 0.4)(lags, [[0.0]])[:, 0]
    horizon = 3.0 * float(lags[decay < math.exp(-0.5)][0, 0])
    X, y = model.train_inputs[0].numpy(), model.train_targets.numpy() - 0.3
    noise = float(model.likelihood.noise)
    wanted = eb.relevance(X[:, :2], X[:, 2], y, kernel=kernel, noise=noise, now=NOW, horizon=horizon)
    np.testing.assert_allclose(relevance(model, NOW).numpy(), wanted, rtol=0.03)  # the horizon is found on a grid


# --- prune ----------------------------------------------------------------------------------------------------------


def greedy(model, kernel, log_budget, least=10):
    """Algorithm 1, lines 9-20, word for word: all scores anew after each removal."""
    X, y = model.train_inputs[0].numpy(), model.train_targets.numpy() - float(model.mean_module.constant)
    noise, left = float(model.likelihood.noise), list(range(len(X)))
    while len(left) > least:
        scores = eb.relevance(X[left, :2], X[left, 2], y[left], kernel=kernel, noise=noise, now=NOW)
        if log_budget <= math.log1p(scores.min()):
            break
        log_budget = max(0.0, log_budget - math.log1p(scores.min()))
        left.pop(int(scores.argmin()))
    return left


@pytest.mark.parametrize("log_budget", [0.0, 0.05, 0.3, 2.0, 50.0])
def test_what_is_pruned_is_what_algorithm_1_would_remove(log_budget):
    model = model_of(scaled(matern(2.5, [0.3], [0, 1]) * matern(1.5, [0.4], [2]), 1.7))
    space, time = model.covar_module.base_kernel.kernels
    timescale = float(time.lengthscale)
    kernel = eb.SpaceTimeKernel(
        float(model.covar_module.outputscale), eb.Matern(2.5, float(space.lengthscale)), eb.Matern(1.5, timescale)
    )
    budget = RemovalBudget()
    budget.state = {"log_budget": log_budget, "time": NOW, "timescale": timescale}
    keep = prune(model, NOW, budget)
    assert keep.tolist() == greedy(model, kernel, log_budget)
    assert keep.dtype == torch.long


def test_the_budget_grows_with_time_in_the_callers_unit():
    """Seconds or hours, transformed or not: the same budget, and the same observations go."""
    X, Y = data()
    found = []
    for unit, normalized in ((1.0, False), (3600.0, False), (3600.0, True)):
        raw = X.clone()
        raw[:, 2] *= unit
        span = float(raw[:, 2].max() - raw[:, 2].min()) if normalized else 1.0
        widths = (X[:, :2].max(0).values - X[:, :2].min(0).values) if normalized else torch.ones(2)
        transform = Normalize(3, bounds=torch.stack([raw.min(0).values, raw.max(0).values])) if normalized else None
        model = SingleTaskGP(raw, Y, input_transform=transform, outcome_transform=None)
        lengths = torch.cat([torch.tensor([0.3, 0.6]).double() / widths, torch.tensor([0.4 * unit / span]).double()])
        model.covar_module.register_constraint("raw_lengthscale", RBFKernel().raw_lengthscale_constraint)
        model.covar_module.lengthscale = lengths
        model.likelihood.noise = 0.04
        budget = RemovalBudget()
        first = prune(model, 1.0 * unit, budget)
        second = prune(model, 1.3 * unit, budget)
        found.append((first.tolist(), second.tolist(), round(budget.state["log_budget"], 6)))
        assert budget.state["timescale"] == pytest.approx(0.4 * unit, rel=1e-4)
    assert len(found[0][0]) == N  # the first call has nothing to spend
    assert len(found[0][1]) < N
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    X, Y = data()
    model = SingleTaskGP(X, Y, input_transform=Normalize(3, bounds=torch.tensor([[0.0] * 3, [1.0] * 3]).double()))
    model.train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = model.train_inputs[0].clone()
    prune(model, NOW, RemovalBudget())
    relevance(model, NOW)
    assert model.training == training
    assert torch.equal(model.train_inputs[0], inputs)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("transform", "warned"),
    [
        (Normalize(3), True),
        (ChainedInputTransform(a=Normalize(3, indices=[0, 1]), b=InputStandardize(3, indices=[2])), True),
        (Normalize(3, bounds=torch.tensor([[0.0] * 3, [1.0] * 3])), False),
        (Normalize(3, indices=[0, 1]), False),
        (None, False),
    ],
)
def test_a_scale_of_time_that_forgetting_would_change_is_warned_of(transform, warned):
    X, Y = data()
    model = SingleTaskGP(X, Y, input_transform=transform)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbbtideWarning)
        prune(model, NOW, RemovalBudget())
    assert any("scale of time" in str(warning.message) for warning in caught) == warned


def test_what_does_not_fit_is_said():
    X, Y = data()
    with pytest.raises(ConfigurationError, match="one output"):
        relevance(SingleTaskGP(X, torch.cat([Y, Y], 1)), NOW)
    with pytest.raises(ConfigurationError, match="not an exact GP"):
        relevance(torch.nn.Linear(1, 1), NOW)
    with pytest.raises(ConfigurationError, match="time_dim=3"):
        relevance(SingleTaskGP(X, Y), NOW, time_dim=3)
    with pytest.raises(ConfigurationError, match="alpha"):
        RemovalBudget(alpha=-1.0)
