"""Gaussian processes in space and time: kernels, posterior, likelihood, inference, and the Wasserstein criterion."""
