"""W-DBO tracks a moving optimum, live in the terminal; then a comparison, and a picture in out/demo.png.

    make demo

The objective has one parameter x and two hills that drift; which of them is higher changes. It is measured with noise
for two simulated minutes. Each step takes simulated time, as in a live system: 0.3 s, plus 3 ms for each observation
that the model keeps. Every run is seeded, so the comparison is the same every time.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # a sign of life before the imports, which are slow on a cold disk
    print("ebbtide: W-DBO tracks a moving optimum. Loading …", flush=True)

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import ebbtide as eb

DURATION, NOISE, WIDTH = 120.0, 0.1, 64
SPACE = {"x": eb.Float(0.0, 1.0)}
GRID = np.linspace(0.0, 1.0, 501)

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def landscape(x: Array | float, t: Array | float) -> Array:
    """Two hills that drift; half way through, the higher one has become the lower one."""
    first = 0.35 + 0.25 * np.sin(2.0 * np.pi * np.asarray(t) / 80.0)
    second = 0.75 + 0.15 * np.cos(2.0 * np.pi * np.asarray(t) / 50.0)
    tide = 0.4 * np.cos(2.0 * np.pi * np.asarray(t) / DURATION)
    hills = (1.0 + tide) * np.exp(-(((x - first) / 0.12) ** 2)) + (1.0 - tide) * np.exp(-(((x - second) / 0.1) ** 2))
    return np.asarray(hills)


def optimum(t: float) -> tuple[float, float]:
    """The best x at time t, and its value."""
    values = landscape(GRID, t)
    return float(GRID[values.argmax()]), float(values.max())


def compute_time(n: int) -> float:
    """How many simulated seconds a step takes with n observations."""
    return 0.3 + 0.003 * n


Watcher = Callable[[eb.Optimizer, eb.Trial, float, float], None]


def optimize(
    algorithm: str | eb.Algorithm, seed: int, watch: Watcher | None = None
) -> tuple[eb.Optimizer, list[float]]:
    """Ask and tell for two simulated minutes; return the optimizer and the regret of every query."""
    clock = eb.ManualClock()
    optimizer = eb.Optimizer(SPACE, direction="maximize", algorithm=algorithm, clock=clock, seed=seed)
    rng = np.random.default_rng(seed)
    regrets: list[float] = []
    while clock.now() < DURATION:
        started = time.perf_counter()
        trial = optimizer.ask()
        response = time.perf_counter() - started
        value = float(landscape(trial.params["x"], trial.time))
        optimizer.tell(trial, value + NOISE * rng.normal())
        regrets.append(optimum(trial.time)[1] - value)
        if watch is not None:
            watch(optimizer, trial, response, regrets[-1])
        clock.advance(compute_time(len(optimizer.dataset)))
    return optimizer, regrets


def random_search(seed: int) -> list[float]:
    """The regret of every query when x is drawn at random."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, DURATION, compute_time(0))
    return [optimum(t)[1] - float(landscape(rng.random(), t)) for t in times]


# --- what you see -----------------------------------------------------------------------------------------


class Screen:
    """The live view: where the optimum is, what the optimizer tries, and how much it remembers."""

    def __init__(self, console: Console, live: Live | None, pace: float) -> None:
        self.console, self.live, self.pace = console, live, pace
        self.next_line = 0.0

    def show(self, opt: eb.Optimizer, trial: eb.Trial, response: float, regret: float) -> None:
        if self.live is not None:
            self.live.update(self._panel(opt, trial, response, regret))
            time.sleep(self.pace)
        elif trial.time >= self.next_line:  # not a terminal: one line every ten simulated seconds
            self.next_line += 10.0
            self.console.print(
                f"t = {trial.time:5.1f} s   optimum at {optimum(trial.time)[0]:.2f}, "
                f"query at {trial.params['x']:.2f}   "
                f"{len(opt.dataset)} active, {len(opt.history) - len(opt.dataset)} removed   "
                f"l_T {opt.hyperparameters['timescale']:.0f} s   answered in {1e3 * response:.1f} ms",
                highlight=False,
                soft_wrap=True,
            )

    def _panel(self, opt: eb.Optimizer, trial: eb.Trial, response: float, regret: float) -> Panel:
        where, _ = optimum(trial.time)
        best = opt.recommend().params["x"]
        table = Table.grid(padding=(0, 2))
        table.add_row("time", f"{trial.time:5.1f} of {DURATION:.0f} s", "regret of the query", f"{regret:.2f}")
        table.add_row("optimum at", f"{where:.2f}", "active observations", f"{len(opt.dataset)}")
        table.add_row("recommended", f"{best:.2f}", "removed as stale", f"{len(opt.history) - len(opt.dataset)}")
        timescale = opt.hyperparameters["timescale"]
        table.add_row("query at", f"{trial.params['x']:.2f}", "timescale l_T", f"{timescale:.0f} s")
        table.add_row("", "", "answered in", f"{1e3 * response:.1f} ms")
        lines = [
            _strip("the optimum ", "▼", "yellow", where),
            _strip("recommended ", "▲", "cyan", best),
            _strip("the query   ", "●", "white", trial.params["x"]),
        ]
        return Panel(Group(table, Text(""), *lines), title="ebbtide: W-DBO on a moving optimum", width=WIDTH + 20)


