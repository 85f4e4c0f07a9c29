"""Named parameters as one space: dicts ⇄ rows of the unit cube."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ebbtide.checks import is_text
from ebbtide.errors import ParameterError, SpaceError
from ebbtide.gp.arrays import Array
from ebbtide.space.choices import Categorical
from ebbtide.space.description import parameter_from_json
from ebbtide.space.parameter import Parameter, Params


class Space:
    """Named parameters, in order.

    >>> import ebbtide as eb
    >>> space = eb.Space({"power": eb.Float(0.0, 10.0), "codec": eb.Categorical(["a", "b"])})
    >>> x = space.encode({"power": 2.5, "codec": "b"})
    >>> x.tolist(), space.decode(x)
    ([0.25, 0.0, 1.0], {'power': 2.5, 'codec': 'b'})
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not isinstance(parameters, Mapping):
            raise SpaceError(f'space={parameters!r}: give a dict such as {{"power": eb.Float(0.0, 10.0)}}')
        if not parameters:
            raise SpaceError('the space is empty; give a dict such as {"power": eb.Float(0.0, 10.0)}')
        for name, parameter in parameters.items():
            if not isinstance(name, str) or not name or not is_text(name):
                raise SpaceError(f"parameter name {name!r}: give a non-empty string")
            if not isinstance(parameter, Parameter):
                raise SpaceError(
                    f"{name!r} is {parameter!r}; give an eb.Float, an eb.Int, an eb.Ordinal or an eb.Categorical"
                )
        self.parameters = dict(parameters)
        stops = np.cumsum([0] + [p.width for p in self.parameters.values()])
        columns = [slice(a, b) for a, b in pairwise(stops)]
        self._items = list(zip(self.parameters, self.parameters.values(), columns, strict=True))
        self.width = int(stops[-1])
        # Whether any parameter has only certain values: integers, steps, choices.
        self.has_discrete = any(parameter.discrete for parameter in self.parameters.values())
        # What has an order can be searched continuously and is snapped to valid values afterwards; categories cannot.
        self.relaxable = np.concatenate(
            [np.full(p.width, not isinstance(p, Categorical)) for p in self.parameters.values()]
        )

    @property
    def dim(self) -> int:
        """How many parameters there are (d in the formulas)."""
        return len(self.parameters)

    def items(self) -> list[tuple[str, Parameter, slice]]:
        """Names, parameters, and their columns of the unit cube."""
        return self._items

    def check(self, params: Any) -> Params:
        """The parameters, as plain Python values; one error lists everything that is wrong with them."""
        params = as_mapping(params)
        problems = [f"{name!r} is missing" for name in self.parameters if name not in params]
        problems += [
            f"{name!r} is unknown (the space has {list(self.parameters)})"
            for name in params
            if name not in self.parameters
        ]
        for name, parameter in self.parameters.items():
            if name in params and (complaint := parameter.complaint(params[name])):
                problems.append(f"{name!r} {complaint}")
        if problems:
            raise ParameterError("the parameters do not fit the space: " + "; ".join(problems))
        return {name: parameter.plain(params[name]) for name, parameter in self.parameters.items()}

    def encode(self, params: Mapping[str, Any]) -> Array:
        """Coordinates of valid parameters."""
        return np.array([u for name, p in self.parameters.items() for u in p.encode(params[name])])

    def decode(self, x: Array) -> Params:
        """The parameters nearest to a point of the unit cube."""
        return {name: parameter.decode(x[columns]) for name, parameter, columns in self.items()}

    def snap(self, X: Array) -> Array:
        """Rows, moved to the coordinates of valid values."""
        if not self.has_discrete:
            return np.clip(X, 0.0, 1.0)
        return np.hstack([parameter.snap(X[:, columns]) for _, parameter, columns in self.items()])

    def spread(self, uniform: Array) -> Array:
        """Points of the cube (m, width) from a uniform sample (m, dim), one coordinate per parameter."""
        if not self.has_discrete:
            return uniform
        return np.hstack([p.spread(uniform[:, i]) for i, p in enumerate(self.parameters.values())])

    def neighbours(self, x: Array) -> Array:
        """All points that differ from x by one step of one discrete parameter."""
        rows = []
        for _, parameter, columns in self.items():
            for near in parameter.neighbours(x[columns]):
                row = x.copy()
                row[columns] = near
                rows.append(row)
        return np.array(rows).reshape(-1, self.width)

    def to_json(self) -> dict[str, Any]:
        """As JSON, in the form that the HTTP service uses."""
        return {name: parameter.to_json() for name, parameter in self.parameters.items()}

    @classmethod
    def from_json(cls, description: Any) -> "Space":
        """The space that `to_json` describes; the HTTP service accepts the same JSON."""
        if not isinstance(description, Mapping):
            raise SpaceError(f"{description!r} is not a dict of parameters")
        return cls({name: parameter_from_json(name, d) for name, d in description.items()})


def as_mapping(params: Any) -> Mapping[str, Any]:
    """What was given as parameters, if it is a dict."""
    if not isinstance(params, Mapping):
        raise ParameterError(f"{params!r} is not a dict of parameters or a trial")
    return params
