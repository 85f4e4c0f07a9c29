"""The integrals that the criterion needs: products of two kernels over the future domain.

| symbol | meaning                                                        | shape  |
|--------|----------------------------------------------------------------|--------|
| C_S    | ∫ k_S(x, xᵢ) k_S(x, xⱼ) dx over the whole space                 | (n, n) |
| C_T    | ∫ k_T(t, tᵢ) k_T(t, tⱼ) dt over [now, ∞)                        | (n, n) |
| uᵢ     | age of an observation, now − tᵢ ≥ 0                             | (n,)   |
| Φ      | kernel at quadrature nodes × √weight, so that C = Φ Φᵀ          | (n, m) |

The criterion is a ratio, so constants common to all entries cancel. They are returned separately, as
logarithms: inside, they would underflow when all the data is much older than l_T. Entries of C_S are never capped
at 1 as in Appendix C of the paper: that breaks positive semi-definiteness.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.special import erfcx, k0e, k1e

from ebbtide.errors import ConfigurationError
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Cyclic, Matern, SquaredExponential, Stationary
from ebbtide.gp.kernels.stationary import matern_coefficients, polynomial
from ebbtide.gp.linalg import blocks, symmetric
from ebbtide.gp.quasirandom import sobol

CYCLIC_NODES, CYCLIC_DAYS = 16, 4  # of a cycle's period, and how many of them: by quadrature, not by the closed form


@dataclass(frozen=True)
class Convolution:
    """matrix · e^log_constant is the integral."""

    matrix: Array
    log_constant: float


# --- whole space ------------------------------------------------------------------------------------------


@singledispatch
def spatial_convolution(kernel: Stationary, X: Array) -> Convolution | None:
    """∫_{ℝ^d} k_S(x, xᵢ) k_S(x, xⱼ) dx, with ones on the diagonal; None if no closed form is known."""
    return None


@spatial_convolution.register
def _(kernel: SquaredExponential, X: Array) -> Convolution:
    """π^{d/2} ∏l · exp(−ρ²/4) (Table 3)."""
    values = overlap(kernel, kernel.scaled_distance(X), X.shape[1])
    return Convolution(symmetric(values, 1.0, len(X)), 0.5 * X.shape[1] * math.log(math.pi) + _log_volume(kernel, X))


@spatial_convolution.register
def _(kernel: Matern, X: Array) -> Convolution:
    """c s^{−d} z^A K_A(z), A = 2ν + d/2 (Table 3): the Matérn of smoothness A, up to its value at 0."""
    d, nu = X.shape[1], kernel.nu
    order = 2.0 * nu + 0.5 * d
    log_at_zero = (
        0.5 * d * math.log(math.pi)
        + 2.0 * (math.lgamma(nu + 0.5 * d) - math.lgamma(nu))
        + math.lgamma(order)
        - math.lgamma(2.0 * nu + d)
        + d * math.log(2.0 / kernel.rate)
    )
    values = overlap(kernel, kernel.scaled_distance(X), d)
    return Convolution(symmetric(values, 1.0, len(X)), log_at_zero + _log_volume(kernel, X))


def overlap(kernel: SquaredExponential | Matern, rho: Array, d: int) -> Array:
    """The convolution in d dimensions as a function of the scaled distance; 1 at 0."""
    if isinstance(kernel, SquaredExponential):
        return np.exp(-0.25 * rho * rho)
    z = kernel.rate * rho
    for block in blocks(len(z)):
        z[block] = matern_correlation(2.0 * kernel.nu + 0.5 * d, z[block])
    return z


def overlap_in_context(kernel: Stationary, seen: Array, contexts: Array) -> Array:
    """C_C: the same for the contexts of observations, over those that may come again, each as likely as the others."""
    alike = kernel(seen, contexts)
    overlaps: Array = alike @ (alike.T / len(contexts))
    return overlaps


def _log_volume(kernel: Stationary, X: Array) -> float:
    """log ∏ l: the change of variables x/l."""
    return float(np.log(np.broadcast_to(kernel.lengthscale, X.shape[1])).sum())


def matern_correlation(order: float, z: Array) -> Array:
    """The Matérn of smoothness A, an integer or a half-integer: z^A K_A(z) over its limit at 0."""
    if order > 40.0:
        return _high_order(order, z)
    if (order - 0.5).is_integer():
        return polynomial(matern_coefficients(round(order - 0.5)), z) * np.exp(-z)
    if order < 3.0:
        return bessel_correlation(round(order), z) * np.exp(-z)
    return _integer_order(round(order), z)


def _integer_order(order: int, z: Array) -> Array:
    """The half-integer neighbour A+½ (a polynomial), divided by √(1+z/A) to match the growth at infinity, times a
    correction close to 1 that is smooth on [0, ∞]: a short polynomial in u = (z−A)/(z+A).

    Much faster than two Bessel functions, and accurate to 1e-12.
    """
    neighbour = polynomial(matern_coefficients(order), z)
    neighbour *= polynomial(_correction(order), (z - order) / (z + order))
    neighbour *= np.exp(-z)
    neighbour /= np.sqrt(1.0 + z / order)
    return neighbour


@lru_cache
def _correction(order: int) -> tuple[float, ...]:
    nodes = np.polynomial.chebyshev.chebpts1(27)
    z = order * (1.0 + nodes) / (1.0 - nodes)
    neighbour = polynomial(matern_coefficients(order), z) / np.sqrt(1.0 + z / order)
    coefficients = np.polynomial.chebyshev.chebfit(nodes, bessel_correlation(order, z) / neighbour, 26)
    return tuple(map(float, np.polynomial.chebyshev.cheb2poly(coefficients)))


def bessel_correlation(order: int, z: Array) -> Array:
    """g_A = e^z z^A K_A(z) over its limit at 0, by g_{A+1} = g_A + z² g_{A−1}/(4A(A−1)): the recurrence of K_A,
    normalised so that nothing overflows.
    """
    z = np.maximum(z, np.finfo(float).tiny)  # K_0(0) is infinite, but z² K_0(z) is 0
    here: Array = z * k1e(z)
    if order == 1:
        return here
    below, here = here, here + 0.5 * z * z * k0e(z)
    for a in range(2, order):
        below, here = here, here + z * z * below / (4.0 * a * (a - 1.0))
    return here


def _high_order(order: float, z: Array) -> Array:
    """The same recurrence for the ratios g_{A+1}/g_A, whose logarithms add up: for dozens of one-hot columns."""
    first = 0.5 if (order - 0.5).is_integer() else 1.0
    here = np.ones_like(z) if first == 0.5 else bessel_correlation(1, z)
    ratio = 1.0 + z if first == 0.5 else bessel_correlation(2, z) / here
    log_correlation = np.log(here) + np.log(ratio) - z
    a = first + 1.0
    while a < order:
        ratio = 1.0 + z * z / (4.0 * a * (a - 1.0) * ratio)
        log_correlation += np.log(ratio)
        a += 1.0
    return np.exp(log_correlation)


# --- half-line --------------------------------------------------------------------------------------------


@singledispatch
def temporal_convolution(kernel: Stationary, ages: Array) -> Convolution | None:
    """∫_{now}^∞ k_T(t, tᵢ) k_T(t, tⱼ) dt for observations of these ages; None if no closed form is known."""
    return None


@temporal_convolution.register
def _(kernel: SquaredExponential, ages: Array) -> Convolution:
    """(√π l/2) exp(−(uᵢ−uⱼ)²/4l²) erfc((uᵢ+uⱼ)/2l): with erfcx the two exponentials become gᵢ gⱼ.

    The paper prints 2l² instead of 4l² (Table 4 and its lemma), which is an error.
    """
    scale = float(np.asarray(kernel.lengthscale))
    scaled = ages / scale
    newest = scaled.min()
    g = np.exp(-0.5 * (scaled - newest) * (scaled + newest))
    matrix = erfcx(0.5 * np.add.outer(scaled, scaled)) * np.multiply.outer(g, g)
    return Convolution(matrix, -newest * newest + math.log(0.5 * math.sqrt(math.pi) * scale))


@temporal_convolution.register
def _(kernel: Matern, ages: Array) -> Convolution:
    """Gauss–Laguerre with p+1 nodes is exact: the integrand is e^{−2wv} times a polynomial of degree 2p."""
    p = round(kernel.nu - 0.5)
    rate = kernel.rate / float(np.asarray(kernel.lengthscale))
    nodes, weights = laguerre(p + 1)
    scaled = rate * ages
    newest = scaled.min()
    phi = polynomial(matern_coefficients(p), scaled[:, None] + 0.5 * nodes)
    top = np.abs(phi).max()  # years of age over a short l_T: the polynomial's square would overflow
    phi *= np.sqrt(weights) * (np.exp(newest - scaled)[:, None] / top)
    return Convolution(phi @ phi.T, 2.0 * (math.log(top) - newest) - math.log(2.0 * rate))


@temporal_convolution.register
def _(kernel: Cyclic, ages: Array) -> Convolution | None:
    """A form of finite rank, exact: ψᵀGψ, where G does not depend on the observations (`_cyclic_gram`)."""
    if not isinstance(kernel.family, Matern):
        return None
    slowest, newest = min(rate for rate, _ in _harmonics(kernel)), float(ages.min())
    # All ages may be many l_T: what the slowest part has lost by now is common to everything.
    psi = _cyclic_features(kernel, ages, slowest * newest)
    matrix = psi.T @ (_cyclic_gram(kernel) @ psi)
    matrix = 0.5 * (matrix + matrix.T)
    top = float(np.abs(matrix).max())
    return Convolution(matrix / top, math.log(top) - 2.0 * slowest * newest) if top > 0.0 else Convolution(matrix, 0.0)


def _harmonics(kernel: Cyclic) -> list[tuple[float, Array]]:
    """The parts of a kernel with cycles: the rate of decay and the frequencies of each; the first has none but 0."""
    fading = kernel.family.rate if isinstance(kernel.family, Matern) else 1.0
    return [(fading / kernel.scale, np.zeros(1))] + [(fading / c.lengthscale, c.frequencies) for c in kernel.cycles]


def _cyclic_features(kernel: Cyclic, ages: Array, gained: float) -> Array:
    """ψ: for each part and each power a = 0 … p, e^{−ωu} (ωu)^a cos 2πhu/P for all h, then with sin; times e^gained."""
    rows = []
    for rate, frequencies in _harmonics(kernel):
        turn = np.exp(1j * frequencies[-1] / max(len(frequencies) - 1, 1) * ages)
        waves = np.cumprod(np.vstack([np.ones_like(turn), np.tile(turn, (len(frequencies) - 1, 1))]), axis=0)
        fading = np.exp(gained - rate * ages)
        for a in range(_order(kernel) + 1):
            faded = fading * (rate * ages) ** a
            rows += [faded * waves.real, faded * waves.imag[1:]]
    features: Array = np.vstack(rows)
    return features


def _order(kernel: Cyclic) -> int:
    return round(kernel.family.nu - 0.5) if isinstance(kernel.family, Matern) else 0


@lru_cache
def _cyclic_gram(kernel: Cyclic) -> Array:
    """G, from the complex exponentials of all harmonics.

    k_T(s + u) = Σ β e^{−ζ(s+u)} (c₀ + c₁ω(s+u) + …), ζ = ω − 2πih/P, is Σ_a g_a(s) φ_a(u) with φ_a = e^{−ζu} (ωu)^a,
    and ∫ e^{−(ζ+ζ̄′)s} s^m ds = m!/(ζ+ζ̄′)^{m+1}. The pair φ(h), φ(−h) is cos ± i sin: φ = Tψ.
    """
    p = _order(kernel)
    weights = [np.array([kernel.rest]), *(cycle.share * cycle.weights[0] for cycle in kernel.cycles)]
    rates, courses, turns = [], [], []
    for (rate, frequencies), weight in zip(_harmonics(kernel), weights, strict=True):
        count = len(frequencies) - 1
        signed = np.concatenate([frequencies, -frequencies[1:]])  # positive, then negative
        half = np.concatenate([weight[:1], 0.5 * weight[1:], 0.5 * weight[1:]])
        turn = np.zeros((2 * count + 1, 2 * count + 1), dtype=complex)
        turn[: count + 1, : count + 1] = np.eye(count + 1)  # cos
        turn[count + 1 :, 1 : count + 1] = np.eye(count)
        turn[1 : count + 1, count + 1 :], turn[count + 1 :, count + 1 :] = (
            1j * np.eye(count),
            -1j * np.eye(count),
        )  # sin
        for a in range(p + 1):
            rates.append(rate - 1j * signed)
            courses.append(half[:, None] * moments(p, a) * rate ** np.arange(p + 1))
            turns.append(turn)
    T = block_diag(*turns)
    gram: Array = (T.T @ _overlaps(np.concatenate(rates), np.vstack(courses)) @ T.conj()).real
    gram.flags.writeable = False
    return gram


def moments(p: int, a: int) -> Array:
    """c_{a+m} binom(a+m, a) for m = 0 … p−a, and zeros: the polynomial in s that goes with (ωu)^a."""
    moments = np.zeros(p + 1)
    moments[: p + 1 - a] = [c * math.comb(k, a) for k, c in enumerate(matern_coefficients(p)) if k >= a]
    return moments


def _overlaps(rates: np.ndarray[Any, np.dtype[np.complex128]], courses: Array) -> Any:
    """∫₀^∞ g(s) ḡ′(s) ds for all pairs of g = e^{−ζs} Σ_m courses_m s^m."""
    total = np.add.outer(rates, rates.conj())
    gram = np.zeros_like(total)
    for m, n in product(range(courses.shape[1]), repeat=2):
        gram += np.multiply.outer(courses[:, m], courses[:, n]) * math.factorial(m + n) / total ** (m + n + 1)
    return gram


@lru_cache
def laguerre(n: int) -> tuple[Array, Array]:
    return np.polynomial.laguerre.laggauss(n)


# --- any kernel, any domain -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeNodes:
    """Quadrature nodes of the future, as delays after now, with their weights."""

    delays: Array
    weights: Array


def decaying_future(kernel: Stationary) -> TimeNodes:
    """[now, ∞) for a kernel that decays: Gauss–Laguerre at the rate of its square."""
    scale = float(np.asarray(kernel.lengthscale))
    if isinstance(kernel, Cyclic):
        return _cyclic_future(kernel)
    if isinstance(kernel, SquaredExponential):
        count, rate = 16, 2.5 / scale
    else:
        count, rate = 8, 2.0 * getattr(kernel, "rate", 1.0) / scale
    nodes, weights = laguerre(count)
    return TimeNodes(nodes / rate, weights * np.exp(nodes) / rate)


def _cyclic_future(kernel: Cyclic) -> TimeNodes:
    """The moments of one period after the other, each day with the weight that is left of it (trapezoidal rule)."""
    cycle = max(kernel.cycles, key=lambda cycle: cycle.share)
    days = int(np.clip(math.ceil(2.0 * cycle.lengthscale / cycle.period), 1, CYCLIC_DAYS))
    step = cycle.period / CYCLIC_NODES
    delays = np.asarray(step * (np.arange(CYCLIC_NODES * days) + 0.5), dtype=float)
    return TimeNodes(delays, np.full(len(delays), step))


def finite_future(horizon: float) -> TimeNodes:
    """[now, now + horizon], for kernels that may not decay: Gauss–Legendre."""
    if not (np.isfinite(horizon) and horizon > 0):
        raise ConfigurationError(f"horizon={horizon!r}: give a finite time > 0, how far ahead predictions matter")
    nodes, weights = np.polynomial.legendre.leggauss(16)
    return TimeNodes(0.5 * horizon * (nodes + 1.0), 0.5 * horizon * weights)


@lru_cache
def box_nodes(d: int, count: int) -> Array:
    """Quasi-random points of [0,1]^d, the same in every call; each has weight 1/count."""
    points = sobol(d, count, rng=0)
    points.flags.writeable = False
    return points
