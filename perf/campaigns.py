"""What the comparisons here share: make the runs, print Markdown tables of them."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ebbtide.experiments import statistics
from ebbtide.experiments.campaign import Job, Tally, conduct
from ebbtide.experiments.store import Store
from ebbtide.experiments.tables import regret_table, value_table


def made(jobs: Sequence[Job], out: Path) -> pd.DataFrame:
    """The summary of these runs; those in `out` already are not made again."""
    campaign = conduct(jobs, Store(out), watch=_show)
    for failure in campaign.failures:
        sys.stderr.write(
            f"{failure.job.label} on {failure.job.benchmark}, seed {failure.job.seed}\n{failure.traceback}"
        )
    return campaign.summary


def _show(tally: Tally) -> None:
    sys.stderr.write(f"\r{tally.stored + tally.done + tally.failed} of {tally.total} runs ")
    sys.stderr.flush()


def regrets(summary: pd.DataFrame, measure: str = "average_regret") -> str:
    compared = statistics.compare(summary, measure)
    return regret_table(compared, measure, main=list(compared.means.columns)).markdown()


def plain(summary: pd.DataFrame, measure: str) -> str:
    return value_table(statistics.compare(summary, measure).means, measure).markdown()
