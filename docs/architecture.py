"""The picture of the architecture, drawn from the code: import-linter's layers, and the imports that grimp finds.

Above: the rooms (the modules and packages of ebbtide) in their layers, and what imports what. An import that follows
from others (a → b → c makes a → c) is left out, and so are those of the bottom layer, which everything may use.
Below: the way of one ask and of one tell through the rooms, time from left to right.
"""

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parents[1]
BLUE, ORANGE, GREY, INK = "#2a6f97", "#d1495b", "#8d99ae", "#22303c"
BANDS = ("#eef2f6", "#f8fafb")
NOT_ROOMS = {"__main__"}

MIDDLE = 2  # the column of the rooms that an ask passes through
COLUMNS = {
    **{"testing": 1, "cli": MIDDLE},
    **{"experiments": 1, "service": MIDDLE, "client": 3, "integrations": 4, "tuning": 5},
    **{"dashboard": MIDDLE, "wire": MIDDLE},
    **{"benchmarks": 0, "optimizer": MIDDLE},
    **{"study": MIDDLE, "algorithms": MIDDLE, "parts": MIDDLE},
    **{"space": MIDDLE, "records": 3, "clock": 4},
    **{"gp": MIDDLE},
    **{"errors": 0, "checks": 1, "files": 2, "guards": 3, "version": 4},
}
WIDTH, HEIGHT = 0.42, 0.27  # half of a box


@dataclass(frozen=True)
class Step:
    """One stop of the way: the room, what happens there, and the room that calls it (by an import, or not)."""

    room: str
    text: str
    caller: str | None = None


ASK = [
    Step("client", "sends the request, as JSON"),
    Step("service", "plans the ask in its one writing thread"),
    Step("optimizer", "catches up with the log, reads the clock", "service"),
    Step("study", "the engine works out a step, in a worker process:", "optimizer"),
    Step("gp", "fits the hyperparameters", "study"),
    Step("parts", "forgets what is stale, then maximizes the acquisition", "study"),
    Step("space", "turns the best point into parameters", "optimizer"),
    Step("study", "the log records the ask, then the engine applies it", "optimizer"),
    Step("client", "gets the trial"),
]
TELL = [
    Step("client", "sends the value"),
    Step("service", "commits it with others that wait"),
    Step("optimizer", "checks value and time", "service"),
    Step("space", "checks the parameters, if there is no trial", "optimizer"),
    Step("study", "the log records it on the disk, then it is active", "optimizer"),
    Step("client", "gets the confirmation"),
]


