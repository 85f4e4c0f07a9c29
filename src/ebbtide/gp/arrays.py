"""The kinds of array that the library passes around: numbers, positions of rows, and yes or no for each row."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
