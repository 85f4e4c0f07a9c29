"""Small problems that several tests use."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.convolutions import spatial_convolution, temporal_convolution
from ebbtide.gp.posterior import condition
from ebbtide.parts.staleness import View


def observations(rng: np.random.Generator, n: int = 20, d: int = 2, span: float = 1.0) -> tuple[Array, Array, Array]:
    X, t = rng.random((n, d)), np.sort(rng.random(n)) * span
    y = np.sin(5.0 * X[:, 0] + 4.0 * t / span) + 0.2 * rng.normal(size=n)
    return X, t, y - y.mean()


def product_kernel(
    lengthscale: float | tuple[float, ...] = 0.4,
    timescale: float = 0.5,
    nu_space: float = 2.5,
    nu_time: float = 1.5,
    scale: float = 1.3,
) -> eb.SpaceTimeKernel:
    return eb.SpaceTimeKernel(scale, eb.Matern(nu_space, lengthscale), eb.Matern(nu_time, timescale))


def future_products(kernel: eb.SpaceTimeKernel, X: Array, ages: Array) -> tuple[Array, float]:
    """C of the criterion, up to a constant, and the logarithm of that constant."""
    assert kernel.temporal is not None
    space, time = spatial_convolution(kernel.spatial, X), temporal_convolution(kernel.temporal, ages)
    assert space is not None
    assert time is not None
    return space.matrix * time.matrix, space.log_constant + time.log_constant


def moving_bump(params: dict[str, float], t: float) -> float:
    """C of the criterion, up to a constant, and the logarithm of that constant."""
    x = 0.5 + 0.35 * math.cos(2 * math.pi * t / 120.0)
    y = 0.5 + 0.35 * math.sin(2 * math.pi * t / 120.0)
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08)


def jumping_valley(params: dict[str, float], t: float) -> float:
    """Minimize: the best point drifts, and jumps to the other side every 100 s."""
    best = 0.25 + 0.5 * (int(t // 100) % 2) + 0.1 * math.sin(t / 15.0)
    return (params["x"] - best) ** 2 + 0.1 * math.sin(10 * params["x"])


UNIT_SQUARE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def drive(opt: eb.Optimizer, f: Callable[[Any, float], float], steps: int, dt: float = 1.0) -> Array:
    """Ask and tell with a manual clock; returns the true values of the queries."""
    clock: Any = opt.clock
    values = []
    for _ in range(steps):
        trial = opt.ask()
        wait_until(clock, trial.time)
        value = f(trial.params, trial.time)
        opt.tell(trial, value)
        clock.advance(dt)
        values.append(value)
    return np.array(values)


def view_of(
    kernel: eb.SpaceTimeKernel,
    X: Array,
    t: Array,
    y: Array,
    now: float,
    state: dict[str, float],
    index: Rows | None = None,
    noise: float = 0.05,
) -> View:
    index = np.arange(len(t)) if index is None else index
    told = int(index[-1]) + 1 if len(index) else 0
    moments = index.astype(float) if kernel.temporal is not None and kernel.temporal.by_step else t
    return View(condition(kernel, noise, X, moments, y), y, t, index, told, now, state, np.random.default_rng(0))
