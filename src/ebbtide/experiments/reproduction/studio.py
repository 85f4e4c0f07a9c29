"""What every section uses: runs, a folder, and the scale of the reproduction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from ebbtide.algorithms import Algorithm
from ebbtide.errors import EbbtideError
from ebbtide.experiments.campaign import Failure, Job, Tally, conduct
from ebbtide.experiments.figures import style
from ebbtide.experiments.protocol import NoiseOf, Protocol
from ebbtide.experiments.store import Store
from ebbtide.experiments.tables import Table
from ebbtide.files import write_atomically

QUICK, QUICK_SEEDS = Protocol(duration=10.0), 2
PAPERS_SEEDS = 10


@dataclass(frozen=True)
class Section:
    """A part of the report: paragraphs, tables, and pictures (files, with captions)."""

    title: str
    paragraphs: list[str]
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[Path, str]] = field(default_factory=list)


class IncompleteError(EbbtideError):
    """Runs of a section failed, so it is left out: a table with gaps would mislead."""


@dataclass
class Studio:
    """`quick` is the same code on two seeds and runs of 10 s instead of the paper's ten and 600 s."""

    out: Path
    quick: bool = False
    wanted_seeds: int | None = None
    also: Mapping[str, str | Algorithm] = field(default_factory=dict)  # in the table and the curves, after the others
    noise_of: NoiseOf = "variance"
    scheduler: str | None = None
    watch: Callable[[str, Tally], object] = lambda what, tally: None
    failures: list[Failure] = field(default_factory=list)

    @cached_property
    def store(self) -> Store:
        return Store(self.out / "runs")

    @property
    def seeds(self) -> int:
        return self.wanted_seeds or (QUICK_SEEDS if self.quick else PAPERS_SEEDS)

    @property
    def protocol(self) -> Protocol:
        return replace(QUICK if self.quick else Protocol(), noise_of=self.noise_of)

    def lasting(self, share: float) -> Protocol:
        """The protocol with another duration."""
        return replace(self.protocol, duration=share * self.protocol.duration)

    @property
    def scale(self) -> str:
        """For captions."""
        runs = "1 run" if self.seeds == 1 else f"{self.seeds} runs"
        return f"{runs} of {self.protocol.terms}"

    def run(self, what: str, jobs: Sequence[Job]) -> pd.DataFrame:
        """The summary of these runs; those that the folder does not hold are made."""
        campaign = conduct(jobs, self.store, scheduler=self.scheduler, watch=lambda tally: self.watch(what, tally))
        self.failures += campaign.failures
        if campaign.failures:
            raise IncompleteError(
                f"{len(campaign.failures)} of the runs of `{what}` failed, so this section is left out; "
                "see their tracebacks below"
            )
        return campaign.summary

    def frames(self, jobs: Sequence[Job]) -> dict[str, list[pd.DataFrame]]:
        """The frames of these runs, by label."""
        frames: dict[str, list[pd.DataFrame]] = {}
        for job in jobs:
            if self.store.holds(job.key):
                frames.setdefault(job.label, []).append(self.store.read(job))
        return frames

    def save_figure(self, figure: Figure, name: str) -> Path:
        return style.save(figure, self.out / "figures" / name)

    def save_table(self, table: Table, name: str) -> Table:
        """As Markdown and LaTeX."""
        folder = self.out / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{name}.md", table.markdown())
        write_atomically(folder / f"{name}.tex", table.latex())
        return table

    def save_data(self, data: pd.DataFrame, name: str, *, index: bool = False) -> None:
        """As CSV."""
        folder = self.out / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{name}.csv", data.to_csv(index=index, lineterminator="\n"))
