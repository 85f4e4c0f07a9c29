"""The WLAN as an operator knows it: with the number of users as a context, or with a rate that everybody gets.

**wlan-users**: six users walk about the right half of the floor, and up to 24 more sit in a hall around an access point
of the left half. How many there are is a mean-reverting random walk with bursts, and is known. f is the mean rate per
user: while the hall is empty its access point is in the way of the others, when it is full it is the one that counts.

**wlan-worst-user**: `wlan`, and the rate of the worst-served user must be at least 4 Mbit/s. With equal powers a user
has at least a third of the power of the other three together, 8.3 Mbit/s, so these always meet the constraint. The
constraint is linear in the powers: with γ = 2^(rate/W) − 1, for every user,

    (signal − γ · interference)(x) ≥ γ · noise.

So what is allowed is convex, and each setting has a nearest allowed one on the straight way to equal powers.
"""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ebbtide.benchmarks.optima import Objective
from ebbtide.benchmarks.walks import Walk
from ebbtide.benchmarks.wlan import BANDWIDTH_MHZ, NODES, NOISE_MW, SIDE, Wlan
from ebbtide.gp.arrays import Array
from ebbtide.space import Float
from ebbtide.study.limits import AtLeast

WALKERS, SEATS, HALL = 6, 24, 18.0  # the hall reaches so far from its access point, in metres
MEAN, DEVIATION, MEMORY = 4.0, 5.0, 1.0 / 25.0
BURSTS, HEIGHTS, DECAY = 8, (6.0, 14.0), 1.0 / 50.0
LEAST_RATE = 4.0  # Mbit/s
EQUAL_MW = 20.0


class WlanUsers(Wlan):
    """In Mbit/s per user; x is the nodes' powers in mW."""

    name = "wlan-users"
    context_space = MappingProxyType({"users": Float(WALKERS, WALKERS + SEATS)})

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        rng = np.random.default_rng([seed, 4])
        self.walks = self.walks[:WALKERS]
        self.seats = NODES[0] + rng.uniform(-HALL, HALL, (SEATS, 2))
        crowd = Walk.reverting(rng, MEAN, DEVIATION, MEMORY).with_bursts(rng, BURSTS, HEIGHTS, DECAY)
        self.crowd = crowd.within(0.0, SEATS)

    def users(self, t: Array) -> Array:
        """How many there are; the seats of the hall are taken in their order."""
        count: Array = WALKERS + np.rint(self.crowd.held(t))
        return count

    def context(self, t: float) -> dict[str, float]:
        return {"users": float(self.users(np.array([t]))[0])}

    def positions(self, t: Array) -> Array:
        """Those who walk, then all the seats, taken or not."""
        walking = [0.5 * SIDE, 0.0] + [0.5, 1.0] * super().positions(t)
        return np.concatenate([walking, np.tile(self.seats, (len(t), 1, 1))], axis=1)

    def values(self, X: Array, t: Array) -> Array:
        count = self.users(t)
        present = np.arange(WALKERS + SEATS) < count[:, None]
        rates: Array = np.where(present, self.rates(X, t), 0.0).sum(axis=1) / count
        return rates


class WlanWorstUser(Wlan):
    """In Mbit/s, of all users together; x is the nodes' powers in mW."""

    name = "wlan-worst-user"
    constraints = MappingProxyType({"worst_mbit": AtLeast(LEAST_RATE)})
    acceptable = MappingProxyType({f"x{i}": EQUAL_MW for i in range(len(NODES))})

    def outcome_values(self, X: Array, t: Array) -> dict[str, Array]:
        return {"worst_mbit": self.rates(X, t).min(axis=1)}

    @property
    def searched(self) -> Objective:
        return _Allowed(self)

    def allowed(self, X: Array, t: Array) -> Array:
        """The rows of X, those that break the constraint moved towards equal powers until they meet it."""
        equal = np.full_like(X, EQUAL_MW)
        here, there = self._spare(equal, t), self._spare(X, t)
        share = np.min(np.where(there < 0.0, here / (here - there), 1.0), axis=1)
        moved: Array = equal + share[:, None] * (X - equal)
        return moved

    def _spare(self, X: Array, t: Array) -> Array:
        """Linear in X, and not negative where a user's rate is high enough, (m, users)."""
        signal, interference = self.received(X, t)
        spare: Array = signal - (2.0 ** (LEAST_RATE / BANDWIDTH_MHZ) - 1.0) * (interference + NOISE_MW)
        return spare


@dataclass(frozen=True)
class _Allowed:
    """f at the allowed setting that belongs to each setting: its maximum is that of f over all that are allowed."""

    problem: WlanWorstUser

    @property
    def dim(self) -> int:
        return self.problem.dim

    def from_unit(self, U: Array) -> Array:
        return self.problem.from_unit(U)

    def values(self, X: Array, t: Array) -> Array:
        return self.problem.values(self.problem.allowed(X, t), t)
