"""The commands; each does its work in a module of its own."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ebbtide import algorithms, benchmarks
from ebbtide.errors import EbbtideError
from ebbtide.experiments import Protocol
from ebbtide.study.definition import Direction
from ebbtide.version import __version__


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


# --- live studies ---------------------------------------------------------------------------------------------

STORAGE = click.option(
    "--storage",
    required=True,
    envvar="EBBTIDE_STORAGE",
    show_envvar=True,
    metavar="URL",
    help="sqlite:///FILE, or the http://HOST:PORT of a service.",
)
NAME = click.option("--name", required=True, metavar="NAME", help="Of the study.")
TOKEN = click.option("--token", envvar="EBBTIDE_TOKEN", show_envvar=True, metavar="SECRET", help="Of the service.")


@ebbtide.command(short_help="Serve stored studies over HTTP.")
@click.option("--storage", required=True, envvar="EBBTIDE_STORAGE", show_envvar=True, metavar="sqlite:///FILE")
@click.option("--host", default="127.0.0.1", help="Where to listen; other machines need a token.")
@click.option("--port", default=8411, type=click.IntRange(0, 65535))
@click.option(
    "--token",
    envvar="EBBTIDE_TOKEN",
    show_envvar=True,
    metavar="SECRET",
    help="That every request must bring; better set in the environment, which others cannot see.",
)
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="A name that the service goes by.")
@click.option("--access-log", is_flag=True, help="Log every request, not only refusals and errors.")
def serve(
    storage: str, host: str, port: int, token: str | None, allowed_hosts: tuple[str, ...], access_log: bool
) -> None:
    """Serve the studies of a database over HTTP, until Ctrl-C. docs/service.md describes the routes."""
    from ebbtide.cli import serving

    with _clearly():
        serving.serve(storage, host, port, token, allowed_hosts, access_log)


@ebbtide.command(short_help="Look at stored studies in a browser.")
@click.argument("file")
@click.option("--port", default=8412, type=click.IntRange(0, 65535))
def dashboard(file: str, port: int) -> None:
    """Show the studies in FILE (tuner.db) as pages, for this machine's browser. The file is only read, and what another
    program tells is seen as it happens.
    """
    from ebbtide.cli import serving

    with _clearly():
        serving.dashboard(file, port)


@ebbtide.command(short_help="Write a stored study as one HTML file.")
@click.argument("file")
@click.option("--name", help="Of the study; needed if there are several.")
@click.option("--out", default=Path("report.html"), type=click.Path(path_type=Path, dir_okay=False), metavar="HTML")
def report(file: str, name: str | None, out: Path) -> None:
    """Write the pictures of a study in FILE (tuner.db) into one page, which opens anywhere, without a service."""
    from ebbtide.cli import serving

    with _clearly():
        serving.report(file, name, out)


def _defining(command: Command) -> Command:
    """The options that define a study."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0), help="Makes the queries repeatable."),
        click.option("-a", "--algorithm", default="w-dbo", type=click.Choice(algorithms.names()), metavar="NAME"),
        click.option(
            "--direction", default="minimize", type=click.Choice(["minimize", "maximize"]), help="What is better."
        ),
        click.option(
            "--space",
            required=True,
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="A TOML or JSON file: a table for each parameter, with type, low, high, log or choices.",
        ),
    ):
        command = option(command)
    return command


@ebbtide.command(short_help="Create a study.")
@STORAGE
@NAME
@_defining
@TOKEN
def create(
    storage: str, name: str, space: Path, direction: Direction, algorithm: str, seed: int | None, token: str | None
) -> None:
    """Create a study, or check that the one that is there is defined like this."""
    from ebbtide.cli import live

    with _clearly():
        live.define(storage, token, name, live.space_of(space), direction, algorithm, seed).close()
        live.show({"name": name})


@ebbtide.command(short_help="Ask a study what to measure next.")
@STORAGE
@NAME
@click.option("-n", type=click.IntRange(min=1), help="Several at once.")
@click.option("--lease", type=float, metavar="SECONDS", help="How long it counts as pending.  [default: one l_T]")
@TOKEN
def ask(storage: str, name: str, n: int | None, lease: float | None, token: str | None) -> None:
    """Print what to measure next, as JSON."""
    from ebbtide.cli import live

    with _clearly():
        live.ask(storage, name, token, n, lease)


@ebbtide.command(short_help="Tell a study what was measured.")
@STORAGE
@NAME
@click.option("--id", "trial_id", metavar="ID", help="Of the trial.")
@click.option("--params", metavar="JSON", help="What was measured, if nobody asked for it.")
@click.option("--value", type=float)
@click.option("--failed", is_flag=True, help="There is no value.")
@click.option("--time", type=float, metavar="SECONDS", help="Since 1970.  [default: the trial's, or now]")
@click.option("--key", metavar="TEXT", help="Makes it safe to tell again: the same key is told once.")
@TOKEN
def tell(
    storage: str,
    name: str,
    trial_id: str | None,
    params: str | None,
    value: float | None,
    failed: bool,
    time: float | None,
    key: str | None,
    token: str | None,
) -> None:
    """Record a value, or that there is none."""
    from ebbtide.cli import live

    with _clearly():
        live.tell(storage, name, token, trial_id, params, value, failed, time, key)


@ebbtide.command(short_help="What is best now.")
@STORAGE
@NAME
@TOKEN
def recommend(storage: str, name: str, token: str | None) -> None:
    """Print the best parameters now, by the model, as JSON."""
    from ebbtide.cli import live

    with _clearly():
        live.recommend(storage, name, token)


@ebbtide.command(
    short_help="Tune any command.",
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nebbtide tune --space space.toml --storage sqlite:///tuner.db --name edge-7 \\\n"
    "    --every 10s -- ./measure.sh --power {power}",
)
@STORAGE
@NAME
@_defining
@click.option("--every", metavar="TIME", help="From one start to the next: 10s, 500ms, 2m.  [default: at once]")
@click.option("--timeout", default="30s", metavar="TIME", help="After which a measurement has failed.")
@click.option("--metric-url", metavar="URL", help="Where to read the value, instead of from the command.")
@click.option("--trials", type=click.IntRange(min=1), help="Stop after so many.  [default: never]")
@TOKEN
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def tune(
    storage: str,
    name: str,
    space: Path,
    direction: Direction,
    algorithm: str,
    seed: int | None,
    every: str | None,
    timeout: str,
    metric_url: str | None,
    trials: int | None,
    token: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND again and again, with {NAME} replaced by each parameter's value, until Ctrl-C.

    The last line that it prints is the value. A command that fails, hangs or prints something else is a failed
    evaluation. The same call goes on where the last one stopped.
    """
    from ebbtide.cli import tuning

    with _clearly():
        tuning.tune(
            storage, name, token, space, direction, algorithm, seed, every, timeout, metric_url, trials, command
        )
