"""Small problems that several tests use."""

import math

import numpy as np

import ebbtide as eb
from ebbtide.clock import wait_until
from ebbtide.gp.convolutions import spatial_convolution, temporal_convolution
from ebbtide.gp.posterior import condition
from ebbtide.parts.staleness import View


def observations(rng, n=20, d=2, span=1.0):
    X, t = rng.random((n, d)), np.sort(rng.random(n)) * span
    y = np.sin(5.0 * X[:, 0] + 4.0 * t / span) + 0.2 * rng.normal(size=n)
    return X, t, y - y.mean()


def product_kernel(lengthscale=0.4, timescale=0.5, nu_space=2.5, nu_time=1.5, scale=1.3):
    return eb.SpaceTimeKernel(scale, eb.Matern(nu_space, lengthscale), eb.Matern(nu_time, timescale))


def future_products(kernel, X, ages):
    """C of the criterion, up to a constant, and the logarithm of that constant."""
    space, time = spatial_convolution(kernel.spatial, X), temporal_convolution(kernel.temporal, ages)
    assert space is not None
    assert time is not None
    return space.matrix * time.matrix, space.log_constant + time.log_constant


def moving_bump(params, t):
    """Maximize: a hill in the unit square whose top moves around a circle every 120 s."""
    x = 0.5 + 0.35 * math.cos(2 * math.pi * t / 120.0)
    y = 0.5 + 0.35 * math.sin(2 * math.pi * t / 120.0)
    return math.exp(-((params["x"] - x) ** 2 + (params["y"] - y) ** 2) / 0.08)


def jumping_valley(params, t):
    """Minimize: the best point drifts, and jumps to the other side every 100 s."""
    best = 0.25 + 0.5 * (int(t // 100) % 2) + 0.1 * math.sin(t / 15.0)
    return (params["x"] - best) ** 2 + 0.1 * math.sin(10 * params["x"])


UNIT_SQUARE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}


def drive(opt, f, steps, dt=1.0):
    """Ask and tell with a manual clock; returns the true values of the queries."""
    values = []
    for _ in range(steps):
        trial = opt.ask()
        wait_until(opt.clock, trial.time)
        value = f(trial.params, trial.time)
        opt.tell(trial, value)
        opt.clock.advance(dt)
        values.append(value)
    return np.array(values)


def view_of(kernel, X, t, y, now, state, index=None, noise=0.05):
    index = np.arange(len(t)) if index is None else index
    told = int(index[-1]) + 1 if len(index) else 0
    moments = index.astype(float) if kernel.temporal is not None and kernel.temporal.by_step else t
    return View(condition(kernel, noise, X, moments, y), y, t, index, told, now, state, np.random.default_rng(0))
