"""The criterion in pictures: distances (Figures 1-2) and the errors of its bound (Figures 6-7)."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from ebbtide.experiments.approximation import CriterionError, SpatialError
from ebbtide.experiments.distances import GRID, Pair
from ebbtide.experiments.figures import style

LENGTHSCALE = "spatial lengthscale $l_S$"


def same_distance(pairs: Sequence[Pair]) -> Figure:
    """Figure 1: the same distance with different effects."""
    with rc_context(style.RC):
        figure, axes = style.panels(1, len(pairs), (7.2, 2.7), sharey=True)
        for panel, pair in zip(axes, pairs, strict=True):
            _posteriors(panel, pair)
            panel.set(title=f"$l$ = {pair.lengthscale:g}:  $W_2$ = {pair.distance:.2f},  $R$ = {pair.ratio:.2f}")
        axes[0].set(ylabel="posterior mean")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def normalised_distances(pairs: Sequence[Pair]) -> Figure:
    """Figure 2: small ratios above, large ones below; short lengthscales left, long ones right."""
    with rc_context(style.RC):
        figure, axes = style.panels(2, 2, (7.2, 4.6), sharex=True)
        for panel, pair in zip(axes, pairs, strict=True):
            panel.fill_between(GRID, 0.0, pair.mean, color=style.GREY, alpha=0.25, linewidth=0, label="to the prior")
            panel.axhline(0.0, color=style.BLACK, linestyle="--", linewidth=0.9, label="prior mean")
            _posteriors(panel, pair)
            panel.set(title=f"$l$ = {pair.lengthscale:g}:  $R$ = {pair.ratio:.2f},  $W_2$ = {pair.distance:.2f}")
        for panel in axes[::2]:
            panel.set(ylabel="posterior mean")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def _posteriors(axes: Axes, pair: Pair) -> None:
    axes.fill_between(
        GRID, pair.mean, pair.mean_without, color=style.GREEN, alpha=0.35, linewidth=0, label="between the two"
    )
    axes.plot(GRID, pair.mean, color=style.BLUE, label="with all")
    axes.plot(GRID, pair.mean_without, color=style.ORANGE, linestyle="--", label="without one")
    x, y = pair.observed
    axes.plot(x[:-1], y[:-1], "o", color=style.BLACK, markersize=3)
    axes.plot(x[-1], y[-1], "X", color=style.VERMILION, markersize=7, label="the one left out")
    axes.set(xlabel="time, or any other axis")


def spatial_errors(errors: Mapping[int, SpatialError]) -> Figure:
    """Figure 6: absolute and relative error of the bound of the integral in space, dimension by dimension."""
    with rc_context(style.RC):
        figure, axes = style.panels(2, len(errors), (8.6, 4.6), sharex=True)
        above, below = axes[: len(errors)], axes[len(errors) :]
        for top, bottom, (d, error) in zip(above, below, errors.items(), strict=True):
            at = error.lengthscales
            for panel, scale in ((top, 1.0), (bottom, error.box)):
                panel.plot(at, error.outside / scale, "--", color=style.ORANGE, label="outside of the box")
                panel.plot(at, error.capped / scale, "-.", color=style.GREEN, label="capped at 1")
                panel.plot(at, error.absolute / scale, color=style.BLUE, label="the smaller of the two")
                panel.axvline(error.critical, color=style.VERMILION, linestyle=":", label="critical $l_S$ (Prop. C.1)")
                _logarithmic(panel)
            top.set(title=f"$d$ = {d}", ylim=(0.0, 1.05))
            highest = 1.15 * float(error.relative.max())
            bottom.set(xlabel=LENGTHSCALE, ylim=(0.0, highest))
        above[0].set(ylabel="absolute error")
        below[0].set(ylabel="relative error")
        figure.legend(*above[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def criterion_errors(errors: Mapping[int, CriterionError]) -> Figure:
    """Figure 7 with the two errors separated, and below how well the bound keeps the exact order."""
    with rc_context(style.RC):
        figure, axes = style.panels(2, len(errors), (8.6, 4.8), sharex=True, sharey="row")
        above, below = axes[: len(errors)], axes[len(errors) :]
        for top, bottom, (d, error) in zip(above, below, errors.items(), strict=True):
            at = error.lengthscales
            top.plot(at, error.bound, color=style.BLACK, marker="o", label="the bound $\\hat R$ (both errors)")
            top.plot(at, error.space, "--", color=style.ORANGE, marker="s", label="whole space alone")
            top.plot(at, error.deviation, ":", color=style.BLUE, marker="^", label="variance bound alone")
            top.plot(at, error.capped, "-.", color=style.GREEN, marker="v", label="$\\hat R$ with entries capped at 1")
            top.set(title=f"$d$ = {d}", yscale="log")
            _logarithmic(top)
            bottom.plot(at, error.rank, color=style.BLACK, marker="o", label="rank correlation of $\\hat R$ and $R$")
            bottom.plot(
                at,
                error.rank_box,
                ":",
                color=style.BLUE,
                marker="^",
                label="rank correlation of the box's bound and $R$",
            )
            bottom.plot(at, error.first, "-.", color=style.PURPLE, marker="D", label="the same removed first (share)")
            bottom.set(xlabel=LENGTHSCALE, ylim=(-0.05, 1.05))
        above[0].set(ylabel="relative error (median)")
        below[0].set(ylabel="agreement")
        handles = [axis.get_legend_handles_labels() for axis in (above[0], below[0])]
        figure.legend(handles[0][0] + handles[1][0], handles[0][1] + handles[1][1], loc="outside lower center", ncols=3)
    return figure


def _logarithmic(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.5, 1.0, 2.0]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def rank_agreement(table: pd.DataFrame) -> Figure:
    """Spearman's correlation of bound and truth on the datasets of real runs, over time; one column per benchmark."""
    with rc_context(style.RC):
        figure, (axes,) = style.panels(1, 1, (5.6, 3.0))
        looks = [
            ("-", "o", style.BLACK),
            ("--", "s", style.VERMILION),
            ("-.", "^", style.GREEN),
            (":", "D", style.BLUE),
        ]
        for i, name in enumerate(table.columns):
            dashes, marker, colour = looks[i % len(looks)]
            axes.plot(table.index, table[name], linestyle=dashes, marker=marker, color=colour, label=str(name))
        axes.axhline(0.0, color=style.GREY, linewidth=0.8)
        axes.set(xlabel="time (s)", ylabel="rank correlation of $\\hat R$ and $R$", ylim=(-1.05, 1.05))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")
    return figure
