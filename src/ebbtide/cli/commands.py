"""The commands and their options; the modules beside this one do the work."""

from pathlib import Path
from typing import Any

import click

from ebbtide import algorithms
from ebbtide.cli import copying, tokens
from ebbtide.cli.options import (
    CONTEXT,
    FOLDER,
    NAME,
    NAMES,
    NOISE_OF,
    PORT,
    SCHEDULER,
    SEEDS,
    STORAGE,
    TOKEN,
    clearly,
    defining,
    storage_option,
    under_protocol,
    unseen,
)
from ebbtide.experiments import Protocol
from ebbtide.experiments.protocol import NoiseOf
from ebbtide.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="ebbtide")
def ebbtide() -> None:
    """Bayesian optimization for objectives that drift."""


ebbtide.add_command(tokens.token)
ebbtide.add_command(copying.copy)


@ebbtide.command(epilog=NAMES)
@click.argument("benchmark", metavar="BENCHMARK")
@click.option(
    "-a",
    "--algorithm",
    "chosen",
    multiple=True,
    default=[algorithms.DEFAULT],
    metavar="NAME",
    help="Algorithm to run, or MODULE:ATTRIBUTE for one of your own; repeat the option to compare several.",
)
@click.option("-s", "--seeds", default=3, type=click.IntRange(min=1), help=SEEDS)
@under_protocol
@click.option("-o", "--out", type=FOLDER, help="Folder to write each run to, as a Parquet file.")
def run(
    benchmark: str,
    chosen: tuple[str, ...],
    seeds: int,
    duration: float,
    noise: float,
    noise_of: NoiseOf,
    evaluation: float,
    compute: str,
    out: Path | None,
) -> None:
    """Run algorithms on a BENCHMARK (a name, or MODULE:ATTRIBUTE for one of your own) and print their regrets."""
    from ebbtide.cli import runs

    with clearly():
        protocol = Protocol(duration=duration, noise=noise, noise_of=noise_of, evaluation=evaluation, compute=compute)
        runs.run(benchmark, list(dict.fromkeys(chosen)), seeds, protocol, out)


@ebbtide.command(epilog=NAMES, short_help="Compare algorithms on benchmarks, on all cores.")
@click.argument("chosen_benchmarks", nargs=-1, required=True, metavar="BENCHMARK...")
@click.option(
    "-a",
    "--algorithms",
    "chosen",
    default="w-dbo,gp-ucb,r-gp-ucb,tv-gp-ucb,et-gp-ucb,abo",
    metavar="NAME,NAME...",
    help="Algorithms to compare; MODULE:ATTRIBUTE names one of your own.",
)
@click.option("-s", "--seeds", default=10, type=click.IntRange(min=1), help=SEEDS)
@under_protocol
@click.option("-o", "--out", type=FOLDER, required=True, help="Folder for the runs; a second call continues there.")
@SCHEDULER
def compare(
    chosen_benchmarks: tuple[str, ...],
    chosen: str,
    seeds: int,
    duration: float,
    noise: float,
    noise_of: NoiseOf,
    evaluation: float,
    compute: str,
    out: Path,
    scheduler: str | None,
) -> None:
    """Run every algorithm on every BENCHMARK (a name, or MODULE:ATTRIBUTE for one of your own), on all cores.

    A campaign that was stopped or killed continues when it is called again.
    """
    from ebbtide.cli import campaign

    with clearly():
        protocol = Protocol(duration=duration, noise=noise, noise_of=noise_of, evaluation=evaluation, compute=compute)
        names = list(dict.fromkeys(name.strip() for name in chosen.split(",") if name.strip()))
        campaign.compare(list(dict.fromkeys(chosen_benchmarks)), names, seeds, protocol, out, scheduler)


WHAT = {
    "table": "Table 2 and Figure 5: the six algorithms on the twelve benchmarks",
    "curves": "Figures 4, 8-21: regret, dataset size and response time of each",
    "sensitivity": "Figure 3: regret against α",
    "approximation": "Figures 6-7: how close the bound is to the exact criterion",
    "distances": "Figures 1-2: why the distance is normalised",
    "ard": "Figures 10, 14: with an anisotropic kernel",
    "budget": "Table 5: budgets for three durations",
    "videos": "Figure 22: animations of the camel functions",
    "all": "everything",
}


