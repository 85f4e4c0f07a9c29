"""`ebbtide tune`: any command as the objective, with a line that shows where things stand."""

import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from ebbtide import tuning
from ebbtide.cli import live
from ebbtide.study.definition import Direction
from ebbtide.tuning import Status


def tune(
    storage: str,
    name: str,
    token: str | None,
    space: Path,
    direction: Direction,
    algorithm: str,
    seed: int | None,
    every: str | None,
    timeout: str,
    metric_url: str | None,
    trials: int | None,
    command: Sequence[str],
) -> None:
    searched = live.space_of(space)
    tuning.check(list(searched.parameters), command, metric_url)
    pace, patience = None if every is None else tuning.duration(every), tuning.duration(timeout)
    study = live.define(storage, token, name, searched, direction, algorithm, seed)
    signal.signal(signal.SIGTERM, _interrupt)  # a service manager's stop is as clean as Ctrl-C
    board = Board(name)
    try:
        tuning.tune(
            study,
            tuning.evaluator(command, metric_url, patience),
            every=pace,
            show=board.show,
            stop_after=trials,
        )
    except KeyboardInterrupt:
        board.close()
        click.echo("Stopped; the same command goes on from here.", err=True)
    else:
        board.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Board:
    """One line that renews itself on a terminal; a line an evaluation elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.terminal = sys.stderr.isatty()

    def show(self, status: Status) -> None:
        width = shutil.get_terminal_size().columns - 1 if self.terminal else 1000
        text = tuning.line(status, max(20, width - len(self.name) - 2))
        shown = f"{self.name}  {text}"
        sys.stderr.write(f"\r{shown}\x1b[K" if self.terminal else f"{shown}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self.terminal:
            sys.stderr.write("\n")
