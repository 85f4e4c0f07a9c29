"""Policies that forget everything at once: after a number of observations, or when one is surprising."""

from dataclasses import dataclass, replace
from math import ceil, inf, log, pi, sqrt

from ebbtide.checks import as_finite
from ebbtide.errors import ConfigurationError
from ebbtide.gp.hyperparameters import Families, Hyperparameters
from ebbtide.gp.inference import MIN_ROWS, fit
from ebbtide.gp.kernels import Matern, Stationary, StepDecay
from ebbtide.gp.priors import TimeLimits, weak_prior
from ebbtide.parts.staleness.interface import PolicyState, Staleness, Verdict, View

GROWTH = 1.1  # of the data, until R-GP-UCB's ε is fitted again


@dataclass(frozen=True)
class PeriodicReset(Staleness):
    """R-GP-UCB (Bogunovic, Scarlett and Cevher, 2016): drop all data when there are more than N(ε) observations.

    Their Corollary 4.1: N = ⌈multiplier · ε^{−1/4}⌉ for the squared exponential, and −1/(4 − c) in the exponent for
    Matérn-ν, c = d(d+1)/(2ν + d(d+1)). They also cap N at the number of rounds T, which changes nothing: a reset
    after the last round never happens. ε, the share of the function that is new at each observation, is fitted to the
    current data with their TV kernel (`StepDecay`): whenever the data have grown by a tenth, and before they are
    dropped. It is kept while there are too few observations for a fit.
    """

    multiplier: float = 12.0

    def __post_init__(self) -> None:
        multiplier = as_finite(self.multiplier)
        if multiplier is None or multiplier <= 0.0:
            raise ConfigurationError(f"multiplier={self.multiplier!r}: give a finite number > 0")
        object.__setattr__(self, "multiplier", multiplier)

    def review(self, view: View) -> Verdict:
        state, n = view.state, len(view)
        if n >= MIN_ROWS and (self._has_grown(n, state) or self._full(view, state)):
            state = {"epsilon": _fitted_epsilon(view), "rows": float(n)}
        return Verdict(range(n) if self._full(view, state) else (), state=state)

    def _has_grown(self, n: int, state: PolicyState) -> bool:
        """By a tenth since ε was fitted, or from nothing. A fit costs as much as a step of the model."""
        rows = state.get("rows", 0.0)
        return n < rows or n >= GROWTH * rows

    def _full(self, view: View, state: PolicyState) -> bool:
        spatial, d = view.posterior.kernel.spatial, view.posterior.points.shape[1]
        return bool(state) and len(view) > self.period(state["epsilon"], spatial, d)

    def period(self, epsilon: float, spatial: Stationary, d: int) -> int:
        """N(ε)."""
        c = d * (d + 1) / (2.0 * spatial.nu + d * (d + 1)) if isinstance(spatial, Matern) else 0.0
        return ceil(self.multiplier * float(epsilon ** (-1.0 / (4.0 - c))))


def _fitted_epsilon(view: View) -> float:
    """ε of k_S · (1 − ε)^{steps/2}, starting from the model's other hyperparameters and the ε fitted last."""
    spatial, noise = view.posterior.kernel.spatial, view.posterior.noise
    limits = replace(TimeLimits.in_steps(), spread_above=inf)  # N(ε) needs an ε as small as the data says
    prior = weak_prior(spatial.ard, view.posterior.points.shape[1], limits, view.inference)
    steps = limits.typical if not view.state else -2.0 / log(1.0 - view.state["epsilon"])
    start = Hyperparameters(view.posterior.kernel.scale, spatial.lengthscale, steps, noise)
    data = (view.posterior.points, view.index.astype(float), view.z)
    fitted = fit(Families(spatial, StepDecay()), start, data, prior, search=not view.state, rng=view.rng)
    return StepDecay(fitted.hyper.timescale or limits.typical).epsilon


@dataclass(frozen=True)
class EventTriggeredReset(Staleness):
    """ET-GP-UCB (Brunzema et al., 2022): drop all but the newest observation when it surprises the model.

    Their Lemma 1 and trigger: with μ and σ the noise-free posterior before (x, y), τ the observations since the last
    reset, and π_τ = π²τ²/6, reset if

        |y − μ(x)| > √ρ σ(x) + w̄,    ρ = 2 ln(2π_τ/δ),    w̄² = 2σ_n² ln(2π_τ/δ).

    The posterior before y needs no second model: leave-one-out from P gives the residual y − μ = α/P and the
    variance σ² + σ_n² = 1/P, with P the observation's entry on the diagonal.
    """

    delta: float = 0.1

    def __post_init__(self) -> None:
        delta = as_finite(self.delta)
        if delta is None or not 0.0 < delta < 1.0:
            raise ConfigurationError(
                f"delta={self.delta!r}: give the probability of a false alarm, a number between 0 and 1"
            )
        object.__setattr__(self, "delta", delta)

    def review(self, view: View) -> Verdict:
        """Test each observation that is new since the last review, in order, against the model of those before it.

        The first review tests nothing: an initial sample is not tested against itself.
        """
        seen = view.state.get("seen", view.told)
        kept = [row for row in range(len(view)) if view.index[row] < seen]
        since_reset = view.state.get("since_reset", 1.0)
        for row in range(len(kept), len(view)):
            if kept and self._surprising(view, kept, row, since_reset):
                kept, since_reset = [row], 1.0
            else:
                kept, since_reset = [*kept, row], since_reset + 1.0
        state: PolicyState = {"seen": float(view.told), "since_reset": since_reset}
        return Verdict(sorted(set(range(len(view))) - set(kept)), state=state)

    def _surprising(self, view: View, kept: list[int], row: int, since_reset: float) -> bool:
        others = sorted(set(range(len(view))) - {*kept, row})
        model = view.posterior.without(others)
        precision = float(model.P[-1, -1])
        residual, variance = float(model.alpha[-1]) / precision, 1.0 / precision
        deviation = sqrt(max(0.0, variance - model.noise))
        half_rho = log(2.0 * (pi**2 * since_reset**2 / 6.0) / self.delta)
        return abs(residual) > sqrt(2.0 * half_rho) * deviation + sqrt(2.0 * model.noise * half_rho)
