"""Which values contradict everything around them: gross errors, which a model with normal noise cannot ignore.

A value is suspected if a gap separates it from the body of the values, more than `GAP` times as wide as the body. A
suspect is an outlier if the model of all values that are not suspected finds it impossible, too (more than `LIMIT`
predictive deviations), and if no other suspect confirms it. Confirmed means: another one lies on the same side of the
body, about as far out, and was told directly before or after it, or measured near it with no usual value near them
since. So a jump of the objective is believed with its second value, and a cliff as soon as its place was measured
twice, but two errors in a row of usual values at one place do not confirm each other.

Values without a gap, the usual case, cost one sort.
"""

from itertools import combinations

import numpy as np

from ebbtide.gp.arrays import Array, Mask, Rows
from ebbtide.gp.kernels import SpaceTimeKernel
from ebbtide.gp.posterior import condition

FEWEST = 8  # among fewer values, none is judged
GAP = 2.0  # between a suspect and the body, in ranges of the body
LIMIT = 6.0  # predictive deviations
ALIKE = 3.0  # two suspects are about as far out if neither is more than this many times as far as the other
NEAR = 0.1  # two places are near each other at this share of the unit cube's diagonal


def outliers(
    kernel: SpaceTimeKernel,
    noise: float,
    X: Array,
    t: Array,
    z: Array,
    line: Rows,
    *,
    told: Array | None = None,
    rescale: bool = False,
) -> Mask:
    """Which of the standardised values z are outliers; `line` is the position of each in the order told.

    Gaps are looked for among the values as `told`, if z hides them. With `rescale`, z is standardised anew by the
    values that are not suspected: nothing was fitted to its scale yet.
    """
    none = np.zeros(len(z), dtype=bool)
    told = z if told is None else told
    if not is_suspicious(told):
        return none
    suspected = ~_body(told)
    suspected &= ~_within(told, ~suspected | _confirmed(X, told, line, suspected))
    if not suspected.any():
        return none
    others = ~suspected
    if rescale:
        z = (z - z[others].mean()) / z[others].std()
    model = condition(kernel, noise, X[others], t[others], z[others])
    mean, deviation = model.predict(X[suspected], t[suspected])
    suspected[suspected] = np.abs(z[suspected] - mean) > LIMIT * np.sqrt(deviation**2 + noise)
    return suspected


def is_suspicious(z: Array) -> bool:
    """Whether any value is suspected: otherwise no model is needed to tell that there is no outlier."""
    return len(z) >= FEWEST and not _body(z).all()


def _body(z: Array) -> Mask:
    """The values that hang together: those between the quartiles, and whatever follows without a wide gap."""
    order = np.argsort(z, kind="stable")
    ordered = z[order]
    low, high = len(z) // 4, len(z) - 1 - len(z) // 4
    if ordered[low] == ordered[high]:
        return np.ones(len(z), dtype=bool)  # most values are equal: there is no range to compare a gap with
    grown = True
    while grown:
        reach = GAP * (ordered[high] - ordered[low])
        below = int(np.searchsorted(ordered, ordered[low] - reach, side="left"))
        above = int(np.searchsorted(ordered, ordered[high] + reach, side="right")) - 1
        grown = (below, above) != (low, high)
        low, high = below, above
    body = np.zeros(len(z), dtype=bool)
    body[order[low : high + 1]] = True
    return body


def _within(z: Array, members: Mask) -> Mask:
    """Which values lie within reach of these."""
    low, high = float(z[members].min()), float(z[members].max())
    reach = GAP * (high - low)
    within: Mask = (z >= low - reach) & (z <= high + reach)
    return within


def _confirmed(X: Array, z: Array, line: Rows, suspected: Mask) -> Mask:
    """The suspects that another one confirms."""
    out = z - np.median(z[~suspected])
    confirmed = np.zeros(len(z), dtype=bool)
    for earlier, later in combinations(np.flatnonzero(suspected).tolist(), 2):  # rows are in the order told
        far, farther = sorted((abs(out[earlier]), abs(out[later])))
        if out[earlier] * out[later] < 0.0 or farther > ALIKE * far:
            continue
        if line[later] - line[earlier] == 1 or _alone_together(X, line, suspected, earlier, later):
            confirmed[[earlier, later]] = True
    return confirmed


def _alone_together(X: Array, line: Rows, suspected: Mask, earlier: int, later: int) -> bool:
    """Whether two suspects are near each other, and no usual value was measured near them after the earlier one."""
    radius = NEAR * np.sqrt(X.shape[1])
    to_earlier, to_later = (np.linalg.norm(X - X[row], axis=1) for row in (earlier, later))
    usual = ~suspected & (line > line[earlier]) & (np.minimum(to_earlier, to_later) <= radius)
    return bool(to_earlier[later] <= radius and not usual.any())
