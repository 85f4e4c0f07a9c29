"""Forgetting for BoTorch: which observations of a fitted model are stale, in your own loop.

    budget = RemovalBudget()
    while True:
        model = SingleTaskGP(train_X, train_Y, ...)          # one column of train_X is time
        fit_gpytorch_mll(...)
        keep = prune(model, now, budget)
        train_X, train_Y = train_X[keep], train_Y[keep]
        ...                                                  # condition on what is left, acquire, measure

Inputs are used as the model sees them (after its input transform), values after its outcome transform, in float64.
A kernel λ·k_S·k_T of RBF and Matérn factors, ARD or not, has its integrals in closed form; one ARD RBF over space and
time, BoTorch's default, is such a product. For any other kernel the bound is computed by quadrature.
"""

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from ebbtide.errors import ConfigurationError, EbbtideWarning
from ebbtide.gp.arrays import Array
from ebbtide.gp.criterion import Criterion, CriterionMethod, criterion
from ebbtide.gp.kernels import Kernel, Matern, SpaceTimeKernel, SquaredExponential
from ebbtide.gp.kernels.stationary import Stationary
from ebbtide.gp.linalg import factorize, invert, one_blas_thread
from ebbtide.parts.staleness import WassersteinBudget

# Without a closed form, l_T is the lag after which this much correlation is left, as for an RBF after one lengthscale.
DECAYED = float(np.exp(-0.5))
HORIZON = 3.0  # timescales over which predictions matter, if there is no closed form
LAGS = np.geomspace(1e-4, 1e4, 401)  # where to look for such an l_T, in spans of the data


class RemovalBudget:
    """How much may be forgotten: Algorithm 1's b, which grows with time and pays for removals. Use one per loop."""

    def __init__(
        self, alpha: float = 0.25, *, method: CriterionMethod = "bound", min_active: int = 10, max_active: int = 1000
    ) -> None:
        self.policy = WassersteinBudget(alpha, method, min_active, max_active)
        self.state: dict[str, float] = {}  # plain numbers, in the unit of the caller's time


def prune(model: Any, now: float, budget: RemovalBudget, time_dim: int = -1) -> Tensor:
    """The indices of the observations to keep, in their order; the caller rebuilds the model from them.

    The scale of time must not depend on what is kept: give `Normalize` its bounds. Otherwise forgetting shortens that
    scale, which shortens l_T, so more is forgotten (a warning says so).
    """
    seen = _read(model, now, time_dim)
    _warn_of_a_learned_scale(model, time_dim)
    with one_blas_thread():
        verdict = budget.policy.spend(
            len(seen.t), lambda: seen.criterion(budget.policy.method), budget.state, seen.present, seen.timescale
        )
    budget.state = dict(verdict.state)
    keep = np.delete(np.arange(len(seen.t)), list(verdict.rows))
    return torch.as_tensor(keep, dtype=torch.long, device=model.train_targets.device)


def relevance(model: Any, now: float, time_dim: int = -1, method: CriterionMethod = "bound") -> Tensor:
    """How much each observation of a fitted model still matters from `now` on; the same scores as `eb.relevance`."""
    with one_blas_thread():
        scores = _read(model, now, time_dim).criterion(method).scores()
    return torch.as_tensor(scores, device=model.train_targets.device)


# --- what a model holds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """A model's data and posterior in NumPy; times as the model sees them, except for `present` and `timescale`."""

    X: Array
    t: Array
    residuals: Array  # values minus the prior mean
    noise: Array  # one variance per observation
    kernel: Kernel
    now: float
    horizon: float | None
    present: float  # max(now, newest t)
    timescale: float  # l_T

    def criterion(self, method: CriterionMethod) -> Criterion:
        covariance = self.kernel(self.X, self.t, self.X, self.t)
        covariance.flat[:: len(self.t) + 1] += self.noise
        P = invert(factorize(covariance))
        return criterion(self.kernel, P, P @ self.residuals, self.X, self.t, self.now, method, self.horizon)


def _read(model: Any, now: float, time_dim: int) -> _Seen:
    if not isinstance(model, gpytorch.models.ExactGP) or model.train_inputs is None:
        raise ConfigurationError(
            f"{type(model).__name__} is not an exact GP with data: pass a SingleTaskGP or another ExactGP"
        )
    if model.train_targets.ndim != 1:
        shape = tuple(model.train_targets.shape)
        raise ConfigurationError(f"the model's values have shape {shape}: pass a model with one output, not a batch")
    training = model.training
    model.eval()  # only then are a BoTorch model's inputs transformed
    try:
        with torch.no_grad():
            return _read_evaluating(model, now, time_dim)
    finally:
        model.train(training)


