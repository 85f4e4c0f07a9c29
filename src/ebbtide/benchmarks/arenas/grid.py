"""SimBench: a rural low-voltage grid whose tap, reactive power and storage follow the sun and the load of a week.

The grid is SimBench's `1-LV-rural1--2-sw`, its scenario of the far future: 15 buses behind a transformer of 160 kVA,
468 kW of photovoltaics, 206 kW of storage, and loads with heat pumps and cars, each with a profile of the quarter-hours
of a year. A run is one of its weeks; between two quarter-hours everything is linear.

| parameter | what it sets                                                                                        |
|-----------|-----------------------------------------------------------------------------------------------------|
| x0        | the position of the transformer's tap, −2 to 2, whole: 2.5 % of voltage each                        |
| x1        | reactive power of all inverters, from taking (−1) to giving (1) what cos φ = 0.9 allows              |
| x2, x3    | power of the largest storage, and of the other four, as a share of what they can; > 0 is charging   |

The cost, of which f is the negative, is in kW: what lines and transformer lose, and 1 kW for each percent by which a
voltage is off, averaged over the buses. How full the storage is, is left out: f has no memory.
"""

from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from ebbtide.benchmarks.arenas.power_flow import TapPosition
from ebbtide.benchmarks.optima import Trajectory
from ebbtide.benchmarks.problem import Problem
from ebbtide.checks import is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.space import Float
from ebbtide.study.limits import AtLeast, AtMost

CODE = "1-LV-rural1--2-sw"
TAPS = range(-2, 3)
DAYS, QUARTERS = 7, 96
WEEKS = 52
REACTIVE = float(np.tan(np.arccos(0.9)))  # of what the sun gives
PERCENT_KW = 1.0
KW = 1e3  # of a MW
HIGHEST, LOWEST = 1.03, 0.97  # voltages, per unit


class Grid:
    """What SimBench and pandapower know of the grid, as arrays over its buses (the slack bus left out), in MW."""

    def __init__(self) -> None:
        import pandapower
        import simbench

        net = simbench.get_simbench_net(CODE)
        net.trafo["tap_changer_type"] = "Ratio"  # SimBench leaves it open, and pandapower would ignore the tap
        self.taps = [_prepared(net, pandapower, tap) for tap in TAPS]
        internal, self._buses = net._ppc["internal"], net._pd2ppc_lookups["bus"]
        self._slack, self._count = int(internal["ref"][0]), len(internal["bus"])
        profiles = simbench.get_absolute_values(net, profiles_instead_of_study_cases=True)
        load, sun = net.load["bus"], net.sgen["bus"]
        self.load = self._at(load, profiles["load", "p_mw"]) + 1j * self._at(load, profiles["load", "q_mvar"])
        self.sun = self._at(sun, profiles["sgen", "p_mw"])
        rated = net.storage["sn_mva"].to_numpy()
        largest = np.where(rated == rated.max(), rated, 0.0)
        self.storage = np.array([self._at(net.storage["bus"], part) for part in (largest, rated - largest)])

    def _at(self, buses: Any, values: Any) -> Array:
        """Values of elements (..., elements), summed at the buses they stand at (..., buses but the slack)."""
        at = np.zeros((len(buses), self._count))
        at[np.arange(len(buses)), self._buses[buses.to_numpy()]] = 1.0
        summed: Array = np.delete(np.asarray(values) @ at, self._slack, axis=-1)
        return summed


def _prepared(net: Any, pandapower: Any, tap: int) -> TapPosition:
    net.trafo["tap_pos"] = tap
    pandapower.runpp(net, numba=False)
    internal = net._ppc["internal"]
    slack = int(internal["ref"][0])
    return TapPosition.of(internal["Ybus"].toarray(), slack, complex(internal["V"][slack]))


@cache
def _grid() -> Grid:
    return Grid()


class SimBench(Problem):
    """A week of the grid; its sun and its load can be measured, and its days are a cycle."""

    name = "simbench"
    bounds = np.array([[TAPS[0], TAPS[-1]], [-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]])
    cycles = MappingProxyType({"day": 1.0 / DAYS})
    context_space = MappingProxyType({"load_kw": Float(0.0, 120.0), "sun_kw": Float(0.0, 270.0)})

    def __init__(self, week: int = 22) -> None:
        if not (is_whole(week) and 0 <= week < WEEKS):
            raise ConfigurationError(f"week={week!r}: give a whole number from 0 to {WEEKS - 1}, a week of 2016")
        self.week, self.grid = week, _grid()
        quarters = slice(week * DAYS * QUARTERS, (week + 1) * DAYS * QUARTERS + 1)
        self.load, self.sun = self.grid.load[quarters], self.grid.sun[quarters]

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.week}"

    @property
    def space(self) -> dict[str, Float]:
        return super().space | {"x0": Float(float(TAPS[0]), float(TAPS[-1]), step=1.0)}

    def from_unit(self, U: Array) -> Array:
        X = super().from_unit(U)
        X[..., 0] = np.rint(X[..., 0])
        return X

    def context(self, t: float) -> dict[str, float]:
        load, sun = (KW * float(at.real.sum()) for at in self._moment(np.array([t])))
        return {"load_kw": load, "sun_kw": sun}

    def values(self, X: Array, t: Array) -> Array:
        V, lost = self._flow(X, t)
        percent = 100.0 * np.abs(np.abs(V) - 1.0).mean(axis=1)
        f: Array = -KW * lost - PERCENT_KW * percent
        return f

    def _flow(self, X: Array, t: Array) -> tuple[Array, Array]:
        """The voltages, and what lines and transformer lose."""
        load, sun = self._moment(t)
        S = sun + 1j * X[:, 1:2] * REACTIVE * sun - load - X[:, 2:] @ self.grid.storage
        V, lost = np.empty_like(S), np.empty(len(X))
        taps = np.rint(X[:, 0]).astype(int)
        for tap in np.unique(taps):
            rows, position = taps == tap, self.grid.taps[tap - TAPS[0]]
            V[rows] = position.voltages(S[rows])
            lost[rows] = position.drawn(V[rows]).real + S[rows].real.sum(axis=1)
        return V, lost

    def _moment(self, t: Array) -> tuple[Array, Array]:
        """Load and sun at each bus."""
        place = t * DAYS * QUARTERS
        k = np.minimum(place.astype(int), DAYS * QUARTERS - 1)
        share = (place - k)[:, None]
        load, sun = (at[k] + share * (at[k + 1] - at[k]) for at in (self.load, self.sun))
        return load, sun


class SimBenchLimits(SimBench):
    """The same, and no voltage may be more than 3 % off."""

    name = "simbench-limits"
    constraints = MappingProxyType({"highest_v": AtMost(HIGHEST), "lowest_v": AtLeast(LOWEST)})
    acceptable = MappingProxyType({"x0": 1.0, "x1": -0.5, "x2": 0.0, "x3": 0.0})

    def outcome_values(self, X: Array, t: Array) -> dict[str, Array]:
        size = np.abs(self._flow(X, t)[0])
        return {"highest_v": size.max(axis=1), "lowest_v": size.min(axis=1)}

    @cached_property
    def _trajectory(self) -> Trajectory:
        """That of the grid without limits, whose best settings keep them."""
        return SimBench(self.week)._trajectory
