"""Draws the figures of the documentation, each from a run of the library or from its code.

    python docs/draw.py             all of them, into docs/drawn: the copies that GitHub shows
    python docs/draw.py kernels     only this one

The build of the site draws them anew, into the site.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))
sys.path.insert(0, str(HERE))
import architecture
import demo

import ebbtide as eb
from ebbtide.gp.posterior import condition

DRAWN = HERE / "drawn"
BLUE, ORANGE, GREY = "#2a6f97", "#d1495b", "#8d99ae"
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.5,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.bbox": "tight",
    "savefig.dpi": 160,
}


def one_less() -> Figure:
    """The posterior at one place with and without an observation: an old one, and a recent one."""
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, lengthscale=0.3), eb.Matern(1.5, lengthscale=4.0))
    t = np.array([0.3, 1.4, 2.2, 3.1, 5.2, 6.3, 8.0, 9.4])
    y = np.array([0.9, 0.5, 0.6, 0.1, -0.7, -0.2, 0.8, 1.3])
    X, noise, now = np.full((8, 1), 0.5), 0.02, 10.0
    scores = eb.relevance(X, t, y, kernel=kernel, noise=noise, now=now, method="exact")
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 2.9), sharey=True, layout="constrained")
    moments = np.linspace(0.0, 16.0, 321)
    for axes, gone in zip(panels, (2, 7), strict=True):
        kept = np.delete(np.arange(8), gone)
        believed = [_over_time(condition(kernel, noise, X[r], t[r], y[r]), moments) for r in (np.arange(8), kept)]
        for (mean, std), color, label in zip(believed, (BLUE, ORANGE), ("with it", "without it"), strict=True):
            axes.plot(moments, mean, color=color, label=label)
            axes.plot(moments, np.array([mean - std, mean + std]).T, color=color, lw=0.7, ls=":")
        ahead = moments >= now
        axes.fill_between(moments[ahead], believed[0][0][ahead], believed[1][0][ahead], color=ORANGE, alpha=0.25, lw=0)
        axes.plot(t[kept], y[kept], "o", color="black", ms=4)
        axes.plot(t[gone], y[gone], "X", color=ORANGE, ms=9)
        axes.axvline(now, color="black", lw=0.8)
        axes.set(title=f"relevance {scores[gone]:.1g}", xlabel="time")
    panels[0].set_ylabel("objective at one place")
    panels[0].text(now + 0.2, 1.65, "the future", va="top")
    panels[0].legend(loc="lower left", fontsize=8)
    return figure


def _over_time(posterior, moments):
    columns = [posterior.at(moment).predict(np.array([[0.5]])) for moment in moments]
    mean, std = np.array(columns)[:, :, 0].T
    return mean, std


def relevance() -> Figure:
    """What W-DBO has in memory after two minutes, and how much each observation still matters."""
    optimizer, _ = demo.optimize("w-dbo", 0)
    dataset, scores = optimizer.dataset, optimizer.relevance()
    gone = [observation for observation in optimizer.history if observation.removed_at is not None]
    figure, axes = plt.subplots(figsize=(8.6, 3.4), layout="constrained")
    times = np.linspace(0.0, demo.DURATION, 400)
    axes.plot(times, [demo.optimum(t)[0] for t in times], ".", ms=2, color=GREY, label="the best, in truth")
    axes.plot(
        [o.time for o in gone], [o.params["x"] for o in gone], "x", color="black", ms=4, lw=0.5, label="forgotten"
    )
    shown = axes.scatter(
        dataset.t, dataset.x[:, 0], c=scores, s=30, cmap="viridis", norm="log", label="remembered", zorder=3
    )
    figure.colorbar(shown, label="relevance")
    axes.set(xlabel="time (s)", ylabel="x", xlim=(0, demo.DURATION), ylim=(-0.03, 1.03))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3, fontsize=8)
    return figure


def alpha() -> Figure:
    """How many observations are remembered, for several α, and what is lost."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 2.9), layout="constrained")
    levels = (0.0, 0.05, 0.25, 1.0)
    colors = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(levels)))
    for position, (level, color) in enumerate(zip(levels, colors, strict=True)):
        runs = [_run(eb.Algorithm(staleness=eb.WassersteinBudget(alpha=level)), seed) for seed in range(4)]
        left.plot(*runs[0][0].T, color=color, label=f"α = {level:g}")
        lost = [regret for _, regret in runs]
        error = np.std(lost, ddof=1) / len(lost) ** 0.5
        right.errorbar(position, np.mean(lost), error, fmt="o", color=color, capsize=3)
    left.set(xlabel="time (s)", ylabel="observations remembered")
    left.legend(fontsize=8)
    right.set(xlabel="α", ylabel="average regret", ylim=(0.0, None))
    right.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    return figure


