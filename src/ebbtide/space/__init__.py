"""The search space: what may be tried."""

from ebbtide.space.choices import Categorical, Ordinal
from ebbtide.space.description import check_description
from ebbtide.space.parameter import Parameter, Params
from ebbtide.space.ranges import Float, Int
from ebbtide.space.space import Space

__all__ = ["Categorical", "Float", "Int", "Ordinal", "Parameter", "Params", "Space", "check_description"]
