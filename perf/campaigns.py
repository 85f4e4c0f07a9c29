"""What the comparisons here share: make the runs, print Markdown tables of them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from record import record

from ebbtide.experiments import statistics
from ebbtide.experiments.campaign import Job, Tally, conduct
from ebbtide.experiments.store import Store
from ebbtide.experiments.tables import regret_table, value_table


def made(jobs: Sequence[Job], folder: Path | None) -> pd.DataFrame:
    """The summary of these runs. Those in `folder` are not made again: do not keep it when the engine changes."""
    with TemporaryDirectory() as fresh:
        campaign = conduct(jobs, Store(folder or Path(fresh)), watch=_show)
    for failure in campaign.failures:
        job = failure.job
        sys.stderr.write(f"{job.label} on {job.benchmark}, seed {job.seed}\n{failure.traceback}")
    return campaign.summary


def _show(tally: Tally) -> None:
    sys.stderr.write(f"\r{tally.stored + tally.done + tally.failed} of {tally.total} runs ")
    sys.stderr.flush()


def regrets(summary: pd.DataFrame, measure: str = "average_regret") -> str:
    compared = statistics.compare(summary, measure)
    return regret_table(compared, measure, main=list(compared.means.columns)).markdown()


def record_regrets(name: str, summary: pd.DataFrame, make: str) -> None:
    """Average regret and its standard error for each benchmark and algorithm, and their normalised averages."""
    compared = statistics.compare(summary, "average_regret")
    rows = [
        {"problem": problem, "algorithm": algorithm, "mean": mean, "error": compared.errors.at[problem, algorithm]}
        for problem, line in compared.means.iterrows()
        for algorithm, mean in line.items()
    ]
    averages = statistics.normalised(compared.means).mean()
    rows += [{"problem": "normalised average", "algorithm": a, "mean": mean} for a, mean in averages.items()]
    record(name, rows, make)


def plain(summary: pd.DataFrame, measure: str) -> str:
    return value_table(statistics.compare(summary, measure).means, measure).markdown()