@cache
def layers() -> list[list[str]]:
    """From the top to the bottom, as the contract in pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [[name.strip().removeprefix("ebbtide.") for name in layer.split("|")] for layer in contract["layers"]]


@cache
def imports() -> dict[str, set[str]]:
    """Which room imports which, by the code."""
    graph = grimp.build_graph("ebbtide", cache_dir=None)
    rooms: dict[str, set[str]] = {
        child.split(".")[1]: set() for child in graph.find_children("ebbtide") if child.split(".")[1] not in NOT_ROOMS
    }
    for module in graph.modules - {"ebbtide"}:
        room = module.split(".")[1]
        if room in rooms:
            others = {found.split(".")[1] for found in graph.find_modules_directly_imported_by(module) if "." in found}
            rooms[room] |= others - {room}
    return rooms


def arrows() -> list[tuple[str, str]]:
    """The imports that do not follow from others, and do not end at the bottom."""
    known = imports()

    def reached(room: str) -> set[str]:
        return known[room].union(*(reached(other) for other in known[room]))

    return sorted(
        (room, other)
        for room, others in known.items()
        for other in others - set(layers()[-1])
        if not any(other in reached(between) for between in others - {other})
    )


def description() -> str:
    """What the picture shows, kept in the picture, so that a test can tell an old one."""
    ways = {name: [[step.room, step.text] for step in way] for name, way in (("ask", ASK), ("tell", TELL))}
    return json.dumps({"layers": layers(), "arrows": arrows(), **ways}, sort_keys=True)


def architecture() -> Figure:
    figure: Figure
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8.6, 11.4), height_ratios=(11.4, 8.2), layout="constrained", gridspec_kw={"hspace": 0.04}
    )
    draw_rooms(above)
    draw_ways(below)
    return figure


# --- above: rooms and imports -------------------------------------------------------------------------------------


def draw_rooms(axes: Axes) -> None:
    for i in range(len(layers())):
        axes.axhspan(i - 0.5, i + 0.5, color=BANDS[i % 2], lw=0)
    for start, end in arrows():
        _arrow(axes, start, end)
    passed = {step.room for step in (*ASK, *TELL)}
    for room in COLUMNS:
        _box(axes, *_place(room), room, BLUE if room in passed else INK)
    axes.text(5.5, 0.0, "everything\nmay use these", ha="right", va="center", color=GREY, fontsize=8, style="italic")
    axes.set(xlim=(-0.6, 5.6), ylim=(-0.55, len(layers()) - 0.4))
    axes.set_title(
        "What imports what: only downwards (blue: an ask or a tell passes through)", loc="left", fontsize=11, color=INK
    )
    axes.axis("off")


def _box(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    shape = FancyBboxPatch(
        (x - WIDTH, y - HEIGHT), 2 * WIDTH, 2 * HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", fc="white", ec=color
    )
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", color=color, fontsize=9)


def _arrow(axes: Axes, start: str, end: str) -> None:
    """Straight within a column or to the next layer; otherwise round corners, so that no box is crossed."""
    (x, y), (to_x, to_y) = _place(start), _place(end)
    side = WIDTH if to_x > x else -WIDTH
    between = [room for room in COLUMNS if _place(room)[1] == to_y and min(x, to_x) < COLUMNS[room] < max(x, to_x)]
    if x == to_x:
        points = [(x, y - HEIGHT), (x, to_y + HEIGHT)]
    elif y - to_y == 1:
        points = [(x + 0.6 * side, y - HEIGHT), (to_x, to_y + HEIGHT)]
    elif x == MIDDLE:  # first aside, then down
        points = [(x + side, y - 0.1), (to_x, y - 0.1), (to_x, to_y + HEIGHT)]
    elif between:  # above them
        points = [(x, y - HEIGHT), (x, to_y + 0.5), (to_x - 0.3 * side, to_y + 0.5), (to_x - 0.3 * side, to_y + HEIGHT)]
    else:  # first down, then aside
        points = [(x, y - HEIGHT), (x, to_y + 0.08), (to_x - side, to_y + 0.08)]
    xs, ys = zip(*points, strict=True)
    axes.plot(xs[:-1], ys[:-1], color=GREY, lw=1.0, solid_joinstyle="round")
    style = {"arrowstyle": "-|>", "color": GREY, "lw": 1.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=style)


def _place(room: str) -> tuple[float, float]:
    """Column, and row from the bottom."""
    (row,) = (row for row, layer in enumerate(reversed(layers())) if room in layer)
    return COLUMNS[room], row


# --- below: the ways ----------------------------------------------------------------------------------------------


def draw_ways(axes: Axes) -> None:
    order = [room for layer in layers() for room in layer]
    rooms = sorted({step.room for step in (*ASK, *TELL)}, key=order.index)
    rooms.sort(key=lambda room: room != "client")  # outside of the service
    rows: dict[str, float] = {room: len(rooms) - i for i, room in enumerate(rooms)}
    ends = len(ASK) + len(TELL) + 2.0
    for room, row in rows.items():
        axes.plot((0.2, ends), (row, row), color=BANDS[0], lw=9, solid_capstyle="butt", zorder=0)
        axes.text(0.0, row, room, ha="right", va="center", color=BLUE, fontsize=9)
    for name, way, first, color in (("ask", ASK, 1.0, BLUE), ("tell", TELL, len(ASK) + 2.0, ORANGE)):
        xs = [first + i for i in range(len(way))]
        ys = [rows[step.room] for step in way]
        axes.plot(xs, ys, color=color, lw=1.8, zorder=1)
        axes.scatter(xs, ys, s=150, color=color, zorder=2)
        for number, (x, y) in enumerate(zip(xs, ys, strict=True), 1):
            axes.text(x, y, str(number), ha="center", va="center_baseline", color="white", fontsize=8, zorder=3)
        axes.text(first, len(rooms) + 0.75, f"one {name}", color=color, fontsize=10, ha="center")
    for way, x, color in ((ASK, -1.6, BLUE), (TELL, 9.4, ORANGE)):
        for number, step in enumerate(way, 1):
            y = 0.2 - 0.55 * number
            axes.text(x, y, f"{number}", color=color, fontsize=8, ha="right", va="top")
            axes.text(x + 0.25, y, f"{step.room}: {step.text}", color=INK, fontsize=8, va="top")
    axes.set(xlim=(-1.9, ends + 0.2), ylim=(-0.55 * len(ASK) - 0.6, len(rooms) + 1.2))
    axes.set_title("The way of one ask and of one tell, over HTTP", loc="left", fontsize=11, color=INK)
    axes.axis("off")
