"""Draws from a Gaussian process on space × time, with the optimum at every moment and the best static setting.

A draw is a sum of random waves (random Fourier features), whose frequencies have the spectral densities of the kernels:
Matérn-5/2 in space, Matérn-3/2 in time.

    f(x, t) = √(2/m) Σⱼ cos(ωⱼ·x + ηⱼ t + φⱼ),   ωⱼ ~ Student's t with 5 degrees of freedom / l_S,   ηⱼ ~ t with 3 / l_T
"""

from functools import cached_property

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.gp.quasirandom import sobol
from ebbtide.parts.maximization import climb

WAVES = 1000
POINTS = 4096  # where the search for an optimum begins
CLIMBERS = 4  # of them, at each moment
MOMENTS = 60  # per l_T, at which regret is looked at
TIMESCALE = 60.0  # l_T, in the clock's unit


class Draw:
    """One draw, with mean 0 and variance 1, on the unit cube; it is looked at for `timescales` times l_T."""

    def __init__(self, seed: int, dim: int, lengthscale: float, timescales: int) -> None:
        self.dim, self.lengthscale = dim, lengthscale
        rng = np.random.default_rng([seed, dim, 15])
        self.omega = rng.normal(size=(WAVES, dim)) * np.sqrt(5.0 / rng.chisquare(5.0, (WAVES, 1))) / lengthscale
        self.eta = rng.standard_t(3.0, WAVES) / TIMESCALE
        self.phase = rng.uniform(0.0, 2.0 * np.pi, WAVES)
        self.moments = (np.arange(timescales * MOMENTS) + 0.5) * TIMESCALE / MOMENTS
        ten = rng.random((10, dim))
        self.start = ten[int(np.argmax(self(ten, np.zeros(10))))]  # the best of ten random settings at t = 0

    def __call__(self, X: Array, t: Array) -> Array:
        """The values at the rows of X at the times t."""
        waves: Array = np.cos(self._angle(X, t))
        values: Array = np.sqrt(2.0 / WAVES) * waves.sum(axis=1)
        return values

    def _angle(self, X: Array, t: Array) -> Array:
        angle: Array = X @ self.omega.T + np.multiply.outer(t, self.eta) + self.phase
        return angle

    @cached_property
    def _pool(self) -> tuple[Array, Array]:
        """Points spread over the cube, and the values there at every moment."""
        X = sobol(self.dim, POINTS, rng=0)
        still = np.exp(1j * (X @ self.omega.T + self.phase))
        moving = np.exp(1j * np.multiply.outer(self.eta, self.moments))
        values = still.real @ moving.real - still.imag @ moving.imag  # the real part of the product
        return X, np.sqrt(2.0 / WAVES) * values

    @cached_property
    def optimum(self) -> Array:
        """max f over x at every moment."""
        X, values = self._pool
        best = np.argpartition(-values, CLIMBERS, axis=0)[:CLIMBERS].T.ravel()
        times = np.repeat(self.moments, CLIMBERS)
        reach = 0.1 * self.lengthscale
        top = [
            self._climbed(X[best[rows]], times[rows], reach)
            for rows in np.array_split(np.arange(len(times)), max(1, len(times) // 400))
        ]
        highest: Array = np.concatenate(top).reshape(-1, CLIMBERS).max(axis=1)
        optimum: Array = np.maximum(highest, values.max(axis=0))
        return optimum

    def _climbed(self, X: Array, t: Array, reach: float) -> Array:
        """The values that an ascent from each row reaches."""

        def value_and_gradient(X: Array) -> tuple[Array, Array]:
            angle, height = self._angle(X, t), np.sqrt(2.0 / WAVES)
            return height * np.cos(angle).sum(axis=1), -height * np.sin(angle) @ self.omega

        return self(climb(value_and_gradient, X, reach, steps=20, enough=0.0)[0], t)

    @cached_property
    def static_regret(self) -> float:
        """The mean regret over time of the best static setting in hindsight."""
        X, values = self._pool
        height = np.sqrt(2.0 / WAVES)
        waves = np.exp(1j * np.multiply.outer(self.eta, self.moments)).mean(axis=1)  # each wave, averaged over time

        def value_and_gradient(X: Array) -> tuple[Array, Array]:
            wave = np.exp(1j * (X @ self.omega.T + self.phase)) * waves
            return height * wave.real.sum(axis=1), -height * wave.imag @ self.omega

        best = X[np.argsort(-values.mean(axis=1))[:20]]
        highest = climb(value_and_gradient, best, 0.1 * self.lengthscale, steps=20, enough=0.0)[1]
        return float(self.optimum.mean() - highest.max())

    def regret(self, X: Array, asked: Array) -> float:
        """The mean regret over time, where each row of X is in force from the time it was asked until the next one."""
        held = X[np.searchsorted(asked, self.moments, side="right") - 1]
        values = [self(held[rows], self.moments[rows]) for rows in np.array_split(np.arange(len(held)), 4)]
        return float(np.mean(self.optimum - np.concatenate(values)))
