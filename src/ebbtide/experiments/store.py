"""Runs on disk: one Parquet file each, written whole or not at all."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebbtide.errors import ConfigurationError
from ebbtide.experiments.simulation import Run
from ebbtide.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from ebbtide.experiments.campaign import Job

ABANDONED_S = 3600.0  # after which an unfinished file is removed


def as_frame(run: Run) -> "pd.DataFrame":
    """`run.frame`, and for each query l_T in seconds and when its observation was forgotten (in t; NaN: not yet).

    `attrs` holds the provenance, and under `summary` the numbers for tables.
    """
    frame = run.frame
    queried = run.history[-len(frame) :]
    frame["timescale_s"] = run.timescales
    frame["forgotten_t"] = [np.nan if o.removed_at is None else o.removed_at / run.protocol.duration for o in queried]
    frame.attrs["summary"] = _summary(run)
    return frame


def _summary(run: Run) -> dict[str, Any]:
    columns = run.columns
    fitted = run.timescales[~np.isnan(run.timescales)]
    return {
        "average_regret": run.average_regret,
        "time_weighted_regret": run.time_weighted_regret,
        "queries": len(columns["t"]),
        "size": float(columns["n"].mean()),
        "final_size": int(columns["n"][-1]),
        "removed": int(columns["removed"].sum()),
        "response_s": float(columns["response_s"].mean()),
        "timescale_s": float(np.median(fitted)) if len(fitted) else None,
        "wall_s": run.wall_s,
        "guards": run.guards,
    }


def write(run: Run, path: Path) -> None:
    """Write a run's frame; a reader, or a campaign resumed after a kill, never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, as_frame(run).to_parquet(), durable=True)


def read(path: Path) -> "pd.DataFrame":
    """A run's frame as `write` left it, with its provenance in `attrs`."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read as the Parquet file of a run: {error}") from error
    if not {"problem", "algorithm", "protocol", "summary"} <= frame.attrs.keys():
        raise ConfigurationError(
            f"{path} was not written by ebbtide: it does not say which run it holds; give a file of `ebbtide run --out`"
        )
    return frame


def _attributes(path: Path) -> dict[str, Any]:
    """The attrs alone, from the file's footer."""
    import pyarrow.parquet as pq

    attributes: dict[str, Any] = json.loads(pq.read_metadata(path).metadata[b"PANDAS_ATTRS"])
    return attributes


@dataclass(frozen=True)
class Store:
    """A folder of runs."""

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{self.folder}: {error.strerror}; choose a folder that can be written to"
            ) from error
        for stray in self.folder.glob(".*.part"):  # what a killed campaign was writing
            if time.time() - stray.stat().st_mtime > ABANDONED_S:
                stray.unlink(missing_ok=True)

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def holds(self, key: str) -> bool:
        """Whether the run is stored and readable: a damaged one is made again."""
        try:
            return "summary" in _attributes(self.path(key))
        except (OSError, ValueError, KeyError):  # pyarrow's errors are among them
            return False

    def write(self, key: str, run: Run) -> None:
        write(run, self.path(key))

    def read(self, job: "Job") -> "pd.DataFrame":
        return read(self.path(job.key))

    def summary(self, jobs: Sequence["Job"]) -> "pd.DataFrame":
        """One row per run: problem, algorithm (the job's label), seed, and its results."""
        import pandas as pd

        rows = []
        for job in jobs:
            outcome = _attributes(self.path(job.key))["summary"]
            guards = json.dumps(outcome.pop("guards"), sort_keys=True)
            labels = {"problem": job.benchmark, "algorithm": job.label, "seed": job.seed}
            rows.append(labels | outcome | {"guards": guards})
        return pd.DataFrame(rows)
