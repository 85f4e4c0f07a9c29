"""Covariance functions: stationary correlations in space or time, cycles, and their product with a scale."""

from ebbtide.gp.kernels.cyclic import Cycle, Cyclic
from ebbtide.gp.kernels.space_time import Kernel, SpaceTimeKernel
from ebbtide.gp.kernels.stationary import Matern, SquaredExponential, Stationary, StepDecay

__all__ = ["Cycle", "Cyclic", "Kernel", "Matern", "SpaceTimeKernel", "SquaredExponential", "Stationary", "StepDecay"]
