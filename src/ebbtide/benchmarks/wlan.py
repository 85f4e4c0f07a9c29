"""WLAN: set the transmission powers of four access points while their users walk around (Appendix H.2 of the paper).

f is the sum over the 18 users of the Shannon capacity of their link, W·log₂(1 + SINR), in Mbit/s: more power serves a
node's own users and disturbs those of the others. The paper gives the number of nodes and users, the range of the
powers and the formula. The rest is ours:

| what        | value                                     | from                                                     |
|-------------|-------------------------------------------|----------------------------------------------------------|
| floor       | 80 m × 80 m, a node in each quarter       | four neighbouring cells of an open office                |
| association | the nearest node                          | as a Wi-Fi client roams to the strongest beacon          |
| path loss   | 20 log₁₀ f − 28 + 30 log₁₀ d dB, d ≥ 1 m  | Recommendation ITU-R P.1238, office, one floor, f in MHz |
| carrier     | 2437 MHz, shared by all nodes             | channel 6 of the 2.4 GHz band of IEEE 802.11             |
| bandwidth   | W = 20 MHz                                | IEEE 802.11's basic channel                              |
| noise floor | −174 dBm/Hz + 10 log₁₀ W + 7 dB = −94 dBm | thermal noise at 290 K, and a receiver's noise figure    |
| mobility    | random waypoint over the floor            | Johnson and Maltz (1996)                                 |
| speed       | uniform in 0.2–1.2 m/s, pauses 0–60 s     | people in an office, from strolling to walking           |

Powers are in mW, searched on a logarithmic scale, as radio engineers do (dBm). The walks are drawn from the
seed. The run's unit of time is 600 s of walking.
"""

import numpy as np

from ebbtide.benchmarks.problem import Problem
from ebbtide.checks import is_whole
from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Matern

USERS, DURATION = 18, 600.0
SIDE = 80.0
NODES = np.array([[20.0, 20.0], [60.0, 20.0], [20.0, 60.0], [60.0, 60.0]])
SPEEDS, PAUSES = (0.2, 1.2), (0.0, 60.0)
CARRIER_MHZ, BANDWIDTH_MHZ, LOSS_EXPONENT = 2437.0, 20.0, 3.0
LOSS_AT_1M_DB = 20.0 * np.log10(CARRIER_MHZ) - 28.0
NOISE_MW = 10.0 ** ((-174.0 + 10.0 * np.log10(BANDWIDTH_MHZ * 1e6) + 7.0) / 10.0)


class Wlan(Problem):
    """In Mbit/s; x is the nodes' powers in mW."""

    name = "wlan"
    bounds = np.tile([10.0**0.1, 10.0**2.5], (len(NODES), 1))
    log = True
    temporal = Matern(0.5)

    def __init__(self, seed: int = 0) -> None:
        if not (is_whole(seed) and seed >= 0):
            raise ConfigurationError(f"seed={seed!r}: give a whole number ≥ 0")
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.walks = [_walk(rng) for _ in range(USERS)]

    @property
    def instance(self) -> str:
        return f"{self.name}-{self.seed}"

    def positions(self, t: Array) -> Array:
        """Where the users are, (m, users, 2)."""
        seconds = DURATION * t
        return np.stack(
            [np.column_stack([np.interp(seconds, times, axis) for axis in places.T]) for times, places in self.walks],
            axis=1,
        )

    def values(self, X: Array, t: Array) -> Array:
        signal, interference = self.received(X, t)
        f: Array = BANDWIDTH_MHZ * np.log2(1.0 + signal / (interference + NOISE_MW)).sum(axis=1)
        return f

    def rates(self, X: Array, t: Array) -> Array:
        """Of each user, in Mbit/s, (m, users)."""
        signal, interference = self.received(X, t)
        each: Array = BANDWIDTH_MHZ * np.log2(1.0 + signal / (interference + NOISE_MW))
        return each

    def received(self, X: Array, t: Array) -> tuple[Array, Array]:
        """What each user receives from its own node and from the others, in mW, (m, users)."""
        moments, which = np.unique(t, return_inverse=True)
        distance = np.linalg.norm(self.positions(moments)[:, :, None] - NODES, axis=3)
        gain = 10.0 ** (-LOSS_AT_1M_DB / 10.0) * np.maximum(distance, 1.0) ** -LOSS_EXPONENT
        received = gain[which] * X[:, None]  # (m, users, nodes)
        nearest = distance.argmin(axis=2)[which, :, None]
        signal = np.take_along_axis(received, nearest, axis=2)[:, :, 0]
        return signal, received.sum(axis=2) - signal


def _walk(rng: np.random.Generator) -> tuple[Array, Array]:
    """Random waypoint: (times in seconds, places); stay, walk straight to a random place, stay, ..."""
    times, places = [0.0], [rng.uniform(0.0, SIDE, 2)]
    while times[-1] < DURATION:
        goal = rng.uniform(0.0, SIDE, 2)
        leave = times[-1] + rng.uniform(*PAUSES)
        arrive = leave + float(np.linalg.norm(goal - places[-1])) / rng.uniform(*SPEEDS)
        times += [leave, arrive]
        places += [places[-1], goal]
    return np.array(times), np.array(places)
