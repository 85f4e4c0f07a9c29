"""The search space: what may be tried."""

from ebbtide.space.parameters import Categorical, Float, Int, Parameter, Params
from ebbtide.space.space import Space

__all__ = ["Categorical", "Float", "Int", "Parameter", "Params", "Space"]
