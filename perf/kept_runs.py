"""Runs that are kept in a CSV file as each ends, so that a script which was interrupted goes on with them."""

import csv
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import pandas as pd


def finished(
    cases: Sequence[Any], result: Callable[[Any], Any], kinds: tuple[type, type], file: Path, jobs: int
) -> pd.DataFrame:
    """The results of these cases, indexed by the fields of a case; those that the file has are not made again.

    `kinds` are the dataclasses of a case and of its result.
    """
    keys, results = ([field.name for field in fields(kind)] for kind in kinds)
    known = pd.read_csv(file, keep_default_na=False) if file.exists() else pd.DataFrame(columns=[*keys, *results])
    done = set(known[keys].itertuples(index=False, name=None))
    missing = [case for case in dict.fromkeys(cases) if astuple(case) not in done]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", newline="") as stream, ProcessPoolExecutor(jobs) as pool:
        writer = csv.writer(stream, lineterminator="\n")
        if not file.stat().st_size:
            writer.writerow([*keys, *results])
        for number, (case, found) in enumerate(zip(missing, pool.map(result, missing), strict=True), start=1):
            writer.writerow([*astuple(case), *astuple(found)])
            stream.flush()
            sys.stderr.write(f"\r{number} of {len(missing)} runs ")
    return pd.read_csv(file, keep_default_na=False).set_index(keys)
