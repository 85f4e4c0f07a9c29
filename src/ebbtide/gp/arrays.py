"""The two kinds of array that the library passes around: numbers, and positions of rows."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
