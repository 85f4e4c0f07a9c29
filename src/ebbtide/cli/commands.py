"""The commands; each does its work in a module of its own."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ebbtide import __version__, algorithms, benchmarks
from ebbtide.errors import EbbtideError
from ebbtide.experiments import Protocol


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="ebbtide")
def ebbtide() -> None:
    """Bayesian optimization for objectives that drift."""


def _listed(kind: str, names: list[str]) -> str:
    """A paragraph that Click leaves as it is: no name is broken in two."""
    lines = textwrap.fill(f"{kind}: {', '.join(names)}", width=78, subsequent_indent="  ", break_on_hyphens=False)
    return f"\b\n{lines}"


Command = Callable[..., Any]
FOLDER = click.Path(path_type=Path, file_okay=False)
NAMES = _listed("Benchmarks", benchmarks.names()) + "\n\n" + _listed("Algorithms", algorithms.names())


def _under_protocol(command: Command) -> Command:
    """The options that make a protocol."""
    for option in (
        click.option(
            "--compute",
            default=Protocol.compute,
            metavar="PACE",
            help="How compute time passes: modelled:botorch, modelled:ebbtide, measured, measured:SPEED or wall.",
        ),
        click.option("--evaluation", default=Protocol.evaluation, help="Seconds that the objective takes."),
        click.option("--noise", default=Protocol.noise, help="Noise variance, as a share of the signal's."),
        click.option("--duration", default=Protocol.duration, help="Seconds of the experiment."),
    ):
        command = option(command)
    return command


SCHEDULER = click.option(
    "--scheduler", metavar="tcp://HOST:PORT", help="A Dask cluster to run on; by default one process a core here."
)


@contextmanager
def _clearly() -> Iterator[None]:
    """What is wrong with the input is said without a traceback."""
    try:
        yield
    except EbbtideError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(
            f"{error}; what was finished is kept, the same command goes on from there"
        ) from error


@ebbtide.command(epilog=NAMES)
@click.argument("benchmark", type=click.Choice(benchmarks.names()), metavar="BENCHMARK")
@click.option(
    "-a",
    "--algorithm",
    "chosen",
    multiple=True,
    default=["w-dbo"],
    type=click.Choice(algorithms.names()),
    metavar="NAME",
    help="Which algorithm; give it several times to compare.",
)
@click.option("-s", "--seeds", default=3, type=click.IntRange(min=1), help="How many runs of each, from seed 0 on.")
@_under_protocol
@click.option("-o", "--out", type=FOLDER, help="Write each run's frame here.")
def run(
    benchmark: str,
    chosen: tuple[str, ...],
    seeds: int,
    duration: float,
    noise: float,
    evaluation: float,
    compute: str,
    out: Path | None,
) -> None:
    """Run algorithms on a BENCHMARK and print what they lost."""
    from ebbtide.cli import running

    with _clearly():
        protocol = Protocol(duration=duration, noise=noise, evaluation=evaluation, compute=compute)
        running.run(benchmark, list(dict.fromkeys(chosen)), seeds, protocol, out)


@ebbtide.command(epilog=NAMES, short_help="Run a campaign: algorithms on benchmarks, on all cores.")
@click.argument("chosen_benchmarks", nargs=-1, required=True, metavar="BENCHMARK...")
@click.option(
    "-a",
    "--algorithms",
    "chosen",
    default="w-dbo,gp-ucb,r-gp-ucb,tv-gp-ucb,et-gp-ucb,abo",
    metavar="NAME,NAME...",
    help="Which algorithms; MODULE:ATTRIBUTE is one of yours.",
)
@click.option("-s", "--seeds", default=10, type=click.IntRange(min=1), help="How many runs of each, from seed 0 on.")
@_under_protocol
@click.option("-o", "--out", type=FOLDER, required=True, help="Where the runs are kept; a second call goes on there.")
@SCHEDULER
def compare(
    chosen_benchmarks: tuple[str, ...],
    chosen: str,
    seeds: int,
    duration: float,
    noise: float,
    evaluation: float,
    compute: str,
    out: Path,
    scheduler: str | None,
) -> None:
    """Run a campaign: every algorithm on every BENCHMARK (a name, or MODULE:ATTRIBUTE of yours), on all cores.

    A campaign that was stopped, or killed, goes on where it was when it is called again.
    """
    from ebbtide.cli import campaigning

    with _clearly():
        protocol = Protocol(duration=duration, noise=noise, evaluation=evaluation, compute=compute)
        names = list(dict.fromkeys(name.strip() for name in chosen.split(",") if name.strip()))
        campaigning.compare(list(dict.fromkeys(chosen_benchmarks)), names, seeds, protocol, out, scheduler)


WHAT = {
    "table": "Table 2 and Figure 5: the six algorithms on the twelve benchmarks",
    "curves": "Figures 4, 8-21: regret, dataset size and response time of each",
    "sensitivity": "Figure 3: regret against α",
    "approximation": "Figures 6-7: the bound and the truth",
    "distances": "Figures 1-2: why the distance is normalised",
    "ard": "Figures 10, 14: with an anisotropic kernel",
    "budget": "Table 5: budgets for three durations",
    "videos": "Figure 22: animations of the camel functions",
    "all": "everything",
}


@ebbtide.command(
    epilog="\b\n" + "\n".join(f"{name:14s} {about}" for name, about in WHAT.items()),
    short_help="Make the paper's tables and figures again.",
)
@click.argument("what", type=click.Choice(list(WHAT)), metavar="WHAT")
@click.option("-o", "--out", type=FOLDER, required=True, help="Where runs, tables, figures and report.html go.")
@click.option("--quick", is_flag=True, help="Two seeds and runs of 40 s: the same code, in minutes.")
@click.option("-s", "--seeds", type=click.IntRange(min=1), help="How many runs of each.  [default: 10; 2 if quick]")
@click.option(
    "--also", multiple=True, metavar="NAME", help="One more algorithm in the tables; MODULE:ATTRIBUTE is yours."
)
@SCHEDULER
def reproduce(
    what: str, out: Path, quick: bool, seeds: int | None, also: tuple[str, ...], scheduler: str | None
) -> None:
    """Make the paper's tables and figures again, and one HTML page with all of them."""
    from ebbtide.cli import campaigning

    with _clearly():
        campaigning.reproduce(what, out, quick, seeds, also, scheduler)


@ebbtide.command(short_help="Draw runs from their Parquet files.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def plot(runs: tuple[Path, ...]) -> None:
    """Draw RUNS (Parquet files of `run --out` or `compare`): a PNG and a PDF beside each."""
    from ebbtide.cli import plotting

    with _clearly():
        plotting.plot(runs)