@ebbtide.command(
    epilog="\b\n" + "\n".join(f"{name:14s} {about}" for name, about in WHAT.items()),
    short_help="Reproduce the paper's tables and figures.",
)
@click.argument("what", type=click.Choice(list(WHAT)), metavar="WHAT")
@click.option("-o", "--out", type=FOLDER, required=True, help="Folder for the runs, tables, figures and report.html.")
@click.option("--quick", is_flag=True, help="A small version that takes minutes: two seeds, runs of 10 s.")
@click.option(
    "-s", "--seeds", type=click.IntRange(min=1), help="Number of runs of each algorithm.  [default: 10; 2 if quick]"
)
@click.option(
    "--also", multiple=True, metavar="NAME", help="Another algorithm for the tables; MODULE:ATTRIBUTE is one of yours."
)
@NOISE_OF
@SCHEDULER
def reproduce(
    what: str,
    out: Path,
    quick: bool,
    seeds: int | None,
    also: tuple[str, ...],
    noise_of: NoiseOf,
    scheduler: str | None,
) -> None:
    """Reproduce the paper's tables and figures, and write one HTML page that shows them all."""
    from ebbtide.cli import campaign

    with clearly():
        campaign.reproduce(what, out, quick, seeds, also, noise_of, scheduler)


@ebbtide.command(short_help="Draw runs from their Parquet files.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def plot(files: tuple[Path, ...]) -> None:
    """Draw runs from FILES, the Parquet files of `run --out` or `compare`: a PNG and a PDF beside each."""
    from ebbtide.cli import runs

    with clearly():
        runs.plot(files)


# --- live studies ---------------------------------------------------------------------------------------------


@ebbtide.command(short_help="Serve stored studies over HTTP.")
@storage_option(
    "Database of the studies, sqlite:///FILE or postgresql://USER@HOST/DATABASE; a file or tables that are missing are "
    "created."
)
@click.option("--host", default="127.0.0.1", help="Address to listen on; for other machines a token is needed.")
@click.option("--port", default=8411, type=PORT, help="Port to listen on; 0 chooses a free one.")
@click.option(
    "--token",
    envvar="EBBTIDE_TOKEN",
    show_envvar=True,
    metavar="SECRET",
    help="Token required on every request; in the environment other users cannot see it.",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Host name by which the service may be reached.",
)
@click.option("--max-studies", default=1000, type=click.IntRange(min=1), help="How many studies may be created.")
@click.option("--access-log", is_flag=True, help="Log every request, not only refusals and errors.")
def serve(
    storage: str,
    host: str,
    port: int,
    token: str | None,
    allowed_hosts: tuple[str, ...],
    max_studies: int,
    access_log: bool,
) -> None:
    """Serve the studies of a database over HTTP until Ctrl-C. docs/service.md describes the routes."""
    from ebbtide.cli import service

    with clearly():
        service.serve(storage, host, port, token, allowed_hosts, max_studies, access_log)


@ebbtide.command(short_help="Look at stored studies in a browser.")
@click.argument("file", callback=unseen)
@click.option("--port", default=8412, type=PORT, help="Port to listen on; 0 chooses a free one.")
def dashboard(file: str, port: int) -> None:
    """Show the studies in FILE (such as tuner.db, or postgresql://USER@HOST/DATABASE) to a browser on this machine. The
    database is only read; what other programs record in it appears as it happens.
    """
    from ebbtide.cli import service

    with clearly():
        service.dashboard(file, port)


@ebbtide.command(short_help="Write a stored study as one HTML file.")
@click.argument("file", callback=unseen)
@click.option("--name", help="Name of the study; needed if the file holds several.")
@click.option(
    "--out", default=Path("report.html"), type=click.Path(path_type=Path, dir_okay=False), help="File to write."
)
def report(file: str, name: str | None, out: Path) -> None:
    """Write the charts of a study in FILE (such as tuner.db, or postgresql://USER@HOST/DATABASE) into one HTML page
    that opens without a service.
    """
    from ebbtide.cli import service

    with clearly():
        service.report(file, name, out)


@ebbtide.command(short_help="Bring a database to this version of ebbtide.")
@click.argument("file", callback=unseen)
@click.option("--no-copy", is_flag=True, help="Do not keep a copy of the old file.")
def upgrade(file: str, no_copy: bool) -> None:
    """Upgrade the tables in FILE (such as tuner.db, or postgresql://USER@HOST/DATABASE) to this version of ebbtide, as
    opening it to write to would do. An old file is kept beside the new one; of an old database of PostgreSQL, make a
    backup first.
    """
    from ebbtide.cli import service

    with clearly():
        service.upgrade(file, copy=not no_copy)


@ebbtide.command(short_help="Create a study.")
@STORAGE
@NAME
@defining
@TOKEN
def create(storage: str, name: str, space: Path, token: str | None, **said: Any) -> None:
    """Create a study; if it exists, check that it is defined in the same way."""
    from ebbtide.cli import studies
    from ebbtide.cli.described import described

    with clearly():
        studies.define(storage, token, name, *described(space, said)).close()
        studies.show({"name": name})


@ebbtide.command(short_help="Ask a study what to measure next.")
@STORAGE
@NAME
@click.option("-n", type=click.IntRange(min=1), help="Number of trials to ask for at once.")
@click.option("--lease", type=float, metavar="SECONDS", help="How long a trial counts as pending.  [default: one l_T]")
@CONTEXT
@TOKEN
def ask(storage: str, name: str, n: int | None, lease: float | None, context: str | None, token: str | None) -> None:
    """Print what to measure next, as JSON."""
    from ebbtide.cli import studies

    with clearly():
        studies.ask(storage, name, token, n, lease, context)


@ebbtide.command(short_help="Tell a study what was measured.")
@STORAGE
@NAME
@click.option("--id", "trial_id", metavar="ID", help="ID of the trial.")
@click.option("--params", metavar="JSON", help="Parameters that were measured without a trial.")
@click.option("--value", type=float, help="Measured value.")
@click.option("--failed", is_flag=True, help="The evaluation failed, which counts against the setting.")
@click.option("--abandoned", is_flag=True, help="The evaluation was called off, which says nothing about the setting.")
@click.option(
    "--time",
    type=float,
    metavar="SECONDS",
    help="When it was measured, since 1970.  [default: trial's time, or now]",
)
@click.option("--key", metavar="TEXT", help="Makes the command safe to repeat: one key is recorded once.")
@CONTEXT
@click.option(
    "--constraints",
    metavar="VALUES",
    help="Measured values that are under a constraint, such as p99_ms=41,hits=0.93, or a JSON object.",
)
@TOKEN
def tell(
    storage: str,
    name: str,
    trial_id: str | None,
    params: str | None,
    value: float | None,
    failed: bool,
    abandoned: bool,
    time: float | None,
    key: str | None,
    context: str | None,
    constraints: str | None,
    token: str | None,
) -> None:
    """Record a measured value, or that the evaluation failed or was called off."""
    from ebbtide.cli import studies

    with clearly():
        studies.tell(storage, name, token, trial_id, params, value, failed, abandoned, time, key, context, constraints)


@ebbtide.command(short_help="Print the best parameters now.")
@STORAGE
@NAME
@CONTEXT
@click.option("--current", metavar="SETTING", help="Setting in force, which is kept unless another one is better.")
@TOKEN
def recommend(storage: str, name: str, context: str | None, current: str | None, token: str | None) -> None:
    """Print the parameters that the model believes are best now, as JSON."""
    from ebbtide.cli import studies

    with clearly():
        studies.recommend(storage, name, token, context, current)


@ebbtide.command(short_help="Set aside what is dated in the future.")
@storage_option("Database of the study: sqlite:///FILE or postgresql://USER@HOST/DATABASE. A service may be using it.")
@NAME
def forget_future(storage: str, name: str) -> None:
    """Set aside the observations of a study that are dated after now: the way back after this machine's clock was
    ahead. They stay in the log.
    """
    from ebbtide.cli import studies

    with clearly():
        studies.forget_future(storage, name)


@ebbtide.command(
    short_help="Tune any command.",
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nebbtide tune --space space.toml --storage sqlite:///tuner.db --name edge-7 \\\n"
    "    --every 10s -- ./measure.sh --power {power}",
)
@STORAGE
@NAME
@defining
@click.option("--every", metavar="TIME", help="Time from one start to the next: 10s, 500ms, 2m.  [default: no pause]")
@click.option("--timeout", default="30s", metavar="TIME", help="Time after which an evaluation has failed.")
@click.option("--metric-url", metavar="URL", help="Read the value from this URL, not from the command's output.")
@click.option(
    "--settle", metavar="TIME", help="Pause between the command, which applies the parameters, and reading the URL."
)
@click.option(
    "--context-command",
    metavar="COMMAND",
    help="Command that measures the context before each ask: the last line that it prints is a JSON object.",
)
@click.option("--context-url", metavar="URL", help="Read the context from this URL before each ask.")
@click.option("--trials", type=click.IntRange(min=1), help="Stop after this many trials.  [default: never]")
@TOKEN
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def tune(
    storage: str,
    name: str,
    space: Path,
    every: str | None,
    timeout: str,
    metric_url: str | None,
    settle: str | None,
    context_command: str | None,
    context_url: str | None,
    trials: int | None,
    token: str | None,
    command: tuple[str, ...],
    **said: Any,
) -> None:
    """Run COMMAND again and again, with {NAME} replaced by each parameter's value, until Ctrl-C.

    The last line that it prints is the value, or a JSON object with a value, and with constraints and context if the
    study has them. A command that fails, hangs or prints something else is a failed evaluation. The same call continues
    where the last one stopped.
    """
    from ebbtide.cli import studies, tuning
    from ebbtide.cli.described import described

    with clearly():
        searched, options = described(space, said)
        pace = tuning.Pace.of(every, timeout, settle)
        tuning.check(searched, command, metric_url, pace)
        measure = tuning.context_words(context_command, context_url)
        study = studies.define(storage, token, name, searched, options)
        tuning.tune(study, storage, name, command, metric_url, pace, trials, measure)
