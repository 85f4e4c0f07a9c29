"""Comparing algorithms fairly: a protocol, and runs under it."""

from ebbtide.experiments.pace import Measured, Modelled, Wall
from ebbtide.experiments.protocol import Protocol
from ebbtide.experiments.simulation import Run, run

__all__ = ["Measured", "Modelled", "Protocol", "Run", "Wall", "run"]
