"""The true criterion (`Exact` in criterion.py), carried along as its bound is in carried.py, for less.

At a node x of the box and a delay s after now, an observation's effect is v(x, s) = Σ_a course_a(s) V_a(x), where the
courses (fading.py) have all that depends on the present. When P changes by ± w wᵀ,

    V_a′ = V_a ± w (wᵀΨ_a)        E_ab′ = E_ab ± (wᵀΨ_a)∘(wᵀΨ_b)        Ψ_a = ψ_a ∘ Φ_S

costs O(nm), with m nodes in space, however many delays there are.

| symbol | meaning                                                       | shape      |
|--------|---------------------------------------------------------------|------------|
| Φ_S    | kernel in space at the nodes                                  | (n, m)     |
| V_a    | PΨ_a                                                          | (r, n, m)  |
| E_ab   | explained variance at the nodes: Σᵢ Ψ_a(i, x) V_b(i, x)       | (pairs, m) |
| F      | the courses at the delays, times the roots of their weights   | (r, s)     |
"""

import numpy as np

from ebbtide.gp.arrays import Array, Rows
from ebbtide.gp.carried import CarriedFading, Leaving, Process
from ebbtide.gp.convolutions import box_nodes, decaying_future
from ebbtide.gp.criterion import SPATIAL_NODES, Integrated
from ebbtide.gp.kernels import Matern, SpaceTimeKernel
from ebbtide.gp.linalg import resized


class CarriedExact(CarriedFading["LeavingExact"]):
    """The true criterion: see the top of this file."""

    def __init__(self, kernel: SpaceTimeKernel, temporal: Matern, X: Array, t: Array, P: Array, capacity: int) -> None:
        super().__init__(temporal, t, capacity)
        self.kernel, self.nodes = kernel, box_nodes(X.shape[1], SPATIAL_NODES)
        phi = kernel.scale * kernel.spatial(X, self.nodes)
        effects = self.psi[:, : len(t), None] * phi
        V = P @ effects
        self.E = np.einsum("pim,pim->pm", effects[self.a], V[self.b])
        self.phi = resized(phi, (capacity, len(self.nodes)))
        self.V = resized(V, (self.fading.rank, capacity, len(self.nodes)))

    @property
    def nbytes(self) -> int:
        return self.phi.nbytes + self.V.nbytes

    def seen(self, w: Array) -> Array:
        """wᵀΨ_a (r, m)."""
        n = len(w)
        seen: Array = (self.psi[:, :n] * w) @ self.phi[:n]
        return seen

    def resize(self, capacity: int) -> None:
        self.psi = resized(self.psi, (len(self.psi), capacity))
        self.phi = resized(self.phi, (capacity, len(self.nodes)))
        self.V = resized(self.V, (len(self.V), capacity, len(self.nodes)))

    def _turn(self, change: Array) -> None:
        super()._turn(change)
        self.V, self.E = np.tensordot(change, self.V, 1), self.turned(change) @ self.E

    def _extend(self, X: Array, w: Array, P: Array) -> None:
        n = len(w)
        self.phi[n - 1] = self.kernel.scale * self.kernel.spatial(X[-1:], self.nodes)[0]
        seen = self.seen(w)
        self.V[:, :n] += w[:, None] * seen[:, None, :]
        self.E += seen[self.a] * seen[self.b]

    def leaving(self, model: Process, alpha: Array, now: float, contexts: Array | None) -> "LeavingExact":
        return LeavingExact(self, model.P, alpha, now)

    def adopt(self, left: "LeavingExact") -> None:
        self.V[:, : len(left.alpha)], self.E = left.V, left.E

    def vacate(self, hole: int, last: int) -> None:
        super().vacate(hole, last)
        self.phi[hole], self.phi[last] = self.phi[last], 0.0
        self.V[:, hole], self.V[:, last] = self.V[:, last], 0.0


class LeavingExact(Leaving, Integrated):
    """The true criterion at one time, from carried parts."""

    def __init__(self, parts: CarriedExact, P: Array, alpha: Array, now: float) -> None:
        super().__init__(P, alpha)
        self.parts, self.V, self.E = parts, parts.V[:, : len(alpha)].copy(), parts.E
        self.seen = parts.seen(alpha)  # αᵀΨ_a
        self.at(now)

    def at(self, now: float) -> None:
        parts = self.parts
        future = decaying_future(parts.temporal)
        roots = np.sqrt(future.weights / len(parts.nodes))
        self.F = parts.fading.courses(now, future.delays) * roots
        self.fade = float(np.exp(-parts.fading.rate * (now - parts.fading.reference)))
        self.prior = np.repeat(parts.kernel.scale * roots**2, len(parts.nodes))
        self._integrate()

    def _integrate(self) -> None:
        """q, the mean and the explained variance, from V, αᵀΨ and E."""
        a, b = self.parts.a, self.parts.b
        weights = self.parts.both(self.F @ self.F.T)
        self.q = sum(g * np.einsum("im,im->i", self.V[c], self.V[d]) for g, c, d in zip(weights, a, b, strict=True))
        times = self.parts.times[:, None] * self.F[a] * self.F[b]
        self.explained = (times.T @ self.E).ravel()
        self.mean = (self.F.T @ self.seen).ravel()

    def _effects(self, rows: Rows) -> Array:
        effects: Array = np.einsum("as,aim->ism", self.F, self.V[:, rows]).reshape(len(rows), -1)
        return effects

    def _forget(self, row: int, column: Array, precision: float, residual: float) -> None:
        w = column / np.sqrt(precision)
        seen = self.parts.seen(w)
        self.V -= w[:, None] * seen[:, None, :]
        self.E = self.E - seen[self.parts.a] * seen[self.parts.b]
        self.seen = self.seen - residual * np.sqrt(precision) * seen
        self._integrate()
