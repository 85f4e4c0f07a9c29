"""One run: its values, its queries, the size of its dataset and its response times."""

import re

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebbtide.experiments.figures import style


def one_run(frame: pd.DataFrame) -> Figure:
    """For a frame from `store.read`."""
    about, seconds = frame.attrs, frame["t"] * frame.attrs["protocol"]["duration"]
    coordinates = [name for name in frame.columns if re.fullmatch(r"x\d+", name)]
    with rc_context(style.RC):
        height = 2.0 + 1.15 * (len(coordinates) + 3)
        figure, axes = style.panels(len(coordinates) + 3, 1, (7.2, height), sharex=True)
        value, size, response = axes[0], axes[-2], axes[-1]
        value.plot(seconds, frame["f"] + frame["regret"], color=style.VERMILION, label="the best possible")
        value.plot(seconds, frame["f"], color=style.BLACK, linewidth=0.7, label="the query's value")
        value.plot(seconds, frame["y"], ".", color=style.GREY, markersize=2, label="as measured")
        value.set(ylabel="value")
        value.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        kept = frame["forgotten_t"].isna()
        for panel, name in zip(axes[1:-2], coordinates, strict=True):
            _where(panel, seconds, frame[name], kept)
            panel.set(ylabel=name)
        axes[1].legend(loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=2)
        size.step(seconds, frame["n"], color=style.BLUE, where="post")
        size.set(ylabel="active", ylim=(0, None))
        response.plot(seconds, frame["response_s"], color=style.GREEN, linewidth=0.8)
        response.set(ylabel="response (s)", xlabel="time (s)", ylim=(0, None))
        outcome = about["summary"]
        algorithm = about["algorithm"] if len(about["algorithm"]) < 40 else "a custom algorithm"
        figure.suptitle(
            f"{algorithm} on {about['problem']}, seed {about['seed']}: average regret "
            f"{outcome['average_regret']:.4g}, {outcome['queries']} queries",
            fontsize=10,
        )
        figure.align_ylabels()
    return figure


def _where(axes: Axes, seconds: "pd.Series[float]", values: "pd.Series[float]", kept: "pd.Series[bool]") -> None:
    axes.plot(seconds[~kept], values[~kept], "x", color=style.GREY, markersize=3, label="forgotten since")
    axes.plot(seconds[kept], values[kept], "o", color=style.VERMILION, markersize=2.5, label="remembered at the end")
