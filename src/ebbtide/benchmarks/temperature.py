"""Temperature: find the warmest place of a laboratory as a day goes by (Appendix H.2 of the paper).

The data is the Intel Berkeley Research Lab's sensor deployment: the temperatures of 52 motes, averaged over 10-minute
bins, 4 to 8 March 2004, and where the motes are. The paper takes the deployment's first day (28 February) and 46
sensors, which are not available; here the day is a parameter, 2004-03-04 by default.

Between the motes the temperature is interpolated by kriging: a Gaussian process with a Matérn-5/2 kernel and the mean
of the moment, so that far from any mote nothing is hotter than what was measured nearby; in time by cubic splines
through the middles of the bins. Both are linear in the readings, so the field at time t is

    f(x, t) = m(t) + k(x)ᵀ w(t),    w(t) = (K + σ²I)⁻¹ (T(t) − m(t)).
"""

import csv
from functools import cache
from importlib import resources

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Matern
from ebbtide.gp.linalg import one_blas_thread

DAYS = ("2004-03-04", "2004-03-05", "2004-03-06", "2004-03-07", "2004-03-08")
DAY, BIN = 1440.0, 10.0  # minutes
NEIGHBOURHOOD = 6.0  # metres: about the distance between neighbouring motes
NUGGET = 0.01  # share of the variance by which the field may miss a single reading


class Temperature(Problem):
    """In °C, over the lab's floor in metres."""

    name = "temperature"

    def __init__(self, day: str = DAYS[0]) -> None:
        if day not in DAYS:
            raise ConfigurationError(f"day={day!r}: the data has the days {', '.join(DAYS)}")
        self.day = day
        self.start = DAY * DAYS.index(day)
        minutes, positions, readings = _measured()
        mine = slice(int(self.start / BIN), int((self.start + DAY) / BIN))
        working = ~np.isnan(readings[mine]).all(axis=0)
        self.motes = positions[working]
        self.bounds = np.column_stack([self.motes.min(axis=0), self.motes.max(axis=0)])
        self.kernel = Matern(2.5, NEIGHBOURHOOD)
        filled = np.column_stack([_filled(minutes, column) for column in readings[:, working].T])
        mean = filled.mean(axis=1, keepdims=True)
        covariance = self.kernel(self.motes) + NUGGET * np.eye(len(self.motes))
        from scipy.interpolate import CubicSpline  # slow to import, and only needed here

        with one_blas_thread():  # the same field on every machine
            weights = np.linalg.solve(covariance, (filled - mean).T).T
            self.field = CubicSpline(minutes, np.hstack([mean, weights]))

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.day}"

    def values(self, X: Array, t: Array) -> Array:
        moments, which = np.unique(t, return_inverse=True)
        # The first and the last half bin of the data have nothing before or after them.
        inside = np.clip(self.start + DAY * moments, self.field.x[0], self.field.x[-1])
        at = self.field(inside)[which]
        f: Array = at[:, 0] + np.einsum("mi,mi->m", self.kernel(X, self.motes), at[:, 1:])
        return f


@cache
def _measured() -> tuple[Array, Array, Array]:
    """Middles of the bins in minutes, the motes' places, and their readings (bins, motes); NaN where there is none."""
    places = {row["mote_id"]: (float(row["x_m"]), float(row["y_m"])) for row in _rows("mote_locs.csv")}
    rows = _rows("intel_temp_10min_20040304-0308.csv")
    motes = [key for key in rows[0] if key != "minute"]
    readings = [[float(row[mote]) if row[mote] else np.nan for mote in motes] for row in rows]
    minutes = [float(row["minute"]) + BIN / 2.0 for row in rows]
    return np.array(minutes), np.array([places[mote[1:]] for mote in motes]), np.array(readings)


def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files("ebbtide.benchmarks") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _filled(minutes: Array, readings: Array) -> Array:
    """Empty bins, from their neighbours in time."""
    known = ~np.isnan(readings)
    return np.interp(minutes, minutes[known], readings[known])
