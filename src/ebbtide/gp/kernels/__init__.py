"""Covariance functions: stationary correlations in space or time, and their product with a scale."""

from ebbtide.gp.kernels.space_time import Kernel, SpaceTimeKernel
from ebbtide.gp.kernels.stationary import Matern, SquaredExponential, Stationary, StepDecay

__all__ = ["Kernel", "Matern", "SpaceTimeKernel", "SquaredExponential", "Stationary", "StepDecay"]
