"""The figure of a run of `perf/live.py`: what each contender got, and where ebbtide set the knobs."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from live_judging import best_static
from live_run import Measurement
from systems import System

from ebbtide.space import Space

COLOURS = {
    "ebbtide": "#0b6e8a",
    "ebbtide, told of the day": "#7a3e9d",
    "ebbtide, told of the load": "#2e8b57",
    "ebbtide, told of the load and the limit": "#c9a227",
    "TPE": "#c2571a",
    "default": "#777777",
}
SMOOTHED = 9  # measurements


def smooth(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A running mean; at the ends over what there is."""
    ones = np.ones(min(SMOOTHED, len(values)))
    counted = np.convolve(np.ones(len(values)), ones, mode="same")
    return np.asarray(np.convolve(values, ones, mode="same") / counted)


def draw(path: Path, system: System, space: Space, measured: Sequence[Measurement], day: float, grid: str) -> None:
    knobs: dict[str, bool] = {name: getattr(p, "log", False) for name, p in space.parameters.items()}
    figure, axes = plt.subplots(1 + len(knobs), 1, sharex=True, figsize=(8.0, 3.6 + 1.6 * len(knobs)))
    shown = [name for name in COLOURS if any(one.contender == name for one in measured)]
    for name in shown:
        colour = COLOURS[name]
        mine = [one for one in measured if one.contender == name]
        minutes = [one.began / 60.0 for one in mine]
        axes[0].plot(minutes, smooth([one.value or 0.0 for one in mine]), color=colour, label=name)
        for axis, knob in zip(axes[1:], knobs, strict=True):
            if name != "TPE":
                axis.plot(minutes, [one.settings[knob] for one in mine], ".", markersize=4, color=colour)
    static = [one for one in measured if one.contender == grid]
    chosen = best_static(static, day)
    points = [one for one in static if one.settings == chosen]
    text = ", ".join(f"{name} {value:g}" for name, value in chosen.items())
    axes[0].plot([p.began / 60.0 for p in points], [p.value or 0.0 for p in points], "k+", label=f"best static: {text}")
    axes[0].set_ylabel(system.unit, fontsize="small")
    axes[0].set_ylim(bottom=0.0)
    axes[0].legend(frameon=False, ncols=2, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0))  # above
    for axis, (knob, log) in zip(axes[1:], knobs.items(), strict=True):
        axis.set_ylabel(knob)
        axis.set_yscale("log" if log else "linear")
    for axis in axes:
        for noon in np.arange(0.5 * day, measured[-1].ended, day):
            axis.axvline(noon / 60.0, color="#dddddd", zorder=0)
    axes[-1].set_xlabel("minutes; the lines are noon")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
