"""The algorithms side by side: over time (Figures 4 and 8-21), and all benchmarks at once (Figure 5)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebbtide.experiments import statistics
from ebbtide.experiments.figures import style
from ebbtide.gp.arrays import Array

MOMENTS = np.linspace(0.0, 1.0, 301)


def over_time(title: str, runs: Mapping[str, Sequence[pd.DataFrame]], unit: str | None = None) -> Figure:
    """Average regret and dataset size over time with their standard errors, and the final regret against the
    response time. `runs` are the frames of each algorithm, one per seed.
    """
    with rc_context(style.RC):
        figure, (regret, size, cost) = style.panels(1, 3, (9.6, 2.9))
        labels, highest = list(runs), 0.0
        for label, frames in runs.items():
            duration = frames[0].attrs["protocol"]["duration"]
            look = style.look(label, labels)
            regrets = [statistics.running_regret(frame, MOMENTS) for frame in frames]
            highest = max(highest, _band(regret, duration, regrets, label, look))
            _band(size, duration, [statistics.size(frame, MOMENTS) for frame in frames], label, look)
            _cross(cost, frames, label, look)
        loss = f"average regret ({unit})" if unit else "average regret"
        regret.set(xlabel="time (s)", ylabel=loss, title=title)
        size.set(xlabel="time (s)", ylabel="active observations", title="dataset size", ylim=(0, None))
        cost.set(xlabel="response time (s)", ylabel=loss, title="regret against response time")
        regret.set_ylim(0.0, 1.05 * highest)
        figure.legend(*regret.get_legend_handles_labels(), loc="outside lower center", ncols=len(labels))
    return figure


def _band(axes: Axes, duration: float, traces: list[Array], label: str, look: style.Look) -> float:
    """Draw a mean with its error; the highest point after the first queries, whose average varies widely."""
    curve = statistics.curve(duration * MOMENTS, traces)
    axes.plot(curve.moments, curve.mean, color=look.colour, linestyle=look.dashes, label=label)
    axes.fill_between(
        curve.moments, curve.mean - curve.error, curve.mean + curve.error, color=look.colour, alpha=0.18, linewidth=0
    )
    return float(np.nanmax((curve.mean + curve.error)[len(MOMENTS) // 12 :]))


def _cross(axes: Axes, frames: Sequence[pd.DataFrame], label: str, look: style.Look) -> None:
    response = np.array([frame["response_s"].mean() for frame in frames])
    regret = np.array([frame["regret"].mean() for frame in frames])
    root = np.sqrt(len(frames))
    ddof = min(1, len(frames) - 1)
    axes.errorbar(
        response.mean(),
        regret.mean(),
        xerr=response.std(ddof=ddof) / root,
        yerr=regret.std(ddof=ddof) / root,
        color=look.colour,
        marker=look.marker,
        linestyle="none",
        label=label,
    )


def summary(normalised: pd.DataFrame) -> Figure:
    """Normalised regret of every algorithm (columns) on every benchmark (rows), and the average in black."""
    with rc_context(style.RC):
        figure, (axes,) = style.panels(1, 1, (8.6, 3.6))
        places = np.arange(len(normalised.columns))
        for i, (problem, row) in enumerate(normalised.iterrows()):
            marker = "os^vDP"[(i + i // 6) % 6]
            axes.plot(
                places + 0.022 * (i - 0.5 * (len(normalised) - 1)),
                row.to_numpy(),
                color=style.CYCLE[i % 6],
                marker=marker,
                linewidth=0,
                markersize=5.5,
                alpha=0.9,
                markeredgecolor="white",
                markeredgewidth=0.4,
                label=str(problem),
            )
        average = normalised.mean().to_numpy()
        axes.plot(places, average, color=style.BLACK, marker="_", markersize=20, markeredgewidth=2.2, linewidth=0)
        for place, value in zip(places, average, strict=True):
            axes.annotate(f"{value:.2f}", (place + 0.24, value), ha="left", va="center", fontweight="bold", fontsize=9)
        axes.set_xticks(places, [str(name) for name in normalised.columns])
        axes.set(ylabel="normalised average regret", xlim=(-0.5, len(places) - 0.4))
        axes.grid(visible=False, axis="x")
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside right center", title="benchmark; average in black"
        )
    return figure


def sensitivity(comparison: statistics.Comparison, alone: str) -> Figure:
    """Regret against α: one benchmark by itself, and all of them normalised, their average in black (Figure 3)."""
    means, errors = comparison.means, comparison.errors
    places, names = np.arange(len(means.columns)), [str(name) for name in means.columns]
    relative = statistics.normalised(means)
    with rc_context(style.RC):
        figure, (left, right) = style.panels(1, 2, (8.2, 3.3), width_ratios=[1.0, 1.25])
        left.errorbar(
            places, means.loc[alone], yerr=errors.loc[alone], color=style.BLUE, marker="o", capsize=3, label=alone
        )
        left.set(xlabel="α (not to scale)", ylabel="average regret", title=alone)
        for i, (problem, row) in enumerate(relative.iterrows()):
            dashes = ("-", "--")[i // 6 % 2]
            right.plot(places, row, color=style.CYCLE[i % 6], linewidth=0.9, linestyle=dashes, label=str(problem))
        average, error = relative.mean(), relative.sem().fillna(0.0)
        right.fill_between(places, average - error, average + error, color=style.BLACK, alpha=0.15, linewidth=0)
        right.plot(places, average, color=style.BLACK, marker="o", linewidth=2.4, label="average ± s.e.")
        right.set(
            xlabel="α (not to scale)",
            ylabel="normalised average regret",
            title=f"{len(means)} benchmarks",
            ylim=(-0.1, 1.1),
        )
        for axes in (left, right):
            axes.set_xticks(places, names)
        figure.legend(*right.get_legend_handles_labels(), loc="outside right center")
    return figure