def _run(algorithm: eb.Algorithm, seed: int) -> tuple[np.ndarray, float]:
    """Times and sizes of the dataset, and the average regret."""
    sizes: list[tuple[float, int]] = []
    _, regrets = demo.optimize(algorithm, seed, lambda opt, trial, *_: sizes.append((trial.time, len(opt.dataset))))
    return np.array(sizes), float(np.mean(regrets))


def kernels() -> Figure:
    """What is left of a correlation after some time, for the kernels in time."""
    figure, axes = plt.subplots(figsize=(5.6, 3.0), layout="constrained")
    lags = np.linspace(0.0, 4.0, 200)
    families = {
        "Matern(0.5)": eb.Matern(0.5, lengthscale=1.0),
        "Matern(1.5)": eb.Matern(1.5, lengthscale=1.0),
        "Matern(2.5)": eb.Matern(2.5, lengthscale=1.0),
        "SquaredExponential()": eb.SquaredExponential(lengthscale=1.0),
    }
    origin = np.zeros((1, 1))
    for (name, family), style in zip(families.items(), ("-", "-", "--", ":"), strict=True):
        kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, lengthscale=1.0), family)
        left = kernel(origin, np.zeros(1), np.zeros((200, 1)), lags)[0]
        axes.plot(lags, left, style, label=name, color=ORANGE if name == "Matern(1.5)" else None)
    axes.set(xlabel="time passed, in l_T", ylabel="correlation", ylim=(0, 1.02), xlim=(0, 4))
    axes.legend(fontsize=8)
    return figure


def bound() -> Figure:
    """The bound of Theorem 4.1 beside the criterion itself, for what W-DBO has in memory."""
    optimizer, _ = demo.optimize("w-dbo", 0)
    data, model = optimizer.dataset, optimizer.model
    z = (data.y - model.mean) / model.scale
    loose, true = (
        eb.relevance(data.x, data.t, z, kernel=model.kernel, noise=model.noise, now=demo.DURATION, method=method)
        for method in ("bound", "exact")
    )
    figure, axes = plt.subplots(figsize=(4.2, 3.2), layout="constrained")
    axes.loglog(true, loose, "o", ms=4, color=BLUE)
    ends = [min(true.min(), loose.min()), max(true.max(), loose.max())]
    axes.loglog(ends, ends, color=GREY, lw=0.8)
    axes.set(xlabel="relevance, exact", ylabel="relevance, bound")
    return figure


def how_often() -> Figure:
    """Regret with few queries per l_T, relative to the best static setting, by `make perf-sparse`."""
    with (HERE / "data" / "sparse.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    shown = {
        "hold the start": ("hold the start", {"color": GREY, "ls": "--"}),
        "sliding-window + start": ("sliding-window", {"color": GREY}),
        "w-dbo + start": ("w-dbo", {"color": BLUE}),
        "tide + start": ("tide", {"color": ORANGE, "lw": 2.0}),
        "limit + start": ("true hyperparameters, best β", {"color": "black", "ls": ":"}),
    }
    dims = sorted({int(line["dim"]) for line in lines})
    figure, panels = plt.subplots(1, len(dims), figsize=(8.6, 3.2), sharey=True, layout="constrained", squeeze=False)
    for axes, dim in zip(panels[0], dims, strict=True):
        for contender, (label, style) in shown.items():
            mine = [line for line in lines if int(line["dim"]) == dim and line["contender"] == contender]
            queries = [int(line["queries"]) for line in mine]
            ratio, low, high = ([float(line[column]) for line in mine] for column in ("ratio", "low", "high"))
            axes.plot(queries, ratio, marker="o", ms=3, label=label, **style)
            if contender == "tide + start":
                axes.fill_between(queries, low, high, color=style["color"], alpha=0.15, lw=0)
        axes.axhline(1.0, color="black", lw=0.6)
        axes.set(xscale="log", yscale="log", xlabel="queries per l_T", title=f"{dim} parameter{'s' if dim > 1 else ''}")
        axes.set_xticks(queries, [str(q) for q in queries])
        axes.set_yticks([0.3, 0.5, 0.7, 1.0, 1.5, 2.0], ["0.3", "0.5", "0.7", "1", "1.5", "2"])
        axes.minorticks_off()
    panels[0][0].set_ylabel("regret / best static setting's")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8)
    return figure


