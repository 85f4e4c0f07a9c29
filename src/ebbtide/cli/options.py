"""Options that several commands share, and how a command reports a mistake."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ebbtide import algorithms, benchmarks
from ebbtide.errors import EbbtideError
from ebbtide.experiments import Protocol


def _listed(kind: str, names: list[str]) -> str:
    """A paragraph that Click does not rewrap, so that no name is broken in two."""
    lines = textwrap.fill(f"{kind}: {', '.join(names)}", width=78, subsequent_indent="  ", break_on_hyphens=False)
    return f"\b\n{lines}"


Command = Callable[..., Any]
SEEDS = "Number of runs of each algorithm, with seeds from 0."
PORT = click.IntRange(0, 65535)
FOLDER = click.Path(path_type=Path, file_okay=False)
NAMES = _listed("Benchmarks", benchmarks.names()) + "\n\n" + _listed("Algorithms", algorithms.names())


def under_protocol(command: Command) -> Command:
    """Options that define a protocol."""
    for option in (
        click.option(
            "--compute",
            default=Protocol.compute,
            metavar="PACE",
            help="How compute time is counted: modelled:botorch, modelled:ebbtide, measured, measured:SPEED or wall.",
        ),
        click.option("--evaluation", default=Protocol.evaluation, help="Seconds that one evaluation takes."),
        click.option("--noise", default=Protocol.noise, help="Noise variance, as a share of the signal's variance."),
        click.option("--duration", default=Protocol.duration, help="Length of the experiment in seconds."),
    ):
        command = option(command)
    return command


SCHEDULER = click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Dask scheduler to run on.  [default: one process per core of this machine]",
)


@contextmanager
def clearly() -> Iterator[None]:
    """Report a user's mistake without a traceback."""
    try:
        yield
    except EbbtideError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error}; finished work is kept: run the same command again to continue") from error


# --- studies --------------------------------------------------------------------------------------------------

STORAGE = click.option(
    "--storage",
    required=True,
    envvar="EBBTIDE_STORAGE",
    show_envvar=True,
    metavar="URL",
    help="Where the study is: sqlite:///FILE, or http://HOST:PORT of a service.",
)
NAME = click.option("--name", required=True, metavar="NAME", help="Name of the study.")
TOKEN = click.option(
    "--token", envvar="EBBTIDE_TOKEN", show_envvar=True, metavar="SECRET", help="Token of the service."
)


def defining(command: Command) -> Command:
    """Options that define a study."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0), help="Seed that makes the queries repeatable."),
        click.option(
            "-a",
            "--algorithm",
            default="w-dbo",
            type=click.Choice(algorithms.names()),
            metavar="NAME",
            help="Algorithm that chooses the queries.",
        ),
        click.option(
            "--direction",
            default="minimize",
            type=click.Choice(["minimize", "maximize"]),
            help="Which values are better.",
        ),
        click.option(
            "--space",
            required=True,
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="TOML or JSON file with a table for each parameter: type, low, high, log, choices.",
        ),
    ):
        command = option(command)
    return command