def _warn_of_a_learned_scale(model: Any, time_dim: int) -> None:
    transform = getattr(model, "input_transform", None)
    parts = transform.values() if isinstance(transform, torch.nn.ModuleDict) else [transform]
    time = time_dim % model.train_inputs[0].shape[-1]
    for part in parts:
        indices = getattr(part, "indices", None)
        if getattr(part, "learn_coefficients", False) and (indices is None or time in indices.tolist()):
            warnings.warn(
                f"{type(part).__name__} learns the scale of time from the observations that are left, so "
                "forgetting shortens it, and l_T with it, until almost nothing is left: pass bounds=, or leave "
                "time out of the transform",
                EbbtideWarning,
                stacklevel=3,
            )


def _read_evaluating(model: Any, now: float, time_dim: int) -> _Seen:
    inputs = model.train_inputs[0]
    n, width = inputs.shape
    if not -width <= time_dim < width:
        raise ConfigurationError(f"time_dim={time_dim}: the model has {width} inputs; pass the index of one of them")
    time = time_dim % width
    clock, t = _Clock(model, time), _numpy(inputs[:, time])
    moment = clock.seen(now)
    X, kernel, timescale, horizon = _belief(model.covar_module, _numpy(inputs), time)
    newest = max(moment, float(t.max()))
    return _Seen(
        X=X,
        t=t,
        residuals=_numpy(model.train_targets) - _numpy(model.mean_module(inputs)),
        noise=np.broadcast_to(_numpy(model.likelihood.noise), (n,)),
        kernel=kernel,
        now=moment,
        horizon=horizon,
        present=clock.told(newest),
        timescale=clock.told(newest + timescale) - clock.told(newest) if np.isfinite(timescale) else np.inf,
    )


def _belief(covariance: Any, inputs: Array, time: int) -> tuple[Array, Kernel, float, float | None]:
    """The observations' positions in space, the kernel, l_T, and the horizon, if the kernel needs one."""
    width, t = inputs.shape[1], inputs[:, time]
    product = _product(covariance, width, time)
    if product is not None:
        columns, kernel = product
        low, high = _box(inputs[:, columns])
        spatial = kernel.spatial.with_lengthscale(tuple(np.asarray(kernel.spatial.lengthscale) / (high - low)))
        X = (inputs[:, columns] - low) / (high - low)
        return X, replace(kernel, spatial=spatial), float(kernel.timescale or np.inf), None
    space = [column for column in range(width) if column != time]
    other = _Any(covariance, inputs, space, time)
    timescale = other.timescale(t)
    horizon = HORIZON * timescale if np.isfinite(timescale) else _span(t)
    return (inputs[:, space] - other.low) / (other.high - other.low), other, timescale, horizon


def _box(X: Array) -> tuple[Array, Array]:
    """Where predictions matter: in each coordinate the unit interval, or the data's range if it goes beyond that."""
    low, high = X.min(axis=0), X.max(axis=0)
    within = (low >= 0.0) & (high <= 1.0)
    wide = np.maximum(high, np.nextafter(low, np.inf))
    return np.where(within, 0.0, low), np.where(within, 1.0, wide)


class _Clock:
    """The caller's time, as the model sees it after its input transform, and back."""

    def __init__(self, model: Any, time: int) -> None:
        self.transform = getattr(model, "input_transform", None)
        self.row, self.time = model.train_inputs[0][-1:], time

    def seen(self, moment: float) -> float:
        if self.transform is None:
            return float(moment)
        return self._moved(self.transform.untransform(self.row), moment, self.transform)

    def told(self, moment: float) -> float:
        return float(moment) if self.transform is None else self._moved(self.row, moment, self.transform.untransform)

    def _moved(self, row: Tensor, moment: float, way: Any) -> float:
        row = row.clone()
        row[..., self.time] = moment
        moved = way(row)
        if moved.shape != row.shape:
            raise ConfigurationError(
                f"{type(self.transform).__name__} changes the number of inputs, so time_dim is ambiguous"
            )
        return float(moved[..., self.time])


def _numpy(tensor: Tensor) -> Array:
    array: Array = tensor.detach().cpu().numpy().astype(float)
    return array


