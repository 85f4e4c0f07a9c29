"""Figures 6 and 7: how far the bound is from the exact criterion, in space alone, as a ratio, and in order."""

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from ebbtide import algorithms, benchmarks
from ebbtide.experiments.approximation import CriterionError, criterion_error, spatial_error
from ebbtide.experiments.figures import criterion
from ebbtide.experiments.reproduction.studio import Section, Studio
from ebbtide.experiments.simulation import Simulation
from ebbtide.experiments.tables import Cell, Table
from ebbtide.gp.criterion import relevance

NODES = {1: 1024, 3: 8192, 5: 32768}  # of the quadrature in space
OBSERVATIONS = 30
Errors = dict[int, CriterionError]
TRACKED = ("eggholder", "hartmann3", "shekel", "temperature")


def make(studio: Studio) -> Section:
    lengthscales = np.geomspace(0.15, 3.0, 4 if studio.quick else 11)
    datasets, thinner = (2, 16) if studio.quick else (8, 1)
    spatial = {d: spatial_error(np.random.default_rng(d).random((2, d)), np.geomspace(0.05, 3.0, 240)) for d in NODES}
    errors = {
        d: criterion_error(d, lengthscales, datasets, OBSERVATIONS, nodes // thinner) for d, nodes in NODES.items()
    }
    agreement = _on_real_data(studio)
    rows = [
        [
            Cell(f"{d}"),
            Cell(f"{error.critical:.3f}"),
            Cell(f"{error.lengthscales[error.absolute.argmax()]:.3f}"),
            Cell(f"{error.absolute.max():.2f}"),
            Cell(f"{error.relative.max():.2f}"),
        ]
        for d, error in spatial.items()
    ]
    header = [
        "d",
        "critical l_S (Prop. C.1)",
        "where the error peaks",
        "largest absolute error",
        "largest relative error",
    ]
    table = studio.save_table(Table("The spatial bound for a pair of points.", header, rows), "approximation")
    studio.save_data(_long(errors), "approximation-criterion")
    studio.save_data(agreement, "approximation-ranks", index=True)
    pictures = [
        (
            studio.save_figure(criterion.spatial_errors(spatial), "approximation-space"),
            "Error of the bound of the integral in space, for a pair of points and a squared-exponential kernel "
            "(Figure 6).",
        ),
        (
            studio.save_figure(criterion.criterion_errors(errors), "approximation-criterion"),
            f"Error of the bound R̂ (Figure 7) with its two causes apart, and agreement on the order: {datasets} "
            f"datasets of {OBSERVATIONS} observations drawn from the process. Largest error of the quadrature itself: "
            f"{max(error.quadrature for error in errors.values()):.1%}.",
        ),
        (
            studio.save_figure(criterion.rank_agreement(agreement), "approximation-ranks"),
            "Rank correlation of bound and truth on what W-DBO itself has in memory.",
        ),
    ]
    return Section("The bound and the truth", _statements(errors, agreement), [table], pictures)


def _on_real_data(studio: Studio) -> pd.DataFrame:
    """Spearman's correlation of R̂ and R over W-DBO's active observations, at twelve moments of a run."""
    moments = np.linspace(0.08, 0.96, 12) * studio.protocol.duration
    return pd.DataFrame({name: _correlations(name, studio, moments) for name in TRACKED}, index=moments)


def _correlations(name: str, studio: Studio, moments: np.ndarray) -> list[float]:
    problem = benchmarks.get(name)
    simulation = Simulation(problem, algorithms.get("w-dbo"), 0, studio.protocol)
    optimizer = simulation.optimizer
    found: list[float] = []

    def look(elapsed: float) -> None:
        if len(found) < len(moments) and elapsed >= moments[len(found)]:
            model, data = optimizer.model, optimizer.dataset
            bound, exact = (
                relevance(
                    data.x,
                    data.t,
                    (data.y - model.mean) / model.scale,
                    kernel=model.kernel,
                    noise=model.noise,
                    now=elapsed,
                    method=method,
                )
                for method in ("bound", "exact")
            )
            found.append(float(spearmanr(bound, exact).statistic))

    simulation.observe_initially()
    simulation.pursue(look)
    return found + [float("nan")] * (len(moments) - len(found))


def _long(errors: Errors) -> pd.DataFrame:
    columns = ("lengthscales", "bound", "capped", "space", "deviation", "rank", "rank_box", "first", "indefinite")
    parts = [pd.DataFrame({"d": d} | {name: getattr(error, name) for name in columns}) for d, error in errors.items()]
    return pd.concat(parts)


def _statements(errors: Errors, agreement: pd.DataFrame) -> list[str]:
    short, long = (", ".join(_both(error, at) for error in errors.values()) for at in (0, -1))
    dimensions = ", ".join(map(str, errors))
    ranks = np.concatenate([error.rank for error in errors.values()])
    first = np.concatenate([error.first for error in errors.values()])
    real = ", ".join(f"{name} {agreement[name].median():.2f}" for name in agreement.columns)
    shortest, longest = (next(iter(errors.values())).lengthscales[at] for at in (0, -1))
    indefinite = np.concatenate([error.indefinite for error in errors.values()])
    return [
        f"Median relative error from the whole space and from the variance bound, for d = {dimensions}: at l_S = "
        f"{shortest:.2g} {short}; at l_S = {longest:.2g} {long}.",
        f"With its entries capped at 1, as in Appendix C, C_S is not positive semi-definite for "
        f"{indefinite.mean():.0%} of the datasets ({indefinite.max():.0%} at the worst l_S).",
        f"On draws from the process the rank correlation of bound and truth is {ranks.min():.2f} to {ranks.max():.2f}, "
        f"and both would remove the same observation first in {first.mean():.0%} of the datasets.",
        f"On what W-DBO itself has in memory (seed 0, median over the run) the rank correlation is: {real}.",
    ]


def _both(error: CriterionError, at: int) -> str:
    return f"{error.space[at]:.0%} and {error.deviation[at]:.0%}"
