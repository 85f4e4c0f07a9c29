"""`ebbtide plot`: a picture of each run."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ebbtide.cli.requirements import need
from ebbtide.experiments import store


def plot(runs: Sequence[Path]) -> None:
    need("matplotlib", "pandas", "pyarrow")
    from ebbtide.experiments.figures import style
    from ebbtide.experiments.figures.one_run import one_run

    for path in runs:
        picture = style.save(one_run(store.read(path)), path.with_name(path.stem))
        Console().print(f"{picture} and {picture.with_suffix('.pdf').name}", soft_wrap=True, highlight=False)
