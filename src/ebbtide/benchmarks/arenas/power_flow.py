"""The power flow of a small grid for many settings at once.

pandapower takes 10 ms for one power flow, and most of that is not arithmetic. Here pandapower prepares the grid's
admittance matrix for each position of the transformer's tap, once; then, with the slack bus s and the others r,

    V = Z (conj(S / V) − Y_rs V_s),    Z = Y_rr⁻¹,

is iterated from V at no load. In a low-voltage grid |Z S| is about 0.1, so each round gives a digit.

| here     | meaning                                                                  |
|----------|--------------------------------------------------------------------------|
| S        | power into the grid at each bus but the slack, in units of the base      |
| V        | complex voltages there, per unit                                         |
| Z, rest  | of a tap's position: Z above, and the voltages at no load, −Z Y_rs V_s   |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # complex, most of them
ROUNDS = 14


@dataclass(frozen=True)
class TapPosition:
    """The grid with its transformer's tap at one position."""

    Z: Array
    rest: Array
    slack_row: Array  # of the admittance matrix: the current at the slack bus from all voltages
    slack_voltage: complex

    @classmethod
    def of(cls, Y: Array, slack: int, slack_voltage: complex) -> "TapPosition":
        others = np.arange(len(Y)) != slack
        Z = np.linalg.inv(Y[np.ix_(others, others)])
        row = np.append(Y[slack, others], Y[slack, slack])
        return cls(Z, -Z @ Y[others, slack] * slack_voltage, row, slack_voltage)

    def voltages(self, S: Array) -> Array:
        """V at every bus but the slack, (m, buses)."""
        V = np.broadcast_to(self.rest, S.shape)
        for _ in range(ROUNDS):
            V = self.rest + np.conj(S / V) @ self.Z.T
        return V

    def drawn(self, V: Array) -> Array:
        """The power that comes in through the slack bus, (m,)."""
        current = V @ self.slack_row[:-1] + self.slack_row[-1] * self.slack_voltage
        power: Array = self.slack_voltage * np.conj(current)
        return power
