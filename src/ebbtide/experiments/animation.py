"""W-DBO at work on a problem with one parameter, as in the paper's videos (Appendix H.4, Figure 22).

Time runs to the right, the parameter upwards. Contours: what the model predicts, everywhere in the past and in the
future. Dots: active observations; crosses: removed ones. The line: the true best parameter; upright: the present.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib import rc_context
from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebbtide import algorithms, benchmarks
from ebbtide.benchmarks import Problem
from ebbtide.errors import ConfigurationError
from ebbtide.experiments.figures import style
from ebbtide.experiments.protocol import Protocol
from ebbtide.experiments.simulation import Simulation
from ebbtide.files import write_atomically
from ebbtide.gp.arrays import Array
from ebbtide.gp.posterior import condition
from ebbtide.optimizer import Optimizer

COLUMNS, ROWS = 96, 64  # of the grid that is predicted on


@dataclass(frozen=True)
class Snapshot:
    """The optimizer's knowledge at one moment (times from 0 to 1, the parameter in the unit interval)."""

    now: float
    prediction: Array  # (ROWS, COLUMNS)
    active: Array  # (n, 2): t, x
    removed: Array  # (m, 2)


@dataclass(frozen=True)
class Film:
    problem: str
    snapshots: list[Snapshot]
    best: Array  # (COLUMNS · 4, 2): t and the true best x


def record(name: str, protocol: Protocol, frames: int, seed: int = 0, algorithm: str = "w-dbo") -> Film:
    """Run an algorithm and take `frames` snapshots of it."""
    problem = benchmarks.get(name)
    if problem.dim != 1:
        raise ConfigurationError(f"{name} has {problem.dim} parameters: choose a problem with one for a film")
    simulation = Simulation(problem, algorithms.get(algorithm), seed, protocol)
    simulation.observe_initially()
    snapshots: list[Snapshot] = []

    def look(elapsed: float) -> None:
        start = protocol.initial_share
        due = start + (1.0 - start) * len(snapshots) / frames
        if elapsed / protocol.duration >= due:
            snapshots.append(_snapshot(simulation.optimizer, elapsed, protocol.duration))

    simulation.pursue(look)
    return Film(name, snapshots, _best(problem))


def _snapshot(optimizer: Optimizer, now: float, duration: float) -> Snapshot:
    model, data = optimizer.model, optimizer.dataset
    origin = optimizer.history[0].time  # the model's times are counted from there; differences are all that matters
    posterior = condition(model.kernel, model.noise, data.x, data.t - origin, (data.y - model.mean) / model.scale)
    times, x = np.meshgrid(np.linspace(0.0, duration, COLUMNS), np.linspace(0.0, 1.0, ROWS))
    mean, _ = posterior.predict(x.reshape(-1, 1), times.ravel() - origin)
    gone = [o for o in optimizer.history if o.removed_at is not None]
    removed = np.array([[o.time / duration, optimizer.space.encode(o.params)[0]] for o in gone]).reshape(-1, 2)
    active = np.column_stack([data.t / duration, data.x[:, 0]])
    return Snapshot(now / duration, model.mean + model.scale * mean.reshape(x.shape), active, removed)


def _best(problem: Problem) -> Array:
    """The maximizer on a grid; NaN where it jumps, so that the line breaks there."""
    t, x = np.linspace(0.0, 1.0, 4 * COLUMNS), np.linspace(0.0, 1.0, 1001)
    values = problem(problem.from_unit(x[:, None])[:, None, :], t[None, :])
    best = x[values.argmax(axis=0)]
    jumps = np.append(np.abs(np.diff(best)) > 0.1, False)
    return np.column_stack([t, np.where(jumps, np.nan, best)])


def draw(axes: Axes, film: Film, snapshot: Snapshot, levels: Array) -> None:
    """One frame."""
    axes.clear()
    axes.contourf(
        np.linspace(0.0, 1.0, COLUMNS),
        np.linspace(0.0, 1.0, ROWS),
        np.clip(snapshot.prediction, levels[0], levels[-1]),
        levels=levels,
        cmap="cividis",
    )
    axes.plot(*snapshot.removed.T, "x", color="black", markersize=3.5, markeredgewidth=0.8, label="removed")
    axes.plot(*snapshot.active.T, "o", color=style.VERMILION, markersize=3, label="active")
    axes.plot(*film.best.T, color="#7FFFFF", linewidth=1.8, label="the best, in truth")
    axes.axvline(snapshot.now, color="black", linewidth=1.4)
    axes.text(snapshot.now, 0.97, "$t_0$", ha="center", va="top", bbox={"facecolor": "white", "pad": 1.5, "lw": 0})
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="time (normalised)", ylabel="parameter (normalised)")
    axes.set_title(
        f"{film.problem}: {len(snapshot.active)} active, {len(snapshot.removed)} removed", loc="left", fontsize=9
    )
    axes.grid(visible=False)


def _stage(film: Film) -> tuple[Figure, Callable[[Snapshot], None]]:
    figure, (axes,) = style.panels(1, 1, (6.0, 4.0))
    seen = np.concatenate([snapshot.prediction.ravel() for snapshot in film.snapshots])
    levels = np.linspace(np.quantile(seen, 0.01), np.quantile(seen, 0.995), 24)
    draw(axes, film, film.snapshots[-1], levels)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.colorbar(axes.collections[0], ax=axes, label="predicted value", format="%.3g")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once: the axes do not move from frame to frame
    return figure, lambda snapshot: draw(axes, film, snapshot, levels)


def still(film: Film, share: float = 0.6) -> Figure:
    """One moment, as Figure 22."""
    with rc_context(style.RC):
        figure, show = _stage(film)
        show(film.snapshots[int(share * (len(film.snapshots) - 1))])
    return figure


def save(film: Film, path: Path, fps: int = 12) -> list[Path]:
    """Write a GIF, and an MP4 if ffmpeg is installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writers: dict[str, PillowWriter | FFMpegWriter] = {".gif": PillowWriter(fps=fps)}
    if shutil.which("ffmpeg"):
        # yuv420p is what browsers play.
        writers[".mp4"] = FFMpegWriter(fps=fps, codec="libx264", extra_args=["-pix_fmt", "yuv420p"])
    written = []
    for suffix, writer in writers.items():
        with rc_context(style.RC), TemporaryDirectory() as scratch:
            figure, show = _stage(film)
            made = Path(scratch) / f"film{suffix}"
            with writer.saving(figure, str(made), dpi=100):
                for snapshot in film.snapshots:
                    show(snapshot)
                    writer.grab_frame()
            write_atomically(path.with_suffix(suffix), made.read_bytes())
        written.append(path.with_suffix(suffix))
    return written