def _strip(label: str, mark: str, style: str, position: float) -> Text:
    cell = round(position * (WIDTH - 1))
    return Text(label) + Text("·" * cell, "dim") + Text(mark, style) + Text("·" * (WIDTH - 1 - cell), "dim")


def compare(console: Console, seeds: int, first: list[float], optimizer: eb.Optimizer) -> None:
    """A table: W-DBO, the same algorithm without forgetting, and random search."""
    table = Table(title=f"Average regret over {DURATION:.0f} s (lower is better); seeds per method: {seeds}")
    for column in ("", "regret", "queries", "observations kept"):
        table.add_column(column, justify="right" if column else "left")
    runs = {"W-DBO": [(first, len(optimizer.dataset))]}
    runs["W-DBO"] += [(regrets, len(opt.dataset)) for opt, regrets in (optimize("w-dbo", s) for s in range(1, seeds))]
    runs["never forgetting"] = [
        (regrets, len(opt.dataset)) for opt, regrets in (optimize("keep-all", s) for s in range(seeds))
    ]
    runs["random search"] = [(random_search(s), 0) for s in range(seeds)]
    for name, results in runs.items():
        means = [np.mean(regrets) for regrets, _ in results]
        queries, kept = (np.mean([f(r) for r in results]) for f in (lambda r: len(r[0]), lambda r: r[1]))
        table.add_row(name, f"{np.mean(means):.3f}", f"{queries:.0f}", f"{kept:.0f}" if kept else "–")
    console.print(table)


def picture(optimizer: eb.Optimizer, path: Path) -> None:
    """Over time and x: the posterior mean, active observations (dots), removed ones (crosses), the true optimum."""
    import matplotlib  # only here: the live view does not wait for it

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    times, xs = np.linspace(0.0, DURATION, 161), np.linspace(0.0, 1.0, 81)
    mean = np.array([optimizer.predict([{"x": float(x)} for x in xs], time=float(t))[0] for t in times]).T
    figure, axes = plt.subplots(figsize=(9.0, 4.5), layout="constrained")
    contours = axes.contourf(times, xs, mean, levels=20, cmap="cividis", alpha=0.85)
    figure.colorbar(contours, label="posterior mean of the objective")
    gone = np.array([(o.time, o.params["x"]) for o in optimizer.history if not o.active]).reshape(-1, 2).T
    kept = np.array([(o.time, o.params["x"]) for o in optimizer.history if o.active]).reshape(-1, 2).T
    axes.scatter(*gone, marker="x", s=16, linewidths=0.8, color="black", label=f"removed as stale ({gone.shape[1]})")
    axes.scatter(*kept, s=18, color="#d55e00", edgecolors="white", linewidths=0.4, label=f"active ({kept.shape[1]})")
    where = np.array([optimum(t)[0] for t in times])
    where[1:][np.abs(np.diff(where)) > 0.1] = np.nan  # no line where the optimum jumps from hill to hill
    axes.plot(times, where, color="#56b4e9", linewidth=2.5, label="true optimum")
    axes.axvline(DURATION, color="black", linewidth=1.0)
    axes.set(xlabel="time (s)", ylabel="x", xlim=(0.0, DURATION * 1.01), ylim=(-0.02, 1.02))
    axes.set_title("What W-DBO believes at the end, and what it still remembers")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="file for the picture")
    parser.add_argument("--seeds", type=int, default=3, help="number of runs of each method in the comparison")
    parser.add_argument("--pace", type=float, default=0.04, help="seconds to show each step, on a terminal")
    chosen = parser.parse_args()
    console = Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=20) as live:
            optimizer, regrets = optimize("w-dbo", 0, Screen(console, live, chosen.pace).show)
    else:
        optimizer, regrets = optimize("w-dbo", 0, Screen(console, None, 0.0).show)
    console.print("Comparing with an optimizer that never forgets, and with random search …")
    compare(console, chosen.seeds, regrets, optimizer)
    picture(optimizer, chosen.out)
    console.print(f"Picture: {chosen.out}")


if __name__ == "__main__":
    main()
