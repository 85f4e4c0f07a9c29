"""`ebbtide tune`: any command as the objective, with a line that shows the latest result."""

import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from ebbtide import tuning
from ebbtide.cli import studies
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
    searched = studies.space_of(space)
    tuning.check(list(searched.parameters), command, metric_url)
    pace, patience = None if every is None else tuning.duration(every), tuning.duration(timeout)
    study = studies.define(storage, token, name, searched, direction, algorithm, seed)
    before = signal.signal(signal.SIGTERM, _interrupt)  # a service manager stops it as cleanly as Ctrl-C does
    line = StatusLine(name)
    evaluate = tuning.evaluator(command, metric_url, patience)
    try:
        tuning.tune(study, evaluate, every=pace, show=line.show, stop_after=trials)
    except KeyboardInterrupt:
        line.close()
        click.echo("Stopped; run the same command again to continue.", err=True)
    else:
        line.close()
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class StatusLine:
    """On a terminal one line that is updated in place; elsewhere one line per evaluation."""

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
