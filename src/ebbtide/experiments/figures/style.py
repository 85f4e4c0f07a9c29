"""One style for all figures: Okabe and Ito's colours, which colour-blind readers can tell apart, and a line style and
marker for each algorithm, which work in grey print too.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebbtide.files import write_atomically

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#F0E442", "#0072B2", "#D55E00", "#CC79A7"),
)
GREY = "#8C8C8C"
CYCLE = (ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE)  # for benchmarks

RC = {
    "font.size": 9,
    "font.family": "serif",
    "mathtext.fontset": "dejavuserif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Look:
    colour: str
    dashes: str | tuple[int, tuple[float, ...]]
    marker: str


LOOKS = {
    "tide": Look(SKY, "-", "*"),
    "w-dbo": Look(BLACK, "-", "o"),
    "w-dbo-exact": Look(BLUE, (0, (6, 1.5)), "D"),
    "gp-ucb": Look(VERMILION, "--", "s"),
    "r-gp-ucb": Look(GREEN, "-.", "^"),
    "tv-gp-ucb": Look(ORANGE, (0, (4, 1, 1, 1, 1, 1)), "v"),
    "et-gp-ucb": Look(PURPLE, ":", "P"),
    "abo": Look(SKY, (0, (1, 1)), "X"),
}
_SPARE = [
    Look(colour, dashes, marker)
    for dashes, marker in (("-", "*"), ("--", "h"), ("-.", "<"), (":", ">"))
    for colour in (GREY, GREEN, BLUE, VERMILION, PURPLE, ORANGE)
]


def look(label: str, others: list[str]) -> Look:
    """The look of an algorithm; a user's own takes the next spare one."""
    if label in LOOKS:
        return LOOKS[label]
    strangers = [name for name in dict.fromkeys(others) if name not in LOOKS]
    return _SPARE[strangers.index(label) % len(_SPARE)]


def panels(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure without a window, and its axes row by row."""
    with rc_context(RC):
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(grid.ravel())


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG and a PDF, with the suffixes added to the path; returns the PNG's path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(figure, path.with_name(f"{path.name}.pdf"), metadata={"CreationDate": None})
    figure.set_layout_engine("none")  # it has been laid out: once is enough for both
    return _write(figure, path.with_name(f"{path.name}.png"))


def _write(figure: Figure, path: Path, **options: Any) -> Path:
    drawn = io.BytesIO()
    with rc_context(RC):
        figure.savefig(drawn, format=path.suffix[1:], **options)
    write_atomically(path, drawn.getvalue())
    return path
