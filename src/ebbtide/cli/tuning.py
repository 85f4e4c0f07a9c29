"""`ebbtide tune`: any command as the objective, with a line that shows the latest result."""

import math
import os
import re
import shlex
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from ebbtide import tuning
from ebbtide.cli.streams import columns, display
from ebbtide.cli.studies import is_service
from ebbtide.client import RemoteStudy
from ebbtide.errors import ConfigurationError, ContextWarning
from ebbtide.optimizer import Optimizer
from ebbtide.space import Space
from ebbtide.study.conditions import Conditions
from ebbtide.study.storage.sqlite import path_of
from ebbtide.study.storage.urls import is_postgresql, shown
from ebbtide.tuning import Claims, Status

MARGIN = 10.0  # seconds in which a finished evaluation has been told
ONE_STOP = tuning.LONGEST_ENDING  # seconds in which several signals mean one


@dataclass(frozen=True)
class Pace:
    """Times in seconds: from one start to the next, of an evaluation at most, and for the system to settle."""

    every: float | None
    timeout: float
    settle: float | None

    @classmethod
    def of(cls, every: str | None, timeout: str, settle: str | None) -> "Pace":
        optional = [None if text is None else tuning.duration(text) for text in (every, settle)]
        return cls(optional[0], tuning.duration(timeout), optional[1])

    @property
    def lease(self) -> float:
        """How long a trial may take from its ask until it is told."""
        return self.timeout + (self.settle or 0.0) + tuning.LONGEST_ENDING + MARGIN


@dataclass(frozen=True)
class ContextSource:
    """What measures the context: a command, or an address."""

    command: Sequence[str]
    url: str | None


def check(space: Space, command: Sequence[str], metric_url: str | None, pace: Pace) -> None:
    """Refuse before the first evaluation what would make all of them useless."""
    tuning.check(list(space.parameters), command, metric_url)
    if pace.settle is not None and not (command and metric_url):
        raise ConfigurationError(
            "--settle is the pause between a command that applies the parameters and a --metric-url that measures: "
            "give both, or wait in the command itself before it measures"
        )


def tune(
    study: Optimizer | RemoteStudy,
    storage: str,
    name: str,
    command: Sequence[str],
    metric_url: str | None,
    pace: Pace,
    trials: int | None,
    measure: ContextSource | None = None,
) -> None:
    line = StatusLine(name)
    claims = claims_of(storage, name)
    evaluate = tuning.evaluator(command, metric_url, pace.timeout, pace.settle or 0.0)
    with (
        closing(study),
        closing(claims) if claims else nullcontext(),
        signals_as_ctrl_c(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ContextWarning)  # the line shows it
        around = around_of(study, measure)
        stopped = False
        try:
            tuning.tune(
                study,
                evaluate,
                every=pace.every,
                show=line.show,
                stop_after=trials,
                lease=pace.lease,
                claims=claims,
                around=around,
            )
        except KeyboardInterrupt:
            stopped = True
        finally:
            line.close()
        with suppress(KeyboardInterrupt):  # in a hurry
            line.conclude(tuning.looked(study, line.latest))
    last = line.latest
    if stopped:
        line.say("Stopped; run the same command again to continue.")
    elif last.failed == last.count:
        raise click.ClickException(f"all {last.count} evaluations failed, the last one with: {last.problem}")


def context_words(command: str | None, url: str | None) -> ContextSource | None:
    """What the command line says about it."""
    if command is not None and url is not None:
        raise ConfigurationError("--context-command and --context-url: give one of them")
    if command is None:
        return None if url is None else ContextSource((), url)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(f"--context-command {command}: {error}") from None
    if not words:
        raise ConfigurationError("--context-command is empty: give a command that prints a JSON object")
    return ContextSource(words, None)


def around_of(study: Optimizer | RemoteStudy, measure: ContextSource | None) -> tuning.Around:
    """How the context of a study is measured, and what is told beside a value."""
    conditions = study.definition.conditions if isinstance(study, Optimizer) else Conditions.from_json(study.describe())
    if not conditions.variables:
        if measure is not None:
            raise ConfigurationError(
                "--context-command and --context-url are for a study with a context: describe it in the file of the "
                "space, such as [context.load]"
            )
        return tuning.Around(told=("constraints",) if conditions.constraints else ())
    if measure is None:
        raise ConfigurationError(
            f"the study has a context, {', '.join(conditions.variables)}: give --context-command or --context-url, "
            "which measures it before each ask"
        )
    read = tuning.context_reader(measure.command, measure.url, list(conditions.variables))
    return tuning.Around(read, ("context", "constraints") if conditions.constraints else ("context",))


def claims_of(storage: str, name: str) -> Claims | None:
    """Beside the file of the study; for one elsewhere, where this user's programs keep their state, if any."""
    if not is_service(storage) and not is_postgresql(storage):
        path = path_of(storage).resolve()
        return Claims(path.parent, f"{path.name}-tune-", name)
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    except RuntimeError:  # a user without a home
        return None
    return Claims(state / "ebbtide", "tune-", f"{shown(storage).rstrip('/')} {name}")


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """A service manager, or a terminal that is closed, stops it as cleanly as Ctrl-C does; `nohup` still works.

    Both may send several signals at once (the shell and the terminal each send SIGHUP), so that those which follow
    the first are not impatience, as a second Ctrl-C is.
    """
    last = -math.inf

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > ONE_STOP:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heard = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in heard.items():
            # After a stop the process only ends: the next signal of the same stop must not turn that into a failure.
            ending = last > -math.inf and handler is signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if ending else handler)


class StatusLine:
    """On a terminal one line that is updated in place; elsewhere one line per evaluation. Warnings have their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._display = display()
        self.terminal = self._display.isatty()
        self.latest = Status()
        self._warned: set[str] = set()
        self._open = False

    def show(self, status: Status) -> None:
        self.latest = status
        self._warn(status)
        width = columns() - 1 if self.terminal else 1000
        text = tuning.line(status, max(20, width - len(self.name) - 2))
        self._display.write(f"\r{self.name}  {text}\x1b[K" if self.terminal else f"{self.name}  {text}\n")
        self._open = self.terminal

    def _warn(self, status: Status) -> None:
        """Each warning once; that its numbers change does not make it another one."""
        for warning in status.warnings:
            kind = re.sub(r"[\d.]+", "", warning)
            if kind not in self._warned:
                self._warned.add(kind)
                self.say(f"{self.name}  {warning}")

    def conclude(self, status: Status) -> None:
        for sentence in tuning.summary(status):
            self.say(sentence)

    def say(self, sentence: str) -> None:
        self.close()
        self._display.write(f"{sentence}\n")

    def close(self) -> None:
        """End the line that is updated in place."""
        if self._open:
            self._display.write("\n")
            self._open = False
