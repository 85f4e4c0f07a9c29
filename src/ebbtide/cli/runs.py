"""`ebbtide run`: runs one after the other, and a table of the regrets. `ebbtide plot`: a figure of each run."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ebbtide import experiments
from ebbtide.cli.names import labelled, problem
from ebbtide.cli.requirements import need
from ebbtide.cli.streams import display
from ebbtide.errors import ConfigurationError
from ebbtide.experiments import Protocol, Run, store


def run(benchmark: str, algorithms: list[str], seeds: int, protocol: Protocol, out: Path | None) -> None:
    subject, contenders = problem(benchmark), labelled(algorithms)
    if out is not None:
        _prepare(out)
    runs: dict[str, list[Run]] = {name: [] for name in algorithms}
    console = Console(file=display())
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console)
    with bar:
        task = bar.add_task(benchmark, total=len(algorithms) * seeds * protocol.duration)
        for name in algorithms:
            for seed in range(seeds):
                done = sum(map(len, runs.values())) * protocol.duration
                bar.update(task, description=f"{benchmark}, {name}, seed {seed}")

                def show(elapsed: float, done: float = done) -> None:
                    bar.update(task, completed=done + elapsed)

                outcome = experiments.run(subject, contenders[name], seed, protocol, progress=show)
                runs[name].append(outcome)
                if out is not None:
                    store.write(outcome, out / f"{benchmark}_{name}_seed{seed}.parquet".replace(":", "-"))
        bar.update(task, completed=len(algorithms) * seeds * protocol.duration, description=benchmark)
    Console().print(_table(benchmark, runs, protocol))


def _prepare(out: Path) -> None:
    """Fail before the work, not after it."""
    need("pandas", "pyarrow")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {out}: {error.strerror}; choose a folder that can be written to") from error


def _table(benchmark: str, runs: dict[str, list[Run]], protocol: Protocol) -> Table:
    seeds = len(next(iter(runs.values())))
    plural = "" if seeds == 1 else "s"
    title = f"{benchmark}: {seeds} run{plural} of {protocol.terms}"
    caption = (
        "Means over the seeds ± standard error. Average regret: over the queries. Over time: of the query in force. "
        "Size: active observations. Response: seconds from ask to query."
    )
    table = Table(title=title, caption=caption)
    table.add_column("algorithm", no_wrap=True)
    for name in ("average regret", "over time", "queries", "size", "response"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, outcomes in runs.items():
        table.add_row(
            name,
            _with_error([outcome.average_regret for outcome in outcomes]),
            _with_error([outcome.time_weighted_regret for outcome in outcomes]),
            f"{fmean(len(outcome.columns['t']) for outcome in outcomes):.0f}",
            f"{fmean(outcome.columns['n'].mean() for outcome in outcomes):.0f}",
            f"{fmean(outcome.columns['response_s'].mean() for outcome in outcomes):.3g} s",
        )
    return table


def _with_error(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{fmean(values):.4g} ± {stdev(values) / len(values) ** 0.5:.2g}"


def plot(files: Sequence[Path]) -> None:
    need("matplotlib", "pandas", "pyarrow")
    from ebbtide.experiments.figures import style
    from ebbtide.experiments.figures.one_run import one_run

    for path in files:
        picture = style.save(one_run(store.read(path)), path.with_name(path.stem))
        Console().print(f"{picture} and {picture.with_suffix('.pdf').name}", soft_wrap=True, highlight=False)