def film(path: Path, frames: int = 80) -> None:
    """The demo as an animation: what the model believes, what it remembers, what it has forgotten."""
    times, xs = np.linspace(0.0, demo.DURATION, 81), np.linspace(0.0, 1.0, 41)
    best = np.array([(t, demo.optimum(t)[0]) for t in np.linspace(0.0, demo.DURATION, 400)])
    looks: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    def look(optimizer, trial, *_) -> None:
        if trial.time < demo.DURATION * len(looks) / frames or optimizer.told < 4:
            return
        believed = [optimizer.predict([{"x": x} for x in xs], time=t)[0] for t in times]
        gone = [(o.time, o.params["x"]) for o in optimizer.history if o.removed_at is not None]
        data = optimizer.dataset
        looks.append(
            (trial.time, np.array(believed).T, np.column_stack([data.t, data.x[:, 0]]), np.array(gone).reshape(-1, 2))
        )

    demo.optimize("w-dbo", 0, look)
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained", dpi=100)
    writer = PillowWriter(fps=8)
    with writer.saving(figure, str(path), dpi=100):
        for moment, believed, active, gone in [*looks, *[looks[-1]] * 12]:
            axes.clear()
            _frame(axes, moment, (times, xs, believed), active, gone, best)
            writer.grab_frame()
    plt.close(figure)


def _frame(axes: Axes, now: float, belief, active, gone, best) -> None:
    axes.contourf(*belief, levels=np.linspace(-0.4, 1.5, 12), cmap="Blues", extend="both", alpha=0.85)
    axes.plot(*best.T, ".", ms=1.5, color="black", label="the best, in truth")
    axes.plot(*gone.T, "x", color=GREY, ms=4, label="forgotten")
    axes.plot(*active.T, "o", color=ORANGE, ms=4, label="remembered")
    axes.axvline(now, color="black", lw=1)
    axes.set(xlim=(0, demo.DURATION), ylim=(0, 1), xlabel="time (s)", ylabel="x")
    axes.set_title(f"{now:3.0f} s: {len(active)} remembered, {len(gone)} forgotten", loc="left", fontsize=9.5)
    axes.legend(loc="lower left", ncols=3, fontsize=7.5, frameon=True, framealpha=0.8)


FIGURES: dict[str, Callable[[], Figure]] = {
    "one-less": one_less,
    "relevance": relevance,
    "alpha": alpha,
    "kernels": kernels,
    "bound": bound,
    "how-often": how_often,
    "architecture": architecture.architecture,
}
DESCRIPTIONS: dict[str, Callable[[], str]] = {"architecture": architecture.description}  # kept in the PNG file


def draw(folder: Path = DRAWN, names: Sequence[str] = ()) -> None:
    """Draw the named figures, or all of them, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name in names or FIGURES:
            if name != "tide":
                drawn = FIGURES[name]()
                metadata = {"Description": DESCRIPTIONS[name]()} if name in DESCRIPTIONS else None
                drawn.savefig(folder / f"{name}.png", metadata=metadata)
                plt.close(drawn)
    if not names or "tide" in names:
        film(folder / "tide.gif")


if __name__ == "__main__":
    draw(names=sys.argv[1:])
