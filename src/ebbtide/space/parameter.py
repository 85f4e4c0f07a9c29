"""Parameters as a user writes them ⇄ coordinates in the unit cube, which the model sees.

| parameter                  | columns | coordinate                                                      |
|----------------------------|---------|-----------------------------------------------------------------|
| Float                      | 1       | (v − low)/(high − low), of the logarithms if log                 |
| Int                        | 1       | centre of v's cell: [low − ½, high + ½] divided into equal cells |
| Float or Int with a step   | 1       | centre of v's cell: one cell of equal width per value            |
| Ordinal                    | 1       | centre of v's cell: one cell of equal width per choice           |
| Categorical                | c       | one-hot                                                         |

The dict of parameters is authoritative; coordinates are derived from it. A suggestion is first decoded to parameters,
and the model gets *their* coordinates, so what is modelled is exactly what was suggested.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.space.scales import Scale

Value = float | int | str | bool | None
Params = dict[str, Any]


class Parameter(ABC):
    """One dimension of the search."""

    width: int  # columns of the unit cube

    @property
    @abstractmethod
    def discrete(self) -> bool:
        """Whether there are only certain values, so that each has neighbours."""

    @abstractmethod
    def complaint(self, value: Any) -> str | None:
        """What is wrong with a user's value, and what would be right; None if the value is valid."""

    @abstractmethod
    def plain(self, value: Any) -> Any:
        """A valid value as a plain Python object, which is what a suggestion would hold."""

    @abstractmethod
    def encode(self, value: Any) -> list[float]:
        """Coordinates of a valid value."""

    @abstractmethod
    def decode(self, coordinates: Array) -> Any:
        """The value nearest to some coordinates; decode(encode(v)) == v for every v that decode returns."""

    @abstractmethod
    def snap(self, coordinates: Array) -> Array:
        """Rows of coordinates (m, width), moved to the coordinates of valid values."""

    @abstractmethod
    def spread(self, uniform: Array) -> Array:
        """Coordinates (m, width) of a uniform sample (m,) of [0, 1]."""

    @abstractmethod
    def neighbours(self, coordinates: Array) -> Array:
        """The values next to a discrete one, as coordinates (k, width)."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """As JSON, in the form that the HTTP service uses."""


class OneColumn(Parameter):
    """A parameter with an order, and so with a single coordinate, which its scale computes."""

    width = 1

    @property
    @abstractmethod
    def scale(self) -> Scale: ...

    @property
    def discrete(self) -> bool:
        return self.scale.discrete

    def encode(self, value: Any) -> list[float]:
        return [self.scale.encode(value)]

    def decode(self, coordinates: Array) -> Any:
        return self.scale.decode(float(coordinates[0]))

    def snap(self, coordinates: Array) -> Array:
        return self.scale.snap(coordinates)

    def spread(self, uniform: Array) -> Array:
        return self.scale.snap(uniform[:, None])

    def neighbours(self, coordinates: Array) -> Array:
        return np.array(self.scale.near(float(coordinates[0]))).reshape(-1, 1)