def _span(t: Array) -> float:
    return float(np.ptp(t)) or 1.0


# --- kernels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factor:
    """An RBF (nu is None) or a Matérn, with the lengthscale of each of its inputs."""

    nu: float | None
    lengthscales: dict[int, float]


def _product(kernel: Any, width: int, time: int) -> tuple[list[int], SpaceTimeKernel] | None:
    """The inputs of k_S, and λ·k_S·k_T; None if the kernel is not such a product."""
    try:
        scale, factors = _factors(kernel, width)
        columns, spatial = _combined([f for f in factors if set(f.lengthscales) - {time}], set(range(width)) - {time})
        _, temporal = _combined([f for f in factors if time in f.lengthscales], {time})
    except _NoProductError:
        return None
    return columns, SpaceTimeKernel(scale, spatial, temporal.with_lengthscale(float(np.ravel(temporal.lengthscale)[0])))


class _NoProductError(Exception):
    """The kernel is not a product of one in space and one in time with closed forms."""


def _factors(kernel: Any, width: int) -> tuple[float, list[_Factor]]:
    """λ, and the factors of the kernel. (Exact types only: a subclass may be anything.)"""
    kind = type(kernel)
    if kind is gpytorch.kernels.ScaleKernel:
        scale, factors = _factors(kernel.base_kernel, width)
        return scale * float(kernel.outputscale), factors
    if kind is gpytorch.kernels.ProductKernel:
        each = [_factors(part, width) for part in kernel.kernels]
        return float(np.prod([scale for scale, _ in each])), [factor for _, factors in each for factor in factors]
    if kind not in (gpytorch.kernels.RBFKernel, gpytorch.kernels.MaternKernel):
        raise _NoProductError
    inputs = range(width) if kernel.active_dims is None else kernel.active_dims.tolist()
    lengthscales = np.broadcast_to(_numpy(kernel.lengthscale).ravel(), (len(inputs),))
    nu = float(kernel.nu) if kind is gpytorch.kernels.MaternKernel else None
    return 1.0, [_Factor(nu, dict(zip(inputs, lengthscales.tolist(), strict=True)))]


def _combined(factors: list[_Factor], inputs: set[int]) -> tuple[list[int], Stationary]:
    """One stationary kernel of some inputs. RBFs can be multiplied and split (their 1/l² add up); Matérns cannot."""
    if len(factors) == 1 and factors[0].nu is not None and set(factors[0].lengthscales) <= inputs:
        columns = list(factors[0].lengthscales)
        return columns, Matern(factors[0].nu, tuple(factors[0].lengthscales.values()))
    if not factors or any(factor.nu is not None for factor in factors):
        raise _NoProductError
    columns = sorted({column for factor in factors for column in factor.lengthscales} & inputs)
    squares = [sum(f.lengthscales[c] ** -2 for f in factors if c in f.lengthscales) for c in columns]
    return columns, SquaredExponential(tuple(square**-0.5 for square in squares))


class _Any:
    """Any gpytorch kernel, with space scaled from `_box` to the unit cube."""

    def __init__(self, kernel: Any, inputs: Array, space: list[int], time: int) -> None:
        self.kernel = copy.deepcopy(kernel).double().eval()
        self.space, self.time, self.width = space, time, inputs.shape[1]
        self.low, self.high = _box(inputs[:, space])

    def __call__(self, X: Array, t: Array, X2: Array, t2: Array) -> Array:
        with torch.no_grad():
            return _numpy(self.kernel(self._inputs(X, t), self._inputs(X2, t2)).to_dense())

    def _inputs(self, X: Array, t: Array) -> Tensor:
        inputs = np.empty((len(t), self.width))
        inputs[:, self.space] = self.low + X * (self.high - self.low)
        inputs[:, self.time] = t
        return torch.as_tensor(inputs)

    def timescale(self, t: Array) -> float:
        """The lag after which the correlation in the middle of the box has fallen to `DECAYED`."""
        times = np.append(0.0, LAGS * _span(t)) + t.max()
        covariance = self(
            np.full((len(times), len(self.space)), 0.5), times, np.full((len(times), len(self.space)), 0.5), times
        )
        deviations = np.sqrt(np.diagonal(covariance))
        decayed = np.flatnonzero(covariance[0] < DECAYED * deviations[0] * deviations)
        return float(times[decayed[0]] - times[0]) if len(decayed) else float("inf")
