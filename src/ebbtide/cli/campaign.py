"""`ebbtide compare` and `ebbtide reproduce`: campaigns, with a display of their progress."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Screen

from ebbtide.cli.names import labelled, problem
from ebbtide.cli.requirements import need
from ebbtide.cli.streams import display
from ebbtide.experiments import Protocol
from ebbtide.experiments.campaign import Failure, Tally, conduct, grid
from ebbtide.experiments.protocol import NoiseOf
from ebbtide.files import write_atomically

# Both regrets, by the name of their file: the paper's, and the one that does not reward rare queries.
REGRETS = {"regret": "average_regret", "regret-over-time": "time_weighted_regret"}
CAPTIONS = {"regret": "Average regret", "regret-over-time": "Time-weighted regret"}
QUIET_S = 30.0  # between two lines without a terminal


class CampaignProgress:
    """Runs done, failed and running, and the time left: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self.console = Console(file=display())
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        # A run may take ten minutes: estimate the time left from the last hour, not the last half minute.
        self.bar = Progress(
            *columns, console=self.console, disable=not self.console.is_terminal, speed_estimate_period=3600.0
        )
        self.tasks: dict[str, Any] = {}
        self.began: dict[str, float] = {}
        self.last_line = 0.0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def show(self, what: str, tally: Tally) -> None:
        finished, to_do = tally.done + tally.failed, tally.total - tally.stored
        note = ", ".join(
            f"{count} {word}"
            for word, count in (("stored", tally.stored), ("failed", tally.failed), ("running", tally.running))
            if count
        )
        if self.console.is_terminal:
            if what not in self.tasks or self.bar.tasks[self.tasks[what]].total != to_do:
                self.tasks[what] = self.bar.add_task(what, total=to_do, note=note)
            self.bar.update(self.tasks[what], completed=finished, note=note)
        elif finished == to_do or time.monotonic() - self.last_line > QUIET_S:
            self.last_line = time.monotonic()
            line = f"{what}: {finished} of {to_do} runs done, {note}".rstrip(", ") + self._left(what, finished, to_do)
            self.console.print(line, soft_wrap=True, highlight=False)

    def _left(self, what: str, finished: int, to_do: int) -> str:
        elapsed = time.monotonic() - self.began.setdefault(what, time.monotonic())
        if not 0 < finished < to_do:
            return ""
        return f"; about {elapsed / finished * (to_do - finished) / 60.0:.0f} min left"


@contextmanager
def _safe(out: Path) -> Iterator[None]:
    """Ctrl-C loses only the runs in progress."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\nStopped. Finished runs are in {out}; run the same command again to continue.\n")
        sys.exit(130)


def compare(
    problems: Sequence[str], contenders: Sequence[str], seeds: int, protocol: Protocol, out: Path, scheduler: str | None
) -> None:
    need("distributed", "matplotlib", "pandas", "pyarrow")
    from ebbtide.experiments import statistics
    from ebbtide.experiments.figures import comparison, style
    from ebbtide.experiments.store import Store
    from ebbtide.experiments.tables import regret_table

    jobs = grid([problem(name) for name in problems], labelled(contenders), seeds, protocol)
    with CampaignProgress() as progress, _safe(out):
        campaign = conduct(
            jobs, Store(out / "runs"), scheduler=scheduler, watch=lambda tally: progress.show("compare", tally)
        )
    if len(campaign.summary):
        regret = statistics.compare(campaign.summary, "average_regret")
        for name, measure in REGRETS.items():
            compared = statistics.compare(campaign.summary, measure)
            caption = f"{CAPTIONS[name]} ± standard error; {compared.seeds}, {protocol.terms}"
            table = regret_table(compared, caption, main=list(compared.means.columns))
            write_atomically(out / f"{name}.md", table.markdown())
            write_atomically(out / f"{name}.tex", table.latex())
            Console().print(_screen(table))
        write_atomically(out / "runs.csv", campaign.summary.to_csv(index=False, lineterminator="\n"))
        style.save(comparison.summary(statistics.normalised(regret.means)), out / "summary")
        files = "runs/, runs.csv, regret and regret-over-time (.md, .tex), summary (.png, .pdf)"
        progress.console.print(f"Written to {out}: {files}", soft_wrap=True)
    _report(campaign.failures)


def reproduce(
    what: str,
    out: Path,
    quick: bool,
    seeds: int | None,
    also: Sequence[str],
    noise_of: NoiseOf,
    scheduler: str | None,
) -> None:
    need("distributed", "matplotlib", "pandas", "pyarrow")
    from ebbtide.experiments.reproduction import SECTIONS, IncompleteError, Studio, write_report

    with CampaignProgress() as progress, _safe(out):
        studio = Studio(out, quick, seeds, labelled(also), noise_of, scheduler, progress.show)
        names = list(SECTIONS) if what == "all" else [what]
        sections = {}
        for name in names:
            progress.console.print(f"[bold]{name}[/bold]")
            try:
                sections[name] = section = SECTIONS[name](studio)
            except IncompleteError as error:
                progress.console.print(f"  {error}", soft_wrap=True, highlight=False)
                continue
            for text in section.paragraphs:
                progress.console.print(f"  {text}", soft_wrap=True, highlight=False)
        report = write_report(studio, sections, "report" if what == "all" else f"report-{what}")
    progress.console.print(f"Figures and tables are in {out}; {report} shows them all", soft_wrap=True)
    _report(studio.failures)


def _report(failures: Sequence[Failure]) -> None:
    """Print the traceback of each failed run, last, where it is seen."""
    for failure in failures:
        job = failure.job
        sys.stderr.write(f"\nFailed: {job.label} on {job.benchmark}, seed {job.seed}\n{failure.traceback}")
    if failures:
        sys.stderr.write(f"\n{len(failures)} of the runs failed; the others are stored.\n")
        sys.exit(1)


def _screen(table: Any) -> Screen:
    screen = Screen(title=table.caption, caption="bold: lowest; underlined: its 95 % confidence interval overlaps")
    for i, name in enumerate(table.header):
        screen.add_column(name, justify="left" if i == 0 else "right")
    for i, row in enumerate(table.rows):
        if i in table.line_before_rows:
            screen.add_section()
        styles = [" ".join(["bold"] * cell.bold + ["underline"] * cell.underlined) for cell in row]
        screen.add_row(*(f"[{s}]{cell.text}[/]" if s else cell.text for s, cell in zip(styles, row, strict=True)))
    return screen
