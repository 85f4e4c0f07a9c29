"""Options that several commands share, and how a command reports a mistake."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from ebbtide import algorithms, benchmarks
from ebbtide.errors import EbbtideError
from ebbtide.experiments import Protocol
from ebbtide.experiments.protocol import NoiseOf
from ebbtide.study.storage.urls import has_password, shown


def _listed(kind: str, names: list[str]) -> str:
    """A paragraph that Click does not rewrap, so that no name is broken in two."""
    lines = textwrap.fill(f"{kind}: {', '.join(names)}", width=78, subsequent_indent="  ", break_on_hyphens=False)
    return f"\b\n{lines}"


Command = Callable[..., Any]
SEEDS = "Number of runs of each algorithm, with seeds from 0."
PORT = click.IntRange(0, 65535)
FOLDER = click.Path(path_type=Path, file_okay=False)
NAMES = "\n\n".join(
    _listed(kind, names)
    for kind, names in (
        ("Benchmarks", benchmarks.names()),
        ("With the extra 'arenas'", list(benchmarks.ARENAS)),
        ("Algorithms", algorithms.names()),
    )
)


NOISE_OF = click.option(
    "--noise-of",
    type=click.Choice(get_args(NoiseOf)),
    default=Protocol.noise_of,
    help="What the noise is a share of: the signal's variance or its standard deviation.",
)


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
        NOISE_OF,
        click.option("--noise", default=Protocol.noise, help="Noise, as a share of the signal's."),
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
    except BrokenPipeError:
        raise  # whoever read what is printed has enough of it: Click ends the command without a word
    except OSError as error:
        raise click.ClickException(f"{error}; finished work is kept: run the same command again to continue") from error


# --- studies --------------------------------------------------------------------------------------------------


def unseen(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """A storage whose URL has no password that other users of the machine could see in a list of processes."""
    said_here = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    if said_here and has_password(given):
        raise click.UsageError(
            f"{shown(given)}: other users of this machine can see a password on the command line; keep it in "
            "~/.pgpass, in the variable PGPASSWORD, or, with the whole URL, in EBBTIDE_STORAGE"
        )
    return given


def storage_option(help: str) -> Callable[[Any], Any]:
    """The option --storage; `help` says what is there."""
    return click.option(
        "--storage",
        required=True,
        envvar="EBBTIDE_STORAGE",
        show_envvar=True,
        metavar="URL",
        callback=unseen,
        help=help,
    )


STORAGE = storage_option(
    "Where the study is: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or http://HOST:PORT of a service."
)
NAME = click.option("--name", required=True, metavar="NAME", help="Name of the study.")
TOKEN = click.option(
    "--token", envvar="EBBTIDE_TOKEN", show_envvar=True, metavar="SECRET", help="Token of the service."
)


CONTEXT = click.option(
    "--context",
    metavar="VALUES",
    help="What was measured of the context, such as load=312,backend=a, or a JSON object.",
)


def defining(command: Command) -> Command:
    """Options that define a study; those that are left out are the file's, or the default."""
    for option in (
        click.option(
            "--violation-rate",
            metavar="SHARE",
            help="Share of the asks that may break a constraint of the file, such as 5%.  [default: 5%]",
        ),
        click.option(
            "--cycle",
            multiple=True,
            metavar="TIME",
            help="Period of what comes back, such as 24h or day=24h; repeat the option for others.",
        ),
        click.option(
            "--on-failure",
            metavar="VALUE",
            help="What a failure counts as: worst (of the active values), ignore, or a value.  [default: worst]",
        ),
        click.option("--move-cost", type=float, metavar="COST", help="Cost of moving one parameter across its range."),
        click.option(
            "--limit",
            multiple=True,
            metavar="NAME=DISTANCE",
            help="How far a parameter may move in one step; repeat the option for others.",
        ),
        click.option(
            "--baseline-every",
            type=click.IntRange(min=2),
            metavar="N",
            help="The baseline is one in N asks.  [default: 20]",
        ),
        click.option("--baseline", metavar="SETTING", help="Setting that you would use otherwise, for comparison."),
        click.option(
            "--start",
            multiple=True,
            metavar="SETTING",
            help="Setting to ask first, such as pool=10,codec=a; repeat the option for others.",
        ),
        click.option(
            "--explore",
            metavar="SHARE",
            help="Share of the asks that probe, such as 20%; the others hold the best setting.  [default: 100%]",
        ),
        click.option(
            "--family",
            metavar="NAME",
            help="Family of the study: studies of a family share what their hyperparameters are like.",
        ),
        click.option("--seed", type=click.IntRange(min=0), help="Seed that makes the queries repeatable."),
        click.option(
            "-a",
            "--algorithm",
            type=click.Choice(algorithms.names()),
            metavar="NAME",
            help=f"Algorithm that chooses the queries.  [default: {algorithms.DEFAULT} for a new study]",
        ),
        click.option(
            "--direction",
            type=click.Choice(["minimize", "maximize"]),
            help="Which values are better.  [default: minimize]",
        ),
        click.option(
            "--space",
            required=True,
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="TOML or JSON file with a table for each parameter, and one named study for the options below; the "
            "tables context, cycles and constraints describe the world around it.",
        ),
    ):
        command = option(command)
    return command
